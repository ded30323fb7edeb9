"""Compactions before they are needed: nobody waits, nobody is held up, and it can be switched off."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from proxy.demo.upstream import FakeUpstream
from tests.e2e.test_promises import SYSTEM, answer, chat, post, prose
from tests.stage import Stage, stage

WINDOW = {"models": {"*": {"window": 4_000}}}  # the limit is 3,200
NEAR = 2_700  # tokens sent: from here on the client thinks for a while before it asks again
TURNS = 36  # of about 190 tokens: less than a tenth of the limit


def turn(number: int, name: str = "") -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"{name} {prose(f'{name}q{number}', 4)}"}, answer(number)]


def history(turns: int, name: str = "") -> list[dict[str, Any]]:
    """So many turns, the last one not yet answered."""
    return [SYSTEM, *[message for number in range(turns) for message in turn(number, name)][:-1]]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def play(s: Stage) -> list[tuple[str, float, float]]:
    """What was decided for each request, when it began and when it ended. The summariser gets time near the limit."""
    found = []
    for number in range(1, TURNS):
        begun = time.monotonic()
        reply = post(s.url, chat(history(number)))
        found.append((reply.decision, begun, time.monotonic()))
        assert reply.status == 200
        if int(reply.headers.get("x-compaction-tokens", "0/0").split("/")[1]) > NEAR:
            time.sleep(1.0)
            until(lambda: all(r.ended is not None for r in s.fake.summaries))
    return found


def test_no_request_waits_in_a_conversation_that_grows_slowly() -> None:
    """Every summary begins and ends between two requests."""
    with stage(FakeUpstream(summarizer_delay=0.3), **WINDOW) as s:
        requests = play(s)
    assert len(s.fake.summaries) >= 2
    assert {decision for decision, _, _ in requests} == {"pass; fits", "reuse; known"}
    for summary in s.fake.summaries:
        assert summary.ended is not None
        assert not any(begun < summary.ended and summary.started < ended for _, begun, ended in requests)


def test_switched_off_requests_wait_as_they_must() -> None:
    """Nothing is made before it is needed."""
    with stage(FakeUpstream(), **WINDOW, background=False) as s:
        requests = play(s)
    assert [decision for decision, _, _ in requests].count("compact; over-limit") == len(s.fake.summaries) >= 2


def near(s: Stage, name: str) -> int:
    """Bring a new conversation as near to its limit as it takes; how many turns it has then."""
    for number in range(8, TURNS):
        reply = post(s.url, chat(history(number, name)))
        if int(reply.headers.get("x-compaction-tokens", "0/0").split("/")[1]) > 2_900:
            return number
    raise AssertionError("never near")


def test_a_request_for_the_same_server_breaks_it_off_but_once() -> None:
    """The slot is the request's; but a client that never pauses gets its summary too."""
    with stage(FakeUpstream(summarizer_delay=1.5), **WINDOW) as s:
        turns = near(s, "ship")
        until(lambda: len(s.fake.summaries) == 1)
        post(s.url, chat(history(2, "other")))
        until(lambda: s.fake.summaries[0].went_away)
        post(s.url, chat(history(turns, "ship")))
        until(lambda: len(s.fake.summaries) == 2)
        post(s.url, chat(history(2, "other")))
        until(lambda: s.fake.summaries[1].ended is not None)
        assert not s.fake.summaries[1].went_away
        assert post(s.url, chat(history(turns + 2, "ship"))).decision == "reuse; known"
    assert len(s.fake.summaries) == 2


def test_one_at_a_time() -> None:
    """Two conversations of one server come near their limits; the second has to wait for its turn."""
    with stage(FakeUpstream(summarizer_delay=1.0), **WINDOW) as s:
        for name in ("ship", "ship", "crane", "crane"):  # the second request is near again, and begins at once
            near(s, name)
        until(lambda: len(s.fake.summaries) >= 1 and all(r.ended is not None for r in s.fake.summaries))
        spans = sorted((r.started, r.ended) for r in s.fake.summaries if r.ended is not None)
        assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans))


def test_a_request_that_needs_what_is_being_made_waits_for_that() -> None:
    """It asks for no second summary beside it."""
    with stage(FakeUpstream(summarizer_delay=1.0), **WINDOW) as s:
        turns = near(s, "ship")
        until(lambda: len(s.fake.summaries) == 1)
        reply = post(s.url, chat(history(turns + 2, "ship")))
        assert reply.decision == "reuse; known"
    assert len(s.fake.summaries) == 1 and not s.fake.summaries[0].went_away
