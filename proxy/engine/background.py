"""Compactions before they are needed, so that nobody waits for one.

After an answer that left its conversation within a tenth of the limit, the next compaction is made while the user reads
or the agent works: one at a time for each summariser's origin. A local server has few slots, so work there is broken
off when a request for the same origin comes; but not a second time for the same conversation, or a client that never
pauses would pay for beginnings alone. Over https it goes on: what was begun there has a price, and slots are many.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from cachetools import LRUCache

from proxy.core.plan import Compact
from proxy.engine.compactor import Compactor
from proxy.engine.decider import Decider
from proxy.engine.faults import place
from proxy.engine.jobs import Job, Jobs
from proxy.engine.prudence import Prudence
from proxy.engine.story import Sending, Story
from proxy.ports import Clock
from proxy.routing import origin

log = logging.getLogger("compaction_proxy")


QUIET = 0.3
"""Seconds without a request for the same origin before work there begins: an agent whose tools are quick asks again
before a call could have come to anything."""


@dataclass(slots=True)
class _Work:
    key: str  # of the checkpoint that is to be made
    scope: str
    gives_way: bool
    begun: bool = False


class Background:
    def __init__(
        self,
        *,
        enabled: bool,
        decider: Decider,
        jobs: Jobs,
        compactor: Compactor,
        prudence: Prudence,
        clock: Clock,
    ) -> None:
        self._enabled = enabled
        self._decider = decider
        self._jobs = jobs
        self._compactor = compactor
        self._prudence = prudence
        self._clock = clock
        self._work: dict[str, _Work] = {}  # by origin of the summariser
        self._gave_way: LRUCache[str, bool] = LRUCache(5_000)  # by scope
        self._tried: LRUCache[str, bool] = LRUCache(5_000)  # ids of checkpoints that a model was to make better
        self._tasks: set[asyncio.Task[None]] = set()

    def after(self, story: Story, sending: Sending) -> None:
        """The answer to `sending` is with the client. Returns at once, and never raises."""
        if not self._enabled or story.mode != "compact" or story.force or sending.route is not None:
            return
        decision = self._decider.ahead(story, sending)
        if decision is not None:
            task = asyncio.create_task(self._make(story, sending, decision))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def make_way(self, origin: str) -> None:
        """A request is about to go there."""
        work = self._work.get(origin)
        if work is None or not work.gives_way:
            return
        if not work.begun:
            del self._work[origin]
        elif not self._compactor.give_up(work.key):
            return
        self._gave_way[work.scope] = True

    async def join(self, story: Story) -> bool | None:
        """Wait, as long as the request may, for what is being made for its conversation: whether it is late even so;
        None if nothing is being made."""
        for work in list(self._work.values()):
            if work.begun and work.key in story.keys:
                story.incoming.waiting(True)
                try:
                    await self._compactor.wait_for(work.key, story.deadline - self._clock.monotonic())
                finally:
                    story.incoming.waiting(False)
                return work in self._work.values()
        return None

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _make(self, story: Story, sending: Sending, decision: Compact) -> None:
        try:
            job = self._jobs.job(story, decision)
            if not decision.text:  # no model is needed: it is there at once
                await self._compactor.make(job, 0.0)
            elif decision.reason == "ahead" or self._worth_a_try(job, sending):
                await self._summarise(job)
        except Exception as error:
            log.error("nothing compacted ahead: %s", place(error))

    async def _summarise(self, job: Job) -> None:
        there = origin(job.endpoints[0].url)
        if there in self._work:
            return
        gives_way = there.startswith("http:") and job.scope not in self._gave_way
        work = self._work[there] = _Work(job.key, job.scope, gives_way)
        try:
            if gives_way:
                await asyncio.sleep(QUIET)
            if self._work.get(there) is not work:
                return
            work.begun = True
            task = self._compactor.start(job)
            if task is not None:
                await asyncio.wait({task})
                if not task.cancelled():
                    self._gave_way.pop(job.scope, None)
        finally:
            if self._work.get(there) is work:
                del self._work[there]

    def _worth_a_try(self, job: Job, sending: Sending) -> bool:
        """A text that was made without a model gets one chance, when there is one again that can be asked."""
        assert sending.checkpoint is not None
        if sending.checkpoint.id in self._tried:
            return False
        if not any(self._prudence.may_call(e.name, e.calls_per_hour) for e in job.endpoints):
            return False
        self._tried[sending.checkpoint.id] = True
        return True
