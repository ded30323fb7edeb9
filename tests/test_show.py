"""What was done to a request, in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given

from proxy.core.checkpoint import Checkpoint, Rung, Trim
from proxy.show import REASONS, told, totals, written
from tests.contracts.store import checkpoint, checkpoints

STATS: dict[str, Any] = {
    "before": 9_000,
    "after": 4_000,
    "reason": "over-limit",
    "range": [4, 12],
    "turns": 39,
    "summarizer": "small",
    "calls": 2,
    "cost": {"prompt": 6_000, "output": 400, "usd": 0.00114},
    "saves": {"tokens": 5_000},
    "audit": {"struck": 1, "disowned": 0},
    "refused": ["loop"],
    "seconds": 3.2,
    "depth": 2,
}
MADE = checkpoint("ab" * 16, "The text.", start=12, end=14, carry=3, trims=(Trim(12, 0), Trim(13, 900)), stats=STATS)


def test_everything_there_is_to_say() -> None:
    """What was replaced by what, by whom, for how much; the text last."""
    facts = dict(line.split(None, 1) for line in written(MADE).split("\n\n")[0].splitlines())
    assert facts == {
        "checkpoint": MADE.id,
        "made": "2023-11-14 22:13:20Z, over-limit (above the limit: a new compaction was made)",
        "tenant": "t",
        "for": "conversations that begin with the same 14 turns (digest abababababababab)",
        "by": "a summary by a model, with the user's words and the identifiers by a machine",
        "replaced": "turns 0 to 11, by a text of 0 tokens",
        "kept": "turn 3, the user's last message, word for word behind that text",
        "trimmed": "tool results: 1 cleared, 1 shortened",
        "tokens": "9000 before, 4000 after",
        "new": "turns 4-11 of 39: here for the first time",
        "cost": "6000+400 tokens ($0.001140), by small, 2 calls in 3.2 s",
        "saves": "5000 tokens of every later request",
        "audit": "took out 1 name that nobody had said, and 0 rules that only a tool's result had",
        "refused": "loop (it repeated itself)",
        "depth": "2 summaries, each built on the one before",
    }
    assert written(MADE).endswith("\n\nThe text.")


def test_a_clearing_replaces_nothing() -> None:
    """There is no text, and nobody was paid."""
    text = written(checkpoint(text="", start=0, rung=Rung.CLEARED, trims=(Trim(1, 0),), stats={"calls": 0}))
    assert (
        "replaced" not in text
        and "none: no model was asked" in text
        and text.endswith("(none)")
        and "1 cleared, 0 shortened" in text
    )


@pytest.mark.parametrize(
    ("rung", "stats", "by", "cost"),
    [
        (Rung.MODEL, {"calls": 0, "summarizer": "hook"}, "a summary by a hook", "none: no model was asked"),
        (Rung.DIGEST, {"calls": 0, "why": "late"}, "a machine", "that of the summary, which has a record of its own"),
        (Rung.DIGEST, {"calls": 0, "why": "resting"}, "a machine", "none: no model was asked"),
    ],
)
def test_who_wrote_it_and_who_was_asked(rung: Rung, stats: dict[str, Any], by: str, cost: str) -> None:
    """A hook is no model; a model that is late was asked all the same."""
    text = written(checkpoint(rung=rung, stats=stats))
    assert f"\nby         {by}" in text and f"\ncost       {cost}" in text


@pytest.mark.parametrize(
    ("reason", "why", "words"),
    [
        ("ahead", "late", "late (it was not there in time, and serves a later request)"),
        ("better", "unreachable", "unreachable (no connection to the summarizer)"),
        ("over-limit", "of a later version", "of a later version"),
    ],
)
def test_reasons_are_told_in_words(reason: str, why: str, words: str) -> None:
    """Why it was made, and why no model wrote it."""
    text = written(checkpoint(rung=Rung.DIGEST, stats={"reason": reason, "why": why, "calls": 1, "failed": [why]}))
    assert f", {reason} ({REASONS[reason]})\n" in text
    assert f"\nno summary {words}\n" in text and f"\nfailed     {words}" in text
    assert "\ncost       none, 1 call\n" in text


def test_a_line_and_the_sum() -> None:
    """Of those that are listed; money of those whose price is known."""
    plain = dataclasses.replace(MADE, stats={"cost": {"prompt": 10, "output": 1}})
    assert told(MADE).startswith(f"{MADE.id}  2023-11-14 22:13:20Z  model   tenant=t turns=4-11 of 39 tokens=9000/4000")
    assert told(checkpoint(stats={})).endswith("tokens=?/? reason=? cost=none")
    assert totals([MADE, plain]) == (
        "2 compactions: 6010 tokens read and 401 written for summaries, $0.0011 for those whose price is known (1)"
    )
    assert " 2000010 tokens read" in totals([plain, dataclasses.replace(MADE, stats={"cost": {"prompt": 2_000_000}})])
    assert totals([plain]).startswith("1 compaction: ")
    assert totals([]) == "0 compactions: 0 tokens read and 0 written for summaries"


@given(checkpoints)
def test_any_checkpoint_can_be_shown(made: Checkpoint) -> None:
    """Whatever its text and its record hold, a terminal shows it and does nothing else."""
    if made.created < 0:
        return
    for text in (written(made), told(made), totals([made])):
        text.encode("utf-8")
        assert not [char for char in text if ord(char) < 32 and char not in "\n\t"]
        assert not {"\x7f", "\x9b", "\u202e"} & set(text)
    assert "\n" not in told(checkpoint(tenant="a\nb"))
