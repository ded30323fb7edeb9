"""Making one checkpoint: the wait is bounded, not the work, and there is always an answer."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.core import envelope, replacement
from proxy.core.budget import budget
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.plan import Compact, View, plan
from proxy.engine import compactor as module
from proxy.engine.bill import Accounts
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.compactor import HOOK, Compactor
from proxy.engine.hooks import Hooks
from proxy.engine.jobs import Job
from proxy.engine.knowledge import Target
from proxy.engine.narrator import Endpoint, Narrator
from proxy.engine.prudence import UNUSED_MOST, Prudence
from proxy.engine.reader import Reader
from proxy.errors import NO_SUMMARY, HookError, SummaryError
from proxy.ports import Catalogue, Hook, Store, SummaryAnswer
from tests.engine.fakes import (
    GOOD,
    FakeClock,
    FakeSummariser,
    Message,
    NoCatalogue,
    NotedStore,
    Reply,
    body_of,
    changed,
    count,
    talk,
    until,
)
from tests.engine.test_hooks import FakeHook

SOON = 0.05  # seconds of the real clock: what a request waits in these tests where it waits in vain
LONG = 60.0
ENDPOINT = Endpoint("http://u/v1/chat/completions", (), "m", 100_000, None, 100, 1.0, 9.0, 99.0)


class Prices(NoCatalogue):
    """A dollar for a million tokens read, two for a million written."""

    def cost(self, base_url: str, model: str, prompt: int, output: int) -> float | None:
        return (prompt + 2 * output) / 1e6


class Workshop:
    """A compactor and what it works with. Two with one store are two processes."""

    def __init__(
        self,
        *script: Reply,
        store: Store | None = None,
        lines: list[str] | None = None,
        hooks: Sequence[Hook] = (),
        catalogue: Catalogue | None = None,
    ) -> None:
        self.lines: list[str] = lines if lines is not None else []
        self.clock = FakeClock()
        self.store: Store = store or NotedStore(self.lines)
        self.summariser = FakeSummariser(self.lines, script)
        self.checkpoints = Checkpoints(self.store)
        self.prudence = Prudence(self.clock)
        self.accounts = Accounts(catalogue or NoCatalogue())
        self.compactor = Compactor(
            checkpoints=self.checkpoints,
            store=self.store,
            narrator=Narrator(self.summariser, self.prudence, count),
            prudence=self.prudence,
            clock=self.clock,
            count=count,
            hooks=Hooks(hooks, SOON),
            accounts=self.accounts,
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
            "endpoints": (ENDPOINT,),
            "target": Target("http://u/v1", "m"),
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
            "store ← find",
            f"summariser ← {job.plan.start} messages",
            "store ← put",
            "store ← release",
        ]
        assert (made.rung, made.prose, made.key, made.tenant) == (Rung.MODEL, GOOD, job.key, "t")
        assert (made.start, made.end, made.carry) == (job.plan.start, job.plan.end, job.plan.carry)
        assert GOOD in made.text and made.text_tokens == count(made.text) <= job.plan.text
        assert made.created == shop.clock.now()
        after = made.stats.pop("after")
        before = made.stats.pop("before")
        assert after == job.view.size_with(made) < before == job.view.total
        cost = made.stats.pop("cost")
        assert cost["prompt"] > job.plan.text and cost["output"] == count(GOOD)
        assert made.stats == {
            "reason": "over-limit",
            "form": "sliding",
            "range": [0, job.plan.start],
            "turns": len(job.turns),
            "saves": {"tokens": before - after},
            "audit": {"struck": 0, "disowned": 0},
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
        assert shop.lines[7] == f"summariser ← {job.plan.start - first.start} messages"
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
        view = dataclasses.replace(job.view, known=(first,))
        second = await shop.compactor.make(dataclasses.replace(job, plan=shorter, view=view), LONG)
        assert [line for line in shop.lines if line.startswith("summariser")] == [
            f"summariser ← {first.start} messages"
        ]
        assert (second.rung, second.prose, second.stats["calls"]) == (Rung.MODEL, GOOD, 0)
        assert second.stats["depth"] == first.stats["depth"] == 1 and second.stats["summarizer"] == "m"
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
        assert "cost" not in made.stats and made.stats["before"] == job.view.total  # paid for and told once
        assert made.stats["depth"] == first.stats["depth"] and made.stats["room"] == first.stats["room"]
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
        assert (made.rung, made.prose) == (Rung.DIGEST, "")
        assert made.stats["why"] == (reply.reason if isinstance(reply, SummaryError) else "failed")
        assert "Question 0" in made.text and made.text_tokens <= job.plan.text
        assert shop.lines[:2] == ["store ← lease", "store ← find"] and shop.lines[-2:] == [
            "store ← release",
            "store ← put",
        ]

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


# --- hooks


def test_a_hook_hears_what_goes_and_what_came_of_it() -> None:
    """The messages as the client sent them, both versions, and numbers; no second word of what was told before."""
    hook = FakeHook()
    shop = Workshop(hooks=[hook])

    async def story() -> None:
        job = await shop.job(talk(20))
        first = await shop.compactor.make(job, LONG)
        again = await shop.job(talk(45), known=[first])
        second = await shop.compactor.make(again, LONG)
        await shop.idle()
        assert [event.name for event in hook.events] == ["before_compaction", "after_compaction"] * 2
        before, after, later, last = (json.loads(event.document()) for event in hook.events)
        assert hook.events[0].messages == hook.events[1].messages == job.turns[: job.plan.start]
        assert hook.events[2].messages == again.turns[first.start : again.plan.start]
        assert (before["range"], later["range"]) == ([0, first.start], [first.start, second.start])
        assert (before["tenant"], before["model"], before["reason"]) == ("t", "m", "over-limit")
        assert before["conversation"] == later["conversation"] and before["id"] != after["id"]
        assert (before["previous"], later["previous"]) == (None, GOOD)
        assert (last["checkpoint"], last["rung"]) == (second.id, "model")
        assert (last["replacement"], last["summary"]) == (second.text, second.prose)
        assert last["statistics"] == second.stats

    asyncio.run(story())


def test_a_hook_hears_of_what_is_cleared_and_is_not_asked() -> None:
    """There is no summary that it could have a say in."""
    hook = FakeHook({"skip": True})
    shop = Workshop(hooks=[hook])

    async def story() -> None:
        job = await shop.job(results())
        made = await asyncio.gather(*(shop.compactor.make(job, LONG) for _ in range(3)))
        await until(lambda: len(hook.events) > 0)
        (event,) = hook.events
        told = json.loads(event.document())
        assert (told["event"], told["rung"], told["replacement"]) == ("after_compaction", "cleared", None)
        first, last = told["range"]
        assert event.messages == job.turns[first:last] and b"line of berth 0" in event.messages[0]
        assert [trim["turn"] for trim in told["trims"]] == [trim.index for trim in made[0].trims]

    asyncio.run(story())


def test_a_hook_that_wants_no_summary() -> None:
    """No call; the replacement is made without a model."""
    shop = Workshop(hooks=[FakeHook({"skip": True})])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert (made.rung, made.stats["why"]) == (Rung.DIGEST, "skipped") and not shop.summariser.calls

    asyncio.run(story())


def test_a_hooks_instructions_and_notes_reach_the_summariser() -> None:
    """The former as part of its task, the latter as data that it has to take in."""
    shop = Workshop(hooks=[FakeHook({"instructions": "Name all ships.", "notes": "They sail at dawn."})])

    async def story() -> None:
        first = await shop.compactor.make(await shop.job(talk(20)), LONG)
        await shop.compactor.make(await shop.job(talk(45), known=[first]), LONG)
        one, other = shop.summariser.calls
        for call in (one, other):
            assert "Name all ships." in call.system and "They sail at dawn." not in call.system
            assert call.user.index("They sail at dawn.") < call.user.index("BEGIN TRANSCRIPT")
        assert other.user.index("They sail") < other.user.index(GOOD) < other.user.index("BEGIN TRANSCRIPT")

    asyncio.run(story())


NOTED = "Reports go to /srv/reports/weekly.md, says the user."


@pytest.mark.parametrize("noted", [True, False])
def test_a_name_in_notes_is_not_made_up(noted: bool) -> None:
    """What nobody said is struck from a summary; notes are somebody's word."""
    hook = FakeHook({"notes": NOTED} if noted else None)
    shop = Workshop(f"{GOOD} {NOTED}", hooks=[hook])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert ("/srv/reports/weekly.md" in made.text) is noted
        assert made.stats["audit"]["struck"] == (0 if noted else 1)

    asyncio.run(story())


def test_notes_are_kept_where_no_model_answers() -> None:
    """In front of the outline."""
    shop = Workshop(SummaryError("http_5xx"), hooks=[FakeHook({"notes": NOTED})])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert made.rung == Rung.DIGEST and NOTED in made.text and "Question 0" in made.text

    asyncio.run(story())


OWN = "The user asked for the harbour questions to be answered one by one, and that is what was done."


def test_a_hooks_own_summary_is_used() -> None:
    """No model is asked, and the record says whose it is."""
    shop = Workshop(hooks=[FakeHook({"summary": OWN, "skip": True})])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert (made.rung, made.prose, made.stats["summarizer"], made.stats["calls"]) == (Rung.MODEL, OWN, HOOK, 0)
        assert OWN in made.text and "Question 0" in made.text and not shop.summariser.calls

    asyncio.run(story())


@pytest.mark.parametrize(
    ("summary", "reason"),
    [("I'm sorry, I cannot help with that.", "refusal"), ("<html><body>502</body></html>", "html"), ("!!!", "empty"),
     ("So it was said, and so it was done once more. " * 60, "loop")],
)  # fmt: skip
def test_a_hooks_bad_summary_is_refused(summary: str, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """By the rules for models; then it goes on as without it, and no words of it are in the log."""
    shop = Workshop(hooks=[FakeHook({"summary": summary})])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert (made.prose, made.stats["summarizer"], made.stats["refused"]) == (GOOD, "m", [reason])

    asyncio.run(story())
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == [f"a hook's summary was refused: {NO_SUMMARY[reason]}"]


def test_an_invented_name_is_struck_from_a_hooks_summary() -> None:
    """The audit holds for it as well."""
    shop = Workshop(hooks=[FakeHook({"summary": f"{OWN} See /srv/made/up.md for it."})])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert OWN in made.text and "/srv/made" not in made.text and made.stats["audit"]["struck"] == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    "bad",
    [HookError("status 500"), ZeroDivisionError(), {"sikp": 1}, asyncio.Event()],
    ids=["error", "fault", "nonsense", "silence"],
)
def test_a_hook_that_fails_costs_no_summary(bad: Any) -> None:
    """Nor one that is silent: its time is bounded."""
    shop = Workshop(hooks=[FakeHook(bad)])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert (made.rung, made.prose) == (Rung.MODEL, GOOD)
        await shop.compactor.aclose()

    asyncio.run(story())


def test_a_request_waits_no_longer_for_a_hook_than_for_a_summary() -> None:
    """Both together have the wait; the summary serves the next turn."""
    hook = FakeHook(asyncio.Event())
    shop = Workshop(hooks=[hook])

    async def story() -> None:
        job = await shop.job(talk(20))
        assert (await shop.compactor.make(job, 0)).rung == Rung.DIGEST
        await shop.idle()
        assert sorted(shop.cached(job)) == ["DIGEST", "MODEL"]
        await shop.compactor.aclose()

    asyncio.run(story())


def test_where_nobody_may_be_asked_no_hook_is() -> None:
    """A request that goes out beside a summary in the making asks for nothing."""
    hook = FakeHook({"summary": OWN})
    shop = Workshop(hooks=[hook])

    async def story() -> None:
        made = await shop.compactor.make(await shop.job(talk(20), endpoints=()), LONG)
        assert made.rung == Rung.DIGEST
        await until(lambda: len(hook.events) == 1)
        assert hook.events[0].name == "after_compaction"

    asyncio.run(story())


# --- ahead of need


def test_work_can_be_begun_with_nobody_waiting() -> None:
    """What is begun is joined by the request that needs it, whose wait begins then."""
    shop = Workshop()

    async def story() -> None:
        gate = shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        task = shop.compactor.start(job)
        assert task is not None and shop.compactor.start(job) is task
        shop.clock.advance(1_000)
        waiting = asyncio.create_task(shop.compactor.make(job, LONG))
        await until(lambda: bool(shop.summariser.calls))
        assert not shop.compactor.give_up(job.key)  # somebody waits
        gate.set()
        assert (await waiting).rung == Rung.MODEL and (await task) == await waiting
        assert len(shop.summariser.calls) == 1

    asyncio.run(story())


def test_work_that_nobody_waits_for_can_be_given_up() -> None:
    """Its lease with it."""
    shop = Workshop()

    async def story() -> None:
        shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        task = shop.compactor.start(job)
        assert task is not None
        await until(lambda: bool(shop.summariser.calls))
        assert shop.compactor.give_up(job.key) and not shop.compactor.give_up("of nothing")
        await asyncio.wait({task})
        assert task.cancelled() and not shop.cached(job) and shop.lines[-1] == "store ← release"

    asyncio.run(story())


def test_waiting_for_work_is_bounded() -> None:
    """And nothing happens where there is none."""
    shop = Workshop()

    async def story() -> None:
        gate = shop.summariser.gate = asyncio.Event()
        job = await shop.job(talk(20))
        await shop.compactor.wait_for(job.key, LONG)
        task = shop.compactor.start(job)
        assert task is not None
        await shop.compactor.wait_for(job.key, SOON)
        assert not task.done() and not shop.compactor.give_up(job.key)
        gate.set()
        await shop.compactor.wait_for(job.key, LONG)
        assert task.done()

    asyncio.run(story())


def test_a_clearing_is_made_at_once() -> None:
    """Nobody has to be asked for it."""
    shop = Workshop()

    async def story() -> None:
        job = await shop.job(results())
        task = shop.compactor.start(job)
        assert task is not None and (await task).rung == Rung.CLEARED

    asyncio.run(story())


# --- cost


def test_the_record_says_what_it_cost_and_saves(caplog: pytest.LogCaptureFixture) -> None:
    """By the summariser's own numbers; a call that was refused costs as much; what failed is in the totals, too."""
    caplog.set_level(logging.INFO)
    answers: list[Reply] = [
        SummaryAnswer("", "stop", 4_000, 5),
        SummaryAnswer(GOOD, "stop", 4_100, 60),
        SummaryError("http_5xx"),
    ]
    shop = Workshop(*answers, catalogue=Prices())

    async def story() -> None:
        first = await shop.compactor.make(await shop.job(talk(20)), LONG)
        assert first.stats["cost"] == {"prompt": 8_100, "output": 65, "usd": 0.00823}
        assert first.stats["refused"] == ["empty"] and first.stats["calls"] == 2
        saved = first.stats["before"] - first.stats["after"]
        assert first.stats["saves"] == {"tokens": saved, "usd": round(saved / 1e6, 6)}
        second = await shop.compactor.make(await shop.job(talk(45), known=[first]), LONG)
        assert (second.rung, second.stats["why"], second.stats["calls"]) == (Rung.DIGEST, "http_5xx", 1)
        assert second.stats["cost"] == {"prompt": 0, "output": 0}
        assert shop.accounts.spent.tokens == 8_165

    asyncio.run(story())
    first_line, failed, second_line = (r.getMessage() for r in caplog.records)
    assert failed.endswith(" failed: the summarizer answered with an error")
    assert "cost=8100+65 ($0.0082)" in first_line and "spent 8165 tokens ($0.0082)" in first_line
    assert "by=digest" in second_line and " cost=none " in second_line
    assert second_line.endswith("; no summary: the summarizer answered with an error")


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
        assert (first.rung, second.id, first.stats["why"]) == (Rung.DIGEST, first.id, "late")
        await until(lambda: bool(shop.summariser.calls))
        gate.set()
        await shop.idle()
        assert shop.cached(job) == ["DIGEST", "MODEL"]
        asked = f"summariser ← {job.plan.start} messages: silence"
        assert sorted(shop.lines[:5]) == ["store ← find", "store ← lease", "store ← put", "store ← put", asked]
        assert shop.lines[5:] == [
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


@pytest.mark.parametrize("wait", [0, 10 * SOON])  # fifty are to wait at once, on a busy machine, too
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
