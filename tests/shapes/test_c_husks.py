"""C: messages that a rewriter empties."""

from __future__ import annotations

import pytest

from tests.shapes.harness import SYSTEM, early, fits, late, lenient, loop, result, said, squeezed, texts, user
from tests.shapes.test_a_tools import TASK


@pytest.mark.parametrize("content", [None, ""])
def test_C1_content_null_and_no_tool_calls(content: str | None) -> None:
    """No such message is ever made; one that the client sent goes through as it is, or into the summary."""
    husk = said(content)
    fits([SYSTEM, TASK, husk, user("so?")])
    assert squeezed(early(TASK, husk)).messages
    assert squeezed(late(TASK, husk, user("so?")), lenient()).messages[-2] == husk
    for shown in (squeezed([SYSTEM, TASK, *loop(22)]), squeezed(late(*loop(2)))):
        assert all(m.get("content") or m.get("tool_calls") for m in shown.messages)


def test_C2_content_empty() -> None:
    """A cleared result says that it was one; an empty one of the client's own stays empty."""
    cleared = squeezed([SYSTEM, TASK, *loop(16), said("ok"), user("next")])
    assert all(texts(m) != [""] for m in cleared.messages)
    notes = [t for m in cleared.messages if m["role"] == "tool" for t in texts(m) if t.startswith("[")]
    assert notes and all("old tool result" in note and len(note) < 400 for note in notes)
    own = [TASK, *loop(1)[:1], result("c0", "")]
    assert squeezed(late(*own)).messages[-1] == own[-1]
    fits([SYSTEM, *own])


@pytest.mark.parametrize("shape", [[said(None)], [user("")], [user([])], [said("")]])
def test_C3_a_proxys_filler_text_reaches_the_model(shape: list[dict[str, object]]) -> None:
    """Empty messages get no filler: what is kept is the client's own (the harness compares every message)."""
    shown = squeezed(late(TASK, *shape, user("so?")), lenient())
    assert [m for m in shown.messages if m in shape] == shape
    fits([SYSTEM, TASK, *shape, user("so?")], lenient(100_000))
