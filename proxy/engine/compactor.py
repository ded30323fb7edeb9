"""Makes one checkpoint: asks a summariser as long as the request can wait, and always has an answer without one.

The wait is bounded, not the work: a summary that comes too late serves the next turn. One call per prefix at a time,
in this process and, by a lease, in all that share the store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from proxy.core import envelope, replacement, rewrite
from proxy.core.checkpoint import Checkpoint, Rung, Trim
from proxy.core.outline import outline
from proxy.core.plan import Compact, View
from proxy.core.replacement import Evidence
from proxy.core.turns import rounds
from proxy.engine.aside import Aside
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.faults import place
from proxy.engine.narrator import Endpoint, Narrator, Task
from proxy.engine.prudence import Prudence
from proxy.errors import StoreError, SummaryError
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

POLL = 0.5
"""Seconds between looks at the store while another process makes the same summary."""


@dataclass(frozen=True)
class Job:
    """A checkpoint to be made. `turns` are the raw messages behind the head; `scope` names tenant, model and head."""

    tenant: str
    key: str
    scope: str
    plan: Compact
    view: View
    turns: tuple[bytes, ...]
    window: int
    endpoints: tuple[Endpoint, ...]


class Compactor:
    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        store: Store,
        narrator: Narrator,
        prudence: Prudence,
        clock: Clock,
        count: Callable[[str], int],
    ) -> None:
        self._checkpoints = checkpoints
        self._store = store
        self._narrator = narrator
        self._prudence = prudence
        self._clock = clock
        self._count = count
        self._owner = secrets.token_hex(8)
        self._aside = Aside(THREADS)
        self._flights: dict[str, tuple[asyncio.Task[Checkpoint | None], float]] = {}
        self._shared: WeakValueDictionary[Hashable, asyncio.Task[Any]] = WeakValueDictionary()

    async def make(self, job: Job, wait: float) -> Checkpoint:
        """The checkpoint of `job`, after `wait` seconds at most. Raises ValueError if the turns cannot be read."""
        if not job.plan.text:
            made = await self._aside.run(self._trimmed, job)
            await self._checkpoints.keep(made)
            return made
        evidence = self._evidence(job)  # begun now, so that it is there when the wait ends
        flight = self._flight(job, evidence)
        if flight is not None:
            task, started = flight
            left = started + wait - self._clock.monotonic()
            # Neither this request's end nor its client's leaving cancels the work.
            done, _ = await asyncio.wait({task}, timeout=max(0.0, left))
            made_by_model = task.result() if done and not task.cancelled() else None
            # It may have been begun for a request whose last user message is another one.
            if made_by_model is not None and job.view.usable(made_by_model):
                return made_by_model
        plan = job.plan
        same = (plan.start, plan.end, plan.carry, plan.trims, plan.text, plan.form, plan.reason, job.window)
        name = ("digest", job.key, *same, plan.base.id if plan.base else None)
        return await asyncio.shield(self._once(name, lambda: self._digest(job, evidence)))

    async def aclose(self) -> None:
        for task, _ in list(self._flights.values()):
            task.cancel()
        await asyncio.gather(*(task for task, _ in self._flights.values()), return_exceptions=True)

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

    async def _digest(self, job: Job, evidence: asyncio.Task[Evidence]) -> Checkpoint:
        made = await self._aside.run(self._without_model, job, await asyncio.shield(evidence))
        await self._checkpoints.keep(made)
        return made

    def _flight(
        self, job: Job, evidence: asyncio.Task[Evidence]
    ) -> tuple[asyncio.Task[Checkpoint | None], float] | None:
        if job.key in self._flights:
            return self._flights[job.key]
        if not self._prudence.may_summarise(job.scope, job.view.turns):
            return None
        started = self._clock.monotonic()
        task = asyncio.create_task(self._fly(job, evidence))
        self._flights[job.key] = (task, started)
        task.add_done_callback(lambda _: self._flights.pop(job.key, None))
        return task, started

    async def _fly(self, job: Job, evidence: asyncio.Task[Evidence]) -> Checkpoint | None:
        """Never raises but on cancellation: what goes wrong here is logged, and the next rung answers."""
        name = f"summary:{job.key}"
        try:
            shared = False
            while not await self._lease(name):
                shared = True
                await asyncio.sleep(POLL)
                found = await self._made_elsewhere(job)
                if found is not None:
                    return found
            renewal = asyncio.create_task(self._renew(name))
            try:
                # The other one may have finished between our last look and the end of its lease.
                found = await self._made_elsewhere(job) if shared else None
                return found or await self._summarise(job, evidence)
            finally:
                renewal.cancel()
                await self._release(name)
        except Exception as error:
            log.error("a compaction failed: %s", place(error))
            return None

    async def _summarise(self, job: Job, evidence: asyncio.Task[Evidence]) -> Checkpoint | None:
        begun = self._clock.monotonic()
        plan = job.plan
        base = plan.base
        if base is not None and base.start == plan.start:
            told, calls, endpoint = base.prose, 0, None
        else:
            since = base.start if base else 0
            raw = job.turns[since : plan.start]
            messages = await self._aside.run(_parse, raw)
            starts = [s - since for s in rounds(job.view.turns[: plan.start]) if s >= since] or [0]
            task = Task(
                messages=messages,
                first=since,
                starts=starts,
                previous=base.prose if base else None,
                form=plan.form,
                budget=max(PROSE_LEAST, int(PROSE_SHARE * plan.text)),
            )
            try:
                told, calls, endpoint = await self._narrator.tell(task, job.endpoints)
            except SummaryError as error:
                log.warning("no summary: %s", error.reason)
                return None
        self._prudence.summarised(job.scope, job.view.turns, calls, job.key)
        stats = {
            "calls": calls,
            "seconds": round(self._clock.monotonic() - begun, 2),
            "summarizer": endpoint.model if endpoint else None,
            "depth": 1 + (base.stats.get("depth", 1) if base else 0),
        }
        found = await asyncio.shield(evidence)
        made = await self._aside.run(self._compose, job, found, told, Rung.MODEL, stats)
        await self._checkpoints.keep(made)
        return made

    def _compose(self, job: Job, evidence: Evidence, told: str | None, rung: Rung, stats: dict[str, Any]) -> Checkpoint:
        plan = job.plan
        text = replacement.compose(
            evidence=evidence, prose=told, budget=plan.text, window=job.window, count=self._count, form=plan.form
        )
        return self._checkpoint(job, text, told if rung == Rung.MODEL and told else "", rung, stats)

    def _without_model(self, job: Job, evidence: Evidence) -> Checkpoint:
        """The last rung: what the summary before this one told, an outline of what came since, pins and ledger."""
        base = job.plan.base
        told = None
        if base is not None and base.start <= job.plan.start:
            since = _parse(job.turns[base.start : job.plan.start])
            room = max(50, job.plan.text // 4)
            told = base.prose + "\n\n" + outline(since, room, self._count, base.start) if since else base.prose
        return self._compose(job, evidence, told, Rung.DIGEST, {"calls": 0})

    def _trimmed(self, job: Job) -> Checkpoint:
        base = job.plan.base
        if base is None:
            return self._checkpoint(job, "", "", Rung.CLEARED, {"calls": 0})
        return self._checkpoint(job, base.text, base.prose, base.rung, {**base.stats, "calls": 0})

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
        record = {"before": job.view.total, "after": after, "reason": plan.reason, "form": plan.form, **stats}
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
            if c.rung == Rung.MODEL and c.start == job.plan.start and c.id not in known
        ]
        return min(found, key=lambda c: c.created) if found else None


def _parse(raw: Sequence[bytes]) -> list[dict[str, Any]]:
    return [message for message in map(envelope.value, raw) if isinstance(message, dict)]


def _gather(raw: Sequence[bytes], carry: int | None) -> Evidence:
    return replacement.gather([m for i, m in enumerate(_parse(raw)) if i != carry])
