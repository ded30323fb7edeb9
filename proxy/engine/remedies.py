"""What may help when the upstream says no, each as often as it can help; what to send next, or nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from proxy.core import envelope, overflow, strip
from proxy.core.checkpoint import Checkpoint
from proxy.core.overflow import Overflow
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.decider import Decider
from proxy.engine.faults import place
from proxy.engine.preparer import Preparer
from proxy.engine.story import Outcome, Sending, Story
from proxy.errors import UpstreamError, UpstreamTimeout

log = logging.getLogger("compaction_proxy")

RETRIES = 3
"""After as many refusals Letta and OpenClaw stop too."""

TIMEOUTS = 2
BUSY = 0.65
"""A timeout is treated as an overflow twice at most, and only with more than 65 % of the window in use (OpenClaw)."""

TIMED_OUT = frozenset({408, 504, 524})

SHRINK = 0.9
"""What timed out is sent again at least so much smaller."""

REFUSED = frozenset({400, 404, 413, 415, 422, 500, 501})
"""Statuses that can be the fault of what we wrote; 401, 403, 408, 429 and a gateway's 502-504 cannot."""

IMAGES_SHARE = 0.75
"""A body that was too large for its images is brought down to this share of it (Letta's figure)."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with an attempt: the status and words of its answer, or a failure where there was none."""

    status: int | None = None
    overflow: Overflow | None = None
    complaint: bytes = b""
    failure: UpstreamError | None = None

    @property
    def timed_out(self) -> bool:
        return isinstance(self.failure, UpstreamTimeout) or self.status in TIMED_OUT


class Remedies:
    """For one request: remembers what was tried."""

    def __init__(self, preparer: Preparer, decider: Decider, checkpoints: Checkpoints, story: Story) -> None:
        self._preparer = preparer
        self._decider = decider
        self._checkpoints = checkpoints
        self._story = story
        self._sent: set[bytes] = set()
        self._below: int | None = None
        self._refusals = 0
        self._timeouts = 0
        self._once: set[str] = set()
        self._suspect: Checkpoint | None = None
        self.found: Outcome | None = None  # what a second look made of a request that cannot be made shorter

    async def after(self, sending: Sending, trouble: Trouble) -> Sending | None:
        """What to send after `sending` met with `trouble`; None: its answer goes to the client."""
        self._sent.add(sending.body)
        if sending.route is not None or "original" in self._once:
            return None  # the last resort was tried
        found = None
        if trouble.status == 413 and strip.has_images(sending.body):
            found = self._without_images(sending)
        elif trouble.overflow is not None:
            found = await self._shorter(sending, trouble.overflow) or self._larger_model()
        elif trouble.timed_out:
            found = await self._after_timeout(sending) or self._larger_model()
        elif sending.checkpoint is not None and overflow.is_reasoning_complaint(trouble.status or 0, trouble.complaint):
            found = self._without_reasoning(sending) or self._rejected(sending, trouble)
        elif sending.checkpoint is not None and trouble.status in REFUSED:
            found = self._rejected(sending, trouble)
        if found is not None and found.route is None and found.body in self._sent:
            found = None
        if found is None or found.route is not None:
            self._gave_up(sending, trouble)
        return found

    def _gave_up(self, sending: Sending, trouble: Trouble) -> None:
        reason = "too-long" if trouble.overflow is not None else "timeout" if trouble.timed_out else None
        if sending.checkpoint is not None and reason is not None:
            self._decider.was_useless(self._story, sending.checkpoint, reason)

    def tells_more(self, trouble: Trouble) -> bool:
        """Whether this answer is worth more to the client than the refusal before it: the newest overflow is, what
        the original met with after a refusal of what we had made of it is not, nor is no answer at all."""
        return trouble.status is not None and "original" not in self._once and "failover" not in self._once

    def succeeded(self) -> None:
        """The last attempt was answered: if that was the original, what we had made of it was at fault."""
        if self._suspect is not None:
            self._checkpoints.reject(self._suspect, str(self._story.target))
            self._decider.was_useless(self._story, self._suspect, "refused")

    async def _shorter(self, sending: Sending, said: Overflow) -> Sending | None:
        """Take in the numbers and replan; nothing that is no shorter is sent again."""
        self._refusals += 1
        if self._refusals > RETRIES:
            return None
        try:
            below = await self._decider.learn(self._story, sending, said)
        except Exception as error:
            log.error("nothing learned from a refusal: %s", place(error))
            return None
        self._below = below
        return await self._replanned(sending, "refused")

    async def _after_timeout(self, sending: Sending) -> Sending | None:
        story = self._story
        budget = self._decider.budget(story)
        self._timeouts += 1
        if self._timeouts > TIMEOUTS or budget is None or story.view is None or sending.counted is None:
            return None
        size = story.view.tokens(sending.counted, sending.form)
        if size <= BUSY * budget.window:
            return None
        self._below = int(SHRINK * size)
        return await self._replanned(sending, "timeout")

    async def _replanned(self, sending: Sending, reason: str) -> Sending | None:
        made = await self._preparer.prepare(self._story, self._below, reason)
        if sending.checkpoint is not None and made.checkpoint is None and self._below is not None:
            return None  # back to the original: it was longer
        if made.body in self._sent:
            self.found = made.outcome
            return None
        return made

    def _rejected(self, sending: Sending, trouble: Trouble) -> Sending:
        """What we wrote was refused for another reason than its size: the original, once."""
        assert sending.checkpoint is not None
        log.warning("the upstream refused a rewritten request with status %s: %r", trouble.status, sending.checkpoint)
        self._suspect = sending.checkpoint
        self._once.add("original")
        return Sending(self._preparer.original(self._story), ("forward", "failed"))

    def _without_reasoning(self, sending: Sending) -> Sending | None:
        """Signed thinking can be bound to what stood before it: a compaction makes it invalid."""
        if "reasoning" in self._once:
            return None
        self._once.add("reasoning")
        request = envelope.parse(sending.body)
        reading = self._story.reading
        if request is None or reading is None or self._story.view is None:
            return None
        pending = len(reading.turns) - self._story.view.pending  # of the newest round it is still needed
        stripped = strip.older_reasoning(request.messages, len(request.messages) - pending)
        if stripped is None:
            return None
        log.warning(
            "older reasoning left out for %.200a: the upstream cannot verify it behind a compaction",
            str(self._story.target),
        )
        return replace(sending, body=envelope.write(request, messages=stripped), outcome=("compact", "reasoning"))

    def _without_images(self, sending: Sending) -> Sending | None:
        """Too many bytes, not too many tokens."""
        request = envelope.parse(sending.body)
        self._refusals += 1
        if request is None or self._refusals > RETRIES:
            return None
        excess = int(len(sending.body) * (1 - IMAGES_SHARE))
        stripped = strip.oldest_images(request.messages, excess)
        if stripped is None:
            return None
        return replace(
            sending, body=envelope.write(request, messages=stripped), outcome=("compact", "images"), counted=None
        )

    def _larger_model(self) -> Sending | None:
        """The configured larger model gets the original, at its own upstream."""
        found = None if "failover" in self._once else self._preparer.failover(self._story)
        if found is not None:
            self._once.add("failover")
            self.found = None
        return found
