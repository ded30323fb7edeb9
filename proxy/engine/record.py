"""The record of a checkpoint: what its `stats` say of how it was made, and the line of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.core import audit
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.redact import redact
from proxy.core.replacement import defuse
from proxy.core.transcript import Message, scrub, source
from proxy.engine.bill import Accounts, Effort, money
from proxy.errors import NO_SUMMARY


def audited(told: str, messages: Sequence[Message]) -> tuple[str, dict[str, int]]:
    """A summary as it may stand in a replacement of `messages`, and what was taken out of it: `struck` names that
    nobody said, and `disowned` rules that only tool results have."""
    plain = redact(defuse(scrub(told)))
    struck = audit.strike(plain, source(messages))
    kept = audit.disown(struck, messages)
    names = sum(before != after for before, after in zip(plain.split(), struck.split(), strict=False))
    return kept, {"struck": names, "disowned": max(0, _lines(struck) - _lines(kept))}


def _lines(text: str) -> int:
    """Those that say something; section markers may go with their last line."""
    return sum(1 for line in text.split("\n") if line.strip() and not line.startswith("["))


def tried(effort: Effort, seconds: float) -> dict[str, Any]:
    """What it took."""
    found: dict[str, Any] = {"calls": effort.calls, "seconds": round(seconds, 2)}
    if effort.failed:
        found["failed"] = list(effort.failed)
    if effort.refused:
        found["refused"] = list(effort.refused)
    if effort.mended:
        found["mended"] = effort.mended
    return found


def line(made: Checkpoint, accounts: Accounts) -> str:
    """For the log: no text."""
    stats = made.stats
    cost, saves = stats.get("cost", {}), stats.get("saves", {})
    read, wrote = cost.get("prompt", 0), cost.get("output", 0)
    why = f"; no summary: {NO_SUMMARY[stats['why']]}" if made.rung == Rung.DIGEST else ""
    spent = f"this process spent {accounts.spent}, saved {accounts.saved}"
    return (
        f"compaction {made.id}: turns={span(made)} reason={stats['reason']} by={made.rung.name.lower()} "
        f"tokens={stats['before']}/{stats['after']} depth={stats.get('depth', 0)} calls={stats['calls']} "
        f"cost={f'{read}+{wrote}{_priced(cost)}' if read or wrote else 'none'} "
        f"saves={saves.get('tokens', 0)}{_priced(saves)}; {spent}{why}"
    )


def span(made: Checkpoint) -> str:
    """`18-31 of 39`: the turns that are replaced, or only trimmed, for the first time, counted from 0, and how many the
    request had; `none of 39` where a text was only written anew."""
    first, last = made.stats.get("range", (0, made.start))
    total = f" of {made.stats['turns']}" if "turns" in made.stats else ""
    return (f"{first}-{last - 1}" if last > first else "none") + total


def _priced(part: dict[str, Any]) -> str:
    return f" ({money(part['usd'])})" if "usd" in part else ""
