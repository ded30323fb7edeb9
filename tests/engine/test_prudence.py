"""When a summariser is not asked."""

from __future__ import annotations

import pytest

from proxy.core.turns import Turn, read
from proxy.engine.prudence import BACK_OFF, BACK_OFF_MOST, UNUSED_MOST, Prudence
from tests.engine.fakes import FakeClock


def turns(*words: str) -> tuple[Turn, ...]:
    return tuple(read({"role": "user", "content": word}, 10) for word in words)


A = turns("a", "b", "c")


def test_three_summaries_that_nothing_used_are_enough() -> None:
    """Of one tenant, model and head; another one is none of its business."""
    prudence = Prudence(FakeClock())
    for _ in range(UNUSED_MOST):
        assert prudence.may_summarise("s", A)
        prudence.summarised("s", A, 1, "k")
    assert not prudence.may_summarise("s", A)
    assert prudence.may_summarise("other", A)


def test_one_that_was_used_ends_the_row() -> None:
    """A prefix came again: the client does not rewrite its history after all."""
    prudence = Prudence(FakeClock())
    for _ in range(UNUSED_MOST):
        prudence.summarised("s", A, 1, "k")
    prudence.reused("s", "k")
    prudence.reused("unknown", "k")
    assert prudence.may_summarise("s", A)
    prudence.summarised("s", A, 1, "k")
    prudence.summarised("s", A, 1, "k")
    assert prudence.may_summarise("s", A)


@pytest.mark.parametrize(("calls", "summaries"), [((2, 2), 2), ((8, 1), 2), ((1, 1, 1), 3), ((0, 0, 0, 0, 3, 1), 6)])
def test_a_summary_of_several_calls_counts_twice_and_one_of_none_not(calls: tuple[int, ...], summaries: int) -> None:
    """Calls are what costs; what was only written shorter was free."""
    prudence = Prudence(FakeClock())
    for number, made in enumerate(calls, 1):
        assert prudence.may_summarise("s", A)
        prudence.summarised("s", A, made, "k")
        assert prudence.may_summarise("s", A) == (number < summaries)


def test_the_log_names_the_message_that_changed_once(caplog: pytest.LogCaptureFixture) -> None:
    """Counted from one, as people do; its words are not told."""
    prudence = Prudence(FakeClock())
    for i in range(UNUSED_MOST):
        prudence.summarised("s", turns("secret", f"time {i}", "c"), 1, "k")
    assert not prudence.may_summarise("s", turns("secret", "time 9", "c", "d"))
    assert not prudence.may_summarise("s", turns("secret", "time 10", "c", "d"))
    assert len(caplog.records) == 1
    assert "changes message 2 behind its head" in caplog.text
    assert "secret" not in caplog.text


def test_a_failure_is_followed_by_a_rest_that_doubles() -> None:
    """Up to ten minutes; the first success ends it."""
    clock = FakeClock()
    prudence = Prudence(clock)
    rests = []
    for _ in range(7):
        prudence.failed("x")
        begun = clock.monotonic()
        while not prudence.may_call("x", 100):
            clock.advance(1)
        rests.append(clock.monotonic() - begun)
    assert rests == [BACK_OFF, 60, 120, 240, 480, BACK_OFF_MOST, BACK_OFF_MOST]
    assert prudence.may_call("another", 100)
    prudence.worked("x")
    prudence.failed("x")
    clock.advance(BACK_OFF)
    assert prudence.may_call("x", 100)


def test_calls_per_hour() -> None:
    """A sliding hour, for each summariser."""
    clock = FakeClock()
    prudence = Prudence(clock)
    for _ in range(3):
        assert prudence.may_call("x", 3)
        prudence.called("x")
        clock.advance(600)
    assert prudence.why_not("x", 3) == "calls_per_hour" and not prudence.may_call("x", 3)
    assert prudence.may_call("y", 3)
    clock.advance(1_800)
    assert not prudence.may_call("x", 3)
    clock.advance(1)
    assert prudence.may_call("x", 3)
    prudence.called("x")
    assert not prudence.may_call("x", 3)
