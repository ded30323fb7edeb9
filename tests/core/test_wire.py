from __future__ import annotations

import json
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import wire
from proxy.errors import BadRequest, LoopDetected

TARGETS = [
    (b"", b"", b""),
    (b"/", b"", b"/"),
    (b"/chat/completions", b"", b"/chat/completions"),
    (b"/chat/completions/", b"", b"/chat/completions/"),
    (b"/models/gpt-4.1", b"", b"/models/gpt-4.1"),
    (b"/models/org%2Fname", b"limit=1&after=a%20b", b"/models/org%2Fname?limit=1&after=a%20b"),
    (b"/models/~user/x!$&'()*+,;=:@y", b"", b"/models/~user/x!$&'()*+,;=:@y"),
    (b"/files//a", b"", b"/files//a"),
    (b"/files/a..b/...", b"", b"/files/a..b/..."),
    (b"/a%zz", b"", b"/a%zz"),
    (b"/a", b"url=http://x/../y&b=\\", b"/a?url=http://x/../y&b=\\"),
    (b"/a", b"x=\xc3\xa9\xff", b"/a?x=%C3%A9%FF"),
    (b"/a", b"?", b"/a??"),
]

REFUSED_PATHS = [
    b"/..",
    b"/.",
    b"/../admin",
    b"/a/./b",
    b"/a/../../b",
    b"/a/%2e%2e/b",
    b"/a/%2E./b",
    b"/a/.%2e",
    b"/a/%252e%252e/b",
    b"/a/%25252e%25252e/b",
    b"/a%2f..%2fb",
    b"/a%252f..%252fb",
    b"/a/..;/b",
    b"/a/..;x=1/b",
    b"/a\\..\\b",
    b"/a%5c..%5cb",
    b"/a%255cb",
    b"//evil.example/v1",
    b"/%2fevil.example",
    b"/%252fevil.example",
    b"@evil.example/",
    b".evil.example/",
    b":80/",
    b"x",
    b"/a b",
    b"/a\tb",
    b"/a\r\nx: y",
    b"/a%0d%0ax",
    b"/a%00",
    b"/a%7f",
    b"/a\x7f",
    b"/caf\xe9",
    b"/a?b",
    b"/a#b",
]


@pytest.mark.parametrize(("path", "query", "expected"), TARGETS)
def test_target_is_appended_byte_for_byte(path: bytes, query: bytes, expected: bytes) -> None:
    """An honest path and query go on unchanged; only bytes that no URI may hold are encoded."""
    assert wire.target(path, query) == expected


@pytest.mark.parametrize("path", REFUSED_PATHS)
def test_target_refuses_what_could_lead_elsewhere(path: bytes) -> None:
    """Dot segments, backslashes, authorities and control bytes are refused however they are spelled."""
    with pytest.raises(BadRequest):
        wire.target(path)


@pytest.mark.parametrize("query", [b"a\r\nb", b"a b", b"a\x00", b"a#b", b"\x7f"])
def test_target_refuses_control_bytes_in_the_query(query: bytes) -> None:
    """A query cannot end the request line or start a fragment."""
    with pytest.raises(BadRequest):
        wire.target(b"/a", query)


@given(st.binary(max_size=40), st.integers(0, 3))
def test_target_never_climbs(path: bytes, decodings: int) -> None:
    """Whatever is accepted has no dot segment after up to three decodings."""
    try:
        decoded = wire.target(b"/" + path)
    except BadRequest:
        return
    for _ in range(decodings):
        decoded = unquote_to_bytes(decoded)
    assert not {b".", b".."} & set(decoded.replace(b"\\", b"/").split(b"/"))
    assert not decoded.startswith(b"//")


@given(st.text("./%25eEfFcC\\;a", max_size=24))
def test_target_never_climbs_by_its_own_alphabet(path: str) -> None:
    """The same with the characters that attacks are made of."""
    test_target_never_climbs.hypothesis.inner_test(path.encode(), 2)  # type: ignore[attr-defined]


REQUEST = (
    (b"host", b"proxy"),
    (b"connection", b"keep-alive, X-Drop-Me"),
    (b"Connection", b"x-also"),
    (b"keep-alive", b"timeout=5"),
    (b"x-drop-me", b"1"),
    (b"x-also", b"1"),
    (b"te", b"trailers"),
    (b"trailer", b"x"),
    (b"transfer-encoding", b"chunked"),
    (b"upgrade", b"h2c"),
    (b"http2-settings", b"x"),
    (b"proxy-authorization", b"Basic x"),
    (b"proxy-connection", b"keep-alive"),
    (b"content-length", b"3"),
    (b"expect", b"100-continue"),
    (b"x-compaction", b"off"),
    (b"X-Compaction-Debug", b"1"),
    (b"Authorization", b"Bearer k"),
    (b"x-title", b"caf\xe9"),
    (b"accept", b"a"),
    (b"accept", b"b"),
    (b"x-empty", b""),
)


def test_request_headers_keep_what_is_of_the_message() -> None:
    """Fields of the connection, framing, `Host` and our own go; the rest keeps its order, repetition and bytes."""
    assert wire.request_headers(REQUEST) == (
        (b"Authorization", b"Bearer k"),
        (b"x-title", b"caf\xe9"),
        (b"accept", b"a"),
        (b"accept", b"b"),
        (b"x-empty", b""),
        (b"via", b"1.1 compaction-proxy"),
    )


@pytest.mark.parametrize(
    ("via", "loop"),
    [
        (b"1.1 compaction-proxy", True),
        (b"1.0 fred, 1.1 Compaction-Proxy (note)", True),
        (b"HTTP/1.1 compaction-proxy", True),
        (b"1.1 compaction-proxy.example", False),
        (b"1.1 fred (compaction-proxy)", False),
        (b"compaction-proxy", False),
        (b"", False),
        (b",,", False),
    ],
)
def test_our_own_via_is_a_loop(via: bytes, loop: bool) -> None:
    """A request that has been through this proxy is refused with 508; another proxy's `Via` stays before ours."""
    headers = ((b"via", via),)
    if loop:
        with pytest.raises(LoopDetected) as caught:
            wire.request_headers(headers)
        assert caught.value.status == 508
    else:
        assert wire.request_headers(headers) == ((b"via", via), (b"via", wire.VIA))


def test_another_proxy_of_our_kind_is_no_loop() -> None:
    """Several may stand in a row: only the one whose own name is in a request has seen it."""
    first = wire.request_headers((), b"compaction-proxy-1")
    second = wire.request_headers(first, b"compaction-proxy-2")
    assert [value for _, value in second] == [b"1.1 compaction-proxy-1", b"1.1 compaction-proxy-2"]
    for own in (b"compaction-proxy-1", b"compaction-proxy-2"):
        with pytest.raises(LoopDetected):
            wire.request_headers(second, own)
    assert wire.request_headers(second, b"compaction-proxy")


RESPONSES = [
    ((b"content-length", b"3"), True),
    ((b"Retry-After", b"7"), True),
    ((b"x-ratelimit-remaining-requests", b"0"), True),
    ((b"x-request-id", b"req_1"), True),
    ((b"set-cookie", b"a=b"), True),
    ((b"content-encoding", b"gzip"), True),
    ((b"location", b"http://elsewhere/"), True),
    ((b"date", b"today"), True),
    ((b"x-latin", b"\xe9\xff"), True),
    ((b"connection", b"close"), False),
    ((b"keep-alive", b"timeout=5"), False),
    ((b"trailer", b"x"), False),
    ((b"proxy-authenticate", b"Basic"), False),
    ((b"upgrade", b"h2"), False),
    ((b"x-compaction", b"pass; fits"), False),
    ((b"X-Compaction-Tokens", b"2/1"), False),
    ((b"x-control", b"a\x01b"), False),
    ((b"x-newline", b"a\r\nb: c"), False),
    ((b"x name", b"a"), False),
    ((b"", b"a"), False),
]


@pytest.mark.parametrize(("field", "kept"), RESPONSES)
def test_response_headers(field: tuple[bytes, bytes], kept: bool) -> None:
    """Everything an upstream says of its message reaches the client; nothing of the connection, nothing unwritable."""
    assert wire.response_headers((field,)) == (((field,) if kept else ()) + ((b"via", wire.VIA),))


def test_a_chunked_answer_has_no_length() -> None:
    """A length beside `Transfer-Encoding` means nothing and is not passed on."""
    assert wire.response_headers(((b"Content-Length", b"3"), (b"Transfer-Encoding", b"chunked"))) == (
        (b"via", wire.VIA),
    )


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (b"Authorization", True),
        (b"api-key", True),
        (b"X-Api-Key", True),
        (b"x-goog-api-key", True),
        (b"cookie", True),
        (b"OpenAI-Organization", True),
        (b"openai-project", True),
        (b"cf-aig-authorization", True),
        (b"helicone-auth", True),
        (b"x-amz-security-token", True),
        (b"content-type", False),
        (b"user-agent", False),
        (b"openai-beta", False),
        (b"idempotency-key", False),
        (b"x-max-tokens", False),
    ],
)
def test_what_is_a_credential(name: bytes, secret: bool) -> None:
    """Names that say who somebody is are told from those that do not."""
    assert wire.is_credential(name) is secret


@pytest.mark.parametrize(
    ("offered", "kept"),
    [
        ([b"realtime, openai-insecure-api-key.sk-1, openai-beta.realtime-v1"], b"realtime, openai-beta.realtime-v1"),
        ([b"realtime", b"OpenAI-Insecure-API-Key.sk-1"], b"realtime"),
        ([b"openai-organization.o,openai-project.p , realtime"], b"realtime"),
        ([b"openai-insecure-api-key.sk-1"], None),
        ([b"token, sk-1"], None),
        ([b"a,Bearer", b"sk-1,b"], b"a, b"),
        ([b"base64url.bearer.authorization.k8s.io.abc, v4.channel.k8s.io"], b"v4.channel.k8s.io"),
        ([b"xai-client-secret.abc"], None),
        ([b"graphql-transport-ws, soap"], b"graphql-transport-ws, soap"),
    ],
)
def test_keys_among_subprotocols_are_credentials(offered: list[bytes], kept: bytes | None) -> None:
    """What a browser has to say where it can set no other field goes with the fields that say who somebody is."""
    fields = tuple((b"Sec-WebSocket-Protocol", value) for value in offered)
    bare = wire.without_credentials(((b"Authorization", b"Bearer x"), (b"accept", b"*/*"), *fields))
    assert bare == ((b"accept", b"*/*"), *(((b"sec-websocket-protocol", kept),) if kept else ()))


def test_the_head_of_a_switch() -> None:
    """It names the protocol, and no length, which a 101 may not have."""
    head = wire.switching_head(((b"X-A", b"1"), (b"Content-Length", b"0"), (b"via", wire.VIA)), b"websocket")
    assert head == (
        b"HTTP/1.1 101 Switching Protocols\r\nX-A: 1\r\nvia: 1.1 compaction-proxy\r\n"
        b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    )


def test_first_and_without() -> None:
    """Fields are found and left out by name in any case."""
    headers = ((b"A", b"1"), (b"b", b"2"), (b"a", b"3"))
    assert wire.first(headers, b"a") == b"1"
    assert wire.first(headers, b"c") is None
    assert wire.without(headers, [b"a"]) == ((b"b", b"2"),)


@given(st.text(), st.text())
def test_error_bodies_are_json_whatever_the_message(message: str, code: str) -> None:
    """An error body has OpenAI's four keys and survives lone surrogates."""
    assert json.loads(wire.error_body(message + "\ud800", "t", code=code)) == {
        "error": {"message": message + "\ud800", "type": "t", "param": None, "code": code}
    }


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"stream": true}', True),
        (b'{"str\\u0065am":true}', True),
        (b'{"stream": false}', False),
        (b'{"stream": "true"}', False),
        (b'{"stream": 1}', False),
        (b'{"metadata": {"stream": true}}', False),
        (b'{"messages": [{"content": "\\"stream\\": true"}]}', False),
        (b'{"stream": true', False),
        (b'["stream", true]', False),
        (b"\xff\xfe stream", False),
        (b'{"stream":' + b"[" * 100_000, False),
        (b"", False),
    ],
)
def test_wants_stream(body: bytes, wanted: bool) -> None:
    """Only a top-level `stream: true` asks for a stream; what cannot be read does not."""
    assert wire.wants_stream(body) is wanted


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error": {"message": "no", "odd": [1]}, "x": 1}', {"message": "no", "odd": [1]}),
        (b'{"error": "plain"}', "plain"),
        (b"<html>", {"message": "<html>", "type": "upstream_error", "param": None, "code": "503"}),
        (b"", {"message": "status 503", "type": "upstream_error", "param": None, "code": "503"}),
        (b'{"detail": "x"}', {"message": '{"detail": "x"}', "type": "upstream_error", "param": None, "code": "503"}),
        (b"\xff", {"message": "\ufffd", "type": "upstream_error", "param": None, "code": "503"}),
    ],
)
def test_error_event(body: bytes, error: object) -> None:
    """A late error ends a stream with the upstream's own object where it has one."""
    event, done = wire.error_event(body, 503).split(b"\n\n", 1)
    assert json.loads(event.removeprefix(b"data: ")) == {"error": error}
    assert done == b"data: [DONE]\n\n"


def test_single_event() -> None:
    """An answer in several lines becomes one event."""
    assert wire.single_event(b'{\n"a": 1}') == b'data: {\ndata: "a": 1}\n\ndata: [DONE]\n\n'
