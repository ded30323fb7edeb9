"""Where a request goes, and whose credentials go with it: a pure decision over the settings."""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from pydantic import SecretStr

from proxy.core import wire
from proxy.ports import Headers
from proxy.settings import CLIENT, ModelSettings, Settings, SummarizerSettings

_PORTS = {"http": 80, "https": 443}

_VERSION = re.compile(rb"(?:\A|&)(api-version=[A-Za-z0-9._~-]{1,64})(?=&|\Z)")


def origin(url: str) -> str:
    """Scheme, host and port of an address that the settings have checked, in one spelling:
    `https://api.openai.com:443`.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"


def pseudonym(settings: Settings, secret: bytes) -> bytes:
    """What this proxy calls itself to its upstreams, so that it knows a request that comes back to it.

    All processes of one proxy share it. Another one has another `secret`; or, started from the same directory of
    compactions, other addresses, for one that stands before it has it as its upstream.
    """
    places = [settings.upstream, *(upstream.url for upstream in settings.upstreams.values())]
    places += [policy.upstream or "" for policy in settings.models.values()]
    own = hmac.digest(secret, b"via " + "\n".join(places).encode(), hashlib.sha256).hex()[:8]
    return wire.PSEUDONYM + b"-" + own.encode()


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


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a pattern of the settings says, and where it leads."""

    policy: ModelSettings
    place: _Place


class Router:
    """The decision, with the settings' names and patterns prepared. `pseudonym`: what this proxy calls itself."""

    def __init__(self, settings: Settings, pseudonym: bytes = wire.PSEUDONYM) -> None:
        self._settings = settings
        self._pseudonym = pseudonym
        # Where clients must say to this proxy who they are, their credentials are its own, unless a setting differs.
        own = None if isinstance(settings.clients, tuple) else CLIENT
        self._common = _place(settings.upstream, _plain(settings.api_key) or own)
        self._named = {
            name: _place(upstream.url, _plain(upstream.api_key) or own) for name, upstream in settings.upstreams.items()
        }
        self._summarisers = {
            upstream.url: upstream.summarizer
            for upstream in settings.upstreams.values()
            if upstream.summarizer is not None
        }
        self._default = _Rule(ModelSettings(), self._common)
        self._rules = [
            (re.compile(fnmatch.translate(pattern)), _Rule(policy, self._placed(policy)))
            for pattern, policy in settings.models.items()
        ]

    def route(self, model: str | None, headers: Headers, upstream: str | None = None) -> Route:
        """`model` None: not known, or none is asked for. `headers` are the client's. `upstream` is the name of the one
        whose address the client uses; None: the common address, and then the model may have a place of its own.

        Raises `LoopDetected` if the request comes from this proxy.
        """
        rule = self._match(model)
        place, upstream_model = rule.place, rule.policy.upstream_model
        if upstream is not None and self._named[upstream].base_url != place.base_url:
            upstream_model = None  # the address that the client chose wins; a name that holds elsewhere does not
            place = self._named[upstream]
        elif upstream is not None:
            place = replace(place, key=_plain(rule.policy.api_key) or self._named[upstream].key)
        sent = _with_credentials(wire.request_headers(headers, self._pseudonym), place.key)
        return Route(place.base_url, place.origin, rule.policy, upstream_model, sent)

    def summariser_settings(self, route: Route) -> SummarizerSettings:
        """The model's own summariser, else that of the upstream, else the general one."""
        if route.policy.summarizer is not None:
            return route.policy.summarizer
        return self._summarisers.get(route.base_url, self._settings.summarizer)

    def summariser_base(self, route: Route) -> str:
        """Where summaries for this route are written, an address as in the settings."""
        upstream = self.summariser_settings(route).upstream
        return route.base_url if upstream is None else self._address(upstream)

    def summariser_url(self, route: Route, query: bytes = b"") -> str:
        """Full address of the chat completions there. The request's own upstream gets the version of its interface
        that the client's `query` names: Azure's older addresses do not answer without."""
        base = self.summariser_base(route)
        version = _VERSION.search(query) if base == route.base_url else None
        return f"{base}/chat/completions" + (f"?{version[1].decode('ascii')}" if version else "")

    def summariser_headers(self, route: Route, headers: Headers) -> Headers:
        """Credentials for a summary of a request that takes `route`, and nothing else. `headers` are the client's.

        A configured key is used where there is one for this place. Without it the summariser gets what the request's
        own upstream gets, if it is at the same origin, and nothing if it is not.
        """
        there = origin(self.summariser_url(route))
        key = self._summariser_key(route, there)
        if key is None:
            return _credentials(route.headers) if there == route.origin else ()
        return _credentials(_with_credentials(wire.request_headers(headers, self._pseudonym), key))

    def _summariser_key(self, route: Route, there: str) -> str | None:
        settings = self.summariser_settings(route)
        key = _plain(settings.api_key)
        if settings.upstream is not None:
            named = self._settings.upstreams.get(settings.upstream)
            return key or (_plain(named.api_key) if named else None)
        # Without an address beside it a key is for the place where the section's requests go when nobody chose another.
        home = self._common.origin
        if route.policy.summarizer is not None:
            home = self._placed(route.policy).origin
        elif route.base_url in self._summarisers:
            home = route.origin
        return key if there == home else None

    def _match(self, model: str | None) -> _Rule:
        if model is not None:
            for pattern, rule in self._rules:
                if pattern.match(model):
                    return rule
        return self._default

    def _placed(self, policy: ModelSettings) -> _Place:
        """Where a pattern sends its models, when the client's address says nothing else."""
        upstream = policy.upstream
        base_url = self._settings.upstream if upstream is None else self._address(upstream)
        named = self._settings.upstreams.get(upstream) if upstream is not None else None
        here = origin(base_url)
        key = _plain(policy.api_key) or (_plain(named.api_key) if named else None)
        return _Place(base_url, here, self._common.key if key is None and here == self._common.origin else key)

    def _address(self, upstream: str) -> str:
        """Of an upstream that is named or is an address itself."""
        named = self._settings.upstreams.get(upstream)
        return upstream if named is None else named.url


def _place(base_url: str, key: str | None) -> _Place:
    return _Place(base_url, origin(base_url), key)


def _plain(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def _with_credentials(headers: Headers, key: str | None) -> Headers:
    if key == CLIENT:
        return headers
    bare = wire.without_credentials(headers)
    return bare if key is None else (*bare, (b"authorization", b"Bearer " + key.encode()))


def _credentials(headers: Headers) -> Headers:
    return tuple(field for field in headers if wire.is_credential(field[0]))
