"""A compaction of a conversation prefix, as an immutable value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any


class Rung(IntEnum):
    """Where a replacement came from; readers prefer the higher one."""

    CLEARED = 0  # nothing but old tool results removed or shortened
    DIGEST = 1  # made without a model
    MODEL = 2  # prose by a summariser


@dataclass(frozen=True, slots=True)
class Trim:
    """The result of a tool in turn `index` (from 0, head not counted) keeps `keep` characters; 0 removes it.

    `tokens` is our count of the whole message after it: known when the trim is made, no part of the identity.
    """

    index: int
    keep: int
    tokens: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Checkpoint:
    """Turns `[0, start)` of a conversation become `text`; `trims` shorten tool results in `[start, end)`.

    `key` is the hex digest of the first `end` turns (tenant included). `carry` is the index (< start) of the user
    message that stands behind the text, if the last real one lies there. `prose` is the model's part of the text, kept
    so that the next summary can update it. `stats` (JSON values) is the record of how it was made; it is no part of
    the identity.
    """

    tenant: str
    key: str
    start: int
    end: int
    text: str
    carry: int | None
    trims: tuple[Trim, ...]
    rung: Rung
    created: float  # seconds since the epoch
    text_tokens: int = 0  # our count of `text`
    prose: str = ""
    stats: dict[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def id(self) -> str:
        """Hash of what the checkpoint does to a request, 24 hex digits: equal effect, equal id. Places are counted from
        its end, which `key` names, so that it stays the same where it has been moved."""
        trims = [(self.end - t.index, t.keep) for t in self.trims]
        carry = None if self.carry is None else self.end - self.carry
        content = [self.tenant, self.key, self.end - self.start, self.text, carry, trims, int(self.rung)]
        text = json.dumps(content, separators=(",", ":"))  # ASCII: a lone surrogate hashes like everything else
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:24]

    def moved(self, end: int) -> Checkpoint | None:
        """The same in a request where what it covers ends at turn `end`, because the first turns are missing there.
        None if nothing that it stands for is left, or more stands there than it was made of."""
        shift = self.end - end
        if shift == 0:
            return self
        if not 0 < shift < self.start:
            return None
        carry = self.carry - shift if self.carry is not None and self.carry >= shift else None
        trims = tuple(replace(t, index=t.index - shift) for t in self.trims if t.index >= self.start)
        return replace(self, start=self.start - shift, end=end, carry=carry, trims=trims)

    def __repr__(self) -> str:  # fit for logs and assertions: no text
        return (
            f"Checkpoint({self.id} [0,{self.start})+{len(self.trims)} trims of {self.end} turns, "
            f"{self.rung.name.lower()}, {len(self.text)} chars)"
        )
