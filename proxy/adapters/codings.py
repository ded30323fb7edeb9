"""Content codings that need a library: br, by Google's brotli, and zstd, by the standard library or its backport."""

from __future__ import annotations

import sys

import brotli  # type: ignore[import-untyped]  # it brings no types

from proxy.core.coding import CODINGS, MAX_MEMBERS, Codings, Undecodable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WINDOW_LOG = 23
"""8 MiB: a sender must not use a larger window in HTTP (RFC 9659, 3), and it is memory that is taken at once."""


class _Brotli:
    """One stream (RFC 7932). Whatever stands behind its end is damage."""

    def __init__(self) -> None:
        self._engine = brotli.Decompressor()

    def feed(self, data: bytes, room: int) -> bytes:
        if not data:
            return b""
        try:
            # Anything up to the limit is all that can be decoded so far; what is stopped by it is at least as long.
            part: bytes = self._engine.process(data, output_buffer_limit=room + 1)
        except brotli.error:
            raise Undecodable("damaged") from None
        if len(part) > room:
            raise Undecodable("too large")
        return part

    @property
    def finished(self) -> bool:
        finished: bool = self._engine.is_finished()
        return finished


class _Zstd:
    """Frames, one after the other (RFC 8878, 3); skippable ones give nothing."""

    def __init__(self) -> None:
        self._engine = _zstd_engine()
        self._frames = 1

    def feed(self, data: bytes, room: int) -> bytes:
        parts: list[bytes] = []
        while data:
            if self._engine.eof:
                self._frames += 1
                if self._frames > MAX_MEMBERS:  # each costs a copy of all that follows
                    raise Undecodable("too many frames")
                self._engine = _zstd_engine()
            try:
                part = self._engine.decompress(data, room + 1)
            except zstd.ZstdError:
                raise Undecodable("damaged") from None
            room -= len(part)
            if room < 0:
                raise Undecodable("too large")
            parts.append(part)
            data = self._engine.unused_data if self._engine.eof else b""
        return b"".join(parts)

    @property
    def finished(self) -> bool:
        return self._engine.eof


def _zstd_engine() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG})


ALL_CODINGS: Codings = {**CODINGS, b"br": _Brotli, b"zstd": _Zstd}
"""Every coding of RFC 9110 and its registry that servers and browsers send."""
