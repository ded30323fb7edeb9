"""Makes one checkpoint: asks a summariser as long as the request can wait, and always has an answer without one.

The wait is bounded, not the work: a summary that comes too late serves the next turn. One call per prefix at a time,
in this process and, by a lease, in all that share the store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from proxy.core import envelope, replacement, rewrite
from proxy.core.checkpoint import Checkpoint, Rung, Trim
from proxy.core.outline import outline
from proxy.core.replacement import Evidence
from proxy.core.turns import rounds
from proxy.engine.aside import Aside
from proxy.engine.bill import Accounts, Effort
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.faults import place
from proxy.engine.hooks import Advice, Hooks, evicted, evicting
from proxy.engine.jobs import Job
from proxy.engine.narrator import Narrator, Task
from proxy.engine.prudence import Prudence
from proxy.engine.record import audited, line, tried
from proxy.errors import NO_SUMMARY, StoreError, SummaryError
from proxy.ports import Clock, Store

log = logging.getLogger("compaction_proxy")

T = TypeVar("T")

LEASE = 10.0
"""Seconds; renewed while the work goes on. Half of the usual wait: after a process was killed in the middle of a
summary, the next request for it can still get one."""

PROSE_SHARE = 0.75
"""Of the replacement's tokens, what the prose is asked for: more than its own part, for pins and ledger may leave
some."""

PROSE_LEAST = 350
"""Tokens a summariser may write however small the room is now: what it told is kept, and rendered again in a larger
one."""

THREADS = 2
"""At work on replacements at once: one more than one, so that a short conversation need not wait for a long one."""

HOOK = "hook"
"""As the `summarizer` of a checkpoint whose summary a hook wrote."""

POLL = 0.5
"""Seconds between looks at the store while another process makes the same summary."""


@dataclass(slots=True)
class Flight:
    """A checkpoint in the making. `awaited` is when the first request began to wait for it, None while none does;
    `failure` is the record of what came of it, if no summary did."""

    task: asyncio.Task[Checkpoint | None] | None = None
    awaited: float | None = None
    advice: Advice = field(default_factory=Advice)
    failure: dict[str, Any] | None = None


class Compactor:
    def __init__(
        self,
        checkpoints: Checkpoints,
        store: Store,
        narrator: Narrator,
        prudence: Prudence,
        hooks: Hooks,
        accounts: Accounts,
        clock: Clock,
        count: Callable[[str], int],
    ) -> None:
        self._checkpoints = checkpoints
        self._store = store
        self._narrator = narrator
        self._prudence = prudence
        self._clock = clock
        self._count = count
        self._hooks = hooks
        self._accounts = accounts
        self._owner = secrets.token_hex(8)
        self._aside = Aside(THREADS)
        self._flights: dict[str, Flight] = {}
        self._shared: WeakValueDictionary[Hashable, asyncio.Task[Any]] = WeakValueDictionary()

    async def make(self, job: Job, wait: float) -> Checkpoint:
        """The checkpoint of `job`, after `wait` seconds at most. Raises ValueError if the turns cannot be read."""
        if not job.plan.text:
            return await asyncio.shield(self._cleared(job))
        evidence = self._evidence(job)  # begun now, so that it is there when the wait ends
        flight = self._flight(job)
        if flight is not None and flight.task is not None:
            # Neither this request's end nor its client's leaving cancels the work.
            done, _ = await asyncio.wait({flight.task}, timeout=self._left(flight, wait))
            made_by_model = flight.task.result() if done and not flight.task.cancelled() else None
            # It may have been begun for a request whose last user message is another one, or which had more turns.
            made_by_model = made_by_model and made_by_model.moved(job.plan.end)
            if made_by_model is not None and job.view.usable(made_by_model):
                return made_by_model
        flight = flight or Flight(failure={"calls": 0, "why": "unused"})
        name = ("digest", *_name(job), job.plan.text)
        return await asyncio.shield(self._once(name, lambda: self._digest(job, evidence, flight)))

    def start(self, job: Job) -> asyncio.Task[Any] | None:
        """Begin `job` before a request needs it; None where no summariser is to be asked now. The task raises nothing
        but on cancellation, and gives None where nobody could make it."""
        if not job.plan.text:
            return self._cleared(job)
        flight = self._flight(job)
        return flight.task if flight is not None else None

    def give_up(self, key: str) -> bool:
        """Break off what is being made under `key`, unless a request waits for it; whether it was."""
        flight = self._flights.get(key)
        return flight is not None and flight.awaited is None and flight.task is not None and flight.task.cancel()

    async def wait_for(self, key: str, seconds: float) -> None:
        """Until what is being made under `key`, if anything is, is there or failed, or so many seconds at most."""
        flight = self._flights.get(key)
        if flight is not None and flight.task is not None:
            await asyncio.wait({flight.task}, timeout=self._left(flight, seconds))

    def _left(self, flight: Flight, wait: float) -> float:
        """All requests together wait for one flight no longer than the first of them may."""
        now = self._clock.monotonic()
        if flight.awaited is None:
            flight.awaited = now
        return max(0.0, flight.awaited + wait - now)

    async def aclose(self) -> None:
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._hooks.aclose()

    def _once(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """What somebody else is at already, or has made and still holds, is shared."""
        task: asyncio.Task[T] | None = self._shared.get(name)
        if task is None:
            task = self._shared[name] = asyncio.create_task(work())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever awaits it is told
        return task

    def _evidence(self, job: Job) -> asyncio.Task[Evidence]:
        """What every replacement of these turns is made from, whatever the prose: nearly all of the work."""
        name = ("evidence", job.key, job.plan.start, job.plan.carry)
        return self._once(name, lambda: self._aside.run(_gather, job.turns[: job.plan.start], job.plan.carry))

    def _cleared(self, job: Job) -> asyncio.Task[Checkpoint]:
        return self._once(("cleared", *_name(job)), lambda: self._clear(job))

    async def _clear(self, job: Job) -> Checkpoint:
        return await self._kept(job, await self._aside.run(self._trimmed, job))

    async def _digest(self, job: Job, evidence: asyncio.Task[Evidence], flight: Flight) -> Checkpoint:
        stats = flight.failure or {"calls": 0, "why": "late"}
        found = await asyncio.shield(evidence)
        made = await self._aside.run(self._without_model, job, found, flight.advice.notes, stats)
        return await self._kept(job, made)

    async def _kept(self, job: Job, made: Checkpoint) -> Checkpoint:
        await self._checkpoints.keep(made)
        log.info("%s", line(made, self._accounts))
        if self._hooks:
            self._hooks.after(evicted(job, made, self._clock))
        return made

    def _flight(self, job: Job) -> Flight | None:
        """What is under way for this prefix, or begun now; None if no summariser is to be asked."""
        if job.key in self._flights:
            return self._flights[job.key]
        if not self._prudence.may_summarise(job.scope, job.view.turns):
            return None
        flight = self._flights[job.key] = Flight()
        flight.task = asyncio.create_task(self._fly(job, self._evidence(job), flight))
        flight.task.add_done_callback(lambda _: self._flights.pop(job.key, None))
        return flight

    async def _fly(self, job: Job, evidence: asyncio.Task[Evidence], flight: Flight) -> Checkpoint | None:
        """Never raises but on cancellation: what goes wrong here is logged, and the next rung answers."""
        name = f"summary:{job.key}"
        try:
            while not await self._lease(name):
                await asyncio.sleep(POLL)
                found = await self._made_elsewhere(job)
                if found is not None:
                    return found
            renewal = asyncio.create_task(self._renew(name))
            try:
                # Another process may have made it before we thought of it, or before its lease ended.
                found = await self._made_elsewhere(job)
                return found or await self._summarise(job, evidence, flight)
            finally:
                renewal.cancel()
                await self._release(name)
        except Exception as error:
            log.error("a compaction failed: %s", place(error))
            flight.failure = {"calls": 0, "why": "failed"}
            return None

    async def _summarise(self, job: Job, evidence: asyncio.Task[Evidence], flight: Flight) -> Checkpoint | None:
        begun = self._clock.monotonic()
        base = job.plan.base
        effort = Effort()
        if base is not None and base.start == job.plan.start:
            told, by = base.prose, base.stats.get("summarizer")
        else:
            if self._hooks and job.endpoints:
                flight.advice = await self._hooks.before(evicting(job, self._clock))
            try:
                told, by = await self._told(job, flight.advice, effort)
            except asyncio.CancelledError:
                self._accounts.bill(effort)  # what was answered before it was broken off is paid for
                raise
            except SummaryError as error:
                if not effort.failed:  # or else it has been told, of each that was asked
                    meant = flight.advice.skip or not job.endpoints
                    log.log(logging.INFO if meant else logging.WARNING, "no summary: %s", NO_SUMMARY[error.reason])
                spent = tried(effort, self._clock.monotonic() - begun)
                flight.failure = {**spent, "cost": self._accounts.bill(effort), "why": error.reason}
                return None
        self._prudence.summarised(job.scope, job.view.turns, effort.calls, job.key)
        stats = {
            **tried(effort, self._clock.monotonic() - begun),
            "summarizer": by,
            "depth": (base.stats.get("depth", 1) if base else 0) + (job.since < job.plan.start),
            "cost": self._accounts.bill(effort),
        }
        found = await asyncio.shield(evidence)
        made = await self._aside.run(self._compose, job, found, told, flight.advice.notes, stats)
        return await self._kept(job, made)

    async def _told(self, job: Job, advice: Advice, effort: Effort) -> tuple[str, str]:
        """The prose, and who wrote it. Raises SummaryError."""
        plan = job.plan
        since = job.since
        messages = await self._aside.run(_parse, job.turns[since : plan.start])
        previous = [text for text in (advice.notes, plan.base.prose if plan.base else None) if text]
        task = Task(
            messages=messages,
            first=since,
            starts=[s - since for s in rounds(job.view.turns[: plan.start]) if s >= since] or [0],
            previous="\n\n".join(previous) or None,
            form=plan.form,
            budget=max(PROSE_LEAST, int(PROSE_SHARE * plan.text)),
            instructions=advice.instructions,
        )
        if advice.summary is not None:
            try:
                return await self._narrator.vet(task, advice.summary, effort), HOOK
            except SummaryError as error:
                log.warning("a hook's summary was refused: %s", NO_SUMMARY[error.reason])
        if advice.skip:
            raise SummaryError("skipped")
        if not job.endpoints:
            raise SummaryError(job.unasked)
        told, endpoint = await self._narrator.tell(task, job.endpoints, effort)
        return told, endpoint.model

    def _compose(self, job: Job, evidence: Evidence, told: str, notes: str | None, stats: dict[str, Any]) -> Checkpoint:
        """The replacement with a summary in it."""
        evidence = _with(evidence, notes)
        kept, taken = audited(told, evidence.messages)
        text = self._text(job, evidence, kept)
        return self._checkpoint(job, text, told, Rung.MODEL, {**stats, "audit": taken})

    def _without_model(self, job: Job, evidence: Evidence, notes: str | None, stats: dict[str, Any]) -> Checkpoint:
        """The last rung: what the summary before this one told, an outline of what came since, pins and ledger."""
        base = job.plan.base
        told = [notes] if notes else []
        if base is not None and base.start <= job.plan.start:
            told.append(base.prose)
        if told and (since := _parse(job.turns[job.since : job.plan.start])):
            told.append(outline(since, max(50, job.plan.text // 4), self._count, job.since))
        text = self._text(job, _with(evidence, notes), "\n\n".join(told) or None)
        return self._checkpoint(job, text, "", Rung.DIGEST, stats)

    def _text(self, job: Job, evidence: Evidence, told: str | None) -> str:
        plan = job.plan
        return replacement.compose(evidence=evidence, prose=told, budget=plan.text, count=self._count, form=plan.form)

    def _trimmed(self, job: Job) -> Checkpoint:
        base = job.plan.base
        if base is None:
            return self._checkpoint(job, "", "", Rung.CLEARED, {"calls": 0})
        of_the_text = ("summarizer", "depth", "room", "form")
        kept: dict[str, Any] = {name: base.stats[name] for name in of_the_text if name in base.stats}
        return self._checkpoint(job, base.text, base.prose, base.rung, {**kept, "calls": 0})

    def _checkpoint(self, job: Job, text: str, prose: str, rung: Rung, stats: dict[str, Any]) -> Checkpoint:
        plan = job.plan
        trims = tuple(self._measured(job, trim) for trim in plan.trims)
        made = Checkpoint(
            tenant=job.tenant,
            key=job.key,
            start=plan.start,
            end=plan.end,
            text=text,
            carry=plan.carry,
            trims=trims,
            rung=rung,
            created=self._clock.now(),
            text_tokens=self._count(text) if text else 0,
            prose=prose,
        )
        after = job.view.size_with(made)
        record = {"form": plan.form, **stats, "before": job.view.total, "after": after, "reason": plan.reason}
        record["saves"] = self._accounts.saving(job.target, job.view.total, after)
        record |= {"turns": len(job.turns), "range": list(job.span(trims))}
        if plan.text:
            record["room"] = plan.text  # what the text was given: with more, it is rendered again
        return replace(made, stats=record)

    def _measured(self, job: Job, trim: Trim) -> Trim:
        """The trim with the true count of what it leaves; the frame's few tokens are counted along."""
        raw = job.turns[trim.index]
        shorter = rewrite.shorten(raw, trim.keep)
        text = envelope.value(shorter).get("content")
        content = text if isinstance(text, str) else envelope.dumps(text).decode("utf-8", "replace")
        tokens = self._count(content) + 12
        return replace(trim, tokens=min(tokens, job.view.turns[trim.index].tokens))

    async def _lease(self, name: str) -> bool:
        try:
            return await self._store.lease(name, self._owner, LEASE)
        except StoreError:
            return True  # without a store there is nobody to share with

    async def _renew(self, name: str) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            await self._lease(name)

    async def _release(self, name: str) -> None:
        try:
            await self._store.release(name, self._owner)
        except StoreError as error:
            log.warning("a lease could not be given back: %s", error)

    async def _made_elsewhere(self, job: Job) -> Checkpoint | None:
        await self._checkpoints.fetch(job.tenant, [job.key])
        known = {c.id for c in job.view.known}  # what the planner had, and found wanting
        found = [
            c
            for c in self._checkpoints.cached([job.key], "")
            if c.rung == Rung.MODEL and (c.start, c.end) == (job.plan.start, job.plan.end) and c.id not in known
        ]
        return min(found, key=lambda c: c.created) if found else None


def _name(job: Job) -> tuple[Hashable, ...]:
    """What a replacement without a summary depends on, but for its room."""
    plan = job.plan
    base = plan.base.id if plan.base else None
    return (job.key, plan.start, plan.end, plan.carry, plan.trims, plan.form, plan.reason, base)


def _with(evidence: Evidence, notes: str | None) -> Evidence:
    """With notes as something that was said: their names are not made up. No pins and no ledger come of them."""
    if not notes:
        return evidence
    return replace(evidence, messages=[*evidence.messages, {"role": "user", "content": notes}])


def _parse(raw: Sequence[bytes]) -> list[dict[str, Any]]:
    return [message for message in map(envelope.value, raw) if isinstance(message, dict)]


def _gather(raw: Sequence[bytes], carry: int | None) -> Evidence:
    return replacement.gather([m for i, m in enumerate(_parse(raw)) if i != carry])
