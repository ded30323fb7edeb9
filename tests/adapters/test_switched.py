from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.adapters.upstream import AiohttpUpstream
from proxy.errors import Unreachable
from proxy.ports import Answer, Call
from tests.servers import DEADLINE, Peer, run_raw

AGREED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\nX-A: 1\r\n\r\n"


def asking(url: str, said: bytes | AsyncIterator[bytes]) -> Call:
    return Call("GET", f"{url}/v1/x", (), said, upgrade="chat")


async def words(*said: bytes, then: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    for word in said:
        yield word
    if then is not None:
        await then.wait()


async def hear(answer: Answer) -> bytes:
    async with asyncio.timeout(DEADLINE):
        return b"".join([chunk async for chunk in answer.chunks()])


def repeat_once(peer: Peer) -> bool:
    peer.send(AGREED + b"hello ")
    peer.send(peer.sock.recv(65536))
    return False


def test_both_sides_speak_in_the_other_protocol() -> None:
    """What the upstream says right behind its head is heard; its end is the end of the chunks."""

    async def story(url: str) -> None:
        upstream = AiohttpUpstream()
        answer = await upstream.send(asking(url, words(b"you", then=asyncio.Event())))
        assert (answer.status, (b"X-A", b"1") in answer.headers) == (101, True)
        assert repr(answer) == "Switched()"
        assert await hear(answer) == b"hello you"
        await answer.aclose()
        await answer.aclose()
        await upstream.aclose()

    with run_raw(repeat_once) as upstream:
        asyncio.run(story(upstream.url))


@pytest.mark.parametrize("said", [b"", b"bye"])
def test_the_end_of_this_side_ends_both(said: bytes) -> None:
    """The last bytes still arrive; the upstream sees the connection closed, and the chunks end without it."""
    heard: list[bytes] = []

    def listen(peer: Peer) -> bool:
        peer.send(AGREED)
        if peer.wait_closed():
            heard.append(peer.pending)
        return False

    async def story(url: str) -> None:
        upstream = AiohttpUpstream()
        answer = await upstream.send(asking(url, said))
        assert await hear(answer) == b""
        await answer.aclose()
        await upstream.aclose()

    with run_raw(listen) as upstream:
        asyncio.run(story(upstream.url))
        assert upstream.connections == 1
    assert heard == [said]


def test_given_up_at_once() -> None:
    """Closing it before a word was said closes the connection."""
    closed: list[bool] = []

    def listen(peer: Peer) -> bool:
        peer.send(AGREED)
        closed.append(peer.wait_closed())
        return False

    async def story(url: str) -> None:
        upstream = AiohttpUpstream()
        answer = await upstream.send(asking(url, words(then=asyncio.Event())))
        await answer.aclose()
        assert await hear(answer) == b""
        await upstream.aclose()

    with run_raw(listen) as upstream:
        asyncio.run(story(upstream.url))
    assert closed == [True]


def test_a_refusal_is_an_answer_like_any_other() -> None:
    """Nothing of the body is sent with the request."""

    async def story(url: str) -> None:
        upstream = AiohttpUpstream()
        answer = await upstream.send(asking(url, words(b"secret")))
        assert (answer.status, await hear(answer)) == (403, b"no")
        await answer.aclose()
        await upstream.aclose()

    with run_raw(lambda peer: peer.answer(b"no", b"403 Forbidden")) as upstream:
        asyncio.run(story(upstream.url))
    (request,) = upstream.requests
    assert (request.body, request.values(b"upgrade"), request.values(b"connection")) == (b"", [b"chat"], [b"Upgrade"])


@pytest.mark.parametrize("field", [b"Upgrade: tea\r\nConnection: upgrade\r\n", b"Connection: upgrade\r\n", b""])
def test_another_protocol_is_the_upstreams_fault(field: bytes) -> None:
    """A 101 is taken for what was asked for, or not at all."""

    async def story(url: str) -> None:
        upstream = AiohttpUpstream()
        with pytest.raises(Unreachable, match="not asked for"):
            await upstream.send(asking(url, b""))
        await upstream.aclose()

    def change(peer: Peer) -> bool:
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\n" + field + b"\r\n")
        return not peer.wait_closed()

    with run_raw(change) as upstream:
        asyncio.run(story(upstream.url))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command to make a certificate with")
def test_over_tls(tmp_path: Path) -> None:
    """The same over a secure connection, with megabytes both ways."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *extra], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    size = 3_000_000

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(AGREED)
        writer.write(await reader.readexactly(size))
        await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(repeat, "127.0.0.1", 0, ssl=context)
        upstream = AiohttpUpstream(environ={"SSL_CERT_FILE": str(certificate)})
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        answer = await upstream.send(asking(url, words(b"x" * size, then=asyncio.Event())))
        assert len(await hear(answer)) == size
        await answer.aclose()
        await upstream.aclose()
        server.close()

    asyncio.run(story())
