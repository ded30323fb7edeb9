"""The main job: a client talks on past the end of the window and never notices."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.report import Report
from proxy.demo.script import Conversation
from proxy.demo.upstream import FakeUpstream
from tests.stage import stage

MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tokens x1.6": {"ratio": 1.6},
    "alternation": {"alternation": True, "turn_ids": True},
    "output counts": {"output_counts": True},
    "in the stream": {"overflow_in_stream": True},
}
WINDOWS: dict[str, dict[str, Any]] = {
    "right": {"models": {"*": {"window": 4_000}}},
    "too large": {"models": {"*": {"window": 32_000}}},
    "absent": {},
}


def ok(report: Report) -> None:
    assert report.failed == 0, report.failures
    assert report.invalid == 0
    assert report.fact_kept


WORDINGS = ("openai", "vllm", "llamacpp")
CASES = [("plain", window, wording) for window in WINDOWS for wording in WORDINGS] + [
    # Every other mode with every window; the wordings take turns, but llama.cpp never counts the requested output.
    (mode, window, WORDINGS[(i + j) % (2 if mode == "output counts" else 3)])
    for i, mode in enumerate(MODES)
    for j, window in enumerate(WINDOWS)
    if mode != "plain"
]


@pytest.mark.parametrize(("mode", "window", "wording"), CASES)
def test_sixty_turns_without_a_failed_call(mode: str, window: str, wording: Any) -> None:
    """Tools, parallel calls, a huge result and streams, in every wording and mode, the window known or not."""
    fake = FakeUpstream(4_000, wording=wording, **MODES[mode])
    tokens = (None, 256, 1_000) if mode == "output counts" else (None,)
    with stage(fake, **WINDOWS[window]) as s:
        report = s.play(max_tokens=tokens)
    ok(report)
    # 1.6 times the tokens against the same window are 1.6 times the compactions, and new messages weigh more.
    calls, share = (10, 0.81) if mode == "tokens x1.6" else (5, 0.86)
    assert report.summary_calls is not None and report.summary_calls <= calls
    assert report.waited is not None and report.waited <= report.summary_calls
    assert report.prefix_share is not None and report.prefix_share >= share
    if window == "right" and mode == "plain":
        assert report.overflows == 0


def test_a_plain_chat_keeps_more_of_the_prefix() -> None:
    """No tools, no results: nothing but turns."""
    with stage(FakeUpstream(4_000), **WINDOWS["right"]) as s:
        report = s.play(Conversation(tools=False))
    ok(report)
    assert report.prefix_share is not None and report.prefix_share >= 0.88
