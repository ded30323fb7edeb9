"""What is known of models at well-known addresses."""

from __future__ import annotations

import pytest

from proxy.adapters.catalogue import GenaiPrices

OPENAI = "https://api.openai.com/v1"


def test_a_known_model_has_a_window_and_a_price() -> None:
    """The price is linear in the tokens of a plain model, and output is dearer than input."""
    known = GenaiPrices()
    assert known.window(OPENAI, "gpt-4o-mini") == 128_000
    one, other = known.cost(OPENAI, "gpt-4o-mini", 1_000_000, 0), known.cost(OPENAI, "gpt-4o-mini", 0, 1_000_000)
    assert one is not None and other is not None and 0 < one < other
    assert known.cost(OPENAI, "gpt-4o-mini", 3_000, 500) == pytest.approx(one * 0.003 + other * 0.0005)
    assert known.cost(OPENAI, "gpt-4o-mini", 0, 0) == 0


@pytest.mark.parametrize(
    ("base", "model"),
    [(OPENAI, "no-such-model"), ("http://localhost:8000/v1", "gpt-4o-mini"), ("nonsense", ""), (OPENAI, "")],
)
def test_what_is_not_known_is_none(base: str, model: str) -> None:
    """A local server that calls its model by a famous name has its own window, and no price."""
    known = GenaiPrices()
    assert known.window(base, model) is known.cost(base, model, 1_000, 1_000) is None
