"""What of a conversation was still there after each compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.core.transcript import calls, text
from tests.bench.quality.canaries import Canary, Planted
from tests.bench.quality.replay import Exchange
from tests.bench.quality.world import Message

DEEP = "tool, deep"  # the origin of what stands in the middle of a long result
Group = tuple[str, str]
"""Kind and origin."""


@dataclass
class Survival:
    """`kept` of `all` canaries by group, over all compactions."""

    kept: Counter[Group] = field(default_factory=Counter)
    all: Counter[Group] = field(default_factory=Counter)
    stale: list[str] = field(default_factory=list)  # superseded values without their correction behind them
    lost: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, other: Survival) -> None:
        self.kept += other.kept
        self.all += other.all
        self.stale += other.stale
        self.lost += other.lost

    def share(self, kinds: Sequence[str], origin: str) -> float | None:
        whole = sum(self.all[kind, origin] for kind in kinds)
        return sum(self.kept[kind, origin] for kind in kinds) / whole if whole else None


def survival(planted: Planted, exchanges: Sequence[Exchange]) -> Survival:
    """Counted whenever a request goes out with another checkpoint than the one before."""
    found = Survival()
    last = ""
    head = next((i for i, m in enumerate(planted.messages) if m["role"] not in ("system", "developer")), 0)
    for exchange in exchanges:
        checkpoint = exchange.checkpoint
        if checkpoint is None:
            continue
        sent = said(exchange.sent)
        found.stale += stale(planted.canaries, exchange.history, sent)
        if checkpoint.id == last or not checkpoint.start:
            continue
        last = checkpoint.id
        for canary in planted.canaries:
            if canary.turn - head >= checkpoint.start or canary.turn - head == checkpoint.carry:
                continue  # in view
            if canary.instead and canary.instead.turn < exchange.history:
                continue  # superseded: nothing to be kept
            group = (canary.kind, DEEP if canary.deep else canary.origin)
            found.all[group] += 1
            if flat(canary.key) in sent:
                found.kept[group] += 1
            else:
                found.lost.append((planted.id, f"{canary.origin} {canary.kind}", canary.sentence))
    return found


def stale(canaries: Sequence[Canary], history: int, sent: str) -> Iterator[str]:
    """Values that the user has superseded and that stand without the new one behind them."""
    for canary in canaries:
        if canary.instead and canary.instead.turn < history:
            old, new = (last(flat(each.key), sent) for each in (canary, canary.instead))
            if old > new:
                yield f"{canary.sentence} => {canary.instead.sentence}"


def last(key: str, sent: str) -> int:
    """Where a key stands for the last time, -1 if it does not: `7 rows` does not stand in `17 rows`."""
    at = sent.rfind(key)
    while at > 0 and key[0].isascii() and sent[at - 1].isalnum() and sent[at - 1].isascii():
        at = sent.rfind(key, 0, at + len(key) - 1)
    return at


def said(messages: Sequence[Message]) -> str:
    """All words of a request, blanks collapsed."""
    pieces = (f"{text(m)}\n{' '.join(call.arguments for call in calls(m))}" for m in messages)
    return flat("\n".join(pieces))


def flat(words: str) -> str:
    return " ".join(words.split())
