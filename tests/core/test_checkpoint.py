"""The identity of a checkpoint: what it does to a request, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from proxy.core.checkpoint import Checkpoint, Rung, Trim

BASE = Checkpoint(
    tenant="t",
    key="k",
    start=4,
    end=6,
    text="said before",
    carry=2,
    trims=(Trim(4, 100, 30),),
    rung=Rung.MODEL,
    created=1.0,
    text_tokens=3,
    prose="said",
    stats={"calls": 1},
)


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "u"},
        {"key": "l"},
        {"start": 3},
        {"end": 7},
        {"text": "said later"},
        {"text": "said before\ud800"},
        {"carry": None},
        {"carry": 1},
        {"trims": ()},
        {"trims": (Trim(5, 100),)},
        {"trims": (Trim(4, 99),)},
        {"rung": Rung.DIGEST},
    ],
    ids=str,
)
def test_another_effect_is_another_id(change: dict[str, Any]) -> None:
    """Whose it is, where it stands, and what it puts there."""
    assert dataclasses.replace(BASE, **change).id != BASE.id


@pytest.mark.parametrize(
    "change",
    [{"created": 2.0}, {"text_tokens": 9}, {"prose": ""}, {"stats": {}}, {"trims": (Trim(4, 100, 77),)}],
    ids=str,
)
def test_when_and_how_it_was_made_is_no_part_of_it(change: dict[str, Any]) -> None:
    """Two replicas that make the same have the same."""
    assert dataclasses.replace(BASE, **change).id == BASE.id


def test_the_id_is_the_same_in_every_process() -> None:
    """It is stored: a change of its making would lose what others have written."""
    assert BASE.id == "17d9953f2d352f6b0020e1c7"


def test_where_the_first_turns_are_missing_all_of_it_moves() -> None:
    """By so many places, and it is the same checkpoint still."""
    moved = BASE.moved(3)
    assert moved == dataclasses.replace(BASE, start=1, end=3, carry=None, trims=(Trim(1, 100),)) and moved is not None
    assert moved.id != BASE.id  # the message it carries is among the missing ones
    before = dataclasses.replace(BASE, carry=3)
    after = before.moved(4)
    assert after == dataclasses.replace(before, start=2, end=4, carry=1, trims=(Trim(2, 100),))
    assert after is not None and after.id == before.id and after.moved(6) is None
    assert BASE.moved(6) is BASE


@pytest.mark.parametrize(("change", "end"), [({}, 7), ({}, 2), ({}, 0), ({"start": 0, "carry": None}, 5)], ids=str)
def test_what_stands_for_other_turns_is_of_no_use(change: dict[str, Any], end: int) -> None:
    """More than it was made of, or nothing of it; a clearing is made again for nothing."""
    assert dataclasses.replace(BASE, **change).moved(end) is None


def test_rungs_are_ordered_and_the_values_are_for_ever() -> None:
    """Readers prefer the higher; stores keep the number."""
    assert [(rung.name, rung.value) for rung in sorted(Rung)] == [("CLEARED", 0), ("DIGEST", 1), ("MODEL", 2)]


def test_it_cannot_be_changed() -> None:
    """An immutable fact about a prefix."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        BASE.text = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        BASE.trims[0].keep = 7  # type: ignore[misc]


def test_no_text_in_what_is_shown() -> None:
    """Logs print it."""
    shown = f"Checkpoint({BASE.id} [0,4)+1 trims of 6 turns, model, 11 chars)"
    assert repr(BASE) == shown
