"""The narrative without a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.outline import LINES, outline, story_of
from tests.core.watching import lengths
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


def test_odd_names_stay_on_their_line() -> None:
    """Of a tool or a role: a line is a message, whatever breaks stand in it."""
    odd = {"role": "critic\n7", "content": "Hm."}
    told = outline([*called("read\nfile", "42 cranes", path="a"), odd], 500, size)
    assert told.split("\n") == ["0 assistant: read file(a) ok", "2 critic 7: Hm."]


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


def test_no_more_is_read_than_could_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the conversation, or the length of its messages, does not mean more reading."""
    read = lengths(monkeypatch, "proxy.core.outline.redact")
    totals = []
    for number, length in ((2_000, 3_000), (6_000, 3_000), (2_000, 30_000)):
        read.clear()
        lines = story_of(user(*(f"request {i} " + "x y " * (length // 4) for i in range(number)))).lines
        assert lines[-1].startswith(f"{number - 1} user: request {number - 1} ") and sum(map(len, lines)) < 2 * LINES
        totals.append(sum(read))
    assert max(totals) < 1.1 * min(totals)


def test_of_a_call_with_many_arguments_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is shown."""
    read = lengths(monkeypatch, "proxy.core.outline.redact")
    call = called("write", "ok", path="a.py", more="bb.py", text="c")
    assert story_of(call).lines == ("0 assistant: write(a.py) ok",)
    assert [length for length in read if length] == [4]
