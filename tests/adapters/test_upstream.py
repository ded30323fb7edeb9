from __future__ import annotations

import asyncio
import base64
import queue
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from proxy.adapters.upstream import AiohttpUpstream
from proxy.errors import BadRequest, ConfigError, Unreachable, UpstreamTimeout
from proxy.ports import Call, Headers
from tests.servers import DEADLINE, Peer, run_app, run_raw

T = TypeVar("T")


def with_upstream(work: Callable[[AiohttpUpstream], Awaitable[T]], **options: object) -> T:
    """Run `work` with an upstream in an event loop of its own."""

    async def main() -> T:
        upstream = AiohttpUpstream(**options)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(DEADLINE):
                return await work(upstream)
        finally:
            await upstream.aclose()

    return asyncio.run(main())


async def fetch(upstream: AiohttpUpstream, call: Call) -> tuple[int, Headers, bytes]:
    answer = await upstream.send(call)
    try:
        return answer.status, answer.headers, b"".join([chunk async for chunk in answer.chunks()])
    finally:
        await answer.aclose()


HEADERS: Headers = (
    (b"x-b", b"1"),
    (b"X-a", b"2"),
    (b"x-b", b"3"),
    (b"x-utf8", "grüß \U0001f600".encode()),
    (b"x-latin", b"caf\xe9 \xff\x80"),
    (b"x-empty", b""),
    (b"x-tab", b"a\tb"),
)


@pytest.mark.parametrize(
    ("method", "body", "framing"),
    [
        ("GET", b"", []),
        ("HEAD", b"", []),
        ("OPTIONS", b"", []),
        ("POST", b"", [(b"Content-Length", b"0")]),
        ("POST", b"abc", [(b"Content-Length", b"3")]),
        ("DELETE", b"abc", [(b"Content-Length", b"3")]),
        ("PATCH", bytes(300_000), [(b"Content-Length", b"300000")]),
        ("POST", bytes(3_000_000), [(b"Content-Length", b"3000000")]),
    ],
)
def test_nothing_is_added_or_changed(method: str, body: bytes, framing: list[tuple[bytes, bytes]]) -> None:
    """Target, fields (order, repetition, every byte) and body arrive as given; only `Host` and framing are added."""
    with run_raw(lambda peer: peer.answer(b"" if method == "HEAD" else b"{}")) as server:
        path = "/v1//a%2Fb/%7e;x?q=%20+%zz&r=a'b\"<>|{}"
        status, _, _ = with_upstream(lambda up: fetch(up, Call(method, server.url + path, HEADERS, body)))
    assert status == 200
    request = server.requests[0]
    assert request.line == f"{method} {path} HTTP/1.1".encode()
    host = (b"Host", server.url.removeprefix("http://").encode())
    ordered = [field for field in request.headers if field not in (host, *framing)]
    assert host in request.headers
    assert sorted(request.headers) == sorted([host, *framing, *HEADERS])
    assert ordered == list(HEADERS)
    assert request.body == body


def test_an_answer_is_the_bytes_of_the_wire() -> None:
    """Status, fields and a compressed body come as they are; a redirect is an answer like others."""
    head = (
        b"Location: http://127.0.0.1:1/\r\nX-Odd: caf\xe9\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n"
        b"Content-Encoding: gzip\r\n"
    )
    with run_raw(lambda peer: peer.answer(b"\x1f\x8bnot really", b"302 Found", head)) as server:
        status, headers, body = with_upstream(lambda up: fetch(up, Call("GET", server.url, ())))
    assert status == 302
    assert headers == (
        (b"Location", b"http://127.0.0.1:1/"),
        (b"X-Odd", b"caf\xe9"),
        (b"set-cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
        (b"Content-Encoding", b"gzip"),
        (b"Content-Length", b"12"),
    )
    assert body == b"\x1f\x8bnot really"


def test_no_cookie_is_ever_replayed() -> None:
    """What one answer sets is not sent with the next request, on the same connection or another."""

    async def work(upstream: AiohttpUpstream) -> None:
        for _ in range(3):
            await fetch(upstream, Call("GET", server.url, ()))

    with run_raw(lambda peer: peer.answer(headers=b"Set-Cookie: session=secret; Path=/\r\n")) as server:
        with_upstream(work)
    assert server.connections == 1
    assert [request.values(b"cookie") for request in server.requests] == [[], [], []]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [(((b"content-length", b"6"),), b"firstx"), ((), b"5\r\nfirst\r\n1\r\nx\r\n0\r\n\r\n")],
)
def test_a_streamed_body_goes_out_as_it_comes(headers: Headers, expected: bytes) -> None:
    """The first chunk is at the server before the second exists; a stated length is kept, none means chunks."""
    begun = threading.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        yield b""  # must not end a chunked body
        yield b"x"

    def handler(peer: Peer) -> None:
        while b"first" not in peer.pending and peer._more():
            pass
        begun.set()
        peer.read_body()
        peer.answer()

    with run_raw(handler, read_body=False) as server:
        with_upstream(lambda up: fetch(up, Call("POST", server.url, headers, body())))
    assert server.requests[0].body == expected


def test_chunks_come_as_they_are_sent() -> None:
    """Each piece of an answer can be had before the next one is sent."""

    async def work(upstream: AiohttpUpstream) -> list[bytes]:
        answer = await upstream.send(Call("GET", server.url, ()))
        seen = []
        async for chunk in answer.chunks():
            seen.append(chunk)
            sent.release()
        await answer.aclose()
        await answer.aclose()
        return seen

    sent = threading.Semaphore(0)

    def handler(peer: Peer) -> bool:
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        for part in (b"one", b"two", b"three"):
            peer.send(part)
            assert sent.acquire(timeout=DEADLINE)
        return False  # the end of the connection ends the body

    with run_raw(handler) as server:
        assert with_upstream(work) == [b"one", b"two", b"three"]


BROKEN: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("no HTTP", b"hello\r\n\r\n"),
    ("half a head", b"HTTP/1.1 200 OK\r\nx-a"),
]


@pytest.mark.parametrize(("name", "data"), BROKEN)
def test_no_answer_is_unreachable(name: str, data: bytes) -> None:
    """A server that closes before a whole head has not answered."""

    def handler(peer: Peer) -> bool:
        peer.send(data)
        return False

    with run_raw(handler) as server, pytest.raises(Unreachable):
        with_upstream(lambda up: fetch(up, Call("POST", server.url, (), b"x")))


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: 10\r\n\r\nhalf",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n8\r\nha",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n",
    ],
)
def test_breaking_off_is_no_clean_end(data: bytes) -> None:
    """A body that ends too early raises, after what came of it."""

    async def work(upstream: AiohttpUpstream) -> bytes:
        answer = await upstream.send(Call("GET", server.url, ()))
        seen = b""
        with pytest.raises(Unreachable):
            async for chunk in answer.chunks():
                seen += chunk
        await answer.aclose()
        return seen

    def handler(peer: Peer) -> bool:
        head, end, body = data.partition(b"half")
        peer.send(b"HTTP/1.1 200 OK\r\n" + head + end)
        time.sleep(0.05)
        peer.send(body)
        return False

    with run_raw(handler) as server:
        assert with_upstream(work).startswith(b"half")


def test_nobody_there() -> None:
    """A refused connection and a name that does not exist are unreachable; the message shows no address."""
    for url in ("http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1", "https://127.0.0.1:1/v1"):
        with pytest.raises(Unreachable) as caught:
            with_upstream(lambda up, url=url: fetch(up, Call("GET", url, ())))  # type: ignore[misc]
        assert "127.0.0.1" not in str(caught.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command to make a certificate with")
def test_tls_is_verified(tmp_path: Path) -> None:
    """A certificate that nobody vouches for is refused; one in SSL_CERT_FILE is accepted."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *extra], check=True, capture_output=True)
    options = {"ssl_keyfile": str(key), "ssl_certfile": str(certificate)}

    async def app(scope: object, receive: object, send: Callable[[dict[str, object]], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    with run_app(app, lifespan="off", **options) as url:
        call = Call("GET", url.replace("http", "https"), ())
        with pytest.raises(Unreachable, match="secure"):
            with_upstream(lambda up: fetch(up, call))
        trusted = {"SSL_CERT_FILE": str(certificate)}
        assert with_upstream(lambda up: fetch(up, call), environ=trusted)[0] == 204


def test_a_connection_that_is_not_made_in_time() -> None:
    """The connect timeout is a timeout, not a failure: a TLS handshake that nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(UpstreamTimeout):
            with_upstream(lambda up: fetch(up, Call("GET", url, ())), connect_timeout=0.2)


def test_silence() -> None:
    """A timeout bounds the silence before the head, and none within the body; without one a slow head is awaited."""

    def handler(peer: Peer) -> None:
        if b"slow-head" in peer.request.line:
            time.sleep(0.5)
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        time.sleep(0.5)
        peer.send(b"b")

    async def timed_out(upstream: AiohttpUpstream) -> None:
        with pytest.raises(UpstreamTimeout):
            await upstream.send(Call("POST", server.url + "/slow-head", (), b"x", head_timeout=0.1))
        answer = await upstream.send(Call("POST", server.url, (), b"x", head_timeout=0.2))
        assert b"".join([chunk async for chunk in answer.chunks()]) == b"ab"
        await answer.aclose()

    with run_raw(handler) as server:
        with_upstream(timed_out)
        assert with_upstream(lambda up: fetch(up, Call("POST", server.url + "/slow-head", (), b"x")))[2] == b"ab"


def test_cancelling_closes_the_connection() -> None:
    """Whether the head is awaited or the body is read: a cancelled task leaves no connection behind."""
    closed: queue.Queue[bool] = queue.Queue()

    def handler(peer: Peer) -> bool:
        if b"body" in peer.request.line:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        closed.put(peer.wait_closed())
        return False

    async def work(upstream: AiohttpUpstream) -> None:
        for path in ("/head", "/body"):
            task = asyncio.create_task(fetch(upstream, Call("POST", server.url + path, (), b"x")))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(closed.get, timeout=DEADLINE)

    with run_raw(handler) as server:
        with_upstream(work)


@pytest.mark.parametrize(("works", "sent"), [(0.0, 2), (1.2, 1)])
def test_a_connection_that_was_closed_while_idle_costs_nothing(works: float, sent: int) -> None:
    """Gone at once on a kept connection: sent again on a new one. A server that took its time has perhaps acted on it."""
    seen: list[bytes] = []

    def handler(peer: Peer) -> bool | None:
        seen.append(peer.request.line)
        if b"/second" in peer.request.line and len(seen) == 2:
            time.sleep(works)
            return False
        peer.answer()
        return None

    async def work(upstream: AiohttpUpstream) -> None:
        await fetch(upstream, Call("POST", server.url + "/first", (), b"x"))
        if sent == 1:
            with pytest.raises(Unreachable):
                await fetch(upstream, Call("POST", server.url + "/second", (), b"x"))
        else:
            await fetch(upstream, Call("POST", server.url + "/second", (), b"x"))

    with run_raw(handler) as server:
        with_upstream(work)
    assert seen == [b"POST /first HTTP/1.1", *[b"POST /second HTTP/1.1"] * sent]


def test_a_new_connection_that_dies_is_no_reason_to_send_again() -> None:
    """Nothing had lain idle."""

    async def work(upstream: AiohttpUpstream) -> None:
        with pytest.raises(Unreachable):
            await fetch(upstream, Call("POST", server.url + "/only", (), b"x"))

    with run_raw(lambda peer: False) as server:
        with_upstream(work)
    assert len(server.requests) == 1


def test_a_streamed_body_is_never_sent_in_part() -> None:
    """A second attempt of an idempotent method would find the stream consumed: it is not made with an empty body."""

    async def body() -> AsyncIterator[bytes]:
        yield b"all of it"

    def handler(peer: Peer) -> bool | None:
        if peer.request.line.startswith(b"PUT"):
            return False
        peer.answer()
        return None

    async def work(upstream: AiohttpUpstream) -> None:
        await fetch(upstream, Call("GET", server.url, ()))
        with pytest.raises(Unreachable):
            await fetch(upstream, Call("PUT", server.url, (), body()))

    with run_raw(handler) as server:
        with_upstream(work)
    bodies = [request.body for request in server.requests if request.line.startswith(b"PUT")]
    assert bodies == [b"9\r\nall of it\r\n0\r\n\r\n"]


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\x00b", b"a\r\nx-injected: 1"])
def test_a_field_cannot_smuggle_another(value: bytes) -> None:
    """Control bytes in a field are refused before anything is sent."""
    with run_raw() as server:
        with pytest.raises(BadRequest):
            with_upstream(lambda up: fetch(up, Call("GET", server.url, ((b"x", value),))))
        assert server.requests == []


def test_a_request_through_a_proxy() -> None:
    """A plain request reaches the proxy in absolute form with its password, which the path keeps byte for byte."""
    with run_raw() as proxy:
        environ = {"HTTP_PROXY": proxy.url.replace("//", "//u:p@")}
        call = Call("GET", "http://a.example/v1/%7ea?b=%2f", ((b"x", b"1"),))
        with_upstream(lambda up: fetch(up, call), environ=environ)
    request = proxy.requests[0]
    assert request.line == b"GET http://a.example/v1/%7ea?b=%2f HTTP/1.1"
    assert request.values(b"proxy-authorization") == [b"Basic " + base64.b64encode(b"u:p")]
    assert request.values(b"host") == [b"a.example"]


def test_a_tunnel_through_a_proxy() -> None:
    """For https the proxy sees the host and its own password, and nothing of the request."""

    def handler(peer: Peer) -> bool:
        peer.answer(status=b"407 Proxy Authentication Required")
        return False

    with run_raw(handler) as proxy, pytest.raises(Unreachable):
        environ = {"HTTPS_PROXY": proxy.url.replace("//", "//u:p@")}
        call = Call("POST", "https://a.example/v1/secret", ((b"authorization", b"Bearer key"),), b"text")
        with_upstream(lambda up: fetch(up, call), environ=environ)
    assert [request.line for request in proxy.requests] == [b"CONNECT a.example:443 HTTP/1.1"]
    assert proxy.requests[0].values(b"authorization") == []
    assert proxy.requests[0].values(b"proxy-authorization") == [b"Basic " + base64.b64encode(b"u:p")]


def test_certificate_files(tmp_path: object) -> None:
    """A file of certificates that is not there is found at the start."""
    with pytest.raises(ConfigError):
        AiohttpUpstream(environ={"SSL_CERT_FILE": f"{tmp_path}/none.pem"})
    assert AiohttpUpstream()._ssl.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("pause", [0.0, 0.3])
@pytest.mark.parametrize("end", [b"", b"Transfer-Encoding: chunked\r\n"])
def test_a_reader_that_is_slower_than_the_server(pause: float, end: bytes) -> None:
    """What came before the connection ended is read to its end, however late; malformed chunks end in an error."""
    size = 3_000_000  # more than all buffers hold

    async def work(upstream: AiohttpUpstream) -> int:
        answer = await upstream.send(Call("GET", server.url, ()))
        count = 0
        try:
            async for chunk in answer.chunks():
                await asyncio.sleep(pause if count < 200_000 else 0)
                count += len(chunk)
        except Unreachable:
            assert end
        else:
            assert not end
        await answer.aclose()
        return count

    def handler(peer: Peer) -> bool:
        data = bytes(size)
        peer.send(b"HTTP/1.1 200 OK\r\n" + end + b"\r\n" + (b"%x\r\n%s\r\nxyz\r\n" % (size, data) if end else data))
        return False

    with run_raw(handler) as server:
        count = with_upstream(work)
    assert count == size if not end else count <= size
