from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sse import Event, Events

STREAMS: list[tuple[bytes, list[tuple[str, bytes]]]] = [
    (b"data: a\n\ndata: b\n\n", [("message", b"a"), ("message", b"b")]),
    (b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", b"a"), ("message", b"b")]),
    (b"data: a\r\rdata: b\r\r", [("message", b"a"), ("message", b"b")]),
    (b"data: a\r\n\ndata: b\n\r\n", [("message", b"a"), ("message", b"b")]),
    (b"data: a\r\n\rdata: b\n\n", [("message", b"a"), ("message", b"b")]),
    (b"\xef\xbb\xbfdata: a\n\n", [("message", b"a")]),
    (b"event: error\ndata: {}\n\n", [("error", b"{}")]),
    (b"event:x\nevent: error\ndata:{}\nid: 7\nretry: 1\n\n", [("error", b"{}")]),
    (b"data: a\ndata: b\ndata:\ndata\n\n", [("message", b"a\nb\n\n")]),
    (b": OPENROUTER PROCESSING\n\ndata: a\n\n", [("message", b"a")]),
    (b": keepalive\ndata: a\n\n", [("message", b"a")]),
    (b": keepalive\n: keepalive\ndata: a\n\n", [("message", b"a")]),
    (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [("message", b"a"), ("message", b"b")]),
    (b"\r\n\r\ndata: a\r\n\r\n\r\n", [("message", b"a")]),
    (b"id: 1\n\nretry: 5\n\nevent: x\n\ndata: a\n\n", [("message", b"a")]),
    (b'data: {"x":"\xe4\xbd\xa0"}\n\n', [("message", b'{"x":"\xe4\xbd\xa0"}')]),
    (b"data: \xe2\x80\xa8\x0b\x0c\x1c\x85\n\n", [("message", b"\xe2\x80\xa8\x0b\x0c\x1c\x85")]),
    (b"data:  two spaces\n\n", [("message", b" two spaces")]),
    (b"data: [DONE]\n\ndata: [DONE]\n\n", [("message", b"[DONE]"), ("message", b"[DONE]")]),
    (b"data: a\n\ndata: [DONE]", [("message", b"a"), ("message", b"[DONE]")]),
    (b"data: a\n\ndata: [DONE]\n", [("message", b"a"), ("message", b"[DONE]")]),
    (b"event: caf\xff\ndata: x\n\n", [("caf\ufffd", b"x")]),
    (b"nothing of the kind\n\n", []),
    (b"", []),
]


def split(chunks: list[bytes], limit: int = 1 << 20) -> list[Event]:
    events = Events(limit)
    found = [event for chunk in chunks for event in events.feed(chunk)]
    last = events.finish()
    return found if last is None else [*found, last]


def dispatched(events: list[Event]) -> list[tuple[str, bytes]]:
    return [(event.name, event.data) for event in events if not event.comment]


@pytest.mark.parametrize(("stream", "expected"), STREAMS)
def test_every_stream_at_every_split(stream: bytes, expected: list[tuple[str, bytes]]) -> None:
    """Whole, cut in two at any byte, or one byte at a time: the same events, and raw spans that tile the stream."""
    splits = [[stream[:at], stream[at:]] for at in range(len(stream) + 1)]
    splits.append([stream[at : at + 1] for at in range(len(stream))])
    for chunks in splits:
        events = split(chunks)
        assert dispatched(events) == expected
        assert b"".join(event.raw for event in events) == stream


@given(st.lists(st.sampled_from([b"\r", b"\n", b"data: a", b"data", b":", b"event: e", b"\xef\xbb\xbf"])), st.data())
def test_any_split_of_any_lines(parts: list[bytes], data: st.DataObject) -> None:
    """However line ends are mixed and wherever they are cut, chunks make no difference and no byte is lost."""
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    bounds = [0, *cuts, len(stream)]
    chunks = [stream[begin:end] for begin, end in pairwise(bounds)]
    events = split(chunks)
    assert b"".join(event.raw for event in events) == stream
    assert dispatched(events) == dispatched(split([stream]))


def test_an_event_comes_with_its_last_byte() -> None:
    """Nothing is held back until the chunk after it."""
    for end in (b"\n\n", b"\r\r", b"\r\n\r"):  # whether an LF follows CR LF CR or not: the line is blank
        events = Events()
        for byte in b"data: a" + end[:-1]:
            assert events.feed(bytes([byte])) == []
        assert dispatched(events.feed(end[-1:])) == [("message", b"a")]


def test_an_overlong_event_passes_in_pieces() -> None:
    """The buffer is bounded; what is too long is not looked at, and the next event is found again."""
    stream = b"data: " + b"x" * 1000 + b"\n\ndata: b\n\n"
    for size in (1, 7, 64, 5000):
        events = Events(limit=100)
        found = []
        for start in range(0, len(stream), size):
            found += events.feed(stream[start : start + size])
            assert len(events._buffer) <= 100
        assert b"".join(event.raw for event in found) == stream
        assert dispatched(found)[-1] == ("message", b"b")
        assert size == 5000 or len(dispatched(found)) == 1


def test_repr_shows_no_text() -> None:
    """An event can be logged."""
    assert repr(Event("message", b"secret", False, b"data: secret\n\n")) == "Event(message, 6 of 14 bytes)"
