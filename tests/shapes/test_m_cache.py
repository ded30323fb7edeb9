"""M: the provider's prompt cache."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.record import common_prefix, prefix_share
from proxy.demo.upstream import FakeUpstream
from tests.shapes.harness import (
    SMALL,
    SYSTEM,
    Message,
    answer,
    calls,
    chat,
    post,
    prose,
    question,
    result,
    squeezed,
    talk,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage

WINDOW = {"models": {"*": {"window": SMALL}}}


@pytest.mark.parametrize("looping", [False, True])
def test_M1_in_place_edits_kill_the_prefix(looping: bool) -> None:
    """Between two compactions every request begins with all of the one before it."""
    fake = FakeUpstream()
    messages: list[Message] = [SYSTEM, TASK] if looping else talk(2)
    breaks, used = 0, set()
    with stage(fake, **WINDOW) as s:
        for i in range(45):
            used.add(post(s.url, chat(messages)).headers.get("x-compaction-checkpoint"))
            before, now = fake.chats[-2:] if len(fake.chats) > 1 else fake.chats * 2
            breaks += common_prefix(before.prompt, now.prompt) < len(before.prompt)
            messages += [calls(f"c{i}"), result(f"c{i}", prose(f"r{i}", 10))] if looping else [answer(i), question(i)]
    assert 0 < breaks <= len(used - {None}) <= 12
    assert prefix_share(fake.requests) > 0.6


def test_M2_the_summary_call_misses_the_cache() -> None:
    """Nothing that names a client's cache or account goes into it; the client's own request keeps it."""
    mine: dict[str, Any] = {
        "prompt_cache_key": "pck",
        "user": "u-1",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "store": True,
    }
    shown = squeezed(talk(20), **mine)
    assert shown.fake.summaries and not any(set(mine) & set(r.data) for r in shown.fake.summaries)
    assert {k: shown.sent.data[k] for k in mine} == mine
