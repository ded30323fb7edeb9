"""How long a model's context is: what is configured, learned, advertised or catalogued, in this order."""

from __future__ import annotations

from proxy.core.wire import is_credential
from proxy.engine.advertised import Advertised
from proxy.engine.knowledge import Knowledge, Target
from proxy.ports import Catalogue, Headers


class Windows:
    def __init__(self, knowledge: Knowledge, advertised: Advertised, catalogue: Catalogue) -> None:
        self._knowledge = knowledge
        self._advertised = advertised
        self._catalogue = catalogue

    def of(self, target: Target, tenant: str, configured: int | None, headers: Headers) -> int | None:
        """Tokens: the smaller of configured and learned; else what the upstream advertises, else what the catalogue
        says; None if nobody knows. `headers` are what goes to this upstream: its list of models may want the key."""
        known = self._knowledge.window(target, tenant, configured)
        if known is not None:
            return known
        self._advertised.ask(target.base, tuple(field for field in headers if is_credential(field[0])))
        return self._advertised.window(target) or self._catalogue.window(target.base, target.model)
