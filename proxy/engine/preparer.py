"""From a request to the bytes that go out: decide, make what has to be made, rewrite. Fails open."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from proxy.core import envelope, rewrite
from proxy.core.checkpoint import Checkpoint
from proxy.core.plan import Compact, Forward, Pass, Plan, Reuse, View
from proxy.engine.background import Background
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.compactor import Compactor
from proxy.engine.decider import Decider
from proxy.engine.faults import place
from proxy.engine.jobs import Jobs
from proxy.engine.prudence import Prudence
from proxy.engine.story import Sending, Story
from proxy.errors import ProxyError
from proxy.ports import Clock
from proxy.routing import Router, origin

log = logging.getLogger("compaction_proxy")


class Preparer:
    def __init__(
        self,
        *,
        router: Router,
        decider: Decider,
        checkpoints: Checkpoints,
        jobs: Jobs,
        background: Background,
        compactor: Compactor,
        prudence: Prudence,
        clock: Clock,
    ) -> None:
        self._router = router
        self._decider = decider
        self._checkpoints = checkpoints
        self._jobs = jobs
        self._background = background
        self._compactor = compactor
        self._prudence = prudence
        self._clock = clock

    async def prepare(self, story: Story, below: int | None = None, reason: str = "over-limit") -> Sending:
        """What to send now. Fails open."""
        try:
            decision = await self._decider.decide(story, below, reason)
            late = None
            if isinstance(decision, Compact) and decision.text and story.mode == "compact":
                late = await self._background.join(story)
                if late is not None:
                    decision = await self._decider.decide(story, below, reason)
            return await self._perform(story, decision, late or False)
        except ProxyError as error:
            log.warning("not compacted: %s", type(error).__name__)
        except Exception as error:
            log.error("not compacted: %s", place(error))
        return Sending(self.original(story), ("forward", "failed"))

    async def _perform(self, story: Story, decision: Plan, late: bool) -> Sending:
        """`late`: a summary for this conversation is under way and was waited for; no other is asked for beside it."""
        observing = story.mode == "observe"
        if isinstance(decision, Pass | Forward) or observing:
            would = (_name(decision), decision.reason)
            counted = story.view.head + story.view.sums[-1] if story.view else None
            if observing:
                told = "; ".join((*would, *_size(decision, story.view)))
                return Sending(self.original(story), ("pass", "observe"), counted, would=told)
            return Sending(self.original(story, counted), would, counted)
        view, reading = story.view, story.reading
        assert view is not None and reading is not None
        if isinstance(decision, Compact):
            if decision.base is not None and decision.reason != "refused":
                # A prefix came again, and its summary goes on in the new one.
                self._prudence.reused(story.scope, decision.base.key)
            checkpoint = await self._make(story, decision, late)
        else:
            checkpoint = decision.checkpoint
            self._prudence.reused(story.scope, checkpoint.key)
        if self._checkpoints.rejected(checkpoint, str(story.target)):  # made anew, and again what was refused
            return Sending(self.original(story), ("forward", "failed"))
        messages = rewrite.apply(story.request.messages, reading.head, checkpoint)
        counted = view.count(checkpoint.start, checkpoint.text_tokens, checkpoint.trims)
        body = envelope.write(
            story.request,
            messages=messages,
            output=self._decider.output(story, counted),
            model=story.route.upstream_model,
        )
        return Sending(body, (_name(decision), decision.reason), counted, checkpoint)

    async def _make(self, story: Story, decision: Compact, late: bool) -> Checkpoint:
        job = self._jobs.job(story, decision)
        if late or self._decider.useless(story):
            job = replace(job, endpoints=(), unasked="late" if late else "no_use")
        if job.endpoints and decision.text:
            self._background.make_way(origin(job.endpoints[0].url))
        story.incoming.waiting(True)
        try:
            return await self._compactor.make(job, max(0.0, story.deadline - self._clock.monotonic()))
        finally:
            story.incoming.waiting(False)

    def original(self, story: Story, counted: int | None = None) -> bytes:
        """The client's own bytes, but for a requested output that this upstream is known to refuse."""
        output = self._decider.output(story, counted)
        model = story.route.upstream_model
        if output is None and model is None:
            assert isinstance(story.incoming.body, bytes)
            return story.incoming.body
        return envelope.write(story.request, output=output, model=model)

    def failover(self, story: Story) -> Sending | None:
        """The original for the larger model that is configured, with the credentials meant for its place."""
        name = story.route.policy.failover
        if name is None:
            return None
        route = self._router.route(name, story.incoming.headers, story.incoming.upstream)
        body = envelope.write(story.request, model=route.upstream_model or name)
        return Sending(body, ("forward", "failover"), route=route)


def _size(decision: Plan, view: View | None) -> Iterator[str]:
    """What a decision that shortens would bring the request down to; a new replacement may turn out smaller."""
    if view is not None and isinstance(decision, Reuse | Compact):
        size = decision.size(view) if isinstance(decision, Compact) else view.size_with(decision.checkpoint)
        yield f"tokens={size}"


def _name(decision: Plan) -> str:
    return type(decision).__name__.lower()
