"""A client's side of one request: its body as it arrives, and word of its leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

BEGINNING = 4 * 1024  # bytes (and parts) of a longer body that are shown of it: more than is looked at, packed or not

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client closed its connection; there is nobody to answer."""


class Inlet:
    """The one reader of an ASGI `receive`. `gone`: the client has left before its answer was complete. `beginning`: of
    a body that `read` has not read to its end.
    """

    __slots__ = ("_receive", "_task", "beginning", "complete", "gone", "read_to_end")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task: asyncio.Task[Any] | None = None
        self.read_to_end = asyncio.Event()
        self.beginning = b""
        self.complete = False  # the answer is: what comes now is no leaving
        self.gone = False

    async def read(self, limit: int) -> bytes | AsyncIterator[bytes]:
        """The whole body, or an iterator over all of it if it is longer than `limit` bytes. Raises `ClientGone`."""
        part = await self._next()
        if self.read_to_end.is_set() and len(part) <= limit:
            return part
        parts, size = [part], len(part)
        while size <= limit and not self.read_to_end.is_set():
            part = await self._next()
            parts.append(part)
            size += len(part)
        if size <= limit:
            return b"".join(parts)
        self.beginning = b"".join(parts[:BEGINNING])[:BEGINNING]
        return self._rest(parts)

    async def _rest(self, parts: list[bytes]) -> AsyncIterator[bytes]:
        while parts:
            yield parts.pop(0)
        while not self.read_to_end.is_set():
            yield await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise ClientGone
        if not message.get("more_body", False):
            self.read_to_end.set()
        body: bytes = message.get("body", b"")
        return body

    def watch(self) -> asyncio.Task[None]:
        """A task that cancels the current one if the client leaves. The caller cancels it when the answer is out."""
        self._task = asyncio.current_task()
        return asyncio.create_task(self._cancel_when_gone())

    async def _cancel_when_gone(self) -> None:
        await self.read_to_end.wait()  # until then whoever reads the body learns of it
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.complete and self._task is not None:
            self.gone = True
            self._task.cancel()
