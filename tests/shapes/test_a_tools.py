"""A: tool calls and their results."""

from __future__ import annotations

import json

import pytest

from proxy.demo.upstream import FakeUpstream
from tests.shapes.harness import (
    SMALL,
    SYSTEM,
    Message,
    calls,
    chat,
    early,
    fits,
    late,
    lenient,
    loop,
    paired,
    post,
    prose,
    result,
    said,
    squeezed,
    texts,
    user,
)
from tests.stage import stage

TASK = user("Refactor the berth plan, and do not touch the tariff.")


@pytest.mark.parametrize("rounds", range(18, 30))
def test_A1_orphan_tool_result_after_trimming(rounds: int) -> None:
    """Wherever the cut of a growing tool loop falls, it falls between rounds."""
    shown = squeezed([SYSTEM, TASK, *loop(rounds), said("done"), user("next")])
    assert paired(shown.messages)
    fits([SYSTEM, TASK, *loop(3), said("done"), user("next")])


def test_A2_tool_calls_without_results() -> None:
    """What fits keeps its last result, and what does not fit too."""
    end = [user("look"), calls("a"), result("a")]
    assert fits([SYSTEM, *end]).messages[-1] == end[-1]
    assert squeezed(late(*end)).messages[-2:] == end[-2:]


def test_A3_always_keep_the_last_message_makes_an_orphan() -> None:
    """In the middle of a loop the last round stays whole, and so does the user's last message."""
    shown = squeezed([SYSTEM, TASK, *loop(20)])
    assert shown.messages[-2:] == loop(20)[-2:]
    assert any(text.endswith(TASK["content"]) for m in shown.messages for text in texts(m))
    fits([SYSTEM, TASK, *loop(2)])


@pytest.mark.parametrize("window", range(1_500, 4_100, 325))
def test_A4_reducer_with_a_fixed_target_count(window: int) -> None:
    """At every window the kept part starts at a round, however the numbers fall."""
    shape = [user("u"), calls("a"), result("a"), said("ok"), TASK, calls("b", "c"), result("b"), result("c")]
    assert paired(squeezed(late(*shape), window=window).messages)
    fits([SYSTEM, *shape])


@pytest.mark.parametrize("size", [5, 40, 80])
def test_A5_parallel_calls_split(size: int) -> None:
    """Of three results all stay or all go."""
    ids = ("a", "b", "c")
    block = [calls(*ids), *(result(i, prose(i, size)) for i in ids)]
    for shown in (squeezed(early(user("all three"), *block)), squeezed(late(user("all three"), *block, user("so?")))):
        assert paired(shown.messages)
        kept = [m["tool_call_id"] for m in shown.messages if m["role"] == "tool"]
        assert kept in ([], ["a", "b", "c"])
    fits([SYSTEM, user("all three"), *block])


def test_A6_parallel_results_regrouped() -> None:
    """Order and adjacency of results stay; the summary call replays no roles at all."""
    block = [calls("a", "b"), result("a", "first"), result("b", "second")]
    shown = squeezed(late(user("both"), *block))
    assert shown.messages[-3:] == block
    for summary in shown.fake.summaries:
        assert [m["role"] for m in summary.messages] == ["system", "user"]
    fits([SYSTEM, user("both"), *block])


@pytest.mark.parametrize("rounds", [18, 21, 24])
def test_A7_a_message_inserted_between_call_and_result(rounds: int) -> None:
    """The replacement stands before a round, never in one."""
    shown = squeezed([SYSTEM, TASK, *loop(rounds)])
    place = next(i for i, m in enumerate(shown.messages) if m["role"] == "user")
    assert place == 1 and shown.messages[2]["role"] != "tool" and paired(shown.messages)
    fits([SYSTEM, TASK, *loop(2)])


def test_A8_dangling_call_because_the_run_was_aborted() -> None:
    """What fits is forwarded with its fault, and the upstream's answer passed on; compacted, the call is gone."""
    shape = [TASK, calls("a"), user("never mind")]
    assert fits([SYSTEM, *shape]).reply.status == 400
    shown = squeezed(early(*shape, said("fine")))
    assert shown.messages[1]["role"] == "user" and paired(shown.messages)
    kept = squeezed(late(*shape), lenient())
    assert kept.messages[-2:] == shape[-2:]  # not ours to repair


def test_A9_tool_message_turned_into_something_else() -> None:
    """A result without its id is left as it came."""
    odd = {"role": "tool", "content": "42 cranes", "extra": {"b": 1, "a": None}}
    assert fits([SYSTEM, TASK, calls("a"), odd]).reply.status == 400
    shown = squeezed(late(TASK, calls("a"), odd), lenient())
    assert json.dumps(odd).encode() in shown.sent.body


@pytest.mark.parametrize("before", [0, 30])
def test_A10_trimmed_to_nothing(before: int) -> None:
    """One message larger than the window: the upstream's own error, no empty list, no summary."""
    messages = [*([SYSTEM, *loop(0), *early(exchanges=before)[1:-1]] if before else []), user(prose("giant", 900))]
    fake = FakeUpstream()
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        direct = post(s.direct, chat(messages))
        reply = post(s.url, chat(messages))
    assert (reply.status, reply.body) == (direct.status, direct.body) and reply.status == 400
    assert all(r.messages and r.messages[-1] == messages[-1] for r in fake.chats)
    assert not fake.summaries
    fits([user("hi")])


def test_A11_nameless_calls_after_pruning() -> None:
    """A name is never blanked or invented: a round goes whole, or stays as it came."""
    shape = [TASK, calls("a", name=""), result("a")]
    assert fits([SYSTEM, *shape, user("next")]).reply.status == 400
    assert paired(squeezed(early(*shape, said("ok"))).messages)
    kept = squeezed(late(*shape), lenient())
    assert kept.messages[-2:] == shape[-2:]


@pytest.mark.parametrize("number", [129, 131])
def test_A12_too_many_tool_calls_in_one_message(number: int) -> None:
    """The refusal is no overflow and passes through; compaction merges no messages into such a one."""
    ids = [f"c{i}" for i in range(number)]
    shape: list[Message] = [TASK, calls(*ids), *(result(i, "ok") for i in ids)]
    shown = fits([SYSTEM, *shape])
    assert shown.reply.status == 400 and b"array_above_max_length" in shown.reply.body and not shown.fake.summaries
    many = squeezed([SYSTEM, TASK, *loop(150, 1)])
    assert all(len(m.get("tool_calls") or ()) <= 1 for m in many.messages)
    assert paired(squeezed(early(*shape, said("ok"))).messages)
