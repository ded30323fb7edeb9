"""Clients that drop the beginning of their own history, turn by turn, before the proxy sees it."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.record import OVERFLOW, Recorded, prefix_share
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from tests.e2e.test_promises import SYSTEM, WINDOW, answer, chat, post, prose, question, sent
from tests.stage import stage

TURNS = 60
FACT = "We decided that the vault code of the north pier is 7719-KESTREL."
ORDINARY = 6
"""Summaries of the same conversation where the client sends all of it."""


def told(record: Recorded) -> Worded | None:
    """A summary that keeps the fact while it is told of it."""
    text = prose(str(len(record.body)), 4)  # another one each time: what only repeats the one before is none
    content = f"{text} {FACT}" if FACT in record.body.decode() else text
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return Worded(200, {"object": "chat.completion", "choices": [choice]}) if record.summary else None


def talk(fake: FakeUpstream, keep: int, pinned: int = 0) -> list[str]:
    """Sixty turns of which the client sends the newest `keep` messages, behind the `pinned` first ones."""
    history: list[dict[str, Any]] = []
    decisions = []
    with stage(fake, **WINDOW) as s:
        for number in range(TURNS):
            history.append(question(number, FACT if number == 3 else ""))
            start = max(pinned, len(history) - keep)
            reply = post(s.url, chat([SYSTEM, *history[:pinned], *history[start:]]))
            assert reply.status == 200
            decisions.append(reply.decision)
            history.append(answer(number))
    assert not any(r.refused == OVERFLOW for r in fake.chats)
    return decisions


@pytest.mark.parametrize("keep", [31, 41, 81, 1_000])
def test_a_client_that_drops_its_head_is_one_conversation(keep: int) -> None:
    """It costs no more summaries than one that sends everything, and what it has dropped is not forgotten."""
    fake = FakeUpstream()
    fake.intercept = told
    decisions = talk(fake, keep)
    assert 0 < len(fake.summaries) <= ORDINARY
    assert sum(decision.startswith("reuse") for decision in decisions) > TURNS // 2
    assert prefix_share(fake.requests) > 0.8
    assert "7719-KESTREL" in sent(fake)[-1].body.decode()


def test_a_client_that_keeps_its_first_message_is_no_treadmill() -> None:
    """A gap behind the first message may be an edit: three summaries that nothing uses, and then none."""
    fake = FakeUpstream()
    decisions = talk(fake, 40, pinned=1)
    assert sum(decision.startswith("compact") for decision in decisions) > TURNS // 2
    # One was made, and used, before the first message was dropped; one more may be broken off in the background.
    assert len(fake.summaries) <= 3 + 1 + 1
