"""What compactions cost and save, in tokens and in money."""

from __future__ import annotations

import asyncio

import pytest

from proxy.engine.bill import Accounts, Charge, Effort, money
from proxy.engine.knowledge import Target
from tests.engine.fakes import FakeAnswer, World, talk

DEAR, CHEAP, UNKNOWN = Target("http://u/v1", "dear"), Target("http://u/v1", "cheap"), Target("http://u/v1", "own")


class Prices:
    """Of a million tokens read, and written."""

    def window(self, base_url: str, model: str) -> int | None:
        return None

    def cost(self, base_url: str, model: str, prompt: int, output: int) -> float | None:
        known = {"dear": (10.0, 30.0), "cheap": (1.0, 2.0)}.get(model)
        return (prompt * known[0] + output * known[1]) / 1e6 if known else None


def test_a_bill_has_every_answered_call() -> None:
    """Of whomever; money where every price is known, and a word where a number is our count."""
    accounts = Accounts(Prices())
    assert accounts.bill(Effort(calls=3)) == {"prompt": 0, "output": 0}
    one, other = Charge(CHEAP, 10_000, 500, True), Charge(DEAR, 1_000, 100, False)
    assert accounts.bill(Effort(charges=[one])) == {"prompt": 10_000, "output": 500, "usd": 0.011}
    made = accounts.bill(Effort(charges=[one, other]))
    assert (made["prompt"], made["output"], made["usd"]) == (11_000, 600, 0.024) and "proxy" in made["counted"]
    assert "usd" not in accounts.bill(Effort(charges=[one, Charge(UNKNOWN, 1, 1, True)]))
    assert accounts.spent.tokens == 10_500 + 11_600 + 10_502
    assert accounts.spent.dollars == pytest.approx(0.011 + 0.024 + 0.011)


def test_what_is_saved() -> None:
    """Input at its full price: what of it a provider would have cached is not known."""
    accounts = Accounts(Prices())
    assert accounts.saving(DEAR, 90_000, 40_000) == {"tokens": 50_000, "usd": 0.5}
    assert accounts.saving(UNKNOWN, 90_000, 40_000) == {"tokens": 50_000}
    assert accounts.saved.tokens == 0
    accounts.served(DEAR, 90_000, 40_000)
    accounts.served(UNKNOWN, 300, 100)
    assert str(accounts.saved) == "50200 tokens ($0.5000)"
    assert str(accounts.spent) == "0 tokens"  # nothing is said of money where no price is known


def test_every_request_that_went_out_shorter_counts() -> None:
    """Compacted or reused, if it was answered; what passes saves nothing, and neither does what was refused."""
    world = World(window=4_000)

    async def story() -> None:
        expected = 0
        for messages in (talk(2), talk(25), talk(25)):
            reply = await world.chat(messages)
            before, after = map(int, (reply.header("x-compaction-tokens") or "0/0").split("/"))
            expected += before - after
            assert world.accounts.saved.tokens == expected
        assert expected > 4_000
        world.upstream.script = [lambda: FakeAnswer(429, b"{}")] * 5
        await world.chat(talk(25))
        assert world.accounts.saved.tokens == expected
        assert world.accounts.spent.tokens > 1_000

    asyncio.run(story())


@pytest.mark.parametrize(
    ("dollars", "text"), [(0.0, "$0.00"), (0.00123, "$0.0012"), (0.5, "$0.5000"), (12.345, "$12.35")]
)
def test_money(dollars: float, text: str) -> None:
    """Small sums are not nothing."""
    assert money(dollars) == text
