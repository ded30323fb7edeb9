"""L: concurrency and state."""

from __future__ import annotations

import threading

from proxy.demo.upstream import FakeUpstream
from tests.shapes.harness import LONG, SMALL, Reply, answer, chat, fits, post, talk, user
from tests.stage import stage

WINDOW = {"models": {"*": {"window": SMALL}}}


def test_L1_messages_appended_during_compaction() -> None:
    """While a summary is made the conversation goes on: each request is answered with all of its own messages."""
    fake = FakeUpstream(summarizer_delay=0.6)
    with stage(fake, **WINDOW) as s:
        replies: list[Reply] = []
        lists = [[*talk(LONG), *(m for i in range(n) for m in (answer(100 + i), user(f"late {i}")))] for n in range(4)]
        threads = [threading.Thread(target=lambda m=m: replies.append(post(s.url, chat(m)))) for m in lists]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert post(s.url, chat(lists[3])).status == 200
    assert [r.status for r in replies] == [200] * 4
    ends = [r.messages[-1]["content"].rpartition("\n")[2] for r in fake.chats]
    assert sorted(ends[:4]) == sorted(m[-1]["content"] for m in lists) and ends[4] == "late 2"
    fits([*lists[3][:1], *lists[3][-4:]])


def test_L2_two_compactions_of_one_prefix() -> None:
    """Requests at the same time share one summary, though the first of them leaves."""
    fake = FakeUpstream(summarizer_delay=0.8)
    with stage(fake, **WINDOW) as s:
        threads = [threading.Thread(target=lambda: post(s.url, chat(talk(LONG)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(fake.summaries) == 1 and len({r.body for r in fake.chats}) == 1


def test_L3_cross_tenant_leak() -> None:
    """The same conversation under another key meets nothing of the first one's."""
    with stage(FakeUpstream(), **WINDOW) as s:
        checkpoints = [
            post(s.url, chat(talk(LONG)), key=key).headers["x-compaction-checkpoint"] for key in ("a", "b", "a")
        ]
        again = post(s.url, chat(talk(LONG)), key="b")
    assert checkpoints[0] == checkpoints[2] != checkpoints[1] and again.decision == "reuse; known"
    assert len(s.fake.summaries) == 2
