"""Where a request goes, and whose credentials go with it: a pure decision over the settings."""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from proxy.core import wire
from proxy.ports import Headers
from proxy.settings import ModelSettings, Settings, SummarizerSettings

CLIENT = "client"  # as an api_key: pass the client's own credentials on
_PORTS = {"http": 80, "https": 443}


def origin(url: str) -> str:
    """Scheme, host and port of an address that the settings have checked, in one spelling:
    `https://api.openai.com:443`.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"


@dataclass(frozen=True, slots=True)
class Route:
    """Where one request goes. `headers` are complete: what the upstream gets, with the credentials meant for it."""

    base_url: str  # no slash at the end
    origin: str
    policy: ModelSettings  # of the first pattern that matches the model
    upstream_model: str | None  # the name to ask for there, if it is another
    headers: Headers

    def __repr__(self) -> str:  # fit for logs: no keys
        return f"Route({self.base_url}, {len(self.headers)} headers)"


@dataclass(frozen=True, slots=True)
class _Place:
    base_url: str
    origin: str
    key: str | None  # None: no key; CLIENT: the client's own; else the configured one
    policy: ModelSettings


class Router:
    """The decision, with the settings' patterns prepared."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._default = self._place(ModelSettings())
        self._patterns = [
            (re.compile(fnmatch.translate(pattern)), self._place(policy)) for pattern, policy in settings.models.items()
        ]

    def route(self, model: str | None, headers: Headers) -> Route:
        """`model` None: not known, or none is asked for; the default upstream then. `headers` are the client's.

        Raises `LoopDetected` if the request comes from this proxy.
        """
        place = self._match(model)
        sent = _with_credentials(wire.request_headers(headers), place.key)
        return Route(place.base_url, place.origin, place.policy, place.policy.upstream_model, sent)

    def summariser_settings(self, route: Route) -> SummarizerSettings:
        """The model's own summariser, else the general one."""
        return route.policy.summarizer or self._settings.summarizer

    def summariser_url(self, route: Route) -> str:
        """Full address of the chat completions that write summaries for this route."""
        return (self.summariser_settings(route).upstream or route.base_url) + "/chat/completions"

    def summariser_headers(self, route: Route, headers: Headers) -> Headers:
        """Credentials for a summary of a request that takes `route`, and nothing else. `headers` are the client's.

        A configured key is used where there is one. Without it the summariser gets what the request's own upstream
        gets, if it is at the same origin, and nothing if it is not.
        """
        settings = self.summariser_settings(route)
        key = _plain(settings.api_key)
        if key is None:
            same = origin(self.summariser_url(route)) == route.origin
            return _credentials(route.headers) if same else ()
        return _credentials(_with_credentials(wire.request_headers(headers), key))

    def _match(self, model: str | None) -> _Place:
        if model is not None:
            for pattern, place in self._patterns:
                if pattern.match(model):
                    return place
        return self._default

    def _place(self, policy: ModelSettings) -> _Place:
        base_url = policy.upstream or self._settings.upstream
        here = origin(base_url)
        key = _plain(policy.api_key)
        if key is None and here == origin(self._settings.upstream):
            key = _plain(self._settings.api_key) or CLIENT
        return _Place(base_url, here, key, policy)


def _plain(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def _with_credentials(headers: Headers, key: str | None) -> Headers:
    if key == CLIENT:
        return headers
    bare = wire.without_credentials(headers)
    return bare if key is None else (*bare, (b"authorization", b"Bearer " + key.encode()))


def _credentials(headers: Headers) -> Headers:
    return tuple(field for field in headers if wire.is_credential(field[0]))


def tenant(headers: Headers, secret: bytes) -> str:
    """Whose conversation it is: an HMAC of the client's key under this installation's secret, 32 hex digits.

    The key alone where there is one (cookies change from request to request); without any credential all share one
    tenant. Never reversible, and different in every installation.
    """
    named = sorted((name.lower(), value) for name, value in headers if wire.is_credential(name))
    keys = [field for field in named if field[0] in wire.KEYS] or named
    material = b"\n".join(name + b":" + value for name, value in keys) or b"anonymous"
    return hmac.digest(secret, material, hashlib.sha256).hex()[:32]
