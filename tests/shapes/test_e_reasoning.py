"""E: reasoning that travels with messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.demo.record import Recorded
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from tests.shapes.harness import (
    SMALL,
    SYSTEM,
    Message,
    calls,
    chat,
    early,
    fits,
    late,
    post,
    prose,
    result,
    said,
    squeezed,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage

SIGNED = {"type": "thinking", "thinking": prose("thought", 30), "signature": "c2lnbmF0dXJl" * 20}
DETAILS = [
    {"type": "reasoning.summary", "summary": "first", "index": 1},
    {"type": "reasoning.encrypted", "data": "A0b1" * 300, "id": "rs_1", "format": "anthropic-claude-v1", "index": 0},
]
EXTRA = {"google": {"thought_signature": "Q2lnbmF0dXJl" * 30}}


def with_extra(identity: str) -> Message:
    message = calls(identity)
    message["tool_calls"][0]["extra_content"] = EXTRA
    return message


KINDS: dict[str, Message] = {
    "E1": calls("a", content="", reasoning_content=prose("thought", 20)),
    "E2": with_extra("a"),
    "E3": calls("a", reasoning_details=DETAILS),
    "E4": calls("a", thinking_blocks=[SIGNED, {"type": "redacted_thinking", "data": "EmwKAhgB" * 60}]),
}


def shown_whole(name: str) -> None:
    """Kept, the message is the client's own bytes; compacted, all of it is gone."""
    message = KINDS[name]
    kept = squeezed(late(TASK, message, result("a")))
    assert json.dumps(message).encode() in kept.sent.body
    gone = squeezed(early(TASK, message, result("a"), said("ok")))
    assert not any("tool_calls" in m for m in gone.messages)
    fits([SYSTEM, TASK, message, result("a")])


def test_E1_deepseek_reasoning_content() -> None:
    """`reasoning_content` stays with its call, or goes with it."""
    shown_whole("E1")


def test_E2_gemini_thought_signature() -> None:
    """What stands beside a call's function is opaque, and stays."""
    shown_whole("E2")


def test_E3_openrouter_reasoning_details() -> None:
    """Blocks stay in their order, encrypted ones whole; and they are counted."""
    shown_whole("E3")
    heavy = [
        m
        for i in range(12)
        for m in (said(f"a{i}", reasoning_details=[{"type": "reasoning.text", "text": prose(f"d{i}", 20)}]), TASK)
    ]
    fake = FakeUpstream(window=100_000)
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        assert post(s.url, chat([SYSTEM, TASK, *heavy])).decision == "compact; over-limit"


def test_E4_signed_thinking_edited() -> None:
    """All or nothing: no shortened thought keeps its signature."""
    shown_whole("E4")
    blocks = [m for i in range(16) for m in (calls(f"t{i}", thinking_blocks=[SIGNED]), result(f"t{i}", prose(f"t{i}")))]
    shown = squeezed([SYSTEM, TASK, *blocks])
    assert all(m["thinking_blocks"] == [SIGNED] for m in shown.messages if "thinking_blocks" in m)


@pytest.mark.parametrize(
    "complaint",
    ["messages.3.content.0: Invalid `signature` in `thinking` block", "prefix_binding_mismatch: thinking signature"],
)
def test_E5_signature_bound_to_the_prefix(complaint: str) -> None:
    """A complaint about signatures after a compaction: once more without the older rounds' reasoning, and it works."""
    fake = FakeUpstream()

    def picky(record: Recorded) -> Worded | None:
        if record.summary or len(record.messages) == len(given):
            return None
        older = [m for m in record.messages[:-2] if m.get("thinking_blocks")]
        return Worded(400, {"error": {"message": complaint, "type": "invalid_request_error"}}) if older else None

    def thinking(i: int) -> Any:
        return calls(f"s{i}", thinking_blocks=[{**SIGNED, "thinking": f"thought {i}"}])

    given = late(TASK, *(m for i in range(3) for m in (thinking(i), result(f"s{i}"))))
    fake.intercept = picky
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        reply = post(s.url, chat(given))
    assert reply.status == 200
    assert len(fake.chats[-1].messages) < len(given)
    assert fake.chats[-1].messages[-2] == thinking(2)  # of the last round it stays
