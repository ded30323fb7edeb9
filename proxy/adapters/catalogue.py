"""What the genai-prices package knows of models at well-known addresses: their context windows."""

from __future__ import annotations

from cachetools import LRUCache
from genai_prices.data_snapshot import get_snapshot


class GenaiPrices:
    """`Catalogue` over the data that comes with the installed package; nothing is fetched.

    A model is looked up at the provider whose address it is asked for: a local server that calls its model by a
    famous name has its own window.
    """

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, str], int | None] = LRUCache(4_096)

    def window(self, base_url: str, model: str) -> int | None:
        key = (base_url, model)
        if key not in self._known:
            self._known[key] = _window(base_url, model)
        return self._known[key]


def _window(base_url: str, model: str) -> int | None:
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    return found.context_window
