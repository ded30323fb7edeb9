"""Hooks: what they may say, what is made of it, and that none of them holds anything up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.engine.hooks import TOLD_MOST, WORDS_MOST, Advice, Hooks, advice, joined
from proxy.errors import HookError
from proxy.ports import Event

EVENT = Event("before_compaction", {"id": "evt_1"}, (b'{"role":"user","content":"a secret"}',))


class FakeHook:
    """Answers with `answer`, raises it if it is an exception, waits for ever if it is an event that nobody sets."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.events: list[Event] = []
        self.ended = 0

    def __repr__(self) -> str:
        return "FakeHook()"

    async def tell(self, event: Event) -> Any:
        self.events.append(event)
        try:
            if isinstance(self.answer, BaseException):
                raise self.answer
            if isinstance(self.answer, asyncio.Event):
                await self.answer.wait()
        finally:
            self.ended += 1
        return self.answer


UNDERSTOOD = [
    (None, Advice()),
    ({}, Advice()),
    ({"skip": True}, Advice(skip=True)),
    ({"skip": False, "instructions": None}, Advice()),
    ({"instructions": " Mention ships. \n"}, Advice(instructions="Mention ships.")),
    ({"notes": "\n", "summary": ""}, Advice()),
    ({"notes": "half \ud83d of a character"}, Advice(notes="half \ufffd of a character")),
    ({"summary": "s" * WORDS_MOST["summary"]}, Advice(summary="s" * WORDS_MOST["summary"])),
]


@pytest.mark.parametrize(("answer", "expected"), UNDERSTOOD)
def test_what_a_hook_may_say(answer: Any, expected: Advice) -> None:
    """An object with nothing but what we know; blank is nothing."""
    assert advice(answer) == expected


@pytest.mark.parametrize(
    "answer",
    ["skip", 1, True, [], [{"skip": True}], {"skip": 1}, {"skip": None}, {"instruction": "x"}, {"ok": True}, {"notes": ["a"]},
     {"instructions": 3}, {"instructions": "x" * 8_001}, {"notes": "x" * 16_001}, {"summary": "x" * 256_001}],
    ids=lambda answer: repr(answer)[:30],
)  # fmt: skip
def test_what_means_nothing_is_refused_as_a_whole(answer: Any) -> None:
    """Half of a misunderstanding is one, too."""
    with pytest.raises(HookError):
        advice(answer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"skip": True, "bogus": 1, "b'": 2}, """it has keys that mean nothing: "b'", 'bogus'"""),
        ({"skip": 1}, "skip must be true or false"),
        ({"notes": ["a"]}, "notes must be a text"),
        ("skip", "it is no object"),
    ],
)
def test_whoever_answers_nonsense_is_told_that_all_of_it_was_dropped(answer: Any, reason: str) -> None:
    """And why."""
    with pytest.raises(HookError) as caught:
        advice(answer)
    assert str(caught.value) == f"its answer was dropped: {reason}"


def test_what_several_say_is_joined() -> None:
    """One that wants no model is enough; of two summaries the first counts."""
    both = joined(
        [Advice(instructions="a", summary="one"), Advice(skip=True, instructions="b", notes="n", summary="two")]
    )
    assert both == Advice(skip=True, instructions="a\n\nb", notes="n", summary="one")
    assert joined([]) == Advice()


@pytest.mark.parametrize(
    "bad",
    [HookError("status 500"), ValueError("a secret"), {"skip": "a secret"}, asyncio.Event()],
    ids=["error", "fault", "nonsense", "silence"],
)
def test_one_that_fails_is_as_good_as_none(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whether it raises, talks nonsense or is silent; the other one is heard, and the log has no text."""

    async def story() -> None:
        hooks = Hooks([FakeHook(bad), FakeHook({"instructions": "go on"})], patience=0.02)
        assert await hooks.before(EVENT) == Advice(instructions="go on")

    asyncio.run(story())
    (record,) = caplog.records
    assert record.getMessage().startswith("hook FakeHook(), before_compaction: ") and "a secret" not in caplog.text


def test_one_whose_answer_raises_when_it_is_read_is_as_good_as_none(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it raises, the end of the process included."""

    class Odd(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise SystemExit(3)

    assert asyncio.run(Hooks([FakeHook(Odd(summary="s"))]).before(EVENT)) == Advice()
    assert ": SystemExit at test_hooks.py:" in caplog.text


def test_the_log_says_where_a_hook_failed(caplog: pytest.LogCaptureFixture) -> None:
    """By file and line, where its adapter knows."""
    failed = HookError("raised ValueError")
    try:
        raise ValueError("a secret")
    except ValueError as error:
        failed.__cause__ = error
    asyncio.run(Hooks([FakeHook(failed)]).before(EVENT))
    (said,) = [record.getMessage() for record in caplog.records]
    assert ": raised ValueError at test_hooks.py:" in said and "secret" not in said


def test_all_are_asked_at_once() -> None:
    """Two slow ones cost what one costs."""

    async def story() -> None:
        one, other = FakeHook(asyncio.Event()), FakeHook(asyncio.Event())
        task = asyncio.create_task(Hooks([one, other], patience=60).before(EVENT))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(one.events) == len(other.events) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert one.ended == other.ended == 1

    asyncio.run(story())


def test_what_is_told_afterwards_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it answers; at the end it has its patience, and no more."""

    async def story() -> None:
        quick, silent = FakeHook({"ok": True}), FakeHook(asyncio.Event())
        hooks = Hooks([quick, silent], patience=0.02)
        hooks.after(EVENT)
        assert not quick.events
        await hooks.aclose()
        assert quick.events == silent.events == [EVENT] and silent.ended == 1

    asyncio.run(story())
    assert [record.getMessage() for record in caplog.records] == [
        "hook FakeHook(), before_compaction: no answer within 0.02 s"
    ]


def test_a_hook_that_is_far_behind_is_told_no_more() -> None:
    """Each event holds the messages of a conversation."""

    async def story() -> None:
        hook = FakeHook(asyncio.Event())
        hooks = Hooks([hook], patience=0.05)
        for _ in range(TOLD_MOST + 10):
            hooks.after(EVENT)
        await hooks.aclose()
        assert len(hook.events) == TOLD_MOST

    asyncio.run(story())


def test_an_event_is_one_document_with_the_messages_as_they_came() -> None:
    """Byte for byte; what stands beside them can be any text."""
    raw = b'{ "role":"user", "content":"\\ud83d \xc3\xbc", "x": 1.0 }'
    event = Event("after_compaction", {"id": "e", "replacement": "\ud83d \x00 ü", "n": None}, (raw, raw))
    assert event.document().count(raw) == 2
    assert json.loads(event.document()) == {
        "event": "after_compaction",
        "id": "e",
        "replacement": "\ud83d \x00 ü",
        "n": None,
        "messages": [json.loads(raw)] * 2,
    }
    assert json.loads(Event("x", {}, ()).document()) == {"event": "x", "messages": []}
    assert "replacement" not in repr(event) and "role" not in repr(event)
