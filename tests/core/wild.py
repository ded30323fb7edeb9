"""Messages of no shape at all, for property tests: any JSON in any field."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.strategies import conversations

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(
        ["\ud800", "x" * 3_000, "text", "src/app.py", "```\nfoo", "a\n\nb. C", '{"path": "a/b.py"}', "中文。好"]
    ),
)
_json = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "function", "name", "arguments", "id", "image_url", "input", "refusal", "k"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
_fields = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "function_call", "tool_call_id", "name", "refusal"]),
    _json,
    max_size=5,
)
_roles = st.sampled_from(["user", "assistant", "tool", "system", "function", "developer"])


def wild() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of messages that follow no schema, mixed with some that do."""
    loose = st.builds(lambda fields, role: {**fields, "role": role}, _fields, _roles)
    return st.one_of(conversations(), st.lists(st.one_of(_fields, loose), max_size=8))


def size(text: str) -> int:
    """A tokeniser that is easy to reason about: a token is up to four bytes."""
    return (len(text.encode("utf-8")) + 3) // 4


def user(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def called(tool: str, result: str = "ok", **arguments: Any) -> list[dict[str, Any]]:
    """A round of one call and its result."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": result},
    ]
