"""Real servers and clients on real sockets for tests: an ASGI application under uvicorn, an upstream that is written
byte by byte, and an exchange of raw bytes.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import uvicorn

DEADLINE = 10.0  # seconds a server may take to start or stop before the test is called broken


@contextmanager
def run_app(app: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI application and yield its address, `http://127.0.0.1:PORT` (no trailing slash).

    Lifespan events are sent; an application that cannot start or a server that cannot stop raises. `options` go to
    `uvicorn.Config`. On leaving, running requests get half a second, then their tasks are cancelled.
    """
    settings: dict[str, Any] = {
        "http": "httptools",
        "loop": "uvloop",
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "timeout_graceful_shutdown": 0.5,
    }
    server = uvicorn.Server(uvicorn.Config(app, **{**settings, **options}))
    sock = socket.create_server(("127.0.0.1", 0), backlog=256)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"

    def serve() -> None:
        with suppress(SystemExit):  # uvicorn's way to say that the application did not start
            server.run(sockets=[sock])

    thread = threading.Thread(target=serve, name="test-server", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield address
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
        sock.close()
    if thread.is_alive():
        raise RuntimeError("the test server did not stop")


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + DEADLINE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the test server did not start")
        time.sleep(0.005)


@dataclass
class Request:
    """A request as it stood on the wire."""

    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]


@dataclass
class Peer:
    """The server's end of one connection. A handler reads `request` and writes its answer with `send`."""

    sock: socket.socket
    request: Request = field(default_factory=lambda: Request(b"", []))
    pending: bytes = b""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, body: bytes = b"{}", status: bytes = b"200 OK", headers: bytes = b"") -> None:
        """One whole answer; `headers` are lines that end with CR LF."""
        self.send(b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, headers, len(body), body))

    def wait_closed(self) -> bool:
        """Whether the client closes the connection within the deadline."""
        try:
            while data := self.sock.recv(65536):
                self.pending += data
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def read_head(self) -> bool:
        while b"\r\n\r\n" not in self.pending:
            if not self._more():
                return False
        head, _, self.pending = self.pending.partition(b"\r\n\r\n")
        line, *fields = head.split(b"\r\n")
        pairs = [field.partition(b":") for field in fields]
        self.request = Request(line, [(name, value.strip(b" ")) for name, _, value in pairs])
        return True

    def read_body(self) -> None:
        if self.request.values(b"transfer-encoding"):
            while not self.pending.endswith(b"0\r\n\r\n") and self._more():
                pass
            self.request.body, self.pending = self.pending, b""  # the chunks as they came
            return
        length = int((self.request.values(b"content-length") or [b"0"])[0])
        while len(self.pending) < length and self._more():
            pass
        self.request.body, self.pending = self.pending[:length], self.pending[length:]

    def _more(self) -> bool:
        try:
            data = self.sock.recv(65536)
        except OSError:
            return False
        self.pending += data
        return bool(data)


@dataclass
class RawUpstream:
    """A running server of raw bytes: its address, what it was asked, and how many connections it has seen."""

    url: str
    requests: list[Request] = field(default_factory=list)
    connections: int = 0


@contextmanager
def run_raw(handler: Callable[[Peer], object] = Peer.answer, *, read_body: bool = True) -> Iterator[RawUpstream]:
    """Serve every request with `handler(peer)`; a handler that returns False closes the connection.

    With `read_body` false the handler is called as soon as the head is there.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    upstream = RawUpstream(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []
    socks: list[socket.socket] = []

    def serve(sock: socket.socket) -> None:
        peer = Peer(sock)
        with sock:
            while peer.read_head():
                if read_body:
                    peer.read_body()
                upstream.requests.append(peer.request)
                try:
                    if handler(peer) is False:
                        return
                except OSError:
                    return

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.settimeout(DEADLINE)
            upstream.connections += 1
            socks.append(sock)
            threads.append(threading.Thread(target=serve, args=(sock,), daemon=True))
            threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield upstream
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(DEADLINE)
        for sock in socks:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already
        for thread in threads:
            thread.join(DEADLINE)


def connect(url: str) -> socket.socket:
    """A connection to the server at `url`; the caller closes it."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE)


def exchange(url: str, data: bytes) -> bytes:
    """Send raw bytes and read until the server closes (ask it to: `Connection: close`)."""
    with connect(url) as sock:
        sock.sendall(data)
        return b"".join(iter(lambda: sock.recv(65536), b""))
