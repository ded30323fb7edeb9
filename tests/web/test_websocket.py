"""Real WebSocket clients and servers before and behind the proxy, and both ends of the wire by hand."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.servers import DEADLINE, Peer, connect, exchange, run_raw
from tests.web.handshake import AGREED, HANDSHAKE, read_until
from tests.web.serving import proxy_before

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Client = aiohttp.ClientWebSocketResponse


@contextmanager
def serving(handler: Handler) -> Iterator[str]:
    """A real WebSocket server; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    started, loop = threading.Event(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        return runner

    def run() -> None:
        runner = loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(DEADLINE)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE)


async def echo(request: web.Request) -> web.StreamResponse:
    """Says back what it hears; `close` makes it leave in its own way."""
    ws = web.WebSocketResponse(protocols=("realtime", "other"), max_msg_size=0)
    await ws.prepare(request)
    async for message in ws:
        if message.type is aiohttp.WSMsgType.BINARY:
            await ws.send_bytes(message.data)
        elif message.data == "close":
            await ws.close(code=4001, message="session expired ☃ é".encode())
        else:
            await ws.send_str(message.data)
    return ws


def talk(url: str, story: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Let a real client with a connection through the proxy at `url` do what the story says."""

    async def run() -> None:
        async with (
            asyncio.timeout(DEADLINE),
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{url}/v1/realtime?model=x", max_msg_size=0, **options) as ws,
        ):
            await story(ws)

    asyncio.run(run())


@pytest.mark.parametrize("compress", [0, 15])
def test_messages_pass(compress: int) -> None:
    """Text, binary and large messages come back as they went, with compression where the two agree on it."""
    messages: list[str | bytes] = [
        "",
        "text ☃ é \U0001f600",
        b"",
        bytes(range(256)),
        "x" * 5_000_000,
        b"\xff" * 5_000_000,
    ]

    async def story(ws: Client) -> None:
        assert bool(ws.compress) is bool(compress)
        for message in messages:
            await (ws.send_str(message) if isinstance(message, str) else ws.send_bytes(message))
            answer = await ws.receive()
            assert answer.data == message  # no diff of megabytes
        await ws.ping(b"are you there")

    with serving(echo) as upstream, proxy_before(upstream) as url:
        talk(url, story, compress=compress)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [((), None), (("realtime",), "realtime"), (("openai-beta.realtime-v1", "other"), "other"), (("unknown",), None)],
)
def test_the_upstream_chooses_the_subprotocol(offered: tuple[str, ...], chosen: str | None) -> None:
    """What the client offers reaches the upstream, and its choice the client."""

    async def story(ws: Client) -> None:
        assert ws.protocol == chosen

    with serving(echo) as upstream, proxy_before(upstream) as url:
        talk(url, story, protocols=offered)


def test_close_codes_and_reasons_pass_both_ways() -> None:
    """The upstream's own code and words reach the client, and the client's the upstream."""
    closed: list[tuple[Any, Any]] = []

    async def listen(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(autoclose=False)
        await ws.prepare(request)
        message = await ws.receive()
        closed.append((message.data, message.extra))
        await ws.close(code=4003)
        return ws

    async def hear(ws: Client) -> None:
        await ws.send_str("close")
        message = await ws.receive()
        assert (message.type, message.data, message.extra) == (aiohttp.WSMsgType.CLOSE, 4001, "session expired ☃ é")

    async def say(ws: Client) -> None:
        await ws.close(code=4002, message=b"enough")
        assert ws.close_code == 4003

    with serving(echo) as upstream, proxy_before(upstream) as url:
        talk(url, hear)
    with serving(listen) as upstream, proxy_before(upstream) as url:
        talk(url, say)
    assert closed == [(4002, "enough")]


@pytest.mark.parametrize("coded", [False, True])
def test_a_refusal_reaches_the_client(coded: bool) -> None:
    """Status, fields and body of an upstream that does not agree are the answer, and the connection goes on."""
    body = b'{"error": {"message": "Incorrect API key"}}'

    def refuse(peer: Peer) -> None:
        if coded:
            chunked = b"HTTP/1.1 401 Unauthorized\r\nX-Request-Id: r1\r\nTransfer-Encoding: chunked\r\n\r\n"
            peer.send(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            peer.answer(body, b"401 Unauthorized", b"X-Request-Id: r1\r\nWWW-Authenticate: Bearer\r\n")

    with run_raw(refuse) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, HANDSHAKE + b"\r\n" + HANDSHAKE.replace(b"keep-alive", b"close") + b"\r\n")
    assert answer.count(b"HTTP/1.1 401 Unauthorized\r\n") == answer.count(b"\r\nx-request-id: r1\r\n") == 2
    assert answer.count(body) == 2
    assert len(upstream.requests) == 2


def test_an_unreachable_upstream_is_a_502() -> None:
    """Nothing is accepted before the upstream has agreed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with proxy_before(f"http://127.0.0.1:{port}") as url:
        answer = exchange(url, HANDSHAKE.replace(b"keep-alive", b"close") + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b'"upstream_error"' in answer


def test_bytes_pass_as_they_are() -> None:
    """Fragments, reserved bits, control frames and whatever comes right behind the upstream's head: nothing is read."""
    first = b"\x01\x03abc\x89\x02hi\x80\x03def"
    client = b"\x71\x82\x01\x02\x03\x04ab" + b"\x88\x80\x00\x00\x00\x00" + bytes(range(256))
    heard: list[bytes] = []

    def agree(peer: Peer) -> bool:
        peer.send(AGREED + b"Connection: x-hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n" + first)
        heard.append(read_until(peer.sock, client))
        peer.send(b"\x88\x00")
        return False

    handshake = HANDSHAKE + b"X-Compaction: off\r\nX-Mine: 1\r\nUser-Agent: test\r\n\r\n"
    with run_raw(agree) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(handshake)
        head = read_until(sock, first).removesuffix(first)
        sock.sendall(client)
        assert read_until(sock, b"\x88\x00") == b"\x88\x00"
        assert sock.recv(1) == b""
    assert heard == [client]
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert line == b"HTTP/1.1 101 Switching Protocols"
    assert {name.lower(): value for name, _, value in (field.partition(b": ") for field in fields)} == {
        b"connection": b"upgrade",
        b"upgrade": b"websocket",
        b"sec-websocket-accept": b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        b"x-request-id": b"r1",
        b"via": b"1.1 compaction-proxy",
    }
    (request,) = upstream.requests
    assert request.line == b"GET /v1/realtime?model=x HTTP/1.1"
    assert {name.lower(): value for name, value in request.headers} == {
        b"host": upstream.url.removeprefix("http://").encode(),
        b"connection": b"Upgrade",
        b"upgrade": b"websocket",
        b"sec-websocket-version": b"13",
        b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ==",
        b"x-mine": b"1",
        b"user-agent": b"test",
        b"via": b"1.1 compaction-proxy",
    }


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_another_protocol_is_not_tunnelled(head: bytes) -> None:
    """An upstream that changes to something else than it was asked for is at fault."""

    def agree(peer: Peer) -> bool:
        peer.send(head)
        return not peer.wait_closed()

    with run_raw(agree) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, HANDSHAKE.replace(b"keep-alive", b"close") + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"GET ", b"POST "),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"keep-alive, Upgrade", b"close"),
        (b"websocket\r\n", b"h2c\r\n"),
        (b"Host: x", b"Host: x\r\nContent-Length: 0"),
    ],
)
def test_what_is_no_handshake_is_an_ordinary_request(old: bytes, new: bytes) -> None:
    """The field is ignored, as a server may, and nothing of it reaches the upstream."""
    request = HANDSHAKE.replace(old, new, 1).replace(b"keep-alive", b"close") + b"\r\n"
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        assert exchange(url, request).startswith(b"HTTP/1.1 200 ")
    assert upstream.requests[0].values(b"upgrade") == upstream.requests[0].values(b"connection") == []


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/v1/../realtime", 400),
        (b"/v1/%2e%2e/realtime", 400),
        (b"/v1/a%5cb", 400),
        (b"/v1//evil.example/x", 400),
        (b"/v1@evil.example/", 404),
        (b"/realtime", 404),
        (b"//evil.example/v1", 404),
    ],
)
def test_a_nasty_target_goes_nowhere(target: bytes, status: int) -> None:
    """The same targets are refused as in any other request."""
    request = HANDSHAKE.replace(b"/v1/realtime?model=x", target).replace(b"keep-alive", b"close") + b"\r\n"
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        assert exchange(url, request).startswith(b"HTTP/1.1 %d " % status)
    assert upstream.connections == 0


def test_a_loop_is_detected() -> None:
    """A handshake that has been through this proxy goes no further."""
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        request = HANDSHAKE.replace(b"keep-alive", b"close") + b"Via: 1.1 compaction-proxy\r\n\r\n"
        assert exchange(url, request).startswith(b"HTTP/1.1 508 ")
    assert upstream.connections == 0


SUBPROTOCOLS = b"realtime, openai-insecure-api-key.sk-mine, openai-organization.org-mine"


@pytest.mark.parametrize(
    ("api_key", "authorization", "subprotocols"),
    [
        (None, [b"Bearer sk-mine"], [SUBPROTOCOLS]),
        ("sk-ours", [b"Bearer sk-ours"], [b"realtime"]),
    ],
)
def test_the_clients_keys_go_where_they_are_meant_to(
    api_key: str | None, authorization: list[bytes], subprotocols: list[bytes]
) -> None:
    """With a configured key the client's own is not sent, in no field; no other origin hears of either."""
    handshake = HANDSHAKE.replace(b"keep-alive", b"close")
    handshake += b"Authorization: Bearer sk-mine\r\nSec-WebSocket-Protocol: " + SUBPROTOCOLS + b"\r\n\r\n"
    with run_raw() as other:
        location = b"Location: %s/v1/x\r\n" % other.url.encode()
        with run_raw(lambda peer: peer.answer(status=b"307 Temporary Redirect", headers=location)) as upstream:
            models = {"x": {"upstream": other.url + "/v1", "api_key": "theirs"}}
            with proxy_before(upstream.url, settings={"api_key": api_key, "models": models}) as url:
                assert exchange(url, handshake).startswith(b"HTTP/1.1 307 ")
    assert other.connections == 0
    (request,) = upstream.requests
    assert request.values(b"authorization") == authorization
    assert request.values(b"sec-websocket-protocol") == subprotocols
