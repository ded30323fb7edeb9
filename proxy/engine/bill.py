"""What compactions cost and what they save: in tokens, and in money where the catalogue knows the price."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from proxy.engine.knowledge import Target
from proxy.ports import Catalogue


@dataclass(frozen=True, slots=True)
class Charge:
    """One answered call of a summariser. `stated`: the numbers are its own, not our counts."""

    target: Target
    prompt: int
    output: int
    stated: bool


@dataclass(slots=True)
class Effort:
    """What it took to get a summary, or to get none. Calls without an answer are in `calls` alone: nobody says whether
    they were paid for."""

    calls: int = 0
    charges: list[Charge] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # of each summariser that gave none: why
    refused: list[str] = field(default_factory=list)  # answers that were no summaries: why
    mended: int = 0  # answers that a machine could save


@dataclass(slots=True)
class Sum:
    """`dollars` are those of `tokens` whose price is known."""

    tokens: int = 0
    dollars: float = 0.0

    def add(self, tokens: int, dollars: float | None) -> None:
        self.tokens += tokens
        self.dollars += dollars or 0.0

    def __str__(self) -> str:
        return f"{self.tokens} tokens" + (f" ({money(self.dollars)})" if self.dollars else "")


class Accounts:
    """Prices, and this process's running totals: spent on summaries, and saved on requests that went out shorter.

    Saved input is priced as if none of it were cached, for what a provider would have cached is not known.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.spent = Sum()
        self.saved = Sum()

    def bill(self, effort: Effort) -> dict[str, Any]:
        """What an effort cost, as JSON values; `usd` only if every price is known. Added to what was spent."""
        prompt, output = sum(c.prompt for c in effort.charges), sum(c.output for c in effort.charges)
        prices = [self._catalogue.cost(c.target.base, c.target.model, c.prompt, c.output) for c in effort.charges]
        known = [price for price in prices if price is not None]
        self.spent.add(prompt + output, sum(known))
        made: dict[str, Any] = {"prompt": prompt, "output": output}
        if not all(charge.stated for charge in effort.charges):
            made["counted"] = "by the proxy, at least in part"
        if known and len(known) == len(prices):
            made["usd"] = round(sum(known), 6)
        return made

    def saving(self, target: Target, before: int, after: int) -> dict[str, Any]:
        """What one later request saves that goes out with `after` tokens instead of `before`, as JSON values."""
        dollars = self._difference(target, before, after)
        return {"tokens": before - after} | ({"usd": round(dollars, 6)} if dollars is not None else {})

    def served(self, target: Target, before: int, after: int) -> None:
        """A request went out shorter."""
        self.saved.add(before - after, self._difference(target, before, after))

    def _difference(self, target: Target, before: int, after: int) -> float | None:
        whole, short = (self._catalogue.cost(target.base, target.model, tokens, 0) for tokens in (before, after))
        return whole - short if whole is not None and short is not None else None


def money(dollars: float) -> str:
    """`$0.0012`: two figures that say something, at least cents."""
    return f"${dollars:.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"
