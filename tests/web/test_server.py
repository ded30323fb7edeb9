from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from tests.servers import DEADLINE, Peer, connect, run_raw
from tests.web.handshake import AGREED, HANDSHAKE, joined, read_until
from tests.web.serving import proxy_before

RESET = struct.pack("ii", 1, 0)  # for SO_LINGER: closing the socket resets the connection


def echo(peer: Peer) -> None:
    peer.answer(peer.request.body)


HEADS = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    b"connection: upgrade\r\nupgrade: h2c\r\n",
    b"Upgrade: TLS/1.0\r\nConnection: upgrade\r\n",
]


FRAMINGS = [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/responses"])
def test_a_request_for_an_upgrade_keeps_its_body(head: bytes, framing: bytes, path: bytes) -> None:
    """A client that offers another protocol is answered in this one, body and all, on a connection that goes on."""
    with run_raw(echo) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        for _ in range(3):
            sock.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + head + framing)
            answer = _read_answer(sock)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"abc" in answer
    names = {name.lower() for request in upstream.requests for name, _ in request.headers}
    assert names <= {b"host", b"via", b"content-length", b"transfer-encoding"}


def test_a_field_in_two_segments_loses_no_body_silently() -> None:
    """Where the guard cannot see the field, the request is refused: better no answer than one to an empty chat."""
    with run_raw(echo) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
        request += b"Content-Length: 3\r\n\r\nabc"
        cut = request.index(b"grade: h2c")
        sock.sendall(request[:cut])
        _settle()
        sock.sendall(request[cut:])
        answer = _read_answer(sock)
    assert answer.startswith(b"HTTP/1.1 501 ") or b"abc" in answer
    assert all(request.body == b"abc" for request in upstream.requests)


def test_a_body_that_looks_like_a_field_is_not_touched() -> None:
    """The guard reads heads alone."""
    body = b"a\r\nUpgrade: h2c\r\n\r\nUpgrade: h2c\r\n"
    with run_raw(echo) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        _read_answer(sock)
        sock.sendall(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
        _settle()
        sock.sendall(body)
        _read_answer(sock)
    assert [request.body for request in upstream.requests] == [body, body]


def _settle() -> None:
    """Give a segment time to be read by itself."""

    time.sleep(0.1)


def _read_answer(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.mark.parametrize("cut", range(85, 125, 3))
def test_a_handshake_in_two_segments(cut: int) -> None:
    """Where the network cuts it does not matter."""
    with (
        run_raw(lambda peer: peer.send(AGREED + b"\r\nfirst")) as upstream,
        proxy_before(upstream.url) as url,
        connect(url) as sock,
    ):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(HANDSHAKE[:cut])
        _settle()
        sock.sendall(HANDSHAKE[cut:] + b"\r\n")
        assert read_until(sock, b"first").startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_leaves_takes_the_upstream_along(reset: bool) -> None:
    """However it leaves, the upstream's connection is closed too."""
    closed: list[bool] = []
    done = threading.Event()

    def wait(peer: Peer) -> bool:
        closed.append(peer.wait_closed())
        done.set()
        return False

    with joined(wait) as sock:
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        sock.close()
        assert done.wait(DEADLINE)
    assert closed == [True]


@pytest.mark.parametrize("reset", [False, True])
def test_an_upstream_that_leaves_takes_the_client_along(reset: bool) -> None:
    """However it leaves, the client's connection is closed too."""

    def leave(peer: Peer) -> bool:
        if reset:
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        return False

    with joined(leave) as sock:
        assert sock.recv(1) == b""


def test_a_client_that_leaves_before_the_upstream_agrees() -> None:
    """The handshake is given up."""
    closed: list[bool] = []
    asked, done = threading.Event(), threading.Event()

    def wait(peer: Peer) -> bool:
        asked.set()
        closed.append(peer.wait_closed())
        done.set()
        return False

    with run_raw(wait) as upstream, proxy_before(upstream.url) as url:
        with connect(url) as sock:
            sock.sendall(HANDSHAKE + b"\r\n")
            assert asked.wait(DEADLINE)
        assert done.wait(DEADLINE)
    assert closed == [True]


def test_a_client_that_does_not_wait_is_cut_off() -> None:
    """What comes before the upstream has agreed is neither HTTP nor a WebSocket."""
    asked = threading.Event()

    def late(peer: Peer) -> bool:
        asked.wait(DEADLINE)
        peer.send(AGREED + b"\r\n")
        return not peer.wait_closed()

    with run_raw(late) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(HANDSHAKE + b"\r\n" + b"GET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
        _settle()
        asked.set()
        assert sock.recv(65536) == b""
    assert [request.line for request in upstream.requests] == [b"GET /v1/realtime?model=x HTTP/1.1"]


def test_who_does_not_read_is_waited_for() -> None:
    """Neither side's speech is collected in the proxy: a sender whose peer does not read has to stop."""
    most = 64 * 1024 * 1024  # far above what sockets and the proxy's buffers hold
    stopped, released = threading.Event(), threading.Event()
    sent: list[int] = []

    def flood(sock: socket.socket) -> int:
        sock.settimeout(0.5)
        size = 0
        try:
            while size < most:
                size += sock.send(b"x" * 65536)
        except TimeoutError:
            pass
        return size

    def upstream(peer: Peer) -> bool:
        sent.append(flood(peer.sock))
        stopped.set()
        released.wait(60)
        return False

    with joined(upstream) as sock:
        assert stopped.wait(60)
        sent.append(flood(sock))
        released.set()
    assert len(sent) == 2
    assert 0 < max(sent) < most


def test_the_server_stops_while_sockets_are_open() -> None:
    """At shutdown both sides are closed at once."""
    done = threading.Event()

    def agree(peer: Peer) -> bool:
        peer.send(AGREED + b"\r\n")
        if peer.wait_closed():
            done.set()
        return False

    with run_raw(agree) as upstream:
        with proxy_before(upstream.url) as url:
            sock = connect(url)
            sock.sendall(HANDSHAKE + b"\r\n")
            read_until(sock, b"\r\n\r\n")
        with sock:
            assert sock.recv(1) == b""
        assert done.wait(DEADLINE)
