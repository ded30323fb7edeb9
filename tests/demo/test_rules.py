"""The shapes that real servers refuse, as one table."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.rules import check

Message = dict[str, Any]
S: Message = {"role": "system", "content": "s"}
U: Message = {"role": "user", "content": "u"}
A: Message = {"role": "assistant", "content": "a"}
ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: b"
)


def call(*ids: str, arguments: Any = "{}", name: str = "f") -> Message:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(identity: str) -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": "r"}


def refusal(messages: Any, *, alternation: bool = False, **fields: Any) -> str | None:
    found = check({"model": "m", "messages": messages, **fields}, alternation=alternation)
    return found.name if found else None


@pytest.mark.parametrize(
    "messages",
    [
        [U],
        [S, U, A, U],
        [U, A],  # a prefill
        [{"role": "developer", "content": "d"}, U],
        [U, call("a", "b"), result("b"), result("a"), A],  # any order within the block
        [U, call("call_0"), result("call_0"), call("call_0"), result("call_0")],  # ids recur from turn to turn
        [U, {"role": "assistant", "content": None, "refusal": "no"}],
        [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": "x"}}]}],
        [U, {"role": "assistant", "content": ""}],
        [U, {"role": "assistant", "content": "a", "tool_calls": None}, U],
    ],
)
def test_valid_lists_pass(messages: list[Message]) -> None:
    """What OpenAI accepts is accepted."""
    assert refusal(messages) is None


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        (None, "messages missing"),
        ("hello", "messages type"),
        ([], "empty list"),
        ([3], "message type"),
        ([{"role": "human", "content": "x"}], "role"),
        ([{"content": "x"}], "role"),
        ([{"role": "user", "content": None}], "content null"),
        ([U, {"role": "assistant", "content": None}], "content null"),
        ([{"role": "user", "content": 3}], "content type"),
        ([{"role": "user", "content": []}], "empty list"),
        ([{"role": "user", "content": [{"type": "movie"}]}], "part"),
        ([U, call("a"), result("a") | {"content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "image role"),
        ([U, {"role": "assistant", "content": "a", "tool_calls": []}], "empty list"),
        ([U, call(*(f"c{i}" for i in range(129)))], "long list"),
        ([U, call("x" * 41), result("x" * 41)], "call id"),
        ([U, call("a", name=""), result("a")], "call name"),
        ([U, call("a", arguments='{"a": '), result("a")], "arguments"),
        ([U, call("a", arguments=None), result("a")], "arguments"),
        ([U, {"role": "tool", "content": "r"}], "tool id missing"),
        ([S, result("a"), A, U], "orphan tool"),
        ([U, A, result("a")], "orphan tool"),
        ([U, call("a", "b"), result("a"), U], "unanswered call"),
        ([U, call("a")], "unanswered call"),
        ([U, call("a"), U, result("a")], "unanswered call"),
        ([U, call("a"), result("b")], "unknown tool id"),
        ([U, call("a"), result("a"), result("a")], "unknown tool id"),
        ([U, call("a"), result("a"), A, result("a")], "orphan tool"),
    ],
)
def test_invalid_lists_are_refused(messages: Any, name: str) -> None:
    """Every broken shape is refused under its own name."""
    assert refusal(messages) == name


def test_the_words_are_openais() -> None:
    """The two pairing errors are worded exactly as OpenAI words them."""
    orphan = check({"model": "m", "messages": [U, result("a")]})
    unanswered = check({"model": "m", "messages": [U, call("a", "b"), result("a")]})
    assert orphan is not None and (orphan.message, orphan.param) == (ORPHAN, "messages.[1].role")
    assert unanswered is not None and unanswered.message == UNANSWERED


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tools": []}, "empty list"),
        ({"tools": {}}, "tools type"),
        ({"tools": [{"type": "function"}]}, "tool"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}] * 129}, "long list"),
        ({"max_tokens": 0}, "output"),
        ({"max_completion_tokens": -5}, "output"),
        ({"max_tokens": "9"}, "output"),
        ({"model": None}, "model"),
        ({"tools": None, "max_tokens": None}, None),
    ],
)
def test_other_fields(fields: dict[str, Any], name: str | None) -> None:
    """Tools, the output bound and the model are looked at too."""
    assert refusal([U], **fields) == name


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        ([S, U, A, U], None),
        ([U, call("a"), result("a"), A, U], None),
        ([U, call("a"), result("a"), call("b"), result("b"), A, U, A], None),
        ([U, call("a"), result("a"), U], "alternation"),  # a tool round is the assistant's side, but no answer
        ([U, U], "alternation"),
        ([S, A, U], "alternation"),
        ([U, A, A], "alternation"),
        ([U, A, S, U], "system place"),
        ([S, S, U], "system place"),
    ],
)
def test_strict_alternation(messages: list[Message], name: str | None) -> None:
    """Strict templates want one leading system message and user and assistant in turns; others do not care."""
    assert refusal(messages, alternation=True) == name
    assert refusal(messages) is None


@pytest.mark.parametrize("data", [None, 3, [], "text"])
def test_no_object(data: Any) -> None:
    """A body that is no object is refused, not crashed on."""
    found = check(data)
    assert found is not None and found.name == "not an object"
