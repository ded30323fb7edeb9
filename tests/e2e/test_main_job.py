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


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wording", ["openai", "vllm", "llamacpp"])
def test_sixty_turns_without_a_failed_call(wording: Any, mode: str, window: str) -> None:
    """Tools, parallel calls, a huge result and streams, in every wording and mode, the window known or not."""
    if wording == "llamacpp" and mode == "output counts":
        pytest.skip("llama.cpp does not count the requested output")
    fake = FakeUpstream(4_000, wording=wording, **MODES[mode])
    tokens = (None, 256, 1_000) if mode == "output counts" else (None,)
    with stage(fake, **WINDOWS[window]) as s:
        report = s.play(max_tokens=tokens)
    ok(report)
    assert report.summary_calls is not None and report.summary_calls <= 5
    assert report.waited is not None and report.waited <= report.summary_calls
    assert report.prefix_share is not None and report.prefix_share >= 0.86
    if window == "right" and mode == "plain":
        assert report.overflows == 0


def test_a_plain_chat_keeps_more_of_the_prefix() -> None:
    """No tools, no results: nothing but turns."""
    with stage(FakeUpstream(4_000), **WINDOWS["right"]) as s:
        report = s.play(Conversation(tools=False))
    ok(report)
    assert report.prefix_share is not None and report.prefix_share >= 0.88
