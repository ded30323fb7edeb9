"""What is taken out after a complaint, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.core import strip

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000}}
REMOTE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
TEXT = {"type": "text", "text": "look"}


def raw(*messages: dict[str, Any]) -> list[bytes]:
    return [json.dumps(m).encode() for m in messages]


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts), "x": 1.50}


@pytest.mark.parametrize(("excess", "gone"), [(1, [0]), (1_100, [0, 2]), (10**9, [0, 2])])
def test_the_oldest_images_go_first(excess: int, gone: list[int]) -> None:
    """As many as it takes; everything else stays byte for byte."""
    before = raw(user(TEXT, IMAGE), {"role": "assistant", "content": "a"}, user(IMAGE, REMOTE), user(REMOTE))
    after = strip.oldest_images(before, excess)
    assert after is not None
    assert [i for i in range(4) if after[i] != before[i]] == gone
    first = json.loads(after[0])
    assert first["content"] == [TEXT, {"type": "text", "text": strip.PLACEHOLDER}]
    assert after[0].endswith(b'"x": 1.5}')


def test_without_embedded_images_there_is_nothing_to_take_out() -> None:
    """A data URL in a text is text."""
    messages = raw(user(REMOTE), {"role": "user", "content": "data:image/png;base64,AAAA"}, user(TEXT))
    assert strip.oldest_images(messages, 10**9) is None


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ({"role": "assistant", "content": "a", "reasoning_content": "r"}, {"role": "assistant", "content": "a"}),
        ({"role": "assistant", "content": [THINKING, TEXT]}, {"role": "assistant", "content": [TEXT]}),
        (
            {"role": "assistant", "content": [THINKING], "tool_calls": [{"id": "c"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        ),
    ],
)
def test_reasoning_goes_whole(message: dict[str, Any], kept: dict[str, Any]) -> None:
    """Only in front of the given index, only from assistant messages."""
    messages = raw({"role": "user", "content": "q", "reasoning": "kept"}, message, message)
    after = strip.older_reasoning(messages, 2)
    assert after is not None
    assert json.loads(after[1]) == kept
    assert after[0] == messages[0] and after[2] == messages[2]


def test_without_reasoning_there_is_nothing_to_take_out() -> None:
    """Then the complaint is passed on."""
    assert strip.older_reasoning(raw({"role": "assistant", "content": "a"}), 1) is None
