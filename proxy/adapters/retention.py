"""How long the stores keep checkpoints: one rule for all of them."""

from __future__ import annotations

from dataclasses import dataclass

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Retention:
    """Applied after every `put`, in this order; what is dropped costs one new summary if it is asked for again.

    1. Checkpoints that nobody found for `idle` seconds go.
    2. While all texts together are longer than `characters`, the checkpoint longest unused goes (of those last used at
       one time the one written first); the one just written never goes.

    Finding a checkpoint counts as a use at most once in `grain` seconds, so that reading does not mean writing.
    """

    characters: int
    idle: float = 30 * DAY  # a conversation that was left for a month is rarely taken up again
    grain: float = 3_600.0


ON_DISK = Retention(characters=256 * 1024 * 1024)  # some 8,000 checkpoints of the greatest size (12k tokens)
IN_MEMORY = Retention(characters=32 * 1024 * 1024)
