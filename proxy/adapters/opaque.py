"""Header bytes that are no UTF-8, sent as they came.

aiohttp writes header values as UTF-8 and would drop a byte that is none, as in a title in ISO-8859-1. RFC 9110, 5.5
calls such bytes opaque. A request that has one (and no other) gets stand-ins in its place, which are exchanged for the
bytes in the first write of its head.
"""

from __future__ import annotations

import re
from typing import Any

import aiohttp

_STAND_IN = 0xF780  # private-use characters U+F780..U+F7FF for the bytes 80..FF
_LONE = re.compile("[\udc80-\udcff]")  # what `surrogateescape` makes of bytes that are no UTF-8
_WRITTEN = re.compile(rb"\xef[\x9e\x9f][\x80-\xbf]")  # the stand-ins in UTF-8


def opaque_request(*args: Any, **kwargs: Any) -> aiohttp.ClientRequest:
    """Makes aiohttp's request; a drop-in for its class. Values hold odd bytes as `surrogateescape` decodes them."""
    request = aiohttp.ClientRequest(*args, **kwargs)
    values = "".join(request.headers.values())
    if not values.isascii() and _LONE.search(values):
        _replace_values(request)
        send = request.send

        async def send_opaque(conn: Any) -> aiohttp.ClientResponse:
            conn.protocol.transport = _FirstWrite(conn.protocol)
            return await send(conn)

        request.send = send_opaque  # type: ignore[method-assign]
    return request


def _replace_values(request: aiohttp.ClientRequest) -> None:
    fields = [
        (name, _LONE.sub(lambda match: chr(_STAND_IN + ord(match[0]) - 0xDC80), value))
        for name, value in request.headers.items()
    ]
    request.headers.clear()
    request.headers.extend(fields)


class _FirstWrite:
    """A transport whose first write puts the bytes back into the head, and itself out of the way."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._transport = protocol.transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        head, end, body = bytes(data).partition(b"\r\n\r\n")
        self._protocol.transport = self._transport
        self._transport.write(_WRITTEN.sub(_original, head) + end + body)

    def writelines(self, chunks: Any) -> None:
        self.write(b"".join(chunks))


def _original(match: re.Match[bytes]) -> bytes:
    return bytes([ord(match[0].decode()) - _STAND_IN + 0x80])
