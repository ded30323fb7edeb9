"""br and zstd, beside what `core.coding` knows by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]  # it brings no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.adapters.codings import ALL_CODINGS, WINDOW_LOG
from proxy.core.coding import CODINGS, FLOOR, MAX_MEMBERS, Decoder, decode
from tests.packed import gz

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Encode = Callable[[bytes], bytes]


def in_two_frames(data: bytes) -> bytes:
    """zstd's way to append, with a skippable frame between (RFC 8878, 3.1.2)."""
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    return bytes(zstd.compress(data[:5]) + skippable + zstd.compress(data[5:]))


def with_window(log: int) -> bytes:
    """A frame of unknown length, for which a decoder has to keep so large a window."""
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
    return bytes(packer.compress(b"hello") + packer.flush())


ENCODERS: list[tuple[bytes, Encode]] = [
    (b"br", brotli.compress),
    (b"BR", brotli.compress),
    (b"zstd", zstd.compress),
    (b"zstd", in_two_frames),
    (b"gzip, br", lambda data: brotli.compress(gz(data))),
    (b"zstd,gzip", lambda data: gz(zstd.compress(data))),
]


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
@pytest.mark.parametrize("data", [b"", b"x", b'{"a": "\xc3\xa9"}' * 50, bytes(range(256)) * 40])
def test_every_coding_is_undone(name: bytes, encode: Encode, data: bytes) -> None:
    """Whole bodies give the original bytes, rows of codings included."""
    assert decode(encode(data), name, codings=ALL_CODINGS) == data


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
@given(data=st.binary(max_size=300), size=st.integers(1, 7))
def test_every_coding_is_undone_in_pieces(name: bytes, encode: Encode, data: bytes, size: int) -> None:
    """Fed in chunks of any size a decoder gives the same bytes, and is finished at the end."""
    encoded = encode(data)
    decoder = Decoder(name, codings=ALL_CODINGS)
    parts = [decoder.feed(encoded[start : start + size]) for start in range(0, len(encoded), size)]
    assert b"".join(parts) == data
    assert decoder.finished


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (b"br", b""),
        (b"br", b"no brotli at all"),
        (b"br", brotli.compress(b"hello world" * 50)[:-1]),
        (b"br", brotli.compress(b"hello world") + b"garbage"),
        (b"zstd", b""),
        (b"zstd", b"no zstandard at all"),
        (b"zstd", zstd.compress(b"hello world" * 50)[:-1]),
        (b"zstd", zstd.compress(b"hello world") + b"garbage"),
        (b"zstd", zstd.compress(b"x") * (MAX_MEMBERS + 1)),
        (b"zstd", with_window(WINDOW_LOG + 1)),
        (b"compress", b"x"),
    ],
)
def test_what_cannot_be_decoded_is_none(name: bytes, body: bytes) -> None:
    """Damaged, cut off, continued or unknown bodies, and windows that HTTP does not allow, are not looked at."""
    assert decode(body, name, codings=ALL_CODINGS) is None


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_the_bounds_hold(name: bytes, encode: Encode) -> None:
    """Too large and too dense bodies are refused; the bounds themselves are allowed."""
    body = os.urandom(100_000).hex().encode()
    assert decode(encode(body), name, limit=len(body), codings=ALL_CODINGS) == body
    assert decode(encode(body), name, limit=len(body) - 1, codings=ALL_CODINGS) is None
    assert decode(encode(bytes(FLOOR)), name, codings=ALL_CODINGS) == bytes(FLOOR)
    assert decode(encode(bytes(20_000_000)), name, codings=ALL_CODINGS) is None


def brotli_flushed(data: bytes) -> bytes:
    packer = brotli.Compressor()
    return bytes(packer.process(data) + packer.flush())


def zstd_flushed(data: bytes) -> bytes:
    packer = zstd.ZstdCompressor()
    return packer.compress(data) + packer.flush(packer.FLUSH_BLOCK)


@pytest.mark.parametrize(("name", "flushed"), [(b"br", brotli_flushed), (b"zstd", zstd_flushed)])
def test_a_stream_is_decoded_as_it_comes(name: bytes, flushed: Encode) -> None:
    """What a server flushed can be seen before the stream ends."""
    decoder = Decoder(name, codings=ALL_CODINGS)
    assert decoder.feed(flushed(b"data: 1\n\n")) == b"data: 1\n\n"
    assert not decoder.finished


def test_the_largest_window_of_http_is_undone() -> None:
    """And no larger one, as the table above has it."""
    assert decode(with_window(WINDOW_LOG), b"zstd", codings=ALL_CODINGS) == b"hello"


def test_nothing_that_was_known_is_lost() -> None:
    """The larger table holds the smaller one."""
    assert all(ALL_CODINGS[name] is step for name, step in CODINGS.items())
