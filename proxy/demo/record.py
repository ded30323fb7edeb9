"""What the fake upstream remembers of each request, and what can be computed from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.demo.exchange import HeaderList

OVERFLOW = "overflow"


@dataclass
class Recorded:
    """One chat-completions request. Times are `time.monotonic()`; `ended` is None while it is being answered.

    `refused` names why: `OVERFLOW`, the name of a broken rule (see `rules.check`), or "intercepted"; None if it was
    accepted.
    """

    body: bytes
    headers: HeaderList
    started: float
    data: Any = None
    prompt_tokens: int = 0
    summary: bool = False
    refused: str | None = None
    status: int = 200
    text: str | None = None
    ended: float | None = None
    went_away: bool = False
    _prompt: bytes | None = field(default=None, repr=False)

    @property
    def accepted(self) -> bool:
        return self.refused is None

    @property
    def invalid(self) -> bool:
        """Refused for its shape, not for its length."""
        return self.refused not in (None, OVERFLOW, "intercepted")

    @property
    def messages(self) -> list[Any]:
        found = self.data.get("messages") if isinstance(self.data, Mapping) else None
        return found if isinstance(found, list) else []

    @property
    def prompt(self) -> bytes:
        """The messages in one spelling, one after the other: what a prompt cache sees of them."""
        if self._prompt is None:
            spelt = (json.dumps(m, separators=(",", ":")) for m in self.messages)
            self._prompt = "\n".join(spelt).encode("ascii")
        return self._prompt

    def __repr__(self) -> str:
        kind = "summary" if self.summary else "chat"
        fate = self.refused or ("open" if self.ended is None else "gone" if self.went_away else self.status)
        return f"Recorded({kind}, {len(self.messages)} messages, {self.prompt_tokens} tokens, {fate})"


def common_prefix(one: bytes, other: bytes) -> int:
    """Length of the longest common prefix, by bisection on slices."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def prefix_share(requests: Iterable[Recorded]) -> float:
    """Of all accepted chat requests' prompt bytes, the share that is an unchanged prefix of the one before."""
    same = total = 0
    before = b""
    for request in requests:
        if request.accepted and not request.summary:
            same += common_prefix(before, request.prompt)
            total += len(request.prompt)
            before = request.prompt
    return same / total if total else 0.0
