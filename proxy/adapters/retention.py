"""What the stores keep, and for how long: one rule for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.core.checkpoint import Checkpoint

DAY = 86_400.0

LONGEST_LEASE = 60.0
"""Seconds; a longer lease is cut to this. One with more than that to run was taken before the clock went back: free."""

MOST_FACTS = 2_000
"""Of one kind; above it those that expire first go. Keys hold names that clients choose."""

OVERHEAD = 500
"""Characters that a checkpoint counts beside its texts, for those that only shorten results have none."""


def size(checkpoint: Checkpoint) -> int:
    """What `Retention.characters` counts."""
    return len(checkpoint.text) + len(checkpoint.prose) + OVERHEAD


@dataclass(frozen=True, slots=True)
class Retention:
    """Applied after every `put`, in this order; what is dropped costs one new summary if it is asked for again.

    1. Checkpoints that nobody found for `idle` seconds go.
    2. While all sizes together exceed `characters`, the checkpoint longest unused goes; never the one just written.

    Finding a checkpoint counts as a use at most once in `grain` seconds, so that reading does not mean writing.
    """

    characters: int
    idle: float = 30 * DAY  # a conversation that was left for a month is rarely taken up again
    grain: float = 3_600.0


ON_DISK = Retention(characters=256 * 1024 * 1024)  # some 8,000 checkpoints of the greatest size (12k tokens)
IN_MEMORY = Retention(characters=32 * 1024 * 1024)
