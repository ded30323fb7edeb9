"""The figures as tables, and which of the promised ones were missed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.bench.quality.figures import Figures
from tests.bench.quality.names import Recall
from tests.bench.quality.survival import DEEP, Survival
from tests.bench.quality.wording import KINDS

RULES = ("rule", "constraint")
LONG = 4  # windows, of a conversation whose cost counts
PREFIX = {20_000: 0.85, 40_000: 0.9}  # unchanged, at windows of at least so many tokens
TENTH, SHORT = 0.9, 0.6  # of names used again: in a ledger of a tenth, in one of 4,000 characters
SOUND = ("useless", "extractive", "perfect")  # these answer; the others fail or mislead


@dataclass(frozen=True)
class Run:
    """All conversations at one window with one summariser."""

    window: int
    summarizer: str
    rows: Sequence[Figures]
    survival: Survival


def heading(window: int, summarizer: str) -> Iterator[str]:
    """What stands above the rows of a run."""
    yield f"\n== window {window}, summarizer {summarizer}"
    yield (
        f"{'conversation':40} {'tokens':>8} {'reqs':>5} {'compactions':>12} {'bound':>6} {'prefix':>6} {'most':>5} {'cost':>5} "
        f"{'text':>5} {'calls':>5} {'c/d/m':>8} {'over':>4} {'err':>3} {'secr':>4} {'names':>6} {'rules':>5} {'user':>5}"
    )


def row_of(row: Figures, kept: Survival) -> str:
    """One conversation with one seed's canaries: `rules` and `user` are the shares of its rules and constraints, and of
    all that the user said, that survived."""
    named = row.named[1] / row.named[0] if row.named[0] else None
    return (
        f"{row.name[:40]:40} {row.tokens:8,} {row.requests:5} {row.compactions:12} {row.bound:6.1f} {row.prefix:6.3f} "
        f"{row.ceiling:5.3f} {row.cost:5.2f} {row.text:5} {row.calls:5} {row.rungs:>8} {row.over:4} {row.errors:3} "
        f"{row.secrets:4} {_share(named, 2):>6} {_share(kept.share(RULES, 'user'), 2):>5} "
        f"{_share(kept.share(KINDS, 'user'), 2):>5}"
    )


def totals(run: Run) -> Iterator[str]:
    """What stands below them."""
    origins = sorted({origin for _, origin in run.survival.all}, reverse=True)
    yield f"{'survived, by origin':22}" + "".join(f"{kind:>12}" for kind in (*KINDS, "all"))
    for origin in origins:
        shares = [run.survival.share(kinds, origin) for kinds in (*([kind] for kind in KINDS), KINDS)]
        yield f"{origin:22}" + "".join(f"{_share(share):>12}" for share in shares)
    rules = run.survival.share(RULES, "user")
    yield f"the user's rules and constraints together: {_share(rules)}"
    yield f"superseded values without their correction behind them: {len(run.survival.stale)}"
    if costs := _costs(run):
        yield f"median cost of conversations of {LONG} windows and more: {statistics.median(costs):.3f}"
    yield from _prefixes(run)


def _share(share: float | None, digits: int = 3) -> str:
    return "-" if share is None else f"{share:.{digits}f}"


def _prefixes(run: Run) -> Iterator[str]:
    """The unchanged share in all three readings: the median conversation, all characters, and those below the floor."""
    pooled, most = (sum(row.shared[n] for row in run.rows) / sum(row.shared[2] for row in run.rows) for n in (0, 1))
    yield (
        f"unchanged prefix: median {_median(row.prefix for row in run.rows):.3f}, "
        f"of all characters {pooled:.3f} (at most {most:.3f}), least {min(row.prefix for row in run.rows):.3f}"
    )
    least = _least_prefix(run.window)
    for row in run.rows:
        if row.prefix < least:
            why = "new messages alone take more" if row.ceiling < least else "compactions take the rest"
            yield f"  below {least}: {row.name} {row.prefix:.3f}, at most {row.ceiling:.3f} ({why})"


def _least_prefix(window: int) -> float:
    return max((share for size, share in PREFIX.items() if size <= window), default=min(PREFIX.values()))


def recall(rows: Sequence[tuple[str, Sequence[Recall]]]) -> Iterator[str]:
    yield "\n== identifiers used again, in a ledger of a tenth of what was cut off, and of 4,000 characters"
    for name, found in rows:
        parts = (f"{r.tenth / r.again:.2f} {r.short / r.again:.2f} of {r.again:3}" for r in found)
        yield f"{name[:40]:40} " + "   ".join(parts)
    whole = [r for _, found in rows for r in found]
    if whole:
        tenth, short = _pooled(rows)
        mean = statistics.mean(r.tenth / r.again for r in whole), statistics.mean(r.short / r.again for r in whole)
        yield f"all: {tenth:.3f} and {short:.3f}; mean over cuts {mean[0]:.3f} and {mean[1]:.3f}"


def forgotten(window: int, rows: Sequence[tuple[str, Sequence[Recall]]]) -> Iterator[str]:
    """What was promised of the ledger by itself and does not hold."""
    tenth, short = _pooled(rows)
    for size, share, least in (("a tenth", tenth, TENTH), ("4,000 characters", short, SHORT)):
        if share < least:
            yield f"window {window}: identifiers used again, in a ledger of {size}, {share:.3f} < {least}"


def _pooled(rows: Sequence[tuple[str, Sequence[Recall]]]) -> tuple[float, float]:
    """Over all names used again: the shares that either ledger has; 1 where there are none."""
    whole = [r for _, found in rows for r in found]
    total = sum(r.again for r in whole)
    return (sum(r.tenth for r in whole) / total, sum(r.short for r in whole) / total) if total else (1.0, 1.0)


def missed(run: Run) -> Iterator[str]:
    """What was promised and does not hold."""
    where = f"window {run.window}, {run.summarizer}: "
    found = run.survival
    rules = found.share(RULES, "user")
    floors: list[tuple[str, float | None, float]] = [("the user's rules and constraints", rules, 0.95)]
    if run.summarizer == "extractive":
        floors += [(f"the user's {kind}s", found.share([kind], "user"), 0.8) for kind in KINDS]
    if run.summarizer == "perfect":
        floors += [
            (f"{o} {kind}s", found.share([kind], o), 1.0) for o in ("user", "tool", DEEP, "assistant") for kind in KINDS
        ]
    if run.summarizer in SOUND:
        floors.append(("unchanged prefix", _median(row.prefix for row in run.rows), _least_prefix(run.window)))
        if costs := _costs(run):
            floors.append(("saving", 1 - statistics.median(costs), 1 - 0.45))
    yield from (
        f"{where}{name} {share:.4f} < {least}" for name, share, least in floors if share is not None and share < least
    )
    for row in run.rows:
        if run.summarizer in SOUND and row.compactions > row.bound:
            yield f"{where}{row.name}: {row.compactions} compactions > {row.bound:.1f}"
        for name, number in (("above the window", row.over), ("errors", row.errors), ("secrets", row.secrets)):
            if number:
                yield f"{where}{row.name}: {number} {name}"
    if found.stale:
        yield f"{where}{len(found.stale)} superseded values without their correction"


def _costs(run: Run) -> list[float]:
    return [row.cost for row in run.rows if row.tokens >= LONG * run.window]


def _median(values: Iterable[float]) -> float:
    return statistics.median(list(values))
