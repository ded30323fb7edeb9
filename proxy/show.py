"""What was done to a request, in words for its operator: a checkpoint, and the record of how it was made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.transcript import scrub

MADE_BY = {
    Rung.CLEARED: "no text: old tool results cleared or shortened",
    Rung.DIGEST: "a machine, without a model",
    Rung.MODEL: "a summary by a model, with the user's words and the identifiers by a machine",
}

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
        f"tenant={checkpoint.tenant[:8]} turns={checkpoint.start}/{checkpoint.end} "
        f"tokens={stats.get('before', '?')}/{stats.get('after', '?')} reason={stats.get('reason', '?')} "
        f"cost={_cost(stats.get('cost')) or 'none'}"
    )
    return _line(line)


def totals(checkpoints: Sequence[Checkpoint]) -> str:
    """Of those that are listed."""
    costs = [cost for made in checkpoints if isinstance(cost := made.stats.get("cost"), dict)]
    prompt, output = (sum(_number(cost.get(name)) for cost in costs) for name in ("prompt", "output"))
    priced = [cost["usd"] for cost in costs if "usd" in cost]
    dollars = f", ${sum(map(_number, priced)):.4f} for those whose price is known ({len(priced)})" if priced else ""
    return f"{len(checkpoints)} compactions: {prompt:g} tokens read and {output:g} written for summaries{dollars}"


def _facts(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    stats = checkpoint.stats
    yield "checkpoint", checkpoint.id
    yield "made", f"{_time(checkpoint.created)}, because: {stats.get('reason', '?')}"
    yield "tenant", checkpoint.tenant
    yield "for", f"conversations that begin with the same {checkpoint.end} turns (digest {checkpoint.key[:16]})"
    yield "by", MADE_BY[checkpoint.rung]
    if checkpoint.start:
        first, last = stats.get("range", (0, checkpoint.start))
        new = f"; turns {first} to {last - 1} for the first time" if first else ""
        yield "replaced", f"turns 0 to {checkpoint.start - 1}, by a text of {checkpoint.text_tokens} tokens{new}"
    if checkpoint.carry is not None:
        yield "kept", f"turn {checkpoint.carry}, the user's last message, word for word behind that text"
    if checkpoint.trims:
        gone = sum(trim.keep == 0 for trim in checkpoint.trims)
        yield "trimmed", f"tool results: {gone} cleared, {len(checkpoint.trims) - gone} shortened"
    yield "tokens", f"{stats.get('before', '?')} before, {stats.get('after', '?')} after"
    if cost := _cost(stats.get("cost")):
        yield "cost", f"{cost}, by {stats.get('summarizer') or 'nobody'} in {stats.get('calls')} calls"
    for name in ("why", "saves", "audit", "failed", "refused", "mended", "seconds", "depth"):
        if name in stats:
            yield name, json.dumps(stats[name], ensure_ascii=True)


def _plain(text: str) -> str:
    return _CONTROL.sub("\ufffd", scrub(text))


def _line(text: str) -> str:
    return _plain(text.replace("\n", " "))


def _cost(cost: Any) -> str | None:
    if not isinstance(cost, dict):
        return None
    price = f" (${_number(cost['usd']):.6f})" if "usd" in cost else ""
    return f"{_number(cost.get('prompt')):g}+{_number(cost.get('output')):g} tokens{price}"


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
