from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.coding import MAX_MEMBERS, Decoder, Undecodable, decode
from tests.packed import gz


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


ENCODERS: list[tuple[bytes | None, Callable[[bytes], bytes]]] = [
    (None, bytes),
    (b"", bytes),
    (b"identity", bytes),
    (b"gzip", gzip.compress),
    (b"X-GZIP", gzip.compress),
    (b"deflate", zlib.compress),
    (b"deflate", raw_deflate),
    (b"deflate, gzip", lambda data: gz(zlib.compress(data))),
    (b"identity , gzip", gzip.compress),
    (b"gzip", lambda data: gz(data[:5]) + gz(data[5:])),
]


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
@pytest.mark.parametrize("data", [b"", b"x", b'{"a": "\xc3\xa9"}' * 50, bytes(range(256)) * 40])
def test_every_coding_is_undone(name: bytes | None, encode: Callable[[bytes], bytes], data: bytes) -> None:
    """Known codings, and rows of them, give the original bytes."""
    assert decode(encode(data), name) == data


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
@given(data=st.binary(max_size=300), size=st.integers(1, 7))
def test_every_coding_is_undone_in_pieces(
    name: bytes | None, encode: Callable[[bytes], bytes], data: bytes, size: int
) -> None:
    """Fed in chunks of any size a decoder gives the same bytes, and is finished at the end."""
    encoded = encode(data)
    decoder = Decoder(name)
    parts = [decoder.feed(encoded[start : start + size]) for start in range(0, len(encoded), size)]
    assert b"".join(parts) == data
    assert decoder.finished


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (b"br", b"x"),
        (b"gzip, zstd", b"x"),
        (b"gzip,gzip,gzip,gzip,gzip", b"x"),
        (b"gzip", b"not gzip"),
        (b"gzip", b""),
        (b"gzip", gz(b"hello world")[:-1]),
        (b"gzip", gz(b"hello world")[:12]),
        (b"gzip", gz(b"hello world") + b"garbage"),
        (b"deflate", zlib.compress(b"hello") + b"more"),
        (b"deflate", b"\x78\x9cbroken"),
        (b"deflate", b"\xff\xff\xff\xff"),
        (b"gzip", gz(b"x") * (MAX_MEMBERS + 1)),
    ],
)
def test_what_cannot_be_decoded_is_none(name: bytes, body: bytes) -> None:
    """Unknown, damaged, cut off or continued bodies are not looked at."""
    assert decode(body, name) is None


def test_the_bounds_hold() -> None:
    """Too large and too dense bodies are refused without being unpacked; the bounds themselves are allowed."""
    body = bytes(1000) + bytes(range(256)) * 4
    assert decode(gz(body), b"gzip", limit=len(body)) == body
    assert decode(gz(body), b"gzip", limit=len(body) - 1) is None
    assert decode(body, None, limit=len(body) - 1) is None
    bomb = gz(bytes(50_000_000))
    assert decode(bomb, b"gzip") is None
    assert decode(gz(bomb), b"gzip, gzip") is None
    assert decode(gz(bytes(60_000)), b"gzip") == bytes(60_000)


def test_a_stream_is_decoded_as_it_comes() -> None:
    """What a server flushed can be seen before the stream ends."""
    engine = zlib.compressobj(wbits=31)
    decoder = Decoder(b"gzip")
    first = engine.compress(b"data: 1\n\n") + engine.flush(zlib.Z_SYNC_FLUSH)
    assert decoder.feed(first) == b"data: 1\n\n"
    assert not decoder.finished
    assert decoder.feed(engine.flush()) == b""
    assert decoder.finished


def test_an_unknown_coding_is_refused_at_once() -> None:
    """A decoder for what nobody knows is not made."""
    with pytest.raises(Undecodable):
        Decoder(b"compress")
