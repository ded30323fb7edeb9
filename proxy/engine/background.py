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


RESTS = 30.0
RESTS_MOST = 600.0
"""Seconds in which nothing is begun for a conversation again after it came to nothing, doubling with each further time:
the request that needs it will see to it."""


@dataclass(slots=True)
class _Work:
    key: str  # of the checkpoint that is to be made
    conversation: str
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
        self._gave_way: LRUCache[str, bool] = LRUCache(5_000)  # by conversation
        self._vain: LRUCache[str, tuple[float, float]] = LRUCache(5_000)  # by conversation: it rests until, for so long
        self._tried: LRUCache[str, bool] = LRUCache(5_000)  # ids of checkpoints that a model was to make better
        self._tasks: set[asyncio.Task[None]] = set()

    def after(self, story: Story, sending: Sending) -> None:
        """The answer to `sending` is with the client. Returns at once, and never raises."""
        if not self._enabled or story.mode != "compact" or story.force or sending.route is not None:
            return
        tried = sending.checkpoint is not None and sending.checkpoint.id in self._tried
        decision = self._decider.ahead(story, sending, mends=not tried)
        if decision is not None:
            task = asyncio.create_task(self._make(story, sending, decision))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def make_way(self, origin: str) -> None:
        """A request is about to go there, be it for a summary of its own."""
        work = self._work.get(origin)
        if work is None or not work.gives_way:
            return
        if not work.begun:
            del self._work[origin]
        elif not self._compactor.give_up(work.key):
            return
        self._gave_way[work.conversation] = True

    async def join(self, story: Story) -> bool | None:
        """Wait, as long as the request may, for what is being made for its conversation: whether it is late even so;
        None if nothing is being made."""
        for there, work in list(self._work.items()):
            if work.key not in story.keys:
                continue
            if not work.begun:
                del self._work[there]  # the request sees to it now
            else:
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
            if decision.text and await self._decider.look_again(story):
                again = self._decider.ahead(story, sending, mends=decision.reason == "better")
                if again is None:
                    return
                decision = again
            job = self._jobs.job(story, decision)
            if not decision.text:  # no model is needed: it is there at once
                await self._compactor.make(job, 0.0)
            elif self._worth_a_try(job):
                await self._summarise(job, sending)
        except Exception as error:
            log.error("nothing compacted ahead: %s", place(error))

    async def _summarise(self, job: Job, sending: Sending) -> None:
        there, conversation = origin(job.endpoints[0].url), job.conversation
        if there in self._work:
            return
        gives_way = there.startswith("http:") and conversation not in self._gave_way
        work = self._work[there] = _Work(job.key, conversation, gives_way)
        try:
            if gives_way:
                await asyncio.sleep(QUIET)
            if self._work.get(there) is not work:
                return
            work.begun = True
            task = self._compactor.start(job)
            if task is None:
                return
            await asyncio.wait({task})
            if task.cancelled():
                log.info("a compaction in the background gave way to a request for %s", there)
            else:
                if job.plan.reason == "better" and sending.checkpoint is not None:
                    self._tried[sending.checkpoint.id] = True
                self._gave_way.pop(conversation, None)
                if task.result() is None:
                    rest = min(RESTS_MOST, 2 * self._vain.get(conversation, (0.0, RESTS / 2))[1])
                    self._vain[conversation] = (self._clock.monotonic() + rest, rest)
                else:
                    self._vain.pop(conversation, None)
        finally:
            if self._work.get(there) is work:
                del self._work[there]

    def _worth_a_try(self, job: Job) -> bool:
        """There is a model that may be asked, and no reason to think that it will be for nothing."""
        if self._vain.get(job.conversation, (0.0, 0.0))[0] > self._clock.monotonic():
            return False
        return any(self._prudence.may_call(e.name, e.calls_per_hour) for e in job.endpoints)
