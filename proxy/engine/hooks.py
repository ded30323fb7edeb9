"""The operator's hooks: asked before a compaction and told after it, and never waited for longer than agreed.

One that fails, is late or talks nonsense is logged, and things go on as without it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.core.checkpoint import Checkpoint
from proxy.core.transcript import scrub
from proxy.engine.faults import place
from proxy.engine.jobs import Job
from proxy.errors import HookError
from proxy.ports import AFTER, BEFORE, Clock, Event, Hook

log = logging.getLogger("compaction_proxy")

WORDS_MOST = {"instructions": 8_000, "notes": 16_000, "summary": 256_000}
"""Characters of what a hook may answer. Instructions and notes go along with every call of the summariser: OpenClaw
takes 4,000 of the former; of a longer summary than its room what says most is kept."""

CLOSED_WITHIN = 5.0
"""Seconds for what is still being told when the process stops."""

TOLD_MOST = 64
"""Events on their way at once; each holds the messages of a conversation. Above it new ones are dropped."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What hooks answer. `skip`: no model is to be asked. `notes`: known from elsewhere, for the summariser to take in
    as data. `summary`: in place of one by a model."""

    skip: bool = False
    instructions: str | None = None
    notes: str | None = None
    summary: str | None = None

    def __repr__(self) -> str:  # no text
        said = [name for name in self.__slots__ if getattr(self, name)]
        return f"Advice({', '.join(said)})"


class Hooks:
    """All of them, as if they were one. `patience`: seconds that each has for its answer."""

    def __init__(self, hooks: Sequence[Hook] = (), patience: float = 5.0) -> None:
        self._hooks = tuple(hooks)
        self._patience = patience
        self._told: set[asyncio.Task[Advice]] = set()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    async def before(self, event: Event) -> Advice:
        """What they answer, all asked at once. Raises nothing."""
        return joined(await asyncio.gather(*(self._ask(hook, event, advice) for hook in self._hooks)))

    def after(self, event: Event) -> None:
        """Tell them, behind the request's back."""
        for hook in self._hooks:
            if len(self._told) >= TOLD_MOST:
                log.warning("a hook was not told of a compaction: too many wait to be told")
                return
            task = asyncio.create_task(self._ask(hook, event, lambda _: Advice()))  # whatever it answers
            self._told.add(task)
            task.add_done_callback(self._told.discard)

    async def aclose(self) -> None:
        """What is being told has its patience, within reason; nothing new is to come."""
        tasks = set(self._told)
        if tasks:
            await asyncio.wait(tasks, timeout=min(2 * self._patience, CLOSED_WITHIN))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, hook: Hook, event: Event, understood: Callable[[Any], Advice]) -> Advice:
        try:
            async with asyncio.timeout(self._patience):
                answer = await hook.tell(event)
            return understood(answer)
        except TimeoutError:
            reason = f"no answer within {self._patience:g} s"
        except HookError as error:
            reason = str(error) if error.__cause__ is None else f"raised {place(error.__cause__)}"
        except (Exception, SystemExit) as error:  # an object of the hook's may raise anything when it is read
            reason = place(error)
        log.warning("hook %r, %s: %s", hook, event.name, reason)
        return Advice()


def advice(answer: Any) -> Advice:
    """An answer, looked at. Raises `HookError` for one that says nothing we know; nothing of it is used then."""
    if answer is None:
        return Advice()
    problem = _problem(answer)
    if problem is not None:
        raise HookError(f"its answer was dropped: {problem}")
    words = {name: scrub(answer.get(name) or "").strip() or None for name in WORDS_MOST}
    return Advice(answer.get("skip", False), **words)


def _problem(answer: Any) -> str | None:
    """What is wrong with an answer; None: nothing."""
    if not isinstance(answer, dict):
        return "it is no object"
    unknown = sorted(map(ascii, set(answer) - {"skip", *WORDS_MOST}))
    if unknown:
        return f"it has keys that mean nothing: {', '.join(unknown)}"[:300]
    if not isinstance(answer.get("skip", False), bool):
        return "skip must be true or false"
    for name, most in WORDS_MOST.items():
        said = answer.get(name)
        if said is not None and not isinstance(said, str):
            return f"{name} must be a text"
        if said is not None and len(said) > most:
            return f"{name} must have at most {most} characters"
    return None


def joined(several: Sequence[Advice]) -> Advice:
    """What one says is said; of several summaries the first."""

    def all_of(texts: list[str | None]) -> str | None:
        return "\n\n".join(text for text in texts if text) or None

    return Advice(
        skip=any(one.skip for one in several),
        instructions=all_of([one.instructions for one in several]),
        notes=all_of([one.notes for one in several]),
        summary=next((one.summary for one in several if one.summary), None),
    )


def evicting(job: Job, clock: Clock) -> Event:
    """`before_compaction`: the turns that no summary has told yet, and what the one before them told."""
    plan = job.plan
    fields = {
        **_common(job, clock),
        "range": [job.since, plan.start],
        "carry": plan.carry,
        "room": plan.text,
        "previous": plan.base.prose if plan.base is not None else None,
    }
    return Event(BEFORE, fields, job.turns[job.since : plan.start])


def evicted(job: Job, made: Checkpoint, clock: Clock) -> Event:
    """`after_compaction`: both versions, the messages and what stands in their place now, and how it was made."""
    first, last = job.span(made.trims)
    fields = {
        **_common(job, clock),
        "range": [first, last],
        "carry": made.carry,
        "trims": [{"turn": trim.index, "keep": trim.keep} for trim in made.trims],
        "checkpoint": made.id,
        "rung": made.rung.name.lower(),
        "replacement": made.text or None,
        "summary": made.prose or None,
        "statistics": made.stats,
    }
    return Event(AFTER, fields, job.turns[first:last])


def _common(job: Job, clock: Clock) -> dict[str, Any]:
    return {
        "id": f"evt_{secrets.token_hex(12)}",
        "time": int(clock.now()),
        "tenant": job.tenant,
        "conversation": job.conversation,
        "model": job.target.model,
        "reason": job.plan.reason,
        "turns": len(job.turns),
        "tokens": job.view.total,
    }
