"""K: what gets lost."""

from __future__ import annotations

import json

import pytest

from proxy.core.replacement import OPENING, SEPARATOR
from proxy.demo.upstream import FakeUpstream
from tests.shapes.harness import (
    LONG,
    SMALL,
    SYSTEM,
    chat,
    fits,
    late,
    loop,
    post,
    prose,
    said,
    squeezed,
    talk,
    texts,
    user,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage

WINDOW = {"models": {"*": {"window": SMALL}}}


@pytest.mark.parametrize("rounds", [20, 40, 80])
@pytest.mark.parametrize("clearing", [True, False])
def test_K1_the_last_user_message(rounds: int, clearing: bool) -> None:
    """However long the loop, the task stands verbatim behind the summary, and before the newest rounds."""
    shown = squeezed([SYSTEM, user("hello"), said("hi"), TASK, *loop(rounds)], settings={"clearing": clearing})
    holding = [i for i, m in enumerate(shown.messages) if any(t.endswith(TASK["content"]) for t in texts(m))]
    assert holding in ([1], [3]) and shown.messages[holding[0]]["role"] == "user"


@pytest.mark.parametrize("manner", ["useless", "perfect"])
def test_K2_constraints(manner: str) -> None:
    """Short words of the user are carried verbatim, whatever the summariser makes of them."""
    rules = [
        "Use tabs, never spaces.",
        "The port is 8443.",
        "Do not touch infra/prod.tf.",
        "Réponds toujours en français.",
    ]
    shape = [m for rule in rules for m in (user(rule), said("Understood."))]
    shown = squeezed([SYSTEM, *shape, *talk(LONG)[1:]], FakeUpstream(summarizer=manner))
    assert all(rule in shown.replacement for rule in rules)
    fits([SYSTEM, *shape, TASK])


def test_K3_repeated_compaction_erases_facts() -> None:
    """The same list twice is summarised once; a fact of the first turn is there after ten compactions."""
    fake = FakeUpstream(summarizer="perfect")
    messages = [SYSTEM, user("The vault code is 7719-KESTREL."), *talk(LONG)[1:]]
    with stage(fake, **WINDOW) as s:
        bodies = []
        for _ in range(2):
            assert post(s.url, chat(messages)).status == 200
            bodies.append(fake.chats[-1].body)
        assert bodies[0] == bodies[1] and len(fake.summaries) == 1
        for number in range(60):
            messages += [said(prose(f"k{number}")), user(prose(f"l{number}"))]
            assert post(s.url, chat(messages)).status == 200
            assert b"7719-KESTREL" in fake.chats[-1].body
    assert len(fake.summaries) >= 3


@pytest.mark.parametrize("turns", range(LONG, LONG + 12))
def test_K4_compaction_that_loses_whole_turns(turns: int) -> None:
    """Every message is there verbatim, or was read by whoever wrote the summary."""
    given = [
        SYSTEM,
        *(user(f"[{i}] {m['content']}") if m["role"] == "user" else m for i, m in enumerate(talk(turns)[1:])),
    ]
    shown = squeezed(given)
    told = json.dumps([r.messages for r in shown.fake.summaries], ensure_ascii=False)
    kept = json.dumps(shown.messages, ensure_ascii=False)
    for message in given[1:]:
        words = json.dumps(message["content"], ensure_ascii=False)[1:-1]
        assert words in kept or words in told


def test_K5_restart_instead_of_continue() -> None:
    """What is ours in the request, the labels, tells nobody to do anything."""
    shown = squeezed(late(TASK), FakeUpstream(summarizer="error"))
    lines = [line for line in shown.replacement.splitlines() if line.isupper() or "§§§" in line]
    ours = " ".join([OPENING, SEPARATOR, *lines]).lower()
    assert not any(word in ours.split() for word in ("continue", "start", "must", "please", "you", "resume", "run"))
