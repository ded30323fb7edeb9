"""What the genai-prices package knows of models at well-known addresses: their context windows, and what they cost."""

from __future__ import annotations

from cachetools import LRUCache
from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, Provider


class GenaiPrices:
    """`Catalogue` over the data that comes with the installed package; nothing is fetched.

    A model is looked up at the provider whose address it is asked for: a local server that calls its model by a
    famous name has its own window.
    """

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, str], tuple[Provider, ModelInfo] | None] = LRUCache(4_096)

    def window(self, base_url: str, model: str) -> int | None:
        found = self._find(base_url, model)
        return found[1].context_window if found is not None else None

    def cost(self, base_url: str, model: str, prompt: int, output: int) -> float | None:
        found = self._find(base_url, model)
        if found is None:
            return None
        provider, known = found
        try:
            return float(known.calc_price(Usage(input_tokens=prompt, output_tokens=output), provider).total_price)
        except (LookupError, ValueError):  # a model that is not paid by the token
            return None

    def _find(self, base_url: str, model: str) -> tuple[Provider, ModelInfo] | None:
        key = (base_url, model)
        if key not in self._known:
            self._known[key] = _looked_up(base_url, model)
        return self._known[key]


def _looked_up(base_url: str, model: str) -> tuple[Provider, ModelInfo] | None:
    try:
        return get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
