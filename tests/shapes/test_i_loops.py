"""I: when to compact, and when to stop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.demo.record import Recorded
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from tests.shapes.harness import (
    LONG,
    SMALL,
    SYSTEM,
    answer,
    calls,
    chat,
    completion,
    fits,
    late,
    post,
    prose,
    question,
    result,
    said,
    talk,
    user,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage

WINDOW = {"models": {"*": {"window": SMALL}}}
ALWAYS = {
    "error": {
        "message": "This model's maximum context length is 4000 tokens. However, your messages resulted in 9000 tokens.",
        "code": "context_length_exceeded",
    }
}


def tool(words: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "read", "description": words, "parameters": {"type": "object"}}}


def test_I1_fixed_overhead_above_the_threshold() -> None:
    """Tools that alone exceed the window: the upstream's error at once, and nobody summarises."""
    fake = FakeUpstream()
    tools = [tool(prose(f"tool {i}", 30)) for i in range(12)]
    with stage(fake, **WINDOW) as s:
        for messages in ([SYSTEM, user("hi")], late(TASK)):
            direct = post(s.direct, chat(messages, tools=tools))
            reply = post(s.url, chat(messages, tools=tools))
            assert (reply.status, reply.body) == (direct.status, direct.body) and reply.status == 400
    assert not fake.summaries
    fits([SYSTEM, user("hi")], tools=tools)


def test_I2_no_progress() -> None:
    """A server that always says overflow is asked four times at most, and its own error is the answer."""
    fake = FakeUpstream(intercept=lambda r: None if r.summary else Worded(400, ALWAYS))
    with stage(fake, **WINDOW) as s:
        reply = post(s.url, chat(talk(3 * LONG)))
    assert reply.status == 400 and json.loads(reply.body) == ALWAYS
    assert len(fake.chats) <= 4 and len(fake.summaries) <= 8
    sizes = [len(r.body) for r in fake.chats]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)


def test_I3_stale_usage_retriggers() -> None:
    """After a compaction the next turns reuse it: what counts is this body, not the usage of the last."""
    fake = FakeUpstream()
    messages = talk(LONG)
    decisions = []
    with stage(fake, **WINDOW) as s:
        for i in range(3):
            reply = post(s.url, chat(messages))
            decisions.append(reply.decision)
            messages = [*messages, said(f"answer {i}"), user(f"short {i}")]
    assert decisions == ["compact; over-limit", "reuse; known", "reuse; known"]
    assert len(fake.summaries) == 1


def test_I4_retry_storm() -> None:
    """A client that repeats what cannot be answered does not make us pay again and again."""
    fake = FakeUpstream(intercept=lambda r: None if r.summary else Worded(400, ALWAYS))
    with stage(fake, **WINDOW) as s:
        for _ in range(10):
            assert post(s.url, chat(talk(2 * LONG))).status == 400
    assert len(fake.summaries) <= 8  # what one compaction may cost


def test_I5_only_max_tokens_is_too_big() -> None:
    """The prompt fits: the output is lowered, and no word of the conversation is lost."""
    fake = FakeUpstream(output_counts=True)
    messages = talk(9)
    with stage(fake, **WINDOW) as s:
        reply = post(s.url, chat(messages, max_tokens=3_000))
    assert reply.status == 200 and not fake.summaries
    assert fake.chats[-1].messages == messages and fake.chats[-1].data["max_tokens"] < 3_000
    fits([SYSTEM, TASK], max_tokens=3_000)


def test_I6_a_429_first() -> None:
    """It is passed through with its header's body; the 400 that follows is acted upon."""
    limited = {
        "error": {
            "message": "This request would exceed the rate limit of 30,000 input tokens",
            "type": "rate_limit_error",
        }
    }
    fake = FakeUpstream()
    fake.intercept = lambda r: Worded(429, limited) if len(fake.requests) == 1 else None
    with stage(fake) as s:
        first, second = (post(s.url, chat(talk(2 * LONG))) for _ in range(2))
    assert first.status == 429 and json.loads(first.body) == limited
    assert second.status == 200 and second.decision == "compact; refused"


def truncating(window: int) -> FakeUpstream:
    """Ollama's way: what is too long loses its beginning without a word; `usage` stays at the window."""
    fake = FakeUpstream(window=window)

    def judge(record: Recorded) -> Worded | None:
        if record.summary:
            return None
        size = fake.tokenizer.prompt(record.messages, ()).total
        record.prompt_tokens = size
        return Worded(
            200, completion(prompt_tokens=min(size, window), completion_tokens=1, total_tokens=1 + min(size, window))
        )

    fake.intercept = judge
    return fake


def grow(fake: FakeUpstream, turns: int, settings: Any) -> list[bool]:
    """Which turns of a growing conversation were truncated."""
    messages = talk(2)
    with stage(fake, **settings) as s:
        for number in range(3, turns):
            assert post(s.url, chat(messages)).status == 200
            messages += [answer(number), question(number)]
    return [r.prompt_tokens > fake.window for r in fake.chats]


def test_I7_silent_truncation() -> None:
    """With a configured window nothing is truncated; without one it is found out from `usage`, and then no more."""
    assert not any(grow(truncating(SMALL), 40, WINDOW))
    truncated = grow(truncating(SMALL), 60, {})
    assert any(truncated) and not any(truncated[-10:])


def test_I8_learned_window_is_wrong() -> None:
    """Configured 65,536, served 4,000: a stated limit beats the configuration, after one refusal."""
    fake = FakeUpstream()
    with stage(fake, models={"*": {"window": 65_536}}) as s:
        messages = talk(2 * LONG)
        for number in range(4):
            assert post(s.url, chat(messages)).status == 200
            messages += [answer(100 + number), question(200 + number)]
    assert [r.refused for r in fake.chats].count("overflow") == 1


@pytest.mark.parametrize("clearing", [True, False])
def test_I9_long_tool_loop_never_checked(clearing: bool) -> None:
    """Forty rounds without a word of the user: no request is refused, from the first one on."""
    fake = FakeUpstream()
    given = [SYSTEM, TASK]
    with stage(fake, **WINDOW, clearing=clearing) as s:
        for i in range(40):
            given += [calls(f"c{i}"), result(f"c{i}", prose(f"r{i}", 10))]
            assert post(s.url, chat(given)).status == 200
    assert not any(r.refused for r in fake.requests)
