"""What an upstream says of its models' windows in `/v1/models`: asked in the background, never waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from cachetools import LRUCache

from proxy.core import envelope
from proxy.engine.knowledge import Target
from proxy.errors import ProxyError
from proxy.ports import Call, Clock, Headers, Upstream

log = logging.getLogger("compaction_proxy")

FRESH = 600.0
"""Seconds until the list is asked for again: a local server may have been restarted with another context."""

BODY_MOST = 8 * 1024 * 1024
"""Bytes; OpenRouter's list, the longest known, has about 700 kB."""

PATIENCE = 20.0
"""Seconds for the answer; nobody waits for it."""

FIELDS = ("max_model_len", "context_length", "loaded_context_length", "context_window", "max_context_length")
"""vLLM, OpenRouter and Together, LM Studio, Groq, Mistral, in the order in which they are believed."""


class Advertised:
    def __init__(self, upstream: Upstream, clock: Clock) -> None:
        self._upstream = upstream
        self._clock = clock
        self._windows: LRUCache[str, dict[str, int]] = LRUCache(1_000)  # by base address
        self._asked: LRUCache[str, float] = LRUCache(1_000)
        self._tasks: set[asyncio.Task[None]] = set()

    def window(self, target: Target) -> int | None:
        """Tokens, or None. A server with a single model answers to every name."""
        known = self._windows.get(target.base)
        if not known:
            return None
        return known.get(target.model) or (next(iter(known.values())) if len(known) == 1 else None)

    def ask(self, base: str, headers: Headers) -> None:
        """Have the list read, if it was not asked for lately. `headers`: the credentials that go to this address."""
        now = self._clock.monotonic()
        if now - self._asked.get(base, -FRESH) < FRESH:
            return
        self._asked[base] = now
        task = asyncio.create_task(self._read(base, headers))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, base: str, headers: Headers) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                body = await self._fetch(base, headers)
            found = windows(envelope.value(body)) if body else {}
        except (ProxyError, TimeoutError, ValueError) as error:
            log.debug("no list of models at %s: %s", base, type(error).__name__)
            return
        if found:
            self._windows[base] = found

    async def _fetch(self, base: str, headers: Headers) -> bytes:
        answer = await self._upstream.send(Call("GET", f"{base}/models", (*headers, (b"accept-encoding", b"identity"))))
        try:
            body = bytearray()
            async for chunk in answer.chunks():
                body += chunk
                if len(body) > BODY_MOST:
                    return b""
            return bytes(body) if answer.status == 200 else b""
        finally:
            await answer.aclose()


def windows(listing: Any) -> dict[str, int]:
    """The windows that a list of models states, by model."""
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    found: dict[str, int] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("id"), str):
            meta = entry.get("meta")
            stated = [entry.get(field) for field in FIELDS]
            stated.append(meta.get("n_ctx") if isinstance(meta, Mapping) else None)  # llama.cpp
            window = next((w for w in stated if isinstance(w, int) and not isinstance(w, bool) and w >= 256), None)
            if window is not None:
                found[entry["id"]] = window
    return found
