"""One HTTP exchange over ASGI, for a server that must notice when its client leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, Self

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


class Exchange:
    """Read `body` first, then answer; an `async with` block watches for the client's leaving in between."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: HeaderList = [(bytes(k), bytes(v)) for k, v in scope["headers"]]
        self.gone = asyncio.Event()
        self._receive = receive
        self._send = send
        self._watch: asyncio.Task[None] | None = None

    async def body(self) -> bytes:
        """The whole request body. Raises `ClientGone`."""
        chunks = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                raise ClientGone
            chunks.append(message.get("body", b""))
            more = message.get("more_body", False)
        return b"".join(chunks)

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._until_gone())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def pause(self, seconds: float | None) -> None:
        """Wait so long (None: for ever). Raises `ClientGone` as soon as the client leaves."""
        try:
            await asyncio.wait_for(self.gone.wait(), seconds)
        except TimeoutError:
            return
        raise ClientGone

    async def reply(self, status: int, value: Any, headers: HeaderList | None = None) -> None:
        """A complete answer: bytes as they are, anything else as JSON."""
        raw = isinstance(value, bytes)
        body = value if raw else json.dumps(value).encode("ascii")
        kind = b"text/html; charset=utf-8" if raw else b"application/json"
        fields = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def open_stream(self) -> None:
        fields = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": fields})

    async def event(self, value: Any) -> None:
        """One server-sent event; a string goes out as it is. Raises `ClientGone`."""
        if self.gone.is_set():
            raise ClientGone
        text = value if isinstance(value, str) else json.dumps(value)
        await self._send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})

    async def close_stream(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone.set()
