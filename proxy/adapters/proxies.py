"""Which outbound proxy an address goes through, from the variables that every program reads."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from multidict import CIMultiDict

from proxy.errors import Unreachable

LOOPBACK = ("localhost", "127.", "::1")  # a proxy elsewhere could not reach them, whatever the environment says


class Proxies:
    """Outbound proxies, from the environment's variables. Loopback addresses are never sent through one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        def named(name: str) -> str:
            return environ.get(name.lower()) or environ.get(name.upper()) or ""

        self._by_scheme = {scheme: named(f"{scheme}_proxy") or named("all_proxy") for scheme in ("http", "https")}
        self._direct = [entry.strip().lower() for entry in named("no_proxy").split(",") if entry.strip()]

    def choose(self, url: str) -> tuple[str | None, CIMultiDict[str] | None]:
        """Address of the proxy for `url` and the headers it wants, or None twice.

        Raises `Unreachable` where a proxy is named that cannot be spoken to: going around it is not ours to decide.
        """
        parts = urlsplit(url)
        proxy = self._by_scheme.get(parts.scheme)
        host = parts.hostname or ""
        if not proxy or host.startswith(LOOPBACK) or self._is_direct(host, parts.port):
            return None, None
        address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if address.scheme not in ("http", "https"):
            raise Unreachable(f"the environment names an outbound proxy of an unsupported kind: {address.scheme}")
        if address.username is None:
            return address.geturl(), None
        user = f"{unquote(address.username)}:{unquote(address.password or '')}".encode()
        bare = urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))
        return bare, CIMultiDict({"Proxy-Authorization": "Basic " + base64.b64encode(user).decode("ascii")})

    def _is_direct(self, host: str, port: int | None) -> bool:
        """NO_PROXY as curl reads it: `*`, names with all below them, a port where stated."""
        names = [entry.removeprefix("*").removeprefix(".") for entry in self._direct if entry != "*"]
        spellings = (host, f"{host}:{port}")
        return "*" in self._direct or any(
            spelling == name or spelling.endswith("." + name) for name in names for spelling in spellings
        )
