"""What experience teaches about upstreams: windows, how their tokenisers differ from ours, which count the output.

Kept in memory, and in the store so that a restart does not forget. Nothing here decides.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from cachetools import LRUCache

from proxy.core.overflow import Overflow
from proxy.errors import StoreError
from proxy.ports import Clock, Store

log = logging.getLogger("compaction_proxy")

LEARNED_FOR = 6 * 3600.0
"""Seconds: a local server restarted with a larger context must not be held to the old one for ever; forgetting costs
one refused request, which the client does not see."""

LEAST_WINDOW = 1_024
"""Tokens; a smaller stated window is taken for a misreading (the smallest llama.cpp default is 2,048)."""

BELIEVED = (0.5, 4.0)
"""usage / our count outside of this is not believed: far below is a sign of truncation (o200k_base undercounts Claude
by 1.63, mindroom-ai/mindroom#1575; base64 by up to 4)."""

MOST_RATIO = 2 * BELIEVED[1]
"""Of a refusal's prompt to our count: it is stated on purpose, and to believe too little costs another refusal."""

TELLING = 200
"""Tokens; below it the template's fixed part blurs what a usage says about the tokeniser."""

TRUNCATIONS = 2
FULL = 0.8
"""Two answers in a row that count less than half of what was sent, each within 0.8 of the most ever counted: the server
truncates. (Ollama drops whole messages, so its count falls a little short of its context.)"""

WEIGHT = 0.3
"""How fast a factor follows new usages."""

RECENT = 64
"""Prefixes looked back for a count of this conversation: a few turns, however many calls each takes."""

RESTS = 300.0
"""Seconds in which no summary is paid for a conversation whose compaction an upstream refused: as long as providers'
prompt caches live, so that a user who tries again at once costs nothing."""

USELESS = {
    "refused": "the upstream took the original, and not what was made of it",
    "too-long": "the upstream found it too long even so",
    "timeout": "it was not answered in time even so",
}
"""Why a compaction was of no use: all there is, with what the log says."""

MOST_TARGETS = 2_000
LONGEST_NAME = 200
"""Characters of a model's name. Clients choose names, as many and as long as they like, and some upstreams take any."""


@dataclass(frozen=True, slots=True)
class Target:
    """One model at one upstream: what all that is learned is about."""

    base: str
    model: str

    def __str__(self) -> str:
        return f"{self.base} {self.model[:LONGEST_NAME]}"


@dataclass(slots=True)
class _Learned:
    window: int
    expires: float
    tenants: set[str] = field(default_factory=set)

    def holds_for(self, tenant: str) -> bool:
        return tenant in self.tenants or len(self.tenants) > 1


class Knowledge:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._windows: LRUCache[str, _Learned] = LRUCache(MOST_TARGETS)
        self._factors: LRUCache[str, float] = LRUCache(MOST_TARGETS)
        self._accepted: LRUCache[str, int] = LRUCache(MOST_TARGETS)
        self._counts_output: LRUCache[str, bool] = LRUCache(MOST_TARGETS)
        self._stated: LRUCache[str, float] = LRUCache(10_000)  # by tenant, from errors, until a usage says more
        self._short: LRUCache[str, int] = LRUCache(MOST_TARGETS)  # answers in a row that counted far less than was sent
        self._useless: LRUCache[str, tuple[str, float]] = LRUCache(10_000)  # why and until when, by prefix
        self._ratios: LRUCache[str, float] = LRUCache(40_000)  # by conversation prefix, and by its forms

    async def load(self) -> None:
        """Read what was learned before the restart. A store that fails costs nothing but that."""
        try:
            factors, windows = await self._store.recall("factor"), await self._store.recall("window")
            self._counts_output.update(dict.fromkeys(await self._store.recall("counts_output"), True))
            for key, value in factors.items():
                factor = float(json.loads(value))
                if BELIEVED[0] <= factor <= MOST_RATIO:
                    self._factors[key] = factor
            for key, value in windows.items():
                found = json.loads(value)
                learned = _Learned(int(found["window"]), float(found["expires"]), set(found["tenants"]))
                if learned.window >= LEAST_WINDOW:
                    self._windows[key] = learned
        except (StoreError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            log.warning("learned facts could not be read: %s", type(error).__name__)

    def window(self, target: Target, tenant: str, configured: int | None) -> int | None:
        """The smaller of the configured and the learned one; None if nothing is known."""
        learned = self._windows.get(str(target))
        if learned and learned.expires > self._clock.now() and learned.holds_for(tenant):
            return min(learned.window, configured) if configured else learned.window
        return configured

    def scale(self, target: Target, tenant: str, keys: Sequence[str]) -> float:
        """Upstream's tokens for one of ours: from this conversation if it was answered before, else from others."""
        name = str(target)
        found = self._latest(name, keys)
        return found or self._stated.get(f"{name} {tenant}") or self._factors.get(name, 1.0)

    def ratio(self, target: Target, keys: Sequence[str], form: str) -> float | None:
        """The same of one form of this conversation, where the upstream has counted that: a summary is other text than
        what it stands for. `form` is a checkpoint's id, or "" for the whole."""
        return self._latest(f"{target} {form} ", keys)

    def _latest(self, name: str, keys: Sequence[str]) -> float | None:
        ratios = self._ratios
        for key in reversed(keys[-RECENT:]):
            found = ratios.get(name + key)
            if found is not None:
                return found
        return None

    def factor(self, target: Target) -> float | None:
        """Its tokens for one of ours, in general; None if nothing is known."""
        return self._factors.get(str(target))

    def counts_output(self, target: Target) -> bool:
        return str(target) in self._counts_output

    async def saw_usage(
        self, target: Target, tenant: str, key: str, counted: int, prompt: int, *, form: str = "", cached: bool = False
    ) -> None:
        """The upstream stated `prompt` tokens for what we counted as `counted`; `key` is the digest of its turns,
        `form` the id of the checkpoint that stood for some of them. `cached`: it speaks of cached tokens too, so a
        small number may be what was new."""
        name = str(target)
        ratio = prompt / max(1, counted)
        if ratio > BELIEVED[1]:
            return  # nor is it proof that so much is accepted
        self._accepted[name] = max(self._accepted.get(name, 0), prompt)
        if name in self._windows and self._windows[name].window < prompt:
            del self._windows[name]  # it was misread, or the server has more now
        if counted < TELLING:
            return
        if ratio < BELIEVED[0]:
            await self._saw_less(name, tenant, prompt, cached)
            return
        self._short.pop(name, None)
        self._ratios[name + key] = self._ratios[f"{name} {form} {key}"] = ratio
        self._stated.pop(f"{name} {tenant}", None)
        before = self._factors.get(name)
        after = ratio if before is None else before + WEIGHT * (ratio - before)
        self._factors[name] = after
        if before is None or abs(after - before) > 0.02 * before:
            await self._remember("factor", name, json.dumps(round(after, 4)), 30 * 24 * 3600.0)

    async def saw_overflow(
        self, target: Target, tenant: str, key: str, counted: int, said: Overflow, *, form: str = ""
    ) -> None:
        """The upstream refused what we counted as `counted`. Believe its numbers over ours."""
        name = str(target)
        prompt = None if said.at_least else said.prompt
        if prompt is None and said.window is not None and said.output is None:
            prompt = max(said.window + 1, int(counted * self._factors.get(name, 1.0)))
        if prompt is not None and counted:
            ratio = min(max(prompt / counted, BELIEVED[0]), MOST_RATIO)
            self._ratios[name + key] = self._ratios[f"{name} {form} {key}"] = ratio
            if counted >= TELLING and said.prompt is not None and not said.at_least:
                self._stated[f"{name} {tenant}"] = ratio  # an error can echo a client's text: it counts for that one
        if said.window is not None and said.window >= max(LEAST_WINDOW, self._accepted.get(name, 0)):
            await self._learn_window(name, tenant, said.window)

    async def saw_output_counted(self, target: Target) -> None:
        name = str(target)
        if name not in self._counts_output:
            self._counts_output[name] = True
            await self._remember("counts_output", name, "true", 30 * 24 * 3600.0)

    def was_useless(self, target: Target, key: str, reason: str) -> None:
        """A compaction of the prefix `key` did not help there. `reason` is one of `USELESS`."""
        self._useless[f"{target} {key}"] = (reason, self._clock.monotonic() + RESTS)
        log.warning("a compaction was of no use, no more summaries for %d s: %s", RESTS, USELESS[reason])

    def useless(self, target: Target, keys: Sequence[str]) -> str | None:
        """Why compactions of this conversation were of no use there, if that was minutes ago."""
        if not self._useless:
            return None
        now, name = self._clock.monotonic(), f"{target} "
        found = (self._useless[name + key] for key in reversed(keys) if name + key in self._useless)
        return next((reason for reason, until in found if until > now), None)

    async def _saw_less(self, name: str, tenant: str, prompt: int, cached: bool) -> None:
        """Far fewer tokens than were sent. Some servers (Ollama) drop the beginning of what is too long, and say
        nothing: their count stays near the window. One that counts only what its cache lacked varies instead."""
        most = self._accepted[name]
        if cached or prompt < FULL * most or most < LEAST_WINDOW:
            self._short.pop(name, None)
            return
        self._short[name] = self._short.get(name, 0) + 1
        if self._short[name] >= TRUNCATIONS:
            log.warning(
                "%.200a seems to cut off the beginning of what is longer than %d tokens, without an error", name, most
            )
            await self._learn_window(name, tenant, most)

    async def _learn_window(self, name: str, tenant: str, window: int) -> None:
        expires = self._clock.now() + LEARNED_FOR
        learned = self._windows.get(name)
        if learned is None or learned.window != window or learned.expires < self._clock.now():
            learned = self._windows[name] = _Learned(window, expires)
            log.warning("learned: the window of %.200a is %d tokens", name, window)
        learned.tenants.add(tenant)
        learned.expires = expires
        value = {"window": window, "expires": expires, "tenants": sorted(learned.tenants)}
        await self._remember("window", name, json.dumps(value), LEARNED_FOR)

    async def _remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        try:
            await self._store.remember(kind, key, value, seconds)
        except StoreError as error:
            log.warning("a learned fact could not be kept: %s", error)
