"""N: HTTP between client, proxy and upstream."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import time
import zlib
from collections.abc import Callable

import pytest

from proxy.adapters.codings import ALL_CODINGS
from proxy.core.coding import decode
from proxy.demo.upstream import FakeUpstream
from proxy.settings import ModelSettings
from tests.packed import gz
from tests.servers import DEADLINE, connect, exchange
from tests.shapes.harness import LONG, SMALL, SYSTEM, Peer, chat, completion, post, raw, slow_summary, talk, user
from tests.shapes.odd import CODERS
from tests.shapes.test_a_tools import TASK
from tests.shapes.world import Got, ShapedUpstream, World
from tests.stage import stage

WINDOW = {"models": {"*": {"window": SMALL}}}
CODED = sorted(set(CODERS) - {b"identity"})
Encode = Callable[[bytes], bytes]


def deflate_raw(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


ENCODINGS: list[tuple[bytes, Encode]] = [
    *((name, CODERS[name]) for name in CODED),
    (b"deflate", deflate_raw),
    (b"x-gzip", gzip.compress),
    (b"zstd, gzip", lambda data: gz(CODERS[b"zstd"](data))),
]


def fields(recorded: object) -> dict[bytes, bytes]:
    return {name.lower(): value for name, value in recorded}  # type: ignore[attr-defined]


def test_N1_stale_content_length() -> None:
    """Odd spacing goes out with its own length, a rewritten body with its new one, and no checksum of the old."""
    spaced = b'{ "model" : "fake-model" ,\n "messages":[ {"role":"user" , "content":"hi"} ] }\n'
    checks = {"content-md5": "abc", "digest": "sha-256=abc", "content-digest": "sha-256=:abc:"}
    with stage(FakeUpstream(), **WINDOW) as s:
        assert post(s.url, spaced, headers=checks).status == 200
        assert post(s.url, chat(talk(LONG)), headers=checks).status == 200
    kept, rewritten = s.fake.chats[0], s.fake.chats[-1]
    assert kept.body == spaced and fields(kept.headers)[b"content-length"] == b"%d" % len(spaced)
    assert fields(kept.headers)[b"content-md5"] == b"abc"
    assert fields(rewritten.headers)[b"content-length"] == b"%d" % len(rewritten.body)
    assert not set(fields(rewritten.headers)) & {name.encode() for name in checks}


@pytest.mark.parametrize(("name", "encode"), ENCODINGS)
def test_N2_compressed_request_bodies(name: bytes, encode: Encode) -> None:
    """Untouched they keep bytes and header; rewritten they go out plain, without it."""
    short, long = (json.dumps(chat(m)).encode() for m in ([SYSTEM, TASK], talk(LONG)))
    coded = {"content-encoding": name.decode()}
    upstream = ShapedUpstream(window=100_000)
    got = asyncio.run(_ask(World(upstream, SMALL), encode(short), encode(long), name))
    assert [g.outcome for g in got] == ["pass; fits", "compact; over-limit"] and all(g.status == 200 for g in got)
    assert upstream.bodies[0] == encode(short) or decode(upstream.bodies[0], name, codings=ALL_CODINGS) == short
    sent = json.loads(upstream.bodies[-1])
    assert len(sent["messages"]) < 2 * LONG
    with stage(FakeUpstream(), **WINDOW) as s:
        assert post(s.url, encode(long), headers=coded).status == 200
    assert b"content-encoding" not in fields(s.fake.chats[-1].headers)


async def _ask(world: World, short: bytes, long: bytes, name: bytes) -> list[Got]:
    try:
        return [await world.chat(body, (b"content-encoding", name)) for body in (short, long)]
    finally:
        await world.compactor.aclose()


ANSWER = json.dumps(completion("grüß dich")).encode()
ERROR = json.dumps({"error": {"message": "no such model", "type": "invalid_request_error"}}).encode()


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize(("status", "body"), [(b"200 OK", ANSWER), (b"404 Not Found", ERROR)])
def test_N2_content_encoding_against_decoded_body(name: bytes, status: bytes, body: bytes) -> None:
    """Raw bytes with their header, on every path, errors too."""
    packed = CODERS[name](body)
    headers = b"content-type: application/json\r\ncontent-encoding: %s\r\n" % name
    with raw(lambda peer: peer.answer(packed, status, headers)) as (url, _):
        reply = post(url, chat([user("hi")]))
    assert reply.status == int(status[:3]) and reply.body == packed
    assert reply.headers["content-encoding"] == name.decode() and reply.headers["content-length"] == str(len(packed))


@pytest.mark.parametrize("name", CODED)
def test_N2_a_compressed_refusal_is_understood(name: bytes) -> None:
    """An overflow is recognised through its coding, and acted upon."""
    said = b'{"error":{"message":"This model\'s maximum context length is 4000 tokens. However, your messages resulted in 6000 tokens.","code":"context_length_exceeded"}}'

    def handler(peer: Peer) -> None:
        if len(peer.request.body) > 12_000:
            peer.answer(
                CODERS[name](said),
                b"400 Bad Request",
                b"content-type: application/json\r\ncontent-encoding: %s\r\n" % name,
            )
        else:
            peer.answer(ANSWER, headers=b"content-type: application/json\r\n")

    with raw(handler) as (url, _):
        reply = post(url, chat(talk(LONG)))
    assert (reply.status, reply.decision) == (200, "compact; refused")


@pytest.mark.parametrize("name", CODED)
def test_N3_the_opposite_raw_bytes_without_their_header(name: bytes) -> None:
    """Behind a comment of ours, whose head named no coding, the stream is decoded."""
    events = b'data: {"choices":[{"index":0,"delta":{"content":"late"}}]}\n\ndata: [DONE]\n\n'

    def handler(peer: Peer) -> None:
        if slow_summary(peer, 0.6):
            return
        peer.answer(CODERS[name](events), headers=b"content-type: text/event-stream\r\ncontent-encoding: %s\r\n" % name)

    with raw(handler, keepalive_after=0.2, **WINDOW) as (url, _):
        reply = post(url, chat(talk(LONG), stream=True))
    assert "content-encoding" not in reply.headers
    assert reply.body.startswith(b": keepalive\n") and reply.body.endswith(events)


DAMAGED = [
    (b"gzip", b"no gzip"),
    (b"gzip", gz(b'{"messages":[]}')[:-4]),
    (b"br", b"no brotli"),
    (b"zstd", b"no zstandard"),
    (b"snappy", b"whatever"),
    (b"gzip", gz(bytes(30_000_000))),
]


@pytest.mark.parametrize(("name", "body"), DAMAGED)
def test_N4_proxy_decodes_what_it_need_not(name: bytes, body: bytes) -> None:
    """What cannot or must not be decoded is forwarded as it is, both ways."""
    headers = b"content-encoding: %s\r\ncontent-type: application/json\r\n" % name
    with raw(lambda peer: peer.answer(body, b"415 Unsupported Media Type", headers)) as (url, upstream):
        reply = post(url, body, headers={"content-encoding": name.decode()})
    assert upstream.requests[0].body == body and upstream.requests[0].values(b"content-encoding") == [name]
    assert (reply.status, reply.body, reply.decision) == (415, body, "pass; unreadable")


def test_N6_hop_by_hop_headers() -> None:
    """Those of the RFC and those that `Connection` names stay on their side; `Host` is the upstream's own."""
    answer = b"Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: yes\r\nProxy-Authenticate: Basic\r\n"
    with raw(lambda peer: peer.answer(ANSWER, headers=answer + b"content-type: application/json\r\n")) as (
        url,
        upstream,
    ):
        body = json.dumps(chat([user("hi")])).encode()
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: client.test\r\nConnection: close, x-mine\r\nX-Mine: 1\r\n"
            b"Keep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: Basic abc\r\nX-Other: kept\r\nUpgrade-Insecure-Requests: 1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        got = exchange(url.removesuffix("/v1"), head + body).lower()
    sent = {name.lower(): value for name, value in upstream.requests[0].headers}
    assert not set(sent) & {b"x-mine", b"keep-alive", b"te", b"proxy-authorization"} and sent[b"x-other"] == b"kept"
    assert sent[b"host"] == upstream.url.removeprefix("http://").encode()
    assert b"x-kept: yes" in got and not re.search(rb"\r\n(x-hop|keep-alive|proxy-authenticate):", got)


def test_N7_read_timeout() -> None:
    """None of our own: a model may think as long as it likes, unless the operator says otherwise."""
    assert ModelSettings().timeout is None

    def slow(peer: Peer) -> None:
        time.sleep(6.0)  # longer than the defaults of common HTTP clients
        peer.answer(ANSWER, headers=b"content-type: application/json\r\n")

    with raw(slow) as (url, _):
        assert post(url, chat([user("hi")])).status == 200


def test_N8_idle_hops_during_a_long_wait() -> None:
    """A streaming client hears comments; what fails then comes as an event; no hop may buffer or change it."""

    def failing(peer: Peer) -> None:
        if not slow_summary(peer, 0.7):
            peer.answer(ERROR, b"404 Not Found", b"content-type: application/json\r\n")

    with raw(failing, keepalive_after=0.2, **WINDOW) as (url, _):
        reply = post(url, chat(talk(LONG), stream=True))
        plain = post(url, chat(talk(LONG + 1)))
    assert reply.status == 200 and reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["x-accel-buffering"] == "no" and "no-transform" in reply.headers["cache-control"]
    assert reply.body.startswith(b": keepalive\n") and b"no such model" in reply.body
    assert reply.body.endswith(b"\n\ndata: [DONE]\n\n")
    assert (plain.status, plain.body) == (404, ERROR)


@pytest.mark.parametrize("after", ["nothing", "the first event"])
def test_N9_client_gone_upstream_works_on(after: str) -> None:
    """A client that leaves before or after the first event closes the upstream's connection."""
    closed: list[bool] = []

    def handler(peer: Peer) -> bool:
        if after != "nothing":
            peer.send(
                b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n'
            )
        closed.append(peer.wait_closed())
        return False

    with raw(handler) as (url, upstream):
        body = json.dumps(chat([user("hi")], stream=True)).encode()
        with connect(url) as sock:
            sock.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            if after != "nothing":
                assert sock.recv(10)
            end = time.monotonic() + DEADLINE
            while not upstream.requests and time.monotonic() < end:
                time.sleep(0.01)
            sock.shutdown(socket.SHUT_RDWR)
        while not closed and time.monotonic() < end:
            time.sleep(0.01)
    assert closed == [True]


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 422, 429, 451, 500, 502, 503, 504, 529])
def test_N10_errors_reshaped(status: int) -> None:
    """Status, headers and every byte of an error go through, whatever its form."""
    body = b'{ "error" : {"message":"nope \\u00e9", "code":null},\n "request_id": "req_1"}'
    headers = b"content-type: application/problem+json\r\nretry-after: 7\r\nx-ratelimit-remaining-tokens: 0\r\nx-request-id: req_1\r\n"
    with raw(lambda peer: peer.answer(body, b"%d Whatever" % status, headers)) as (url, upstream):
        reply = post(url, chat([user("hi")]))
    assert (reply.status, reply.body) == (status, body) and len(upstream.requests) == 1
    assert reply.headers["retry-after"] == "7" and reply.headers["x-ratelimit-remaining-tokens"] == "0"
    assert reply.headers["x-request-id"] == "req_1" and reply.headers["content-type"] == "application/problem+json"
