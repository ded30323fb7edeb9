"""Brings together what `core.plan` needs to decide about a request, and takes in what the upstream says of it."""

from __future__ import annotations

import re
from dataclasses import replace

from proxy.core.budget import Budget, budget
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.overflow import Overflow
from proxy.core.plan import AHEAD, Compact, Forward, Pass, Plan, Reuse, View, ahead, better, plan
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.knowledge import Knowledge
from proxy.engine.reader import Reader
from proxy.engine.rejoin import Rejoining
from proxy.engine.story import Sending, Story
from proxy.engine.windows import Windows
from proxy.settings import Settings

SHRINK = 0.9
"""Each retry is at least so much smaller than what was refused."""

BLIND = 0.6
"""Where an upstream says no number, the next try aims at this share of the last size."""

OUTPUT_SLACK = 0.02
"""Of the window, left free when a requested output is lowered: counts differ by a token or two a message."""

MEDIA = re.compile(rb'"(?:image|image_url|input_image|input_audio|audio|file|input_file|video|video_url)"')
"""Names of parts whose cost has nothing to do with their length in bytes."""

UNBOUNDED = 1 << 40
"""The window where none is known but a size to stay below is."""


class Decider:
    def __init__(
        self,
        *,
        settings: Settings,
        reader: Reader,
        checkpoints: Checkpoints,
        knowledge: Knowledge,
        windows: Windows,
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._checkpoints = checkpoints
        self._knowledge = knowledge
        self._windows = windows
        self._rejoining = Rejoining()

    def window(self, story: Story) -> int | None:
        """The window of the model that is asked, in tokens; None if nobody knows."""
        route = story.route
        return self._windows.of(story.target, story.tenant, route.policy.window, route.headers)

    def budget(self, story: Story, below: int | None = None) -> Budget | None:
        """The sizes to keep; None while nothing is known. `below`: the upstream refused that many tokens."""
        policy = story.route.policy
        window = self.window(story)
        if window is None and policy.compact_at is None and below is None:
            return None
        return budget(window or UNBOUNDED, policy.compact_at, below)

    async def decide(self, story: Story, below: int | None, reason: str) -> Plan:
        """What to do with the request, with its reason. Fills in the story on the way."""
        sizes = self.budget(story, below)
        if not story.force:
            if sizes is None:
                return Pass("window-unknown")
            if below is None and self._surely_fits(story, sizes):
                return Pass("fits")
        if not await self._read(story):
            return Pass("unreadable")
        view = self._look(story)
        if story.force and below is None:
            sizes = sizes or Budget(UNBOUNDED, UNBOUNDED, UNBOUNDED)
            sizes = replace(sizes, limit=min(view.total - 1, sizes.limit))
            reason = "forced"
        clearing = self._settings.clearing
        decision = plan(view, sizes, clearing=clearing, reason=reason)
        if (isinstance(decision, Compact) or _for_want_of_a_model(decision)) and not story.fetched:
            story.fetched = True
            known = await self._checkpoints.fetch(story.tenant, story.keys)
            if known or (isinstance(decision, Compact) and await self._rejoined(story)):
                decision = plan(self._look(story), sizes, clearing=clearing, reason=reason)
            if not isinstance(decision, Pass):
                self._rejoining.remember(story.tenant, view.turns, story.keys)
        if isinstance(decision, Compact) and reason == "over-limit" and self.useless(story) == "refused":
            return Forward("failed")  # it took the original; should that be too long by now, it will say so
        return decision

    def useless(self, story: Story) -> str | None:
        """Why no summary should be paid for this conversation now; None: nothing speaks against it."""
        return self._knowledge.useless(story.target, story.keys)

    def was_useless(self, story: Story, checkpoint: Checkpoint, reason: str) -> None:
        """`checkpoint` did not help; `reason` is one of `knowledge.USELESS`."""
        self._knowledge.was_useless(story.target, checkpoint.key, reason)

    async def look_again(self, story: Story) -> bool:
        """Whether another process has compacted the conversation of `story` meanwhile."""
        return await self._checkpoints.fetch(story.tenant, story.keys)

    def ahead(self, story: Story, sending: Sending, *, mends: bool) -> Compact | None:
        """What to make now that `sending` was answered, before the next request of its conversation comes. Whether
        that `mends` a text that was made without a model comes first."""
        sizes = self.budget(story)
        if sizes is None or story.view is None or sending.counted is None or self.useless(story):
            return None
        if mends and sending.checkpoint is not None and sending.checkpoint.rung == Rung.DIGEST:
            return better(self._look(story), sizes, sending.checkpoint)
        if story.view.tokens(sending.counted, sending.form) <= (1 - AHEAD) * sizes.limit:
            return None
        view = self._look(story)
        decision = ahead(view, sizes, clearing=self._settings.clearing)
        if decision is not None:
            self._rejoining.remember(story.tenant, view.turns, story.keys)
        return decision

    async def count(self, story: Story) -> int | None:
        """Our count of the request as the client sent it; None if it cannot be read."""
        if not await self._read(story):
            return None
        assert story.reading is not None
        return story.reading.head_tokens + sum(t.tokens for t in story.reading.turns)

    async def _rejoined(self, story: Story) -> bool:
        """Whether the request is what its client left of a conversation that is known; the story goes on with that."""
        view = story.view
        assert view is not None
        found = None if view.known else self._rejoining.find(story.tenant, view.turns, story.keys)
        if found is None:
            return False
        story.keys = found
        await self._checkpoints.fetch(story.tenant, story.keys)
        return True

    async def _read(self, story: Story) -> bool:
        if story.reading is None:
            story.reading = await self._reader.read(story.request)
            if story.reading is not None:
                story.keys = story.reading.keys(story.tenant)
        return story.reading is not None

    def _look(self, story: Story) -> View:
        reading = story.reading
        assert reading is not None
        there = self._checkpoints.cached(story.keys, str(story.target))
        moved = [checkpoint.moved(story.keys.index(checkpoint.key)) for checkpoint in there]
        known = tuple(checkpoint for checkpoint in moved if checkpoint is not None)
        ratios = {form: self._knowledge.ratio(story.target, story.keys, form) for form in ("", *(c.id for c in known))}
        story.view = View(
            head=reading.head_tokens,
            turns=reading.turns,
            scale=self._knowledge.scale(story.target, story.tenant, story.keys),
            known=known,
            ratios={form: ratio for form, ratio in ratios.items() if ratio is not None},
        )
        return story.view

    def _surely_fits(self, story: Story, sizes: Budget) -> bool:
        """Text alone cannot have more tokens than bytes: no counting at all."""
        request = story.request
        output = request.output[1] if request.output and self._knowledge.counts_output(story.target) else 0
        size = len(request.body)
        return size <= sizes.limit and size + output <= sizes.window and not MEDIA.search(request.body)

    def output(self, story: Story, counted: int | None) -> int | None:
        """The requested output, lowered to what fits behind the prompt; None: as the client asked."""
        request, view = story.request, story.view
        if counted is None or view is None or request.output is None:
            return None
        if not self._knowledge.counts_output(story.target):
            return None
        window = self.window(story)
        if window is None:
            return None
        room = window - view.tokens(counted) - int(window * OUTPUT_SLACK)
        return max(1, room) if room < request.output[1] else None

    async def learn(self, story: Story, sending: Sending, said: Overflow) -> int | None:
        """Take in a refusal; returns the size that the next attempt has to stay below, None for no other than now."""
        uncut = await self.count(story)
        if uncut is None:
            return None
        counted = uncut if sending.counted is None else sending.counted
        before = counted * self._knowledge.scale(story.target, story.tenant, story.keys)
        await self._knowledge.saw_overflow(story.target, story.tenant, story.keys[-1], counted, said, form=sending.form)
        if self._only_output(story, said):
            await self._knowledge.saw_output_counted(story.target)
            return None
        if said.window is None and said.prompt is None:
            return int(BLIND * before)
        return int(SHRINK * counted * self._knowledge.scale(story.target, story.tenant, story.keys))

    def _only_output(self, story: Story, said: Overflow) -> bool:
        """The prompt fits and only the requested output is too big: summarising would lose data for nothing."""
        if said.window is None or said.prompt is None or said.at_least or not story.request.output:
            return False
        if self._knowledge.counts_output(story.target):
            return False  # lowered already, and refused all the same
        return said.prompt + int(said.window * OUTPUT_SLACK) + 1 <= said.window


def _for_want_of_a_model(decision: Plan) -> bool:
    """Whether what will be used was made without one: another process may have had its summary since."""
    return isinstance(decision, Reuse) and decision.checkpoint.rung == Rung.DIGEST
