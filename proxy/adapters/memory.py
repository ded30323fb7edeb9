"""A store that lives and dies with its process: the shipped fake, and all that a single worker needs."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.adapters.retention import IN_MEMORY, LONGEST_LEASE, MOST_FACTS, Retention, size
from proxy.core.checkpoint import Checkpoint


@dataclass(slots=True)
class _Kept:
    checkpoint: Checkpoint
    number: int  # in order of writing
    used: float


class MemoryStore:
    """`Store` and `Records` in dictionaries. `now` gives seconds since the epoch."""

    def __init__(self, retention: Retention = IN_MEMORY, now: Callable[[], float] = time.time) -> None:
        self._retention = retention
        self._now = now
        self._written = 0
        self._size = 0
        self._by_use: OrderedDict[int, _Kept] = OrderedDict()  # number -> checkpoint, the longest unused first
        self._by_key: dict[tuple[str, str], dict[str, _Kept]] = {}  # (tenant, key) -> id -> checkpoint
        self._leases: dict[str, tuple[str, float]] = {}  # name -> owner, expiry
        self._facts: dict[str, dict[str, tuple[str, float]]] = {}  # kind -> key -> value, expiry

    def __repr__(self) -> str:
        return f"MemoryStore({len(self._by_use)} checkpoints)"

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        now = self._now()
        found = [kept for key in dict.fromkeys(keys) for kept in self._by_key.get((tenant, key), {}).values()]
        for kept in found:
            if kept.used <= now - self._retention.grain:
                kept.used = now
                self._by_use.move_to_end(kept.number)
        found.sort(key=lambda kept: (-kept.checkpoint.end, -kept.checkpoint.rung, kept.number))
        return [kept.checkpoint for kept in found]

    async def put(self, checkpoint: Checkpoint) -> None:
        there = self._by_key.setdefault((checkpoint.tenant, checkpoint.key), {})
        if checkpoint.id not in there:
            self._written += 1
            self._size += size(checkpoint)
            kept = there[checkpoint.id] = self._by_use[self._written] = _Kept(checkpoint, self._written, self._now())
            self._prune(kept)

    async def checkpoint(self, id: str) -> Checkpoint | None:
        return next((kept.checkpoint for kept in self._by_use.values() if kept.checkpoint.id == id), None)

    async def latest(self, number: int) -> list[Checkpoint]:
        newest = sorted(self._by_use.values(), key=lambda kept: -kept.number)
        return [kept.checkpoint for kept in newest[: max(0, number)]]

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        now = self._now()
        self._leases = {held: lease for held, lease in self._leases.items() if now < lease[1] <= now + LONGEST_LEASE}
        if self._leases.get(name, (owner, now))[0] != owner:
            return False
        self._leases[name] = (owner, now + min(seconds, LONGEST_LEASE))
        return True

    async def release(self, name: str, owner: str) -> None:
        if self._leases.get(name, ("", 0.0))[0] == owner:
            del self._leases[name]

    async def recall(self, kind: str) -> dict[str, str]:
        now = self._now()
        return {key: value for key, (value, expires) in self._facts.get(kind, {}).items() if expires > now}

    async def remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        now = self._now()
        facts = {known: fact for known, fact in self._facts.get(kind, {}).items() if fact[1] > now and known != key}
        if len(facts) >= MOST_FACTS:
            del facts[min(facts, key=lambda known: facts[known][1])]
        self._facts[kind] = {**facts, key: (value, now + seconds)}

    async def aclose(self) -> None:
        """Nothing to give back; what was kept stays until the store itself goes."""

    def _prune(self, newest: _Kept) -> None:
        oldest_use = self._now() - self._retention.idle
        while self._by_use:
            kept = next(iter(self._by_use.values()))
            if kept is newest or (kept.used >= oldest_use and self._size <= self._retention.characters):
                break
            del self._by_use[kept.number]
            self._size -= size(kept.checkpoint)
            place = (kept.checkpoint.tenant, kept.checkpoint.key)
            del self._by_key[place][kept.checkpoint.id]
            if not self._by_key[place]:
                del self._by_key[place]
