from __future__ import annotations

import socket
import time

import pytest

from tests.servers import Peer, connect, run_raw
from tests.web.serving import proxy_before


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
