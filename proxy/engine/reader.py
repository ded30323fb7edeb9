"""Reads the messages of a request into facts, once for the same bytes.

A client resends its whole history on every turn, so nearly every message has been read before: a look-up by the hash
of its raw bytes is all that it costs. What is new is parsed, counted and digested, off the event loop when large.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import xxhash
from cachetools import LRUCache

from proxy.core import envelope, tokens, turns
from proxy.core.digest import chain
from proxy.core.envelope import Envelope
from proxy.core.turns import Turn

CACHED_TURNS = 100_000
"""About 30 MB of facts: 250 conversations of 400 messages."""

INLINE_BYTES = 32 * 1024
"""What may be counted on the event loop: about 5 ms of tokenising (measured, 6-8 MB/s)."""


@dataclass(frozen=True)
class Reading:
    """The facts about one request. `head` is how many leading messages are no turns, `head_tokens` our count of them
    and of everything else in the body that is no turn; `head_id` names these bytes."""

    head: int
    head_tokens: int
    head_id: str
    turns: tuple[Turn, ...]

    def keys(self, tenant: str) -> list[str]:
        """`keys[k]`: the digest of the first k turns."""
        return chain(tenant, (t.digest for t in self.turns))


class Reader:
    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._seed = secrets.randbits(64)  # xxh3 is no cryptographic hash: nobody may prepare a collision
        self._turns: LRUCache[bytes, Turn | None] = LRUCache(CACHED_TURNS)
        self._heads: LRUCache[bytes, int] = LRUCache(10_000)

    async def read(self, request: Envelope) -> Reading | None:
        """None if a message is no JSON object that can be read, or nested too deeply."""
        seed = self._seed
        names = [xxhash.xxh3_128_digest(raw, seed) for raw in request.messages]
        found = await self._lookup(names, request.messages)
        if None in found:
            return None
        facts = [turn for turn in found if turn is not None]
        head = turns.head_length([t.role for t in facts])
        fields_tokens, fields_id = await self._fields(request)
        hashed = xxhash.xxh3_128(fields_id, seed)
        for name in names[:head]:
            hashed.update(name)
        return Reading(
            head=head,
            head_tokens=fields_tokens + sum(t.tokens for t in facts[:head]),
            head_id=hashed.hexdigest(),
            turns=tuple(facts[head:]),
        )

    async def _lookup(self, names: list[bytes], messages: Iterable[bytes]) -> list[Turn | None]:
        cache = self._turns
        try:
            return [cache[name] for name in names]
        except KeyError:
            pass
        missing = {name: raw for name, raw in zip(names, messages, strict=True) if name not in cache}
        read = await _off_loop(sum(map(len, missing.values())), self._read_all, missing)
        known = {name: cache[name] for name in names if name not in read and name in cache}
        cache.update(read)
        return [read[name] if name in read else known.get(name) for name in names]

    def _read_all(self, missing: Mapping[bytes, bytes]) -> dict[bytes, Turn | None]:
        return {name: self._read_one(raw) for name, raw in missing.items()}

    def _read_one(self, raw: bytes) -> Turn | None:
        try:
            message = envelope.value(raw)
        except ValueError:
            return None
        if not isinstance(message, dict) or envelope.depth(message) > envelope.MAX_DEPTH:
            return None
        return turns.read(message, tokens.message_tokens(message, self._count))

    async def _fields(self, request: Envelope) -> tuple[int, bytes]:
        if not request.head:
            return tokens.REPLY, b""
        hashed = xxhash.xxh3_128(seed=self._seed)
        for name, raw in request.head:
            hashed.update(name.encode())
            hashed.update(raw)
        key = hashed.digest()
        if key not in self._heads:
            self._heads[key] = await _off_loop(sum(len(raw) for _, raw in request.head), self._read_head, request.head)
        return self._heads[key], key

    def _read_head(self, head: Iterable[tuple[str, bytes]]) -> int:
        try:
            parsed: dict[str, Any] = {name: envelope.value(raw) for name, raw in head}
        except ValueError:
            return sum(len(raw) for _, raw in head) // 3
        return tokens.head_tokens(parsed, self._count)


async def _off_loop(size: int, work: Callable[[Any], Any], argument: Any) -> Any:
    if size <= INLINE_BYTES:
        return work(argument)
    return await asyncio.to_thread(work, argument)
