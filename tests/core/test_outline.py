"""The narrative without a model."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.outline import outline, story_of
from tests.core.wild import called, size, user, wild


def test_a_line_says_what_was_asked_called_and_came_of_it() -> None:
    """User requests, calls with their telling argument, ok or the line that holds the error."""
    messages = [
        *user("Please fix the build."),
        *called("bash", "compiling\nerror: missing semicolon\nmore", command="make all"),
        *called("edit", "done", path="src/a.c"),
        {"role": "assistant", "content": "It builds now."},
    ]
    assert outline(messages, 500, size).split("\n") == [
        "0 user: Please fix the build.",
        "1 assistant: bash(make all) error: error: missing semicolon",
        "3 assistant: edit(src/a.c) ok",
        "5 assistant: It builds now.",
    ]


def test_equal_calls_are_counted() -> None:
    """Parallel calls of one kind with one outcome are told once."""
    call, result = called("poll", "wait", job="7")
    call = {**call, "tool_calls": call["tool_calls"] * 3}
    assert outline([call, result, result, result], 500, size) == "0 assistant: poll(7) ok x3"


def test_the_newest_lines_stay() -> None:
    """Short of room, the outline begins later."""
    lines = outline(user(*(f"request number {i}" for i in range(100))), 60, size).split("\n")
    assert lines[-1] == "99 user: request number 99"
    assert 3 < len(lines) < 20


def test_what_is_known_is_not_told_again() -> None:
    """User messages that the pins hold are left out."""
    assert story_of(user("Keep tabs.", "And go.")).text(500, size, skip="0: Keep tabs.") == "1 user: And go."


def test_no_secret_is_told() -> None:
    """Requests, arguments and error lines are redacted."""
    told = outline([*user("my password is hunter2"), *called("f", "error: token=abc123x", key="x")], 500, size)
    assert "hunter2" not in told and "abc123x" not in told


@given(wild(), st.integers(-5, 200))
def test_any_conversation_within_any_budget(messages: list[dict[str, Any]], budget: int) -> None:
    """Nothing raises, the budget holds, the bytes are stable."""
    told = outline(messages, budget, size)
    assert size(told) <= max(0, budget)
    assert told == outline(messages, budget, size)
