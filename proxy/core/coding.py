"""Content codings undone within bounds: what is too large, too dense, damaged or unknown is not looked at."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

LIMIT = 64 * 1024 * 1024  # bytes; the largest body that is looked at (also the default of `max_body`)
RATIO = 100  # JSON of real conversations compresses 3 to 20 times; deflate itself could reach 1032
FLOOR = 64 * 1024  # bytes that may come out whatever went in: small bodies of one repeated phrase are harmless
MAX_MEMBERS = 16  # of one gzip body; one is the rule, a few come from appended files
MAX_CODINGS = 4  # more than two in one message has not been seen; each costs a pass
_GZIP = zlib.MAX_WBITS | 16  # zlib's way to ask for gzip's header and trailer


class Undecodable(Exception):
    """A body that cannot or must not be decoded. Never a client's problem: the body then passes through unread."""


class Step(Protocol):
    """One coding being undone."""

    def feed(self, data: bytes, room: int) -> bytes:
        """Up to `room` bytes of output. Raises `Undecodable` when there would be more, or for damaged input."""
        ...

    @property
    def finished(self) -> bool:
        """Whether what was fed ends where a complete body may end."""
        ...


class _Inflate:
    """gzip, member by member (RFC 1952, 2.2), or deflate with zlib's header or, as some send it, without."""

    def __init__(self, gzip: bool) -> None:
        self._engine = zlib.decompressobj(_GZIP) if gzip else None
        self._head = b""  # the first bytes of a deflate body, until its form is known
        self._members = 1
        self._ended = False

    def feed(self, data: bytes, room: int) -> bytes:
        parts: list[bytes] = []
        while data:
            engine = self._engine or self._sniff(data)
            if engine is None:
                break
            if self._head:
                data, self._head = self._head, b""
            elif self._ended:
                engine = self._next_member()
            try:
                part = engine.decompress(data, room + 1)
            except zlib.error:
                raise Undecodable("damaged") from None
            room -= len(part)
            if room < 0:
                raise Undecodable("too large")
            parts.append(part)
            self._engine, self._ended = engine, engine.eof
            data = engine.unused_data
        return b"".join(parts)

    @property
    def finished(self) -> bool:
        return self._ended

    def _sniff(self, data: bytes) -> zlib._Decompress | None:
        """An engine for deflate, once two bytes tell whether a zlib header is there (RFC 1950, 2.2)."""
        self._head += data
        if len(self._head) < 2:
            return None
        header = int.from_bytes(self._head[:2], "big")
        zlib_form = header % 31 == 0 and header >> 8 & 0x0F == 8
        return zlib.decompressobj(zlib.MAX_WBITS if zlib_form else -zlib.MAX_WBITS)

    def _next_member(self) -> zlib._Decompress:
        self._members += 1
        if self._members > MAX_MEMBERS:  # each costs a copy of all that follows
            raise Undecodable("too many members")
        return zlib.decompressobj(_GZIP)  # damaged, of course, if a deflate body goes on after its end


class _Identity:
    finished = True

    def feed(self, data: bytes, room: int) -> bytes:
        if len(data) > room:
            raise Undecodable("too large")
        return data


Codings = Mapping[bytes, Callable[[], Step]]
"""Names in lower case, and what undoes each."""

CODINGS: Codings = {
    b"gzip": lambda: _Inflate(gzip=True),
    b"x-gzip": lambda: _Inflate(gzip=True),
    b"deflate": lambda: _Inflate(gzip=False),
    b"identity": _Identity,
}
"""Known codings (RFC 9110, 8.4.1). An adapter may pass a larger table, with br or zstd from libraries."""


class Decoder:
    """Undoes the codings of a `Content-Encoding` chunk by chunk. Raises `Undecodable` at once for unknown ones."""

    def __init__(
        self,
        content_encoding: bytes | None,
        limit: int = LIMIT,
        ratio: int = RATIO,
        codings: Codings = CODINGS,
    ) -> None:
        names = [name for part in (content_encoding or b"").split(b",") if (name := part.strip().lower())]
        if len(names) > MAX_CODINGS or any(name not in codings for name in names):
            raise Undecodable("unknown coding")
        # Applied in order, so undone from the last.
        self._steps: list[Step] = [codings[name]() for name in reversed(names)] or [_Identity()]
        self._limit = limit
        self._ratio = ratio
        self._taken = 0
        self._given = 0

    def feed(self, chunk: bytes) -> bytes:
        """What can be decoded so far and was not given yet."""
        self._taken += len(chunk)
        room = min(self._limit, max(self._ratio * self._taken, FLOOR)) - self._given
        for step in self._steps:
            chunk = step.feed(chunk, room)
        self._given += len(chunk)
        return chunk

    @property
    def finished(self) -> bool:
        """Whether nothing is missing at the end."""
        return all(step.finished for step in self._steps)


def decode(
    body: bytes,
    content_encoding: bytes | None,
    limit: int = LIMIT,
    ratio: int = RATIO,
    codings: Codings = CODINGS,
) -> bytes | None:
    """A whole body without its content codings, or None if it is damaged, cut off, unknown or beyond the bounds."""
    try:
        decoder = Decoder(content_encoding, limit, ratio, codings)
        decoded = decoder.feed(body)
    except Undecodable:
        return None
    return decoded if decoder.finished else None
