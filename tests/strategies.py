"""Conversations of every shape that clients send, for property tests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]

text = st.text(max_size=120)
"""Any text, lone surrogates included: they travel as JSON escapes."""

word = st.sampled_from(["alpha", "the port is 8443", "use tabs, never spaces", "é漢字🙂", "", "x" * 300])


def content() -> st.SearchStrategy[Any]:
    part = st.one_of(
        st.builds(lambda t: {"type": "text", "text": t}, word),
        st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        st.just({"type": "something_new", "payload": 1}),
    )
    return st.one_of(word, text, st.lists(part, min_size=1, max_size=3), st.none())


def user() -> st.SearchStrategy[list[Message]]:
    return content().map(lambda c: [{"role": "user", "content": c}])


def answer() -> st.SearchStrategy[list[Message]]:
    extra = st.sampled_from([{}, {"reasoning_content": "because"}, {"refusal": None}, {"name": "bot"}])
    return st.builds(lambda c, e: [{"role": "assistant", "content": c, **e}], content(), extra)


@st.composite
def tool_round(draw: st.DrawFn) -> list[Message]:
    """An assistant message with calls and its results; ids recur from round to round, as some servers make them."""
    number = draw(st.integers(1, 3))
    calls = [
        {
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": "read", "arguments": json.dumps({"path": f"a/{i}"})},
        }
        for i in range(number)
    ]
    lengths = draw(st.lists(st.sampled_from([0, 10, 400, 6_000]), min_size=number, max_size=number))
    results = [
        {"role": "tool", "tool_call_id": f"call_{i}", "content": "line of src/app.py\n" * (n // 18)}
        for i, n in enumerate(lengths)
    ]
    return [
        {"role": "assistant", "content": draw(st.sampled_from([None, "", "let me look"])), "tool_calls": calls},
        *results,
    ]


@st.composite
def legacy_round(draw: st.DrawFn) -> list[Message]:
    return [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": draw(word)},
    ]


def odd() -> st.SearchStrategy[list[Message]]:
    return st.sampled_from(
        [
            [{"role": "system", "content": "a note in mid-conversation"}],
            [{"role": "tool", "tool_call_id": "nobody", "content": "an orphan"}],
            [{"role": "assistant", "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f"}}]}],
            [{"role": "user"}],
            [{"content": 7}],
            [{"role": "observer", "content": {"k": [1, 2]}}],
        ]
    )


@st.composite
def conversations(draw: st.DrawFn, *, valid: bool = False, most: int = 14) -> list[Message]:
    """A message list. `valid`: one that a strict server accepts (head, user first, paired, ends with user or tool)."""
    head = draw(
        st.sampled_from([[], [{"role": "system", "content": "You help."}], [{"role": "developer", "content": "D"}]])
    )
    kinds = [tool_round(), answer(), user(), legacy_round()]
    if not valid:
        kinds.append(odd())
    groups = draw(st.lists(st.one_of(kinds), min_size=1, max_size=most))
    messages = [*head, *(m for group in groups for m in group)]
    if valid:
        messages.insert(len(head), {"role": "user", "content": "start"})
        if messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
            messages.append({"role": "user", "content": "go on"})
    return messages


def raw(messages: list[Message]) -> tuple[bytes, ...]:
    """The messages as clients' libraries write them: some with spaces, some without."""
    return tuple(
        json.dumps(m, separators=(",", ":") if i % 2 else (", ", ": ")).encode("ascii") for i, m in enumerate(messages)
    )
