"""Conversations whose client drops their beginning as they grow: found again by what is left of them.

A checkpoint is known by a chain over all turns before it, and a request without the first of them has another chain.
Where it begins with all that a conversation had when it was seen last, from some turn on, it goes on with that one's
chain instead. Less will not do: two conversations of one key may have a long script in common, and the beginning of
one is nobody's business in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from proxy.core.digest import chain_on
from proxy.core.turns import Turn

RUN = 4
RUN_TOKENS = 200
"""Messages, and our tokens in them, that the two must have in common: two questions with their answers, and more than
greetings."""

TALKS = 16
"""Conversations of one tenant that are remembered."""

LONGEST = 4_000
MOST = 200_000
"""Turns of one conversation (to search 16 of them takes some 50 ms), and of all: some 30 MB."""


@dataclass(frozen=True, slots=True)
class _Talk:
    digests: tuple[bytes, ...]
    keys: tuple[str, ...]


class Rejoining:
    """For requests that get compacted alone; others cost nothing here."""

    def __init__(self) -> None:
        self._talks: LRUCache[str, tuple[_Talk, ...]] = LRUCache(
            MOST, getsizeof=lambda talks: sum(len(talk.keys) for talk in talks)
        )

    def remember(self, tenant: str, turns: Sequence[Turn], keys: Sequence[str]) -> None:
        """`keys` as they were used, one more than there are turns."""
        if not RUN <= len(turns) <= LONGEST:
            return
        there = self._talks.get(tenant, ())
        ours = set(keys)
        others = [talk for talk in there if talk.keys[-1] not in ours]  # less what this one goes on with
        talk = _Talk(tuple(turn.digest for turn in turns), tuple(keys))
        self._talks[tenant] = (talk, *others[: TALKS - 1])

    def find(self, tenant: str, turns: Sequence[Turn], keys: Sequence[str]) -> list[str] | None:
        """The keys of `turns` in the chain of the one conversation that they are a part of; None if there is none, or
        more than one. `keys` are those of a chain of their own."""
        found: dict[str, list[str]] = {}
        digests = tuple(turn.digest for turn in turns)
        for talk in self._talks.get(tenant, ()):
            run = _overlap(talk.digests, digests)
            if run >= RUN and sum(turn.tokens for turn in turns[:run]) >= RUN_TOKENS:
                rest = chain_on(talk.keys[-1], digests[run:])
                found[rest[-1]] = [*talk.keys[len(talk.keys) - 1 - run : -1], *rest]
        if len(found) != 1 or keys[-1] in found:
            return None
        return next(iter(found.values()))


def _overlap(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many turns at the end of one are those that the other begins with; 0 if that may be said of two numbers.

    Linear (Knuth, Morris and Pratt's search for the other, until the one is at its end).
    """
    if not other or other[0] not in one:
        return 0
    borders = [0]  # for each beginning of `other`: how much of its end it begins with
    for turn in other[1:]:
        borders.append(_longer(borders[-1], turn, other, borders))
    run = 0
    for turn in one:
        run = _longer(run, turn, other, borders)
    return 0 if run and borders[run - 1] >= RUN else run


def _longer(run: int, turn: bytes, other: Sequence[bytes], borders: Sequence[int]) -> int:
    """The longest beginning of `other` that ends with `turn`, where one of `run` turns ended before it."""
    while run and (run == len(other) or other[run] != turn):
        run = borders[run - 1]
    return run + (other[run] == turn)
