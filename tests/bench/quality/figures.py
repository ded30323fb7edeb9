"""The figures of one replay: sizes, compactions, unchanged prefix, cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.core.budget import budget
from tests.bench.quality.leaks import leaks, ledger_of
from tests.bench.quality.names import mentioned, named, used
from tests.bench.quality.replay import Exchange
from tests.bench.quality.world import Message
from tests.e2e.transcripts import pending

CACHED = 0.1  # price of a cached token of input, one read anew being 1
SUMMARISER = 0.2  # price of a token that the summariser reads
OUTPUT = 4  # how much dearer than reading writing is
OFTEN = 1.25  # compactions for each that would be needed if every one landed on its target


@dataclass(frozen=True)
class Figures:
    """Of one conversation at one window. `bound`: how many compactions there may be. `shared`: characters that were the
    same as before, that could have been, and all. `cost`: in those of passing through. `text`: the largest replacement, in tokens. `over`: requests that went out above the window though what
    must stay fits; `errors`: that the client got an error for. `named`: identifiers used again, and how many of them a
    replacement held when they were."""

    name: str
    tokens: int
    requests: int
    compactions: int
    bound: float
    shared: tuple[int, int, int]
    cost: float
    text: int
    calls: int
    over: int
    errors: int
    secrets: int
    named: tuple[int, int]
    rungs: str

    @property
    def prefix(self) -> float:
        """The share of what was sent that the upstream had seen in the same place at the request before."""
        return self.shared[0] / self.shared[2]

    @property
    def ceiling(self) -> float:
        """What it would be if nothing but the client's own new messages had been new."""
        return self.shared[1] / self.shared[2]


def figures(
    name: str,
    messages: Sequence[Message],
    exchanges: Sequence[Exchange],
    window: int,
    spent: Sequence[tuple[str, str]],
    tokens: Callable[[Sequence[Message]], int],
    count: Callable[[str], int],
    secrets: tuple[str, ...],
) -> Figures:
    """`spent`: what the summariser read and wrote, call by call. `tokens`: of a list of messages."""
    sizes = budget(window)
    fresh = fresh_ones(exchanges)
    least = [tokens(pending(messages[: e.history])) for e in fresh]
    frees = [sizes.limit - sizes.target(n) for n in least if n < sizes.limit]
    growth = exchanges[-1].before - exchanges[0].before
    through = sum(e.before - (1 - CACHED) * e.same_before for e in exchanges)
    ours = sum(e.after - (1 - CACHED) * e.same for e in exchanges)
    ours += sum(SUMMARISER * (count(read) + OUTPUT * count(written)) for read, written in spent)
    checkpoints = [e.checkpoint for e in fresh if e.checkpoint]
    shares = [sum(each) for each in zip(*(e.share for e in exchanges[1:]), strict=True)]
    kept = [again(messages, e) for e in fresh if e.checkpoint and e.checkpoint.start]
    return Figures(
        name=name,
        tokens=exchanges[-1].before,
        requests=len(exchanges),
        compactions=len(fresh),
        bound=OFTEN * growth / (sum(frees) / len(frees)) if frees else 0.0,
        shared=(shares[0], shares[1], shares[2]),
        cost=ours / through,
        text=max((c.text_tokens for c in checkpoints), default=0),
        calls=len(spent),
        over=sum(e.after > window and tokens(pending(messages[: e.history])) <= sizes.hard for e in exchanges),
        errors=sum(e.status >= 400 for e in exchanges),
        secrets=sum(len(leaks(ledger_of(c.text), secrets)) for c in checkpoints),
        named=(sum(n for n, _ in kept), sum(n for _, n in kept)),
        rungs="/".join(str(sum(c.rung == rung for c in checkpoints)) for rung in range(3)),
    )


def fresh_ones(exchanges: Sequence[Exchange]) -> list[Exchange]:
    """Those that were the first to go out with their checkpoint."""
    found: dict[str, Exchange] = {}
    for exchange in exchanges:
        if exchange.checkpoint is not None:
            found.setdefault(exchange.checkpoint.id, exchange)
    return list(found.values())


def again(messages: Sequence[Message], exchange: Exchange) -> tuple[int, int]:
    """Identifiers evicted with a checkpoint and used after it, and how many of them its text has."""
    checkpoint = exchange.checkpoint
    assert checkpoint is not None
    head = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), 0)
    cut = head + checkpoint.start
    wanted = named(mentioned(messages[:cut])) & named(used(messages[exchange.history :]))
    return len(wanted), sum(name in checkpoint.text for name in wanted)
