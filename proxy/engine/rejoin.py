"""Conversations whose client drops their beginning as they grow: found again by what is left of them.

A checkpoint is known by a chain over all turns before it, and a request without the first of them has another chain.
Where its turns are a run of a conversation seen before, it goes on with that one's chain instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from cachetools import LRUCache

from proxy.core.digest import chain_on
from proxy.core.turns import Turn

RUN = 4
RUN_TOKENS = 200
"""Messages, and our tokens in them, that a run needs to speak for a conversation: two questions with their answers, and
more than greetings."""

TALKS = 16
"""Conversations of one tenant that are remembered."""

TRIES = 64
"""Places of one conversation that are compared: a message that stands at more of them identifies nothing."""

LONGEST = 10_000
MOST = 200_000
"""Turns of one conversation, and of all: some 30 MB."""


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
            for place in islice((i for i, digest in enumerate(talk.digests) if digest == digests[0]), TRIES):
                run = _common(talk.digests[place:], digests)
                if run >= RUN and sum(turn.tokens for turn in turns[:run]) >= RUN_TOKENS:
                    rest = chain_on(talk.keys[place + run], digests[run:])
                    found[rest[-1]] = [*talk.keys[place : place + run], *rest]
        if len(found) != 1 or keys[-1] in found:
            return None
        return next(iter(found.values()))


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Length of what two sequences begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
