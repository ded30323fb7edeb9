"""Messages into facts: once for the same bytes, and never an exception."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from proxy.core import digest, envelope, tokens
from proxy.engine.reader import INLINE_BYTES, Reader, Reading
from tests.engine.fakes import SYSTEM, Message, body_of, count, talk
from tests.strategies import conversations, raw


class Counter:
    """Counts, and remembers what it was asked and where."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, text: str) -> int:
        self.asked.append(text)
        self.threads.add(threading.get_ident())
        return count(text)


def request(messages: Sequence[Message], **fields: Any) -> envelope.Envelope:
    parsed = envelope.parse(body_of(messages, **fields))
    assert parsed is not None
    return parsed


def read(reader: Reader, messages: Sequence[Message], **fields: Any) -> Reading:
    reading = asyncio.run(reader.read(request(messages, **fields)))
    assert reading is not None
    return reading


def test_the_head_is_apart_from_the_turns() -> None:
    """System messages and tools on one side, everything else on the other, and nothing is counted twice."""
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    found = read(Reader(count), [SYSTEM, {"role": "developer", "content": "D"}, *talk(2)[1:]], tools=tools)
    assert (found.head, [t.role for t in found.turns]) == (2, ["user", "assistant"] * 2 + ["user"])
    head = tokens.head_tokens({"tools": tools}, count) + tokens.message_tokens(SYSTEM, count)
    assert found.head_tokens == head + tokens.message_tokens({"content": "D"}, count)
    assert [t.tokens for t in found.turns] == [tokens.message_tokens(m, count) for m in talk(2)[1:]]


def test_the_same_bytes_are_read_once() -> None:
    """A resent history costs look-ups; only what is new is counted."""
    counter = Counter()
    reader = Reader(counter)
    tools = [{"type": "function", "function": {"name": "look"}}]
    first = read(reader, talk(5), tools=tools)
    asked = len(counter.asked)
    assert read(reader, talk(5), tools=tools) == first
    assert len(counter.asked) == asked
    longer = read(reader, [*talk(5), {"role": "assistant", "content": "new words"}], tools=tools)
    assert counter.asked[asked:] == ["new words"]
    assert longer.turns[:-1] == first.turns and longer.head_id == first.head_id


def test_one_message_many_times_is_counted_once() -> None:
    """Within one request, too."""
    counter = Counter()
    found = read(Reader(counter), [{"role": "user", "content": "again"}] * 40)
    assert counter.asked == ["again"] and len(found.turns) == 40


def test_what_is_large_is_counted_off_the_loop() -> None:
    """Other requests go on meanwhile; a small one is not worth a thread."""
    for size, elsewhere in ((100, False), (INLINE_BYTES, True)):
        counter = Counter()
        read(Reader(counter), [{"role": "user", "content": "x" * size}])
        assert (threading.get_ident() not in counter.threads) == elsewhere
    counter = Counter()
    tools = [{"type": "function", "function": {"name": "look", "description": "x" * INLINE_BYTES}}]
    read(Reader(counter), [{"role": "user"}], tools=tools)
    assert counter.threads and threading.get_ident() not in counter.threads


def test_the_head_has_a_name_of_its_own() -> None:
    """Other system messages or other tools are another head; other turns are not."""
    reader = Reader(count)
    tools = [{"type": "function", "function": {"name": "look"}}]
    usual = read(reader, talk(2)).head_id
    assert read(reader, talk(3)).head_id == usual
    assert read(reader, talk(2), temperature=1).head_id == usual
    others = {
        read(reader, talk(2), tools=tools).head_id,
        read(reader, talk(2), functions=tools).head_id,
        read(reader, talk(2)[1:]).head_id,
        read(reader, [{"role": "system", "content": "x"}, *talk(2)[1:]]).head_id,
    }
    assert len({usual, *others}) == 5


def test_keys_are_chained_by_tenant() -> None:
    """`keys[k]` stands for the first k turns."""
    found = read(Reader(count), talk(3))
    assert found.keys("a") == digest.chain("a", [t.digest for t in found.turns])
    assert len(found.keys("a")) == len(found.turns) + 1
    assert not set(found.keys("a")) & set(found.keys("b"))
    assert read(Reader(count), talk(3)).keys("a") == found.keys("a")  # in another process, too


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_nested_too_deeply_is_not_read(message: bytes) -> None:
    """None, and the request passes through; neither the good nor the bad is read again."""
    parsed = envelope.Envelope(message, "m", False, (b'{"role":"user","content":"x"}', message), (), None)
    counter = Counter()
    reader = Reader(counter)
    assert asyncio.run(reader.read(parsed)) is None
    assert asyncio.run(reader.read(parsed)) is None
    assert counter.asked == ["x"]


@pytest.mark.parametrize("message", [b"[]", b"7", b'{"role":', b"\xff"])
def test_what_is_no_object_is_not_read(message: bytes) -> None:
    """Whoever made the envelope."""
    parsed = envelope.Envelope(message, "m", False, (message,), (), None)
    assert asyncio.run(Reader(count).read(parsed)) is None


def test_tools_that_cannot_be_read_are_estimated() -> None:
    """The messages count for more: the request is not given up for them."""
    parsed = envelope.Envelope(b"", "m", False, (b'{"role":"user"}',), (("tools", b"[" * 3_000 + b"]" * 3_000),), None)
    found = asyncio.run(Reader(count).read(parsed))
    assert found is not None and found.head_tokens >= 1_000


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_any_conversation_is_read(messages: list[Message]) -> None:
    """Odd shapes and lone surrogates included; twice the same."""
    reader = Reader(count)
    body = b'{"model":"m","messages":[' + b",".join(raw(messages)) + b"]}"
    parsed = envelope.parse(body)
    assert parsed is not None
    found = asyncio.run(reader.read(parsed))
    assert found is not None and found == asyncio.run(reader.read(parsed))
    assert found.head + len(found.turns) == len(messages)
    assert [t.digest for t in found.turns] == [digest.message_digest(m) for m in messages[found.head :]]


def test_requests_at_the_same_time_do_not_mix() -> None:
    """Each gets its own facts, though they count in threads."""

    async def story() -> None:
        reader = Reader(count)
        talks = [talk(8, 1_200, opening=f"harbour {i}") for i in range(4)]
        found = await asyncio.gather(*(reader.read(request(messages)) for messages in talks))
        for messages, reading in zip(talks, found, strict=True):
            assert reading is not None
            assert [t.digest for t in reading.turns] == [digest.message_digest(m) for m in messages[1:]]

    asyncio.run(story())


def test_a_reading_shows_no_text() -> None:
    """It holds numbers and hashes alone."""
    assert "Question" not in repr(read(Reader(count), talk(1))) and json.dumps(talk(1)).count("Question")
