"""Applying a checkpoint: any conversation, any cut, a valid list in which nothing is lost."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import rewrite, turns
from proxy.core.checkpoint import Checkpoint, Rung, Trim
from tests.strategies import conversations, raw

TEXT = "[earlier part, condensed]\nthe summary"


def checkpoint(start: int, end: int, carry: int | None = None, trims: tuple[Trim, ...] = ()) -> Checkpoint:
    text = TEXT if start else ""
    return Checkpoint("t", "k", start, end, text, carry, trims, Rung.MODEL, 0.0)


def invalid(messages: list[dict[str, Any]]) -> str | None:
    """Why a strict server would refuse the list, or None."""
    open_calls = 0
    if not messages:
        return "empty"
    for index, message in enumerate(messages):
        role = message.get("role")
        if role in ("tool", "function"):
            if open_calls == 0:
                return f"orphan result at {index}"
            open_calls -= 1
            continue
        if open_calls:
            return f"call without result before {index}"
        if role == "assistant":
            open_calls = len(message.get("tool_calls") or ()) + ("function_call" in message)
    return "call without result at the end" if open_calls else None


@st.composite
def cuts(draw: st.DrawFn, *, valid: bool) -> tuple[list[dict[str, Any]], int, Checkpoint]:
    messages = draw(conversations(valid=valid))
    head = turns.head_length([str(m.get("role")) for m in messages])
    found = [turns.read(m, 10) for m in messages[head:]]
    starts = [s for s in turns.rounds(found) if s <= turns.pending(found)]
    start = draw(st.sampled_from(starts or [0]))
    user = turns.last_real_user(found)
    carry = user if start and user is not None and user < start else None
    results = [i for i in range(start, len(found)) if found[i].role in turns.TOOL_ROLES]
    trims = tuple(Trim(i, draw(st.sampled_from([0, 50, 1_000]))) for i in results if draw(st.booleans()))
    return messages, head, checkpoint(start, len(found), carry, trims)


@given(cuts(valid=True))
def test_any_cut_of_a_valid_list_is_a_valid_list(case: tuple[list[dict[str, Any]], int, Checkpoint]) -> None:
    """Pairs stay whole, nothing starts with a result, no neighbours of one role are created, the end stays."""
    messages, head, made = case
    before = [json.loads(m) for m in raw(messages)]
    assert invalid(before) is None
    after = [json.loads(m) for m in rewrite.apply(raw(messages), head, made)]
    assert invalid(after) is None
    if made.start:
        assert after[head]["role"] == "user"
        assert TEXT in json.dumps(after[head]["content"]).encode().decode("unicode_escape")
    pairs = {(a.get("role"), b.get("role")) for a, b in itertools.pairwise(before)}
    for one, other in zip(after[head:], after[head + 1 :], strict=False):
        if one["role"] == other["role"] and one["role"] in ("user", "assistant"):
            assert (one["role"], other["role"]) in pairs
    assert after[-1]["role"] == before[-1]["role"]


@given(cuts(valid=False))
def test_every_message_is_verbatim_or_inside_the_compacted_range(
    case: tuple[list[dict[str, Any]], int, Checkpoint],
) -> None:
    """The head and all kept messages are the client's own bytes; a merged one ends with its own content."""
    messages, head, made = case
    own = raw(messages)
    out = rewrite.apply(own, head, made)
    assert tuple(out[:head]) == own[:head]
    trimmed = {head + t.index for t in made.trims}
    kept = list(own[head + made.start :])
    tail = out[len(out) - len(kept) :] if kept else []
    merged = len(out) == head + len(kept) and made.start > 0
    for index, (client, sent) in enumerate(zip(kept, tail, strict=True)):
        if head + made.start + index in trimmed or (merged and index == 0):
            continue
        assert sent == client
    if merged:
        content = json.loads(kept[0]).get("content")
        said = json.loads(tail[0])["content"]
        if isinstance(content, str):
            assert isinstance(said, str | list)
            assert said.endswith(content) if isinstance(said, str) else said[-1]["text"] == content
        elif isinstance(content, list):
            assert said[len(said) - len(content) :] == content
    if made.carry is not None:
        content = json.loads(own[head + made.carry]).get("content")
        assert json.dumps(content)[1:-1] in json.dumps(json.loads(out[head])["content"])


@given(cuts(valid=False))
def test_same_input_same_bytes(case: tuple[list[dict[str, Any]], int, Checkpoint]) -> None:
    """Rendering is a pure function: no clock, no counter, no order of a set."""
    messages, head, made = case
    assert rewrite.apply(raw(messages), head, made) == rewrite.apply(raw(messages), head, made)


MERGES: list[tuple[bytes, Any]] = [
    (b'{"role":"user","content":"hi \\ud800 \\u00e9"}', f"{TEXT}\n\nhi \ud800 \u00e9"),
    (
        b'{ "content" : [ {"type":"text","text":"a"} ], "role":"user"}',
        [{"type": "text", "text": TEXT}, {"type": "text", "text": "a"}],
    ),
    (b'{"role":"user","content":[]}', [{"type": "text", "text": TEXT}]),
    (b'{"role":"user","content":null}', TEXT),
    (b'{"role":"user"}', TEXT),
    (
        b'{"role":"user","content":{"type":"text","text":"alone"}}',
        [{"type": "text", "text": TEXT}, {"type": "text", "text": "alone"}],
    ),
    (b'{"role":"user","content":7}', [{"type": "text", "text": TEXT}, 7]),
    (b'{"role":"user","name":"n","content":"x","cache_control":{"type":"ephemeral"}}', f"{TEXT}\n\nx"),
]


@pytest.mark.parametrize(("message", "content"), MERGES)
def test_merge_keeps_the_message_and_every_other_field(message: bytes, content: Any) -> None:
    """The text comes first, as a string or as one more part."""
    merged = json.loads(rewrite.merge(TEXT, message))
    assert merged.pop("content") == content
    original = json.loads(message)
    original.pop("content", None)
    assert merged == original


@pytest.mark.parametrize(
    "second", [b'{"role":"user","content":"two"}', b'{"role":"user","content":[{"type":"text","text":"two"}]}']
)
@pytest.mark.parametrize(
    "first", [b'{"role":"user","content":"one"}', b'{"role":"user","content":[{"type":"text","text":"one"}]}']
)
def test_two_user_messages_become_one(first: bytes, second: bytes) -> None:
    """Strict templates refuse neighbours of one role."""
    merged = json.loads(rewrite.merge_all(TEXT, [first, second]))
    assert merged["role"] == "user"
    said = json.dumps(merged["content"])
    assert said.index("condensed") < said.index("one") < said.index("two")


@pytest.mark.parametrize(
    ("second", "added"),
    [
        (b'{"role":"user"}', []),
        (b'{"role":"user","content":null}', []),
        (b'{"role":"user","content":[ ]}', []),
        (b'{"role":"user","content":{"type":"text","text":"two"}}', [{"type": "text", "text": "two"}]),
        (b'{"role":"user","content":7}', [7]),
    ],
)
@pytest.mark.parametrize("first", ["one", [{"type": "text", "text": "one"}]])
def test_a_second_message_of_any_content_adds_what_it_says(first: Any, second: bytes, added: list[Any]) -> None:
    """Nothing for one that says nothing; no part is ever empty."""
    merged = json.loads(rewrite.ahead(json.dumps({"role": "user", "content": first}).encode(), second))
    part = [{"type": "text", "text": "one"}]
    assert merged["content"] in ("one", part) if not added else merged["content"] == [*part, *added]


def test_a_removed_result_says_what_it_was_about() -> None:
    """The note names a few identifiers, never the text, and is never empty."""
    long = "see src/app/main.py and commit 0123abcd\n" * 300
    message = json.dumps({"role": "tool", "tool_call_id": "c", "content": long}).encode()
    note = json.loads(rewrite.shorten(message, 0))
    assert note["tool_call_id"] == "c"
    assert "src/app/main.py" in note["content"] and "0123abcd" in note["content"]
    assert len(note["content"]) < 200


def test_a_shortened_result_keeps_head_and_tail_at_lines() -> None:
    """The middle goes, with a visible note of how much."""
    lines = [f"line {i}" for i in range(1_000)]
    message = json.dumps({"role": "tool", "content": "\n".join(lines)}).encode()
    kept = json.loads(rewrite.shorten(message, 900))["content"].split("\n")
    assert kept[:2] == lines[:2] and kept[-1] == lines[-1]
    assert sum("characters left out" in line for line in kept) == 1
    assert all(line in lines for line in kept if "left out" not in line)


@given(st.text(), st.integers(0, 300))
def test_shortening_never_makes_longer(text: str, keep: int) -> None:
    """A short result stays as it is."""
    message = json.dumps({"role": "tool", "content": text}).encode()
    assert len(rewrite.shorten(message, keep)) <= len(message)


@pytest.mark.parametrize("content", [None, 7, {}, "", []])
def test_shortening_odd_content_changes_nothing(content: Any) -> None:
    """Null, numbers, objects and nothing at all."""
    message = json.dumps({"role": "tool", "content": content}).encode()
    assert rewrite.shorten(message, 0) == message


def test_images_in_a_shortened_result_stay() -> None:
    """Only text is cut while anything of the result stays."""
    image = {"type": "image_url", "image_url": {"url": "u"}}
    message = json.dumps({"role": "tool", "content": [{"type": "text", "text": "x" * 5_000}, image]}).encode()
    assert json.loads(rewrite.shorten(message, 100))["content"][1] == image
