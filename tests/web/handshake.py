"""A WebSocket's handshake by hand, at both ends."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.servers import Peer, connect, run_raw
from tests.web.serving import proxy_before

HANDSHAKE = (
    b"GET /v1/realtime?model=x HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Request-Id: r1\r\n"
)


def read_until(sock: socket.socket, end: bytes, size: int = 65536) -> bytes:
    """What arrives until it ends in `end`, read `size` bytes at a time."""
    data = b""
    while not data.endswith(end):
        more = sock.recv(size)
        assert more, data
        data += more
    return data


@contextmanager
def joined(handler: Callable[[Peer], object]) -> Iterator[socket.socket]:
    """A client that is joined with an upstream, whose handler is called then."""

    def agree(peer: Peer) -> object:
        peer.send(AGREED + b"\r\n")
        return handler(peer)

    with run_raw(agree) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(HANDSHAKE + b"\r\n")
        read_until(sock, b"\r\n\r\n", 1)
        yield sock
