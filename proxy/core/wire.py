"""HTTP as a proxy must treat it: which header fields travel, what may follow an address, what an error looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from proxy.errors import BadRequest, LoopDetected

Headers = tuple[tuple[bytes, bytes], ...]  # as in proxy.ports, which core does not import

PSEUDONYM = b"compaction-proxy"
VIA = b"1.1 " + PSEUDONYM  # RFC 9110, 7.6.3: every proxy adds itself; in answers under the name that all of us have
PRIVATE_PREFIX = b"x-compaction"  # the client talks to us in these, and we to it; no upstream sees one

# Fields of one connection, not of the message: RFC 9110, 7.6.1 and 11.7; RFC 9112, 9.6; `Trailer` because trailers
# are not forwarded (RFC 9110, 6.5.1 allows to drop them).
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization proxy-authentication-info te "
    b"trailer transfer-encoding upgrade http2-settings".split()
)
# `Host` is made anew, framing is the client library's, and `Expect` was answered by our own server.
NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
# They describe the bytes of a body, and so hold no longer once it has been rewritten.
REWRITTEN = (b"content-encoding", b"content-md5", b"digest", b"content-digest", b"repr-digest")

KEYS = frozenset((b"authorization", b"api-key", b"x-api-key", b"x-goog-api-key", b"ocp-apim-subscription-key"))
CREDENTIALS = KEYS | {b"proxy-authorization", b"cookie", b"cookie2", b"openai-organization", b"openai-project"}
# Gateways name theirs freely (helicone-auth, cf-aig-authorization, x-amz-security-token, x-portkey-api-key, ...).
_CREDENTIAL_ENDINGS = (b"authorization", b"-auth", b"-api-key", b"-apikey", b"-token", b"-secret", b"-password")
# A browser cannot set a field of a WebSocket's handshake but this one, so keys travel in it, as in OpenAI's
# `openai-insecure-api-key.sk-...`, or as a word and a key after it.
SUBPROTOCOLS = b"sec-websocket-protocol"
_KEY_IN_SUBPROTOCOL = re.compile(rb"api-?key|token|secret|bearer|auth|password|^openai-(organization|project)\.", re.I)
_KEY_FOLLOWS = re.compile(rb"(?:api-?key|token|bearer|authorization)", re.I)

# A field that a server refuses to write: RFC 9110, 5.6.2 (token) and 5.5 (no control bytes but the tab).
_BAD_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

_PLAIN_PATH = re.compile(rb"(?!//)/[/A-Za-z0-9_-]*")
_FORBIDDEN_IN_PATH = re.compile(rb"[\x00-\x20\x7f-\xff\\?#]")
_FORBIDDEN_DECODED = re.compile(rb"[\x00-\x1f\x7f\\]")
_FORBIDDEN_IN_QUERY = re.compile(rb"[\x00-\x20\x7f#]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_DECODINGS = 3  # an upstream behind another proxy decodes twice; once more than that costs nothing


def named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """Lower-case names that the `Connection` fields declare to be of this connection only (RFC 9110, 7.6.1)."""
    values = [value for name, value in headers if name.lower() == b"connection"]
    return {token.strip().lower() for value in values for token in value.split(b",")}


def request_headers(headers: Headers, pseudonym: bytes = PSEUDONYM) -> Headers:
    """The client's fields as an upstream may see them, credentials included, `Via` added, no framing, no `Host`.

    Raises `LoopDetected` if the request has been through a proxy of this `pseudonym`, which must be this one's alone:
    several of us may stand in a row.
    """
    dropped = NOT_FORWARDED | named_by_connection(headers)
    kept = []
    for name, value in headers:
        lower = name.lower()
        if lower in dropped or lower.startswith(PRIVATE_PREFIX):
            continue
        if lower == b"via" and _names(value, pseudonym):
            raise LoopDetected("this request has been through this proxy already: its upstream is the proxy itself")
        kept.append((name, value))
    kept.append((b"via", b"1.1 " + pseudonym))
    return tuple(kept)


def response_headers(headers: Headers) -> Headers:
    """The upstream's fields as the client may see them: a stated length stays, unless the body came chunked.

    Fields that no server would write (control bytes, names that are no token) are dropped: they must not cost the
    client an answer. So are those of our own prefix: what another proxy of our kind did is not what we did.
    """
    dropped = HOP_BY_HOP | named_by_connection(headers)
    if any(name.lower() == b"transfer-encoding" for name, _ in headers):
        dropped = dropped | {b"content-length"}  # RFC 9112, 6.3: the length means nothing then
    kept = [
        (name, value)
        for name, value in headers
        if (lower := name.lower()) not in dropped
        and not lower.startswith(PRIVATE_PREFIX)
        and not _BAD_VALUE.search(value)
        and not _BAD_NAME.search(name)
        and name
    ]
    kept.append((b"via", VIA))
    return tuple(kept)


def _names(via: bytes, pseudonym: bytes) -> bool:
    members = [member.split() for member in via.split(b",")]
    return any(len(member) > 1 and member[1].lower() == pseudonym for member in members)


def first(headers: Headers, name: bytes) -> bytes | None:
    """Value of the first field called `name` (given in lower case)."""
    for key, value in headers:  # no generator: several fields are looked up in every request
        if key.lower() == name:
            return value
    return None


def without(headers: Headers, names: Iterable[bytes]) -> Headers:
    """`headers` less the fields of these (lower-case) names."""
    dropped = frozenset(names)
    return tuple((name, value) for name, value in headers if name.lower() not in dropped)


def is_credential(name: bytes) -> bool:
    """Whether a field of this name says who somebody is, and so must not reach an origin it was not meant for."""
    lower = name.lower()
    return lower in CREDENTIALS or lower.endswith(_CREDENTIAL_ENDINGS)


def without_credentials(headers: Headers) -> Headers:
    """`headers` less all that says who the client is, the keys among a WebSocket's subprotocols included."""
    bare = tuple(field for field in headers if not is_credential(field[0]))
    offered = [value for name, value in bare if name.lower() == SUBPROTOCOLS]
    if not offered:
        return bare
    kept, follows = [], False
    for subprotocol in b",".join(offered).split(b","):
        name = subprotocol.strip(b" \t")
        if not follows and not _KEY_IN_SUBPROTOCOL.search(name):
            kept.append(name)
        follows = _KEY_FOLLOWS.fullmatch(name) is not None
    bare = without(bare, (SUBPROTOCOLS,))
    return (*bare, (SUBPROTOCOLS, b", ".join(kept))) if kept else bare


def switching_head(headers: Headers, upgrade: bytes) -> bytes:
    """The head of a 101, after which client and upstream speak `upgrade`. `headers` are those for the client."""
    fields = without(headers, (b"content-length",))  # RFC 9110, 8.6: not in a 1xx
    fields += ((b"connection", b"upgrade"), (b"upgrade", upgrade))
    return b"HTTP/1.1 101 Switching Protocols\r\n" + b"".join(b"%s: %s\r\n" % field for field in fields) + b"\r\n"


def target(path: bytes, query: bytes = b"") -> bytes:
    """What is appended, byte for byte, to an upstream's base address. `path` is the raw path after `/v1`.

    Raises `BadRequest` for everything that could lead elsewhere than below that address: dot segments (encoded too,
    more than once too), backslashes, an authority, control bytes. Bytes above 127 in the query, which no URI may
    contain (RFC 3986, 2.1), are percent-encoded.
    """
    if path and not _PLAIN_PATH.fullmatch(path):
        _check_path(path)
    if not query:
        return path
    if _FORBIDDEN_IN_QUERY.search(query):
        raise BadRequest("the query string contains bytes that no address may contain")
    return path + b"?" + _NOT_ASCII.sub(lambda match: b"%%%02X" % match[0][0], query)


def _check_path(path: bytes) -> None:
    if not path.startswith(b"/") or _FORBIDDEN_IN_PATH.search(path):
        raise BadRequest("the path contains bytes that no path may contain")
    for _ in range(1 + _DECODINGS):
        if path.startswith(b"//"):
            raise BadRequest("the path must not begin with an authority")
        if any(segment.partition(b";")[0] in (b".", b"..") for segment in path.split(b"/")):
            raise BadRequest("the path must not contain dot segments")
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return
        path = decoded
        if _FORBIDDEN_DECODED.search(path):
            raise BadRequest("the path contains encoded bytes that no path may contain")


def error_body(message: str, type: str, param: str | None = None, code: str | None = None) -> bytes:
    """An error as OpenAI's API words it, JSON in ASCII."""
    return json.dumps({"error": {"message": message, "type": type, "param": param, "code": code}}).encode("ascii")


def wants_stream(body: bytes) -> bool:
    """Whether a chat request asks for a stream. Reads the whole body: for requests that wait, not for every one."""
    if b"stream" not in body and b"\\u" not in body:
        return False
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(request, dict) and request.get("stream") is True


def error_event(body: bytes, status: int) -> bytes:
    """An upstream's error as the end of a stream: its own error object where it sent one, else its text (bounded)."""
    error: object = None
    try:
        answer = json.loads(body)
        error = answer.get("error") if isinstance(answer, dict) else None
    except (ValueError, RecursionError):
        answer = None
    if error is None:
        text = body[:2000].decode("utf-8", "replace") if answer is None else json.dumps(answer)
        error = {"message": text or f"status {status}", "type": "upstream_error", "param": None, "code": str(status)}
    return error_ending(json.dumps({"error": error}).encode("ascii"))


def error_ending(error: bytes) -> bytes:
    """The last two events of a stream that this proxy ends with an error (one line of JSON)."""
    return b"data: " + error + b"\n\ndata: [DONE]\n\n"


def single_event(body: bytes) -> bytes:
    """An answer that is no stream, as the one event of a stream that was promised."""
    return b"".join(b"data: " + line + b"\n" for line in body.splitlines()) + b"\ndata: [DONE]\n\n"
