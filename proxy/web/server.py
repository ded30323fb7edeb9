"""uvicorn, set up for a proxy: its options, guards against what its parser does to requests, the way out of HTTP."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from proxy.web.inlet import ClientGone

UPGRADE = b"x-compaction-upgrade"
"""What an `Upgrade` field is called when the application sees it; no upstream does, for it has our prefix."""
SWITCH = "compaction.switch"
"""The ASGI extension that a request with such a field has: a dictionary with a `Switch` at "switch"."""

_FIELD = re.compile(rb"(?<=\r\n)upgrade(?=[ \t]*:)", re.IGNORECASE)
_BUFFER = 64 * 1024  # bytes that wait to be read before the client's connection is paused (StreamReader: at twice that)
_LINGER = 10.0  # seconds that the last bytes of a closed connection have to get away


class Line:
    """A client's connection that has left HTTP: raw bytes, both ways."""

    __slots__ = ("_flow", "_reader", "_transport")

    def __init__(self, transport: asyncio.Transport, flow: FlowControl, reader: asyncio.StreamReader) -> None:
        self._transport = transport
        self._flow = flow
        self._reader = reader

    async def read(self) -> bytes:
        """What the client says next; nothing when it has left."""
        return await self._reader.read(_BUFFER)

    async def write(self, data: bytes) -> None:
        """Waits while the client does not keep up. What is said to one that has left is lost."""
        if not self._transport.is_closing():
            self._transport.write(data)
            await self._flow.drain()

    def close(self) -> None:
        if not self._transport.is_closing():
            self._transport.close()
            # A client that does not read would keep the rest, and the connection, for ever.
            asyncio.get_running_loop().call_later(_LINGER, self._transport.abort)


Switch = Callable[[bytes], Line]
"""Ends HTTP on a request's connection with the head given. Raises `ClientGone` where that cannot be done any more."""


class HttpProtocol(HttpToolsProtocol):
    """Requests that ask for an upgrade keep their body, and trailers do not become header fields.

    With an `Upgrade` field httptools takes what follows the head for the other protocol, and the body is lost. Java's
    own client asks for h2c with the first request of every plain connection, and its chats would arrive empty. So the
    field is renamed before it is parsed, and the request is one like any other (RFC 9110, 7.8: a server may ignore the
    field), which the application may still answer by leaving HTTP. A field that is cut in two by the network is not
    renamed: the application refuses its request then, if it has a body.
    """

    _reader: asyncio.StreamReader | None = None  # there is one as soon as the connection has left HTTP

    def data_received(self, data: bytes) -> None:
        if self._reader is not None:
            self._reader.feed_data(data)
            return
        if self.cycle is None or not self.cycle.more_body:
            end = data.find(b"\r\n\r\n")
            head = data if end < 0 else data[:end]
            if _FIELD.search(head):
                data = _FIELD.sub(UPGRADE, head) + data[len(head) :]
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._reader is not None:
            self._reader.feed_eof()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if any(name in (UPGRADE, b"upgrade") for name, _ in self.headers):
            self.scope["extensions"] = {SWITCH: {"switch": partial(self._switch, self.cycle)}}
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # the parser takes no further request
        # The parser reports trailers like headers. They must not be merged (RFC 9110, 6.5.1): a trailer could name a
        # credential that nobody in front of us has seen. The list that the application has is left alone from here on.
        self.headers = []

    def _switch(self, cycle: RequestResponseCycle, head: bytes) -> Line:
        if cycle is not self.cycle or cycle.disconnected or self.transport.is_closing():
            cycle.disconnected = True  # or it sent another request behind this one, and so does not wait for a 101
            self.transport.close()
            raise ClientGone
        self._reader = asyncio.StreamReader(limit=_BUFFER)
        self._reader.set_transport(self.transport)
        # To uvicorn the request is answered: at shutdown it closes the connection at once.
        cycle.response_started = cycle.response_complete = True
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # the proxy says nothing of its own to it
        self.transport.write(head)
        self.flow.resume_reading()
        return Line(self.transport, self.flow, self._reader)


def serve_options() -> dict[str, Any]:
    """Keyword arguments for `uvicorn.Config`.

    No header of the server's own (the upstream's `Date` and `Server` pass), no logging of its own making, and idle
    connections kept longer than clients keep theirs (httpx 5 s, Node 4 s, nginx 60 s): otherwise a request may meet a
    connection that is being closed. No WebSockets of the server's own either: they pass through unread.
    """
    return {
        "http": HttpProtocol,
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 30,
    }
