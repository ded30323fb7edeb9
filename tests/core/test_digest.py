"""What makes two prefixes the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.digest import chain, chain_on, message_digest
from tests.strategies import conversations

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"role": "user", "content": "x"}, {"content": "x", "role": "user"}),
    ({"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "x"}]}),
    ({"role": "user", "content": "x"}, {"role": "user", "content": "x", "name": None, "annotations": []}),
    (
        {"role": "user", "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
    ),
    ({"role": "assistant", "content": "x"}, {"role": "assistant", "content": "x", "reasoning_content": "why"}),
    ({"role": "assistant", "content": "", "refusal": None}, {"role": "assistant", "content": None}),
    (
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"arguments": "{}", "name": "f"}, "id": "a", "extra_content": {}}],
        },
    ),
]
DIFFERENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"role": "user", "content": "x"}, {"role": "user", "content": "y"}),
    ({"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}),
    ({"role": "user", "content": "x"}, {"role": "user", "content": "x", "name": "n"}),
    ({"role": "tool", "tool_call_id": "a"}, {"role": "tool", "tool_call_id": "b"}),
    ({"role": "user", "content": 0}, {"role": "user", "content": False}),
    ({"role": "user", "content": [{"type": "text", "text": "a"}] * 2}, {"role": "user", "content": "a"}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_clients_change_without_meaning_it_counts_for_nothing(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Key order, empty fields, cache markers, reasoning, string or part."""
    assert message_digest(one) == message_digest(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_they_mean_counts(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Another text, role, name or id is another message."""
    assert message_digest(one) != message_digest(other)


@given(conversations())
def test_a_prefix_keeps_its_key_and_tenants_share_none(messages: list[dict[str, Any]]) -> None:
    """Keys are by prefix and tenant, and survive re-serialising."""
    digests = [message_digest(m) for m in messages]
    keys = chain("t", digests)
    assert len(keys) == len(messages) + 1
    assert chain("t", digests[:-1]) == keys[:-1]
    assert not set(keys) & set(chain("u", digests))
    assert [message_digest(json.loads(json.dumps(m, indent=3))) for m in messages] == digests


@given(st.lists(st.binary(min_size=16, max_size=16)), st.lists(st.binary(min_size=16, max_size=16)))
def test_a_chain_goes_on_from_any_of_its_keys(first: list[bytes], rest: list[bytes]) -> None:
    """What came before need not be known again."""
    keys = chain("t", [*first, *rest])
    assert chain_on(keys[len(first)], rest) == keys[len(first) :]
