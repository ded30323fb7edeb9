"""Making one checkpoint: the wait is bounded, not the work, and there is always an answer."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.core import envelope, replacement
from proxy.core.budget import budget
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.plan import Compact, View, plan
from proxy.engine import compactor as module
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.compactor import Compactor, Job
from proxy.engine.narrator import Endpoint, Narrator
from proxy.engine.prudence import UNUSED_MOST, Prudence
from proxy.engine.reader import Reader
from proxy.errors import SummaryError
from proxy.ports import Store
from tests.engine.fakes import (
    GOOD,
    FakeClock,
    FakeSummariser,
    Message,
    NotedStore,
    Reply,
    body_of,
    changed,
    count,
    talk,
    until,
)

SOON = 0.05  # seconds of the real clock: what a request waits in these tests where it waits in vain
LONG = 60.0
ENDPOINT = Endpoint("http://u/v1/chat/completions", (), "m", 100_000, None, 100, 1.0, 9.0, 99.0)


class Workshop:
    """A compactor and what it works with. Two with one store are two processes."""

    def __init__(self, *script: Reply, store: Store | None = None, lines: list[str] | None = None) -> None:
        self.lines: list[str] = lines if lines is not None else []
        self.clock = FakeClock()
        self.store: Store = store or NotedStore(self.lines)
        self.summariser = FakeSummariser(self.lines, script)
        self.checkpoints = Checkpoints(self.store)
        self.prudence = Prudence(self.clock)
        self.compactor = Compactor(
            checkpoints=self.checkpoints,
            store=self.store,
            narrator=Narrator(self.summariser, self.prudence, count),
            prudence=self.prudence,
            clock=self.clock,
            count=count,
        )

    async def job(
        self, messages: Sequence[Message], window: int = 4_000, known: Sequence[Checkpoint] = (), **more: Any
    ) -> Job:
        """What the planner wants made of a conversation that does not fit."""
        request = envelope.parse(body_of(messages))
        assert request is not None
        reading = await Reader(count).read(request)
        assert reading is not None
        view = View(reading.head_tokens, reading.turns, 1.0, tuple(known))
        wanted = plan(view, budget(window))
        assert isinstance(wanted, Compact), wanted
        values: dict[str, Any] = {
            "tenant": "t",
            "key": reading.keys("t")[wanted.end],
            "scope": "s",
            "plan": wanted,
            "view": view,
            "turns": request.messages[reading.head :],
            "window": window,
            "endpoints": (ENDPOINT,),
        }
        return Job(**values | more)

    def cached(self, job: Job) -> list[str]:
        return [made.rung.name for made in self.checkpoints.cached([job.key], "")]

    async def idle(self) -> None:
        """Until no work is left."""
        await until(lambda: not self.compactor._flights)


def results(number: int = 6) -> list[Message]:
    """A conversation whose old tool results are its bulk."""
    messages: list[Message] = [{"role": "user", "content": "Look at all of them."}]
    for i in range(number):
        call = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call_0", "content": f"line of berth {i}\n" * 170})
    return [*messages, {"role": "assistant", "content": "Seen."}, {"role": "user", "content": "And now?"}]


# --- what is made


def test_a_summary_is_made_and_kept() -> None:
    """One call, under a lease; the record says how it was made."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(talk(20))
        made = await shop.compactor.make(job, LONG)
        assert shop.lines == [
            "store ← lease",
            f"summariser ← {job.plan.start} messages",
            "store ← put",
            "store ← release",
        ]
        assert (made.rung, made.prose, made.key, made.tenant) == (Rung.MODEL, GOOD, job.key, "t")
        assert (made.start, made.end, made.carry) == (job.plan.start, job.plan.end, job.plan.carry)
        assert GOOD in made.text and made.text_tokens == count(made.text) <= job.plan.text
        assert made.created == shop.clock.now()
        after = made.stats.pop("after")
        assert after == job.view.size_with(made) < made.stats.pop("before") == job.view.total
        assert made.stats == {
            "reason": "over-limit",
            "form": "sliding",
            "room": job.plan.text,
            "calls": 1,
            "seconds": 0.0,
            "summarizer": "m",
            "depth": 1,
        }
        assert shop.cached(job) == ["MODEL"]

    asyncio.run(story())


def test_a_summary_updates_the_one_before() -> None:
    """Only what came since goes to the model, numbered as in the whole; the depth grows."""
    shop = Workshop()

    async def story() -> None:
        first = await shop.compactor.make(await shop.job(talk(20)), LONG)
        job = await shop.job(talk(45), known=[first])
        assert job.plan.base == first
        second = await shop.compactor.make(job, LONG)
        assert shop.lines[5] == f"summariser ← {job.plan.start - first.start} messages"
        assert f"\n[{first.start} user]" in shop.summariser.calls[1].user and GOOD in shop.summariser.calls[1].user
        assert second.stats["depth"] == 2
        assert "Question 0" in second.text  # the user's words are those of all evicted messages

    asyncio.run(story())


def test_what_was_told_already_is_only_written_shorter() -> None:
    """At the same cut no model is asked again."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(talk(20))
        first = await shop.compactor.make(job, LONG)
        shorter = dataclasses.replace(job.plan, base=first, text=job.plan.text // 2)
        second = await shop.compactor.make(dataclasses.replace(job, plan=shorter), LONG)
        assert [line for line in shop.lines if line.startswith("summariser")] == [
            f"summariser ← {first.start} messages"
        ]
        assert (second.rung, second.prose, second.stats["calls"]) == (Rung.MODEL, GOOD, 0)
        assert second.text_tokens <= shorter.text < first.text_tokens
        assert shop.prudence.may_summarise("s", job.view.turns)

    asyncio.run(story())


def test_old_results_are_cleared_without_a_model() -> None:
    """No lease, no call; the true sizes of what is left are counted."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(results(), window=5_000)
        made = await shop.compactor.make(job, 0)
        assert shop.lines == ["store ← put"]
        assert (made.rung, made.text, made.text_tokens, made.start) == (Rung.CLEARED, "", 0, 0)
        assert [t.index for t in made.trims] == [t.index for t in job.plan.trims] and made.trims
        assert all(0 < t.tokens < job.view.turns[t.index].tokens for t in made.trims)

    asyncio.run(story())


def test_clearing_on_top_of_a_known_text_keeps_it() -> None:
    """Its prose, its rung and its record go along."""
    shop = Workshop()

    async def story() -> None:
        messages = [*talk(20)[:-1], *results(8)]
        first = await shop.compactor.make(await shop.job(talk(20)), LONG)
        job = await shop.job(messages, window=6_500, known=[first])
        assert job.plan.text == 0 and job.plan.base == first
        made = await shop.compactor.make(job, LONG)
        assert (made.text, made.prose, made.rung, made.start) == (first.text, GOOD, Rung.MODEL, first.start)
        assert made.trims and made.stats["summarizer"] == "m" and made.stats["calls"] == 0
        assert len(shop.summariser.calls) == 1

    asyncio.run(story())


def test_what_is_carried_is_not_told_twice() -> None:
    """The last user message stands behind the text, and so not in it."""
    shop = Workshop()

    async def story() -> None:
        loop: list[Message] = [{"role": "user", "content": "Count every crane in sight."}]
        loop += [{"role": "assistant", "content": f"Quay {i}. " + "So far so good. " * 40} for i in range(30)]
        job = await shop.job(loop)
        made = await shop.compactor.make(job, LONG)
        assert made.carry == job.plan.carry == 0
        assert "Count every crane" not in made.text
        assert "Count every crane" in shop.summariser.calls[0].user

    asyncio.run(story())


# --- without a model


@pytest.mark.parametrize(
    "reply", [SummaryError("http_5xx"), SummaryError("timeout"), ZeroDivisionError("secret words")]
)
def test_a_summariser_that_fails_costs_the_prose_alone(reply: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """The user's words, the names and an outline are there; whatever broke, and whose words it holds."""
    shop = Workshop(reply)

    async def story() -> None:
        job = await shop.job(talk(20))
        made = await shop.compactor.make(job, LONG)
        assert (made.rung, made.prose, made.stats["calls"]) == (Rung.DIGEST, "", 0)
        assert "Question 0" in made.text and made.text_tokens <= job.plan.text
        assert shop.lines[0] == "store ← lease" and shop.lines[-2:] == ["store ← release", "store ← put"]

    asyncio.run(story())
    assert caplog.records and "secret words" not in caplog.text and "Question" not in caplog.text


def test_without_anybody_to_ask_the_last_rung_answers() -> None:
    """Pure machine work: the same request gives the same bytes."""

    async def made() -> Checkpoint:
        shop = Workshop()
        return await shop.compactor.make(await shop.job(talk(20), endpoints=()), LONG)

    one, other = asyncio.run(made()), asyncio.run(made())
    assert one.rung == Rung.DIGEST and one.text == other.text and one.id == other.id


def test_the_last_rung_keeps_what_a_model_told_before() -> None:
    """An outline of what came since goes behind it."""
    shop = Workshop()

    async def story() -> None:
        first = await shop.compactor.make(await shop.job(talk(20)), LONG)
        job = await shop.job(talk(45), known=[first], endpoints=())
        made = await shop.compactor.make(job, LONG)
        assert made.rung == Rung.DIGEST and made.prose == ""
        assert GOOD in made.text

    asyncio.run(story())


def test_summaries_that_nobody_uses_end() -> None:
    """No lease and no call any more; the client is answered all the same."""
    shop = Workshop()

    async def story() -> None:
        rungs = []
        for i in range(UNUSED_MOST + 2):
            rungs.append((await shop.compactor.make(await shop.job(changed(talk(20), f"time {i}")), LONG)).rung.name)
        assert rungs == ["MODEL"] * UNUSED_MOST + ["DIGEST"] * 2
        assert len(shop.summariser.calls) == UNUSED_MOST

    asyncio.run(story())


# --- waiting


def test_a_late_summary_serves_the_next_turn() -> None:
    """The request goes out without it, the call goes on, and a second one does not wait again."""
    shop = Workshop()

    async def story() -> None:
        gate = shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        first = await shop.compactor.make(job, SOON)
        shop.clock.advance(20)
        second = await asyncio.wait_for(shop.compactor.make(job, 20), 5)  # its wait is over when the first one's is
        assert (first.rung, second.id) == (Rung.DIGEST, first.id)
        gate.set()
        await shop.idle()
        assert shop.cached(job) == ["DIGEST", "MODEL"]
        assert shop.lines == [
            "store ← lease",
            f"summariser ← {job.plan.start} messages: silence",
            "store ← put",
            "store ← put",
            f"summariser ← {job.plan.start} messages",
            "store ← put",
            "store ← release",
        ]

    asyncio.run(story())


def test_without_patience_nobody_waits_at_all() -> None:
    """`wait: 0`: the work is begun, and serves the next turn."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(talk(20))
        assert (await shop.compactor.make(job, 0)).rung == Rung.DIGEST
        await shop.idle()
        assert sorted(shop.cached(job)) == ["DIGEST", "MODEL"]

    asyncio.run(story())


def test_requests_for_one_prefix_share_one_call() -> None:
    """All get the same checkpoint."""
    shop = Workshop()

    async def story() -> None:
        gate = shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        waiting = [asyncio.create_task(shop.compactor.make(job, LONG)) for _ in range(5)]
        await asyncio.sleep(0.01)
        gate.set()
        made = await asyncio.gather(*waiting)
        assert len({one.id for one in made}) == 1 and made[0].rung == Rung.MODEL
        assert len(shop.summariser.calls) == 1

    asyncio.run(story())


def test_a_client_that_leaves_does_not_cancel_the_work() -> None:
    """What was paid for is kept, and whoever else waits gets it."""
    shop = Workshop()

    async def story() -> None:
        gate = shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        leaving, staying = (asyncio.create_task(shop.compactor.make(job, LONG)) for _ in range(2))
        await asyncio.sleep(0.01)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        gate.set()
        assert (await staying).rung == Rung.MODEL
        assert shop.cached(job) == ["MODEL"]

    asyncio.run(story())


def test_a_flight_that_does_not_fit_the_request_is_not_joined() -> None:
    """Same prefix, but there the last user message came later: it is not to be lost here."""
    shop = Workshop()

    async def story() -> None:
        gate = shop.summariser.gate = asyncio.Event()
        later = await shop.job(talk(20))
        carrying = dataclasses.replace(later.plan, carry=2)
        view = dataclasses.replace(
            later.view,
            turns=tuple(dataclasses.replace(t, real=t.real and i <= 2) for i, t in enumerate(later.view.turns)),
        )
        earlier = dataclasses.replace(later, plan=carrying, view=view)
        waiting = [asyncio.create_task(shop.compactor.make(job, LONG)) for job in (later, earlier)]
        await asyncio.sleep(0.01)
        gate.set()
        one, other = await asyncio.gather(*waiting)
        assert (one.rung, one.carry) == (Rung.MODEL, None)
        assert (other.rung, other.carry) == (Rung.DIGEST, 2)

    asyncio.run(story())


def test_at_the_end_nobody_is_left_waiting() -> None:
    """What is being made is given up; a request that waits for it goes out with the last rung."""
    shop = Workshop()

    async def story() -> None:
        shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        waiting = asyncio.create_task(shop.compactor.make(job, LONG))
        await asyncio.sleep(0.01)
        await shop.compactor.aclose()
        assert (await waiting).rung == Rung.DIGEST
        assert shop.lines[-2:] == ["store ← release", "store ← put"]
        await shop.compactor.aclose()

    asyncio.run(story())


# --- beside the event loop


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is composed from here on, and in which thread: reading the messages, and making a text of that."""
    seen: list[tuple[str, int]] = []

    def watch(name: str) -> None:
        work = getattr(replacement, name)

        def noted(*args: Any, **named: Any) -> Any:
            seen.append((name, threading.get_ident()))
            return work(*args, **named)

        monkeypatch.setattr(replacement, name, noted)

    watch("gather")
    watch("compose")
    return seen


@pytest.mark.parametrize("reply", [GOOD, SummaryError("http_5xx")], ids=["model", "digest"])
def test_the_messages_are_read_once_and_not_on_the_event_loop(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever rung answers."""
    seen = watched(monkeypatch)
    shop = Workshop(reply)

    async def story() -> None:
        await shop.compactor.make(await shop.job(talk(20)), LONG)

    asyncio.run(story())
    assert [name for name, _ in seen] == ["gather", "compose"]
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_the_last_rung_is_prepared_while_the_summary_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the wait ends, the messages have been read."""
    seen = watched(monkeypatch)
    shop = Workshop()

    async def story() -> None:
        shop.summariser.gate = asyncio.Event()
        waiting = asyncio.create_task(shop.compactor.make(await shop.job(talk(20)), LONG))
        await until(lambda: [name for name, _ in seen] == ["gather"] and bool(shop.summariser.calls))
        assert not waiting.done()
        shop.summariser.gate.set()
        await waiting

    asyncio.run(story())


@pytest.mark.parametrize("wait", [0, SOON])
@pytest.mark.parametrize("allowed", [True, False])
def test_many_requests_for_one_prefix_share_the_last_rung(
    wait: float, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a summary is waited for in vain or none is asked for: fifty of them cost what one does."""
    seen = watched(monkeypatch)
    shop = Workshop()

    async def story() -> None:
        shop.summariser.gate = asyncio.Event()
        monkeypatch.setattr(shop.prudence, "may_summarise", lambda *_: allowed)
        job = await shop.job(talk(20))
        made = await asyncio.gather(*(shop.compactor.make(job, wait) for _ in range(50)))
        assert {one.id for one in made} == {made[0].id} and made[0].rung == Rung.DIGEST
        assert shop.lines.count("store ← put") == 1
        await shop.compactor.aclose()

    asyncio.run(story())
    assert [name for name, _ in seen] == ["gather", "compose"]


def test_what_nobody_waits_for_any_more_is_not_held() -> None:
    """The messages of a conversation do not stay in memory."""
    shop = Workshop()

    async def story() -> None:
        await shop.compactor.make(await shop.job(talk(20)), LONG)
        await shop.idle()
        await asyncio.sleep(0)
        gc.collect()
        assert not list(shop.compactor._shared)

    asyncio.run(story())


# --- other processes


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the store often."""
    monkeypatch.setattr(module, "POLL", 0.005)


def test_what_another_process_makes_is_adopted() -> None:
    """The one that holds the lease asks, the other one takes what it kept."""
    lines: list[str] = []
    store = NotedStore()
    one, other = (Workshop(store=store, lines=lines) for _ in range(2))

    async def story() -> None:
        gate = one.summariser.gate = asyncio.Event()
        job = await one.job(talk(20))
        first = asyncio.create_task(one.compactor.make(job, LONG))
        await until(lambda: bool(one.summariser.calls))
        second = asyncio.create_task(other.compactor.make(job, LONG))
        await asyncio.sleep(0.05)
        gate.set()
        made = await asyncio.gather(first, second)
        assert made[0] == made[1] and made[0].rung == Rung.MODEL
        assert lines == [f"summariser ← {job.plan.start} messages: silence", f"summariser ← {job.plan.start} messages"]

    asyncio.run(story())


def test_when_the_other_process_fails_this_one_asks() -> None:
    """Its lease comes free without a result."""
    lines: list[str] = []
    store = NotedStore()
    one, other = Workshop(SummaryError("http_5xx"), store=store, lines=lines), Workshop(store=store, lines=lines)

    async def story() -> None:
        gate = one.summariser.gate = asyncio.Event()
        job = await one.job(talk(20))
        first = asyncio.create_task(one.compactor.make(job, LONG))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(other.compactor.make(job, LONG))
        await asyncio.sleep(0.02)
        gate.set()
        assert [made.rung for made in await asyncio.gather(first, second)] == [Rung.DIGEST, Rung.MODEL]
        assert len(one.summariser.calls) == len(other.summariser.calls) == 1

    asyncio.run(story())


def test_what_was_known_before_is_no_result_of_the_other() -> None:
    """The planner wants something smaller: the old one does not do."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(talk(20))
        first = await shop.compactor.make(job, LONG)
        assert await shop.store.lease(f"summary:{job.key}", "somebody else", LONG)
        shorter = dataclasses.replace(job.plan, base=first, text=job.plan.text // 2)
        view = dataclasses.replace(job.view, known=(first,))
        again = dataclasses.replace(job, plan=shorter, view=view)
        waiting = asyncio.create_task(shop.compactor.make(again, LONG))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await shop.store.release(f"summary:{job.key}", "somebody else")
        made = await waiting
        assert made.id != first.id and made.text_tokens <= shorter.text

    asyncio.run(story())


def test_a_lease_is_kept_while_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is much shorter than a summary may take, so that a process that dies does not hold it for long."""
    monkeypatch.setattr(module, "LEASE", 0.15)
    store = NotedStore()
    one, other = (Workshop(store=store) for _ in range(2))

    async def story() -> None:
        gate = one.summariser.gate = asyncio.Event()
        job = await one.job(talk(20))
        first = asyncio.create_task(one.compactor.make(job, LONG))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(other.compactor.make(job, LONG))
        await asyncio.sleep(0.6)
        gate.set()
        assert len({made.id for made in await asyncio.gather(first, second)}) == 1
        assert not other.summariser.calls
        assert await store.lease(f"summary:{job.key}", "somebody else", LONG)

    asyncio.run(story())


def test_one_that_holds_the_lease_for_ever_costs_the_wait_alone() -> None:
    """A process that died: the request goes out after its wait."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(talk(20))
        await shop.store.lease(f"summary:{job.key}", "somebody else", 1e9)
        assert (await shop.compactor.make(job, SOON)).rung == Rung.DIGEST
        assert not shop.summariser.calls
        await shop.compactor.aclose()

    asyncio.run(story())


@pytest.mark.parametrize("broken", [["lease"], ["release"], ["put"], ["find"], ["lease", "release", "put", "find"]])
def test_a_store_that_fails_costs_nothing(broken: list[str]) -> None:
    """Without it there is nobody to share with, and the summary is made and used."""
    shop = Workshop(store=NotedStore(broken=broken))

    async def story() -> None:
        job = await shop.job(talk(20))
        assert (await shop.compactor.make(job, LONG)).rung == Rung.MODEL
        assert shop.cached(job) == ["MODEL"]

    asyncio.run(story())
