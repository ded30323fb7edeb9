"""From a decision to the job of making it: whose conversation it is, which turns, who may be asked for a summary."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.checkpoint import Trim
from proxy.core.plan import Compact, View
from proxy.engine.knowledge import Knowledge, Target
from proxy.engine.narrator import Endpoint
from proxy.engine.story import Story
from proxy.engine.windows import Windows
from proxy.routing import Router

OPENING = 2
"""Turns that tell one conversation of a tenant from another: what was asked first, and what was answered."""


@dataclass(frozen=True)
class Job:
    """A checkpoint to be made. `turns` are the raw messages behind the head; `scope` names tenant, model and head;
    `target` is who will read the result. `unasked`: why there are no `endpoints`, a name of `NO_SUMMARY`."""

    tenant: str
    key: str
    scope: str
    plan: Compact
    view: View
    turns: tuple[bytes, ...]
    endpoints: tuple[Endpoint, ...]
    target: Target
    unasked: str = "no_use"

    @property
    def since(self) -> int:
        """Where the turns begin that no summary has told yet."""
        base = self.plan.base
        return min(base.start, self.plan.start) if base is not None else 0

    def span(self, trims: Sequence[Trim]) -> tuple[int, int]:
        """The turns that are told, or with `trims` alone shortened, for the first time; the last one not included."""
        if self.plan.text:
            return self.since, self.plan.start
        return min((trim.index for trim in trims), default=0), max((trim.index for trim in trims), default=-1) + 1

    @property
    def conversation(self) -> str:
        """A name for the conversation, 16 hex digits: the same while its first two turns are."""
        told = b"".join(turn.digest for turn in self.view.turns[:OPENING])
        return hashlib.sha256(self.tenant.encode("utf-8", "surrogatepass") + b" " + told).hexdigest()[:16]

    def __repr__(self) -> str:  # fit for logs: no text
        return f"Job({self.plan.reason}: [0,{self.plan.start}) of {len(self.turns)} turns for {self.target})"


class Jobs:
    def __init__(self, *, router: Router, knowledge: Knowledge, windows: Windows) -> None:
        self._router = router
        self._knowledge = knowledge
        self._windows = windows

    def job(self, story: Story, decision: Compact) -> Job:
        """The job of making what was decided for a story that has been read."""
        view, reading = story.view, story.reading
        assert view is not None and reading is not None
        return Job(
            tenant=story.tenant,
            key=story.keys[decision.end],
            scope=story.scope,
            plan=decision,
            view=view,
            turns=story.request.messages[reading.head :],
            endpoints=self._endpoints(story),
            target=story.target,
        )

    def _endpoints(self, story: Story) -> tuple[Endpoint, ...]:
        """Who may be asked for the summary, in order. Text goes to no origin but the request's own, unless named."""
        router, route = self._router, story.route
        own = router.summariser_settings(route)
        url = router.summariser_url(route, story.incoming.query)
        headers = router.summariser_headers(route, story.incoming.headers)
        found = []
        for model in (own.model or story.target.model, *own.fallbacks):
            target = Target(router.summariser_base(route), model)
            known = own.window or router.route(model, ()).policy.window
            found.append(
                Endpoint(
                    url=url,
                    headers=headers,
                    model=model,
                    window=self._windows.of(target, story.tenant, known, headers),
                    max_tokens=own.max_tokens,
                    calls_per_hour=own.calls_per_hour,
                    scale=self._knowledge.factor(target),
                    silence=own.silence,
                    total=own.total,
                    instructions=own.instructions,
                    prompt=own.prompt,
                )
            )
        return tuple(found)
