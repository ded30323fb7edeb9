"""When not to ask a summariser: it failed just now, it was asked too often, or its summaries are never used."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from cachetools import LRUCache

from proxy.core.turns import Turn
from proxy.ports import Clock

log = logging.getLogger("compaction_proxy")

UNUSED_MOST = 3
"""Summaries in a row that no later request used: a client that rewrites an early message on every turn."""

SAME = 0.5
"""Share of its messages that makes a conversation the same one; different ones share an opening at most."""

TALKS = 32
"""Conversations of one tenant, model and head that are told apart."""

BACK_OFF = 30.0
BACK_OFF_MOST = 600.0
"""Seconds a summariser rests after a failure, doubling with each further one."""


@dataclass(slots=True)
class _Talk:
    """A conversation that was summarised, and how often in a row for nothing."""

    digests: tuple[bytes, ...]
    keys: set[str] = field(default_factory=set)  # of its checkpoints
    unused: int = 0
    told: bool = False

    def is_same(self, turns: Sequence[Turn]) -> bool:
        """Most messages are the same: it went on, whatever was changed in it."""
        mine = set(self.digests)
        shared = sum(t.digest in mine for t in turns)
        return shared >= SAME * min(len(self.digests), len(turns))


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    until: float = 0.0
    calls: deque[float] = field(default_factory=deque)


class Prudence:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._talks: LRUCache[str, deque[_Talk]] = LRUCache(5_000)  # by scope, the newest last
        self._breakers: LRUCache[str, _Breaker] = LRUCache(1_000)

    def may_summarise(self, scope: str, turns: Sequence[Turn]) -> bool:
        """False after three summaries in a row of one conversation (one tenant, model, head) that nothing used."""
        talk = self._find(scope, turns)
        if talk is None or talk.unused < UNUSED_MOST:
            return True
        if not talk.told:
            talk.told = True
            log.warning(
                "%d summaries in a row were never used: the client changes message %d behind its head from one request "
                "to the next; compacting without a model until a prefix comes again",
                talk.unused,
                _first_change(talk.digests, turns),
            )
        talk.digests = tuple(t.digest for t in turns)  # as it goes on, it stays the same one
        return False

    def summarised(self, scope: str, turns: Sequence[Turn], calls: int, key: str) -> None:
        """A summary was made, for so many calls, and stands under `key`; one that took several counts twice."""
        talk = self._find(scope, turns)
        if talk is None:
            talk = _Talk(())
            self._talks.setdefault(scope, deque(maxlen=TALKS)).append(talk)
        talk.unused += min(calls, 2)
        talk.digests = tuple(t.digest for t in turns)
        talk.keys.add(key)

    def reused(self, scope: str, key: str) -> None:
        """The checkpoint under `key` served a later request."""
        talks = self._talks.get(scope)
        if talks:
            self._talks[scope] = deque((t for t in talks if key not in t.keys), TALKS)

    def _find(self, scope: str, turns: Sequence[Turn]) -> _Talk | None:
        return next((talk for talk in reversed(self._talks.get(scope, ())) if talk.is_same(turns)), None)

    def may_call(self, summarizer: str, calls_per_hour: int) -> bool:
        return self.why_not(summarizer, calls_per_hour) is None

    def why_not(self, summarizer: str, calls_per_hour: int) -> str | None:
        """A name of `NO_SUMMARY` while `summarizer` rests after a failure or has had its calls of this hour."""
        breaker = self._breaker(summarizer)
        now = self._clock.monotonic()
        while breaker.calls and breaker.calls[0] < now - 3600.0:
            breaker.calls.popleft()
        if now < breaker.until:
            return "resting"
        return "calls_per_hour" if len(breaker.calls) >= calls_per_hour else None

    def called(self, summarizer: str) -> None:
        self._breaker(summarizer).calls.append(self._clock.monotonic())

    def failed(self, summarizer: str) -> None:
        breaker = self._breaker(summarizer)
        breaker.until = self._clock.monotonic() + min(BACK_OFF_MOST, BACK_OFF * 2**breaker.failures)
        breaker.failures = min(breaker.failures + 1, 10)

    def worked(self, summarizer: str) -> None:
        breaker = self._breaker(summarizer)
        breaker.failures, breaker.until = 0, 0.0

    def _breaker(self, summarizer: str) -> _Breaker:
        found = self._breakers.get(summarizer)
        if found is None:
            found = self._breakers[summarizer] = _Breaker()
        return found


def _first_change(before: Sequence[bytes], turns: Sequence[Turn]) -> int:
    """Counted from 1, as people do."""
    for index, (old, turn) in enumerate(zip(before, turns, strict=False)):
        if old != turn.digest:
            return index + 1
    return min(len(before), len(turns)) + 1
