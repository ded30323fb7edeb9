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

BACK_OFF = 30.0
BACK_OFF_MOST = 600.0
"""Seconds a summariser rests after a failure, doubling with each further one."""


@dataclass(slots=True)
class _Scope:
    unused: int = 0
    digests: tuple[bytes, ...] = ()
    told: bool = False


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    until: float = 0.0
    calls: deque[float] = field(default_factory=deque)


class Prudence:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scopes: LRUCache[str, _Scope] = LRUCache(5_000)
        self._breakers: LRUCache[str, _Breaker] = LRUCache(1_000)

    def may_summarise(self, scope: str, turns: Sequence[Turn]) -> bool:
        """False after three summaries in a row for this tenant, model and head that nothing used."""
        found = self._scopes.get(scope)
        if found is None or found.unused < UNUSED_MOST:
            return True
        if not found.told:
            found.told = True
            log.warning(
                "%d summaries in a row were never used: the client changes message %d behind its head from one request "
                "to the next; compacting without a model until a prefix comes again",
                found.unused,
                _first_change(found.digests, turns),
            )
        return False

    def summarised(self, scope: str, turns: Sequence[Turn], calls: int) -> None:
        """A summary was made, for so many calls; one that took several counts twice."""
        found = self._scopes.get(scope) or _Scope()
        found.unused += min(calls, 2)
        found.digests = tuple(t.digest for t in turns)
        self._scopes[scope] = found

    def reused(self, scope: str) -> None:
        if scope in self._scopes:
            del self._scopes[scope]

    def may_call(self, summarizer: str, calls_per_hour: int) -> bool:
        """False while `summarizer` rests after a failure or has had its calls of this hour."""
        breaker = self._breaker(summarizer)
        now = self._clock.monotonic()
        while breaker.calls and breaker.calls[0] < now - 3600.0:
            breaker.calls.popleft()
        return now >= breaker.until and len(breaker.calls) < calls_per_hour

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
