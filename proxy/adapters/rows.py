"""Checkpoints as rows of a table, and what of a row that was changed from outside can still be believed.

Text is kept as UTF-8 with lone surrogates passed through (BLOBs), so that what comes out is exactly what went in.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from proxy.core.checkpoint import Checkpoint, Rung, Trim

log = logging.getLogger("compaction_proxy")

COLUMNS = "tenant, key, first_kept, boundary, text, text_tokens, carry, trims, rung, created, prose, stats"
END_OF_TIME = 253_402_300_800  # seconds since the epoch: the year 10000, which no calendar of Python's has


def row(checkpoint: Checkpoint) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    return (
        pack(checkpoint.tenant),
        pack(checkpoint.key),
        checkpoint.start,
        checkpoint.end,
        pack(checkpoint.text),
        checkpoint.text_tokens,
        checkpoint.carry,
        json.dumps([(trim.index, trim.keep, trim.tokens) for trim in checkpoint.trims]),
        int(checkpoint.rung),
        checkpoint.created,
        pack(checkpoint.prose),
        json.dumps(checkpoint.stats),
    )


def readable(rows: Iterable[tuple[Any, ...]]) -> list[Checkpoint]:
    """The checkpoints of rows that begin with `COLUMNS`. One that `row` cannot have written is as good as none: its
    conversation is compacted anew."""
    found = []
    for each in rows:
        try:
            found.append(_checkpoint(each))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            log.warning("a row of the store cannot be read (%s), and is left out", type(error).__name__)
    return found


def _checkpoint(row: tuple[Any, ...]) -> Checkpoint:
    tenant, key, start, end, text, text_tokens, carry, trims, rung, created, prose, stats, *_ = row
    made = Checkpoint(
        tenant=unpack(tenant),
        key=unpack(key),
        start=start,
        end=end,
        text=unpack(text),
        text_tokens=text_tokens,
        carry=carry,
        trims=tuple(Trim(index, keep, tokens) for index, keep, tokens in json.loads(trims)),
        rung=Rung(rung),
        created=created,
        prose=unpack(prose),
        stats=json.loads(stats),
    )
    numbers = [start, end, text_tokens, 0 if carry is None else carry, *(n for t in made.trims for n in _numbers(t))]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("numbers are whole, and not below 0")
    trimmed = [trim.index for trim in made.trims]
    if not start <= end or not (carry is None or carry < start) or not all(start <= i < end for i in trimmed):
        raise ValueError("places are within what is covered")
    if not 0 <= created < END_OF_TIME or not isinstance(made.stats, dict):
        raise ValueError("no time, or no record")
    return made


def _numbers(trim: Trim) -> tuple[int, int, int]:
    return trim.index, trim.keep, trim.tokens


def pack(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def unpack(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
