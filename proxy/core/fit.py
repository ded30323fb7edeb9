"""Making text fit a token budget with few counts: cutting head and tail, and choosing how much to say."""

from __future__ import annotations

from collections.abc import Callable

Count = Callable[[str], int]
"""Tokens of a text; may be costly (about a microsecond a character), so it is asked seldom and about whole texts."""

BYTES_PER_TOKEN = 4.0  # o200k over English prose and code: 3.5 to 4.6; UTF-8 bytes fold CJK in (3 bytes, 0.7 tokens)
WIDEST_TOKEN = 16  # characters; text beyond budget x this is cut before it is counted at all
ROUNDS = 24  # halving from any budget that occurs ends well before


def weigh(text: str) -> float:
    """Estimated tokens of `text`, without counting."""
    return len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN


def cut(text: str, limit: int, tail: float = 0.3) -> str:
    """At most `limit` characters of `text`: its head, a note of how much is missing, and its tail (a share of the
    rest). A limit too small for the note gives the bare head."""
    if len(text) <= limit:
        return text
    note = f"\n[… {len(text) - limit} characters left out …]\n"
    room = limit - len(note)
    if room <= 0:
        return text[: max(0, limit)]
    end = int(room * tail)
    return text[: room - end] + note + text[len(text) - end :]


def fit(text: str, budget: int, count: Count) -> str:
    """`text` if it has at most `budget` tokens, else its head and tail within them."""
    if budget <= 0:
        return ""
    text = cut(text, budget * WIDEST_TOKEN)
    size, best = len(text), text
    for _ in range(ROUNDS):
        used = count(best)
        if used <= budget:
            return best
        size = int(size * min(0.9, 0.97 * budget / used))
        best = cut(text, size)
    return ""


def settle(build: Callable[[float], str], budget: int, count: Count) -> str:
    """The fullest text that `build` makes within `budget` tokens; empty if none fits.

    `build(size)` makes a text of about `size` estimated tokens (see `weigh`). The estimate is corrected by what was
    really counted, down until it fits and up while a tenth or more is left, in a handful of counts.
    """
    size, low, high = float(budget), 0.0, 0.0  # `low` is known to fit, `high` (once set) not to
    best = failed = ""
    for _ in range(ROUNDS):
        text = build(size)
        used = count(text)
        if used > budget:
            high = size if text != failed else size / 2  # the same text again: the size is far above all there is
            failed = text
            size = high
        elif size > low:
            grew = len(text) > len(best)
            low, best = size, text if grew else best
            # Nothing yet: the estimate may be far above what the least there is takes.
            if used >= 0.93 * budget or (not grew and text) or size > budget * WIDEST_TOKEN:
                break
        factor = 0.98 * budget / max(used, 1)
        size *= max(factor, 0.25) if used > budget else min(factor, 4.0)
        if high and not low < size < high:
            size = (low + high) / 2
        if size < 1 or (high and high - low < 0.03 * high):
            break
    return best
