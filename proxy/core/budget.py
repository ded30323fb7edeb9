"""From a model's window to the sizes that decide: limit, target, room for the replacement. All in tokens."""

from __future__ import annotations

from dataclasses import dataclass

RESERVE_SHARE = 0.2
RESERVE_MOST = 16_384
"""Reserve = 20 % of the window, at most 16,384: Letta's rule, the only one of those compared that works at small
windows; a fixed reserve (pi's 16,384) is larger than a small window itself."""

ANSWER_ROOM = 1 / 20
"""Below this share of the window nothing is left for an answer: content that would take it is shortened instead."""

MISCOUNT = 1.3
"""How far above the truth our count of a part may be though the whole is calibrated (tool arguments that a template
does not print, measured on SmolLM2's)."""

TARGET_SHARE = 0.4
"""Of what the limit leaves above the irreducible part: trigger high, land low. Every compaction costs a summary and a
prompt-cache miss."""

TEXT_SHARE = 0.35
TEXT_LEAST = 350
TEXT_MOST = 12_000
"""The replacement's share of what the target leaves above the head (design, section 2)."""

TEXT_FLOOR = 120
"""The least that a replacement can be: its frame and a pin or two (measured on ours: the frame alone is about 70)."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`limit`: above it a request must shrink. `hard`: what it may take at the very most; the reserve gives way up to
    here before content does. `coming`: what a conversation will have grown by when a checkpoint made now is used."""

    window: int
    limit: int
    hard: int
    coming: int = 0

    def target(self, irreducible: int) -> int:
        """What a new checkpoint should bring a request down to."""
        return irreducible + int(TARGET_SHARE * max(0, self.limit - irreducible)) - self.coming

    def text(self, head: int, irreducible: int) -> int:
        """Tokens for the replacement text."""
        wanted = int(TEXT_SHARE * (self.target(irreducible) + self.coming - head))
        room = max(TEXT_FLOOR, self.limit - irreducible, min(TEXT_LEAST, self.hard - irreducible))
        return min(max(TEXT_LEAST, wanted), TEXT_MOST, room)


def budget(window: int, compact_at: int | None = None, below: int | None = None) -> Budget:
    """The budget of a window. `compact_at` lowers the limit. `below`: the upstream refused more than that; then an
    estimate is no reason to give up any more, and what is above the window by our count is tried too."""
    limit = window - min(RESERVE_MOST, int(window * RESERVE_SHARE))
    if compact_at is not None:
        limit = min(limit, compact_at)
    if below is not None:
        return Budget(window, min(limit, below), max(min(limit, below), min(below, int(MISCOUNT * window))))
    return Budget(window, limit, max(limit, window - int(window * ANSWER_ROOM)))
