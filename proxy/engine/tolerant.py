"""A store that costs no request more than a moment, whatever happens to it: the one place that waits for a store.

Questions are asked for a second at most. What is to be kept is written behind the request's back, in order, and tried
again for a while. After a failure the store is left alone for some seconds: reading and writing each by itself, for a
disk that is full or locked can still be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from proxy.core.checkpoint import Checkpoint
from proxy.errors import StoreError
from proxy.ports import Clock, Store

log = logging.getLogger("compaction_proxy")

T = TypeVar("T")

ANSWER_WITHIN = 1.0
"""Seconds that a request may wait for the store; a healthy one takes milliseconds."""

WRITE_WITHIN = 10.0
"""Seconds that one write may take, behind the request's back."""

LEFT_ALONE = 5.0
"""Seconds without the store after a failure: one request in so many may have to wait for it."""

TRIED_FOR = 60.0
"""Seconds after which a write that fails is given up: longer than a backup or a `VACUUM` locks a file."""

MOST_WAITING = 1_000
"""Writes; above it the oldest is given up. Some 50 kB each at most, and most of it is in the cache as well."""

FLUSHED_WITHIN = 5.0
"""Seconds for what still waits when the process stops."""


@dataclass(frozen=True, slots=True)
class _Write:
    do: Callable[[], Awaitable[None]]
    until: float  # on the monotonic clock


class _Way:
    """Into the store, or out of it: whether it works, and until when it is not tried again."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._closed_until: float | None = None

    @property
    def closed(self) -> bool:
        return self._closed_until is not None and self._clock.monotonic() < self._closed_until

    async def go(self, ask: Callable[[], Awaitable[T]], within: float) -> T:
        """Raises `StoreError`; the log hears of the first failure in a row, and of its end."""
        try:
            async with asyncio.timeout(within):
                answer = await ask()
        except TimeoutError:
            self._failed(why := f"no answer within {within:g} s")
            raise StoreError(why) from None
        except StoreError as error:
            self._failed(str(error))
            raise
        if self._closed_until is not None:
            self._closed_until = None
            log.warning("the store can be %s again", self._name)
        return answer

    def _failed(self, why: str) -> None:
        if self._closed_until is None:
            log.warning("the store cannot be %s, requests go on without: %s", self._name, why)
        self._closed_until = self._clock.monotonic() + LEFT_ALONE


class TolerantStore:
    """`Store` around another one. `put`, `release` and `remember` return at once and raise nothing."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._reading = _Way("read", clock)
        self._writing = _Way("written to", clock)
        self._waiting: deque[_Write] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def __repr__(self) -> str:
        return f"TolerantStore({self._store!r}, {len(self._waiting)} waiting)"

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        return await self._ask(self._reading, lambda: self._store.find(tenant, keys))

    async def recall(self, kind: str) -> dict[str, str]:
        return await self._ask(self._reading, lambda: self._store.recall(kind))

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        return await self._ask(self._writing, lambda: self._store.lease(name, owner, seconds))

    async def put(self, checkpoint: Checkpoint) -> None:
        self._later(lambda: self._store.put(checkpoint))

    async def release(self, name: str, owner: str) -> None:
        self._later(lambda: self._store.release(name, owner))

    async def remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        self._later(lambda: self._store.remember(kind, key, value, seconds))

    async def flush(self) -> None:
        """Write what still waits, within `FLUSHED_WITHIN`, each tried once more. The store stays open."""
        if self._writer is not None and not self._writer.done():
            self._stopping.set()
            await asyncio.wait({self._writer}, timeout=FLUSHED_WITHIN)
            if self._writer.cancel():
                self._given_up(1 + len(self._waiting))
                self._waiting.clear()

    async def aclose(self) -> None:
        await self.flush()
        await self._store.aclose()

    async def _ask(self, way: _Way, ask: Callable[[], Awaitable[T]]) -> T:
        if way.closed:
            raise StoreError("left alone after a failure")
        return await way.go(ask, ANSWER_WITHIN)

    def _later(self, do: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(_Write(do, self._clock.monotonic() + TRIED_FOR))
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._given_up(1)
        if self._writer is None or self._writer.done():
            self._stopping = asyncio.Event()
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """One after the other: of two values of a fact the newer has to win, and a lease goes after its checkpoint."""
        while self._waiting:
            write = self._waiting.popleft()
            while not await self._written(write):
                try:
                    async with asyncio.timeout(LEFT_ALONE):
                        await self._stopping.wait()
                except TimeoutError:
                    continue

    async def _written(self, write: _Write) -> bool:
        """Whether there is nothing more to do about it."""
        last = self._stopping.is_set()
        try:
            await self._writing.go(write.do, WRITE_WITHIN)
        except StoreError:
            if not last and self._clock.monotonic() < write.until:
                return False
            self._given_up(1)
        return True

    def _given_up(self, number: int) -> None:
        log.warning("given up: %d changes of the store; what they would have kept ends with this process", number)
