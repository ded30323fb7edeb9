"""An aiohttp connection that has gone over to another protocol (status 101): raw bytes both ways, nothing looked at.

aiohttp's own WebSocket would take messages apart and put them together again, bounded in size, and say other things
when it closes. Its connection takes any parser after a 101, so it gets one that only passes bytes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from proxy.errors import Unreachable
from proxy.ports import Headers

BUFFER = 64 * 1024  # bytes that wait to be read before the connection is told to pause (StreamReader: at twice that)
LINGER = 10.0  # seconds that the last bytes of a closed connection have to get away
NOT_AGREED = "the upstream changed to a protocol that it was not asked for"


class Switched:
    """Implements `Answer` for a 101. What `said` yields goes to the upstream; its end, or the upstream's, ends both."""

    __slots__ = ("_feed", "_pump", "_reader", "_response", "_transport")

    def __init__(self, response: aiohttp.ClientResponse, protocol: Any, said: AsyncIterator[bytes]) -> None:
        self._response = response
        self._transport: asyncio.Transport = protocol.transport
        self._reader = asyncio.StreamReader(limit=BUFFER)
        self._reader.set_transport(self._transport)
        writer = asyncio.StreamWriter(self._transport, protocol, self._reader, asyncio.get_running_loop())
        self._feed = _Feed(self._reader)
        protocol.set_parser(self._feed, None)  # hears at once what came right behind the head
        self._pump = asyncio.create_task(self._say(said, writer))

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.raw_headers

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._reader.read(BUFFER):
            yield chunk

    async def _say(self, said: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
        try:
            async for chunk in said:
                writer.write(chunk)
                await writer.drain()
        except (aiohttp.ClientError, OSError):
            return  # the upstream is gone: whoever reads its chunks sees their end
        finally:
            self._feed.feed_eof()
            self._close()

    def _close(self) -> None:
        if not self._transport.is_closing():
            self._transport.close()
            # An upstream that does not read would keep the rest, and the connection, for ever.
            asyncio.get_running_loop().call_later(LINGER, self._transport.abort)

    async def aclose(self) -> None:
        self._pump.cancel()
        self._close()
        self._response.close()
        await asyncio.wait([self._pump])

    def __repr__(self) -> str:
        return "Switched()"


class _Feed:
    """aiohttp's idea of a parser. A connection over TLS may have something to say after it was closed."""

    __slots__ = ("_ended", "_reader")

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._ended = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if not self._ended:
            self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._ended = True
        self._reader.feed_eof()


def switched(response: aiohttp.ClientResponse, upgrade: str, said: AsyncIterator[bytes]) -> Switched:
    """The conversation that a 101 begins. Raises `Unreachable` if it is not the one that was asked for."""
    connection = response.connection
    protocol = connection.protocol if connection is not None else None
    agreed = response.headers.get("Upgrade", "").lower() == upgrade
    if not agreed or protocol is None or not protocol.upgraded or protocol.transport is None:
        response.close()
        raise Unreachable(NOT_AGREED)
    return Switched(response, protocol, said)
