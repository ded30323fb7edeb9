"""Head, rounds and what is pending."""

from __future__ import annotations

import pytest
from hypothesis import given

from proxy.core import turns
from proxy.core.turns import Turn
from tests.strategies import conversations


def read(messages: list[dict[str, object]]) -> list[Turn]:
    return [turns.read(m, 10) for m in messages]


def shape(spec: str) -> list[dict[str, object]]:
    """`U` user, `A` assistant, `C` assistant with a call, `T` tool, `S` system."""
    made: dict[str, dict[str, object]] = {
        "U": {"role": "user", "content": "u"},
        "A": {"role": "assistant", "content": "a"},
        "C": {"role": "assistant", "tool_calls": [{"id": "call_0"}]},
        "L": {"role": "assistant", "function_call": {"name": "f"}},
        "F": {"role": "function", "content": "r"},
        "T": {"role": "tool", "content": "r"},
        "S": {"role": "system", "content": "s"},
    }
    return [made[letter] for letter in spec]


@pytest.mark.parametrize(
    ("spec", "starts", "pending"),
    [
        ("", [], 0),
        ("U", [0], 0),
        ("UA", [0, 1], 1),
        ("UCTTU", [0, 1, 4], 1),  # a user who interrupts: the model has not seen the results yet
        ("UCTT", [0, 1], 1),
        ("UCTACT", [0, 1, 3, 4], 4),
        ("UCTAU", [0, 1, 3, 4], 4),
        ("ULFU", [0, 1, 3], 1),
        ("UAT", [0, 1], 1),  # an orphan stays with what stands before it
        ("TUA", [0, 1, 2], 2),
        ("UASU", [0, 1, 2, 3], 3),
        ("UC", [0, 1], 1),
        ("UCU", [0, 1, 2], 1),
    ],
)
def test_rounds_and_pending(spec: str, starts: list[int], pending: int) -> None:
    """Calls and results are paired by position."""
    found = read(shape(spec))
    assert turns.rounds(found) == starts
    assert turns.pending(found) == pending


@pytest.mark.parametrize(
    ("roles", "length"), [([], 0), (["user"], 0), (["system", "developer", "user", "system"], 2), (["system"], 1)]
)
def test_head(roles: list[str], length: int) -> None:
    """Leading system and developer messages; later ones are turns."""
    assert turns.head_length(roles) == length


@pytest.mark.parametrize(
    ("content", "real"),
    [
        ("hi", True),
        ("  ", False),
        ("", False),
        (None, False),
        ([], False),
        ([{"type": "text", "text": ""}], False),
        ([{"type": "image_url"}], True),
        ([{"type": "text", "text": "x"}], True),
        (7, False),
        (["bare"], True),
        ({"type": "text", "text": "one part without its list"}, True),
        ({"type": "text", "text": " "}, False),
    ],
)
def test_a_user_message_is_real_if_it_says_something(content: object, real: bool) -> None:
    """An empty one must not be taken for the task at hand."""
    assert turns.read({"role": "user", "content": content}, 1).real is real


@given(conversations())
def test_every_round_starts_where_no_result_stands(messages: list[dict[str, object]]) -> None:
    """A kept tail can begin at any start but the first message of the conversation."""
    found = read(messages)
    starts = turns.rounds(found)
    assert starts[0] == 0
    assert all(found[s].role not in turns.TOOL_ROLES for s in starts[1:])
    assert turns.pending(found) in starts
