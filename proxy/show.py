"""What was done to a request, in words for its operator: a checkpoint, and the record of how it was made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.plan import OUTCOMES
from proxy.core.transcript import scrub
from proxy.engine.compactor import HOOK
from proxy.engine.record import span
from proxy.errors import NO_SUMMARY

MADE_BY = {
    Rung.CLEARED: "no text: old tool results cleared or shortened",
    Rung.DIGEST: "a machine, without a model",
    Rung.MODEL: "a summary by a model, with the user's words and the identifiers by a machine",
}
BY_HOOK = "a summary by a hook, with the user's words and the identifiers by a machine"

REASONS = {reason: meaning for (decision, reason), meaning in OUTCOMES.items() if decision == "compact"} | {
    "ahead": "near the limit: made in the background, before a request needed it",
    "better": "made in the background, in place of one without a model",
}
"""Of compactions: those that a client can see, and those that no request asked for."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor, colours it or turns its text around; others wrote the text."""


def written(checkpoint: Checkpoint) -> str:
    """All of it, the replacement text last."""
    lines = [_line(f"{name:<10} {what}") for name, what in _facts(checkpoint)]
    return "\n".join([*lines, "", _plain(checkpoint.text or "(none)")])


def told(checkpoint: Checkpoint) -> str:
    """One line."""
    stats = checkpoint.stats
    line = (
        f"{checkpoint.id}  {_time(checkpoint.created)}  {checkpoint.rung.name.lower():<7} "
        f"tenant={checkpoint.tenant[:8]} turns={span(checkpoint)} "
        f"tokens={stats.get('before', '?')}/{stats.get('after', '?')} reason={stats.get('reason', '?')} "
        f"cost={_cost(stats.get('cost'))}"
    )
    return _line(line)


def totals(checkpoints: Sequence[Checkpoint]) -> str:
    """Of those that are listed."""
    costs = [cost for made in checkpoints if isinstance(cost := made.stats.get("cost"), dict)]
    prompt, output = (sum(_number(cost.get(name)) for cost in costs) for name in ("prompt", "output"))
    priced = [cost["usd"] for cost in costs if "usd" in cost]
    dollars = f", ${sum(map(_number, priced)):.4f} for those whose price is known ({len(priced)})" if priced else ""
    made = _counted(len(checkpoints), "compaction")
    return f"{made}: {prompt:.12g} tokens read and {output:.12g} written for summaries{dollars}"


def _facts(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    stats = checkpoint.stats
    yield "checkpoint", checkpoint.id
    yield "made", f"{_time(checkpoint.created)}, {_words(stats.get('reason', '?'), REASONS)}"
    yield "tenant", checkpoint.tenant
    yield "for", f"conversations that begin with the same {checkpoint.end} turns (digest {checkpoint.key[:16]})"
    yield "by", BY_HOOK if stats.get("summarizer") == HOOK else MADE_BY[checkpoint.rung]
    if checkpoint.start:
        yield "replaced", f"turns 0 to {checkpoint.start - 1}, by a text of {checkpoint.text_tokens} tokens"
    if checkpoint.carry is not None:
        yield "kept", f"turn {checkpoint.carry}, the user's last message, word for word behind that text"
    if checkpoint.trims:
        gone = sum(trim.keep == 0 for trim in checkpoint.trims)
        yield "trimmed", f"tool results: {gone} cleared, {len(checkpoint.trims) - gone} shortened"
    if "range" in stats:
        yield "new", f"turns {span(checkpoint)}: here for the first time"
    yield "tokens", f"{stats.get('before', '?')} before, {stats.get('after', '?')} after"
    yield from _summary(stats)


def _summary(stats: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How the summary was got, or why there is none."""
    if calls := _number(stats.get("calls")):
        writer = f", by {stats['summarizer']}" if stats.get("summarizer") else ""
        took = f" in {_number(stats['seconds']):.12g} s" if "seconds" in stats else ""
        yield "cost", f"{_cost(stats.get('cost'))}{writer}, {_counted(calls, 'call')}{took}"
    elif stats.get("why") == "late":
        yield "cost", "that of the summary, which has a record of its own once it is there"
    else:
        yield "cost", "none: no model was asked"
    if isinstance(saves := stats.get("saves"), dict):
        yield "saves", f"{_number(saves.get('tokens')):.12g} tokens of every later request{_price(saves)}"
    if "why" in stats:
        yield "no summary", _words(stats["why"], NO_SUMMARY)
    for name in ("failed", "refused"):
        if isinstance(found := stats.get(name), list) and found:
            yield name, "; ".join(_words(reason, NO_SUMMARY) for reason in found)
    if mended := _number(stats.get("mended")):
        yield "mended", f"{_counted(mended, 'answer')}, by a machine"
    if isinstance(audit := stats.get("audit"), dict):
        struck, disowned = (_number(audit.get(name)) for name in ("struck", "disowned"))
        names = f"{_counted(struck, 'name')} that nobody had said"
        yield "audit", f"took out {names}, and {_counted(disowned, 'rule')} that only a tool's result had"
    if depth := _number(stats.get("depth")):
        yield (
            "depth",
            f"{_counted(depth, 'summary', 'summaries')}{', each built on the one before' if depth > 1 else ''}",
        )


def _words(reason: Any, table: Mapping[str, str]) -> str:
    """A reason and what it means, as far as this version knows it."""
    return f"{reason} ({table[reason]})" if isinstance(reason, str) and reason in table else str(reason)


def _counted(number: float, one: str, many: str | None = None) -> str:
    return f"{number:.12g} {one if number == 1 else many or one + 's'}"


def _plain(text: str) -> str:
    return _CONTROL.sub("\ufffd", scrub(text))


def _line(text: str) -> str:
    return _plain(text.replace("\n", " "))


def _cost(cost: Any) -> str:
    """`6000+400 tokens ($0.001140)`: read and written."""
    read, wrote = (_number(cost.get(name)) if isinstance(cost, dict) else 0 for name in ("prompt", "output"))
    return f"{read:.12g}+{wrote:.12g} tokens{_price(cost)}" if read or wrote else "none"


def _price(part: Mapping[str, Any]) -> str:
    return f" (${_number(part['usd']):.6f})" if "usd" in part else ""


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
