"""The checkpoints of all conversations: an in-process cache in front of the store.

The store is asked only when the cache does not hold what would help. A store that fails costs summaries: the cache
goes on without it. How long it may take is the business of `tolerant`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cachetools import LRUCache

from proxy.core.checkpoint import Checkpoint
from proxy.errors import StoreError
from proxy.ports import Store

log = logging.getLogger("compaction_proxy")

CACHED_CHARS = 64 * 1024 * 1024
"""Characters of replacement text kept in memory; a text is at most some 50 kB."""


class Checkpoints:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: LRUCache[str, tuple[Checkpoint, ...]] = LRUCache(CACHED_CHARS, getsizeof=_weight)
        self._rejected: LRUCache[tuple[str, str], bool] = LRUCache(10_000)

    def cached(self, keys: Sequence[str], target: str) -> tuple[Checkpoint, ...]:
        """What is known in this process at any of `keys`, less what `target` refused."""
        cache = self._cache
        return tuple(c for key in keys if key in cache for c in cache[key] if not self.rejected(c, target))

    async def fetch(self, tenant: str, keys: Sequence[str]) -> bool:
        """Look into the store too; True if that brought anything new."""
        try:
            found = await self._store.find(tenant, keys)
        except StoreError as error:
            log.debug("not looked up: %s", error)  # at each request; the log has it once, from where it began
            return False
        return sum(self._add(checkpoint) for checkpoint in found) > 0

    async def keep(self, checkpoint: Checkpoint) -> None:
        self._add(checkpoint)
        try:
            await self._store.put(checkpoint)
        except StoreError as error:
            log.warning("a compaction could not be kept: %s", error)

    def reject(self, checkpoint: Checkpoint, target: str) -> None:
        """`target` refused a request rewritten with it: not used there again."""
        self._rejected[(target, checkpoint.id)] = True

    def rejected(self, checkpoint: Checkpoint, target: str) -> bool:
        return (target, checkpoint.id) in self._rejected

    def _add(self, checkpoint: Checkpoint) -> bool:
        there = self._cache.get(checkpoint.key, ())
        if any(c.id == checkpoint.id for c in there):
            return False
        self._cache[checkpoint.key] = (*there, checkpoint)
        return True


def _weight(checkpoints: tuple[Checkpoint, ...]) -> int:
    return sum(len(c.text) + len(c.prose) + 500 for c in checkpoints)
