"""What a model says, and its pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.reply import Reply, number_of, tool_call


@given(st.text(max_size=200))
def test_the_pieces_of_a_stream_make_the_text(text: str) -> None:
    """Streamed or whole, the same text arrives."""
    assert "".join(delta.get("content") or "" for delta in Reply(text).deltas()) == text


def test_the_pieces_of_a_call_make_the_call() -> None:
    """Name and id come first, the arguments in pieces behind them."""
    call = tool_call("f", {"path": "a b c d e f g h"}, "call_1")
    deltas = [piece for delta in Reply(None, (call,)).deltas() for piece in delta.get("tool_calls", ())]
    assert deltas[0]["id"] == "call_1" and deltas[0]["function"] == {"name": "f", "arguments": ""}
    assert len(deltas) > 2
    assert "".join(piece["function"]["arguments"] for piece in deltas) == call["function"]["arguments"]


def test_the_message_is_whole() -> None:
    """Calls and reasoning are there only if there are any."""
    assert Reply("a").message() == {"role": "assistant", "content": "a"}
    assert Reply("", reasoning="why").message()["reasoning_content"] == "why"
    assert number_of("\ud800") == number_of("\ud800") != number_of("a")
