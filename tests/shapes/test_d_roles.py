"""D: roles, their order, and alternation."""

from __future__ import annotations

import json

import pytest

from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from tests.shapes.harness import (
    LONG,
    SMALL,
    SYSTEM,
    chat,
    early,
    fits,
    late,
    lenient,
    loop,
    post,
    said,
    squeezed,
    texts,
    user,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage

NOTE = {"role": "system", "content": "From now on every date is written as in ISO 8601."}


def test_D1_summary_as_a_second_system_message() -> None:
    """One leading system message, unchanged; the summary stands in a user message."""
    shown = squeezed(late(TASK))
    assert shown.messages[0] == SYSTEM and shown.replacement
    assert all(m["role"] != "system" for m in shown.messages[1:])
    fits([SYSTEM, TASK])


def test_D2_system_message_in_the_middle_folded_to_the_head() -> None:
    """Kept, it stays where it is; compacted, the summariser reads it, and the head does not change."""
    kept = squeezed(late(user("one"), said("two"), NOTE, TASK))
    assert kept.messages[-2:] == [NOTE, TASK]
    gone = squeezed(early(user("one"), said("two"), NOTE), FakeUpstream(summarizer="perfect"))
    assert NOTE["content"] in json.dumps(gone.fake.summaries[0].messages[1]["content"])
    assert gone.messages[0] == SYSTEM and sum(m["role"] == "system" for m in gone.messages) == 1
    fits([SYSTEM, TASK, said("two"), NOTE, user("three")])


@pytest.mark.parametrize("wording", ["openai", "llamacpp"])
@pytest.mark.parametrize("turns", [LONG, 17, 30])
def test_D3_strict_alternation(turns: int, wording: str) -> None:
    """A template that wants user and assistant in turn takes every rewritten list."""
    fake = FakeUpstream(alternation=True, wording=wording)  # type: ignore[arg-type]  # one of its names
    shown = squeezed(late(TASK, exchanges=turns), fake)
    assert not any(r.refused for r in fake.requests) and shown.replacement
    fits([SYSTEM, TASK], FakeUpstream(window=100_000, alternation=True))


@pytest.mark.parametrize("rounds", [20, 35])
@pytest.mark.parametrize("parts", [False, True])
def test_D3_strict_alternation_in_a_tool_loop(rounds: int, parts: bool) -> None:
    """Where the task is carried behind the summary they are one message, as text or as parts."""
    task = user([{"type": "text", "text": TASK["content"]}]) if parts else TASK
    fake = FakeUpstream(alternation=True)
    shown = squeezed([SYSTEM, task, *loop(rounds)], fake)
    assert not any(r.refused for r in fake.requests)
    assert isinstance(shown.messages[1]["content"], list if parts else str)
    fits([SYSTEM, task, *loop(2)], FakeUpstream(window=100_000, alternation=True))


def test_D4_user_right_after_tool() -> None:
    """A summary call is one system and one user message, whatever the history ends with."""
    shown = squeezed([SYSTEM, TASK, *loop(24)], settings={"clearing": False})
    assert shown.fake.summaries
    for summary in shown.fake.summaries:
        assert [m["role"] for m in summary.messages] == ["system", "user"]
    fits([SYSTEM, TASK, *loop(2)])


def test_D5_summary_role_chosen_by_the_neighbours() -> None:
    """Always the user's; and what an upstream refused is not tried there again."""
    fake = FakeUpstream(window=100_000)
    fake.intercept = lambda r: (
        None if r.summary or len(r.messages) > 2 * LONG else Worded(400, {"error": {"message": "no"}})
    )
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        first, second = (post(s.url, chat(late(TASK))) for _ in range(2))
    assert first.status == second.status == 200
    refused = [r for r in fake.chats if r.refused]
    assert len(refused) == 1 and all(m["role"] == "user" for m in refused[0].messages[1:2])
    for messages in ([SYSTEM, TASK, *loop(22)], late(TASK), late(said("end"))):
        ours = [m for m in squeezed(messages, lenient()).messages if m not in messages and m["role"] != "tool"]
        assert [m["role"] for m in ours] == ["user"]


def test_D6_first_message_must_be_user() -> None:
    """Behind the head comes the user message with the summary, though the client's list began otherwise."""
    shown = squeezed([SYSTEM, said("hello, how can I help?"), *early()[1:]])
    assert shown.messages[1]["role"] == "user"
    fits([SYSTEM, said("hello"), TASK])


@pytest.mark.parametrize("prefill", ["The answer is", "", [{"type": "text", "text": "{"}]])
def test_D7_last_message_must_be_user(prefill: object) -> None:
    """The list ends as the client's did, with or without a prefill; nothing is acknowledged."""
    shown = squeezed(late(TASK, said(prefill, prefix=True)), lenient())
    assert shown.messages[-1] == said(prefill, prefix=True)
    plain = squeezed(late(TASK))
    assert plain.messages[-1]["role"] == "user" and texts(plain.messages[-1])[-1].endswith(TASK["content"])
    fits([SYSTEM, TASK, said(prefill, prefix=True)])


@pytest.mark.parametrize("role", ["system", "developer"])
def test_D9_developer_role(role: str) -> None:
    """A developer message is as much a head as a system message, and is forwarded as it came."""
    heads = [{"role": role, "content": "Be brief."}, {"role": "developer", "content": "And polite."}]
    shown = squeezed([*heads, *late(TASK)[1:]])
    assert shown.messages[:2] == heads
    fits([*heads, TASK])
