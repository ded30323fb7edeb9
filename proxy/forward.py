"""Passing a request through: what comes in, where it goes, and the answer as the client gets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Protocol

from proxy.core import wire
from proxy.ports import Answer, Call, Headers, Upstream
from proxy.routing import Route, Router


@dataclass(frozen=True, slots=True)
class Incoming:
    """A client's request. `path` is the raw path after `/v1`; a `body` that is no bytes is read once, as it arrives.

    `upgrade` as in `ports.Call`: with it, `body` is what the client says once the protocol has been changed.
    `upstream` is the name in the address that the client uses, None for the common one. `caller` says whose request it
    is; None: its credential does.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes] = b""
    upgrade: str | None = None
    upstream: str | None = None
    caller: bytes | None = None

    def __repr__(self) -> str:  # fit for logs: no header, no text
        size = f"{len(self.body)} bytes" if isinstance(self.body, bytes) else "streamed"
        return f"Incoming({self.method} {self.path!r}, {size})"


class Gateway(Protocol):
    """What stands behind the web: takes requests, gives answers whose heads are final."""

    async def chat(self, incoming: Incoming) -> Answer:
        """A chat completion; `incoming.body` is bytes. Raises `ProxyError`."""
        ...

    async def forward(self, incoming: Incoming) -> Answer:
        """Anything else. Raises `ProxyError`."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is (`Incoming.caller`), and its header fields without the keys that are this proxy's own."""

    headers: Headers
    name: bytes | None

    def __repr__(self) -> str:  # fit for logs: no header, no name
        return f"Caller({len(self.headers)} headers)"


class Door(Protocol):
    """Who may come in, and by which address."""

    def find(self, path: bytes) -> tuple[str | None, bytes] | None:
        """Which upstream a raw path names (None: the common one), and the path from `/v1` on; None: no such address."""
        ...

    def admit(self, headers: Headers) -> Caller | None:
        """Whose request it is; None: it must show an accepted key first."""
        ...


class Addressed:
    """A gateway for requests of one caller, by one address."""

    __slots__ = ("_caller", "_gateway", "_upstream")

    def __init__(self, gateway: Gateway, upstream: str | None, caller: bytes | None) -> None:
        self._gateway = gateway
        self._upstream = upstream
        self._caller = caller

    async def chat(self, incoming: Incoming) -> Answer:
        return await self._gateway.chat(replace(incoming, upstream=self._upstream, caller=self._caller))

    async def forward(self, incoming: Incoming) -> Answer:
        return await self._gateway.forward(replace(incoming, upstream=self._upstream, caller=self._caller))


def call(route: Route, incoming: Incoming) -> Call:
    """The request as it goes to the upstream: same method, target and body bytes, same kind of framing.

    Raises `BadRequest` for a target that could lead elsewhere.
    """
    url = route.base_url + wire.target(incoming.path, incoming.query).decode("ascii")
    headers = route.headers
    if not isinstance(incoming.body, bytes):
        length = wire.first(incoming.headers, b"content-length")
        if length is not None:
            headers = (*headers, (b"content-length", length))
    return Call(incoming.method, url, headers, incoming.body, upgrade=incoming.upgrade)


class Relayed:
    """An upstream's answer with the head that the client gets; the body is the upstream's, byte for byte."""

    __slots__ = ("_answer", "headers", "status")

    def __init__(self, answer: Answer, extra: Headers = ()) -> None:
        self._answer = answer
        self.status = answer.status
        self.headers = wire.response_headers(answer.headers) + extra

    def chunks(self) -> AsyncIterator[bytes]:
        return self._answer.chunks()

    async def aclose(self) -> None:
        await self._answer.aclose()

    def __repr__(self) -> str:
        return f"Relayed({self.status})"


class Forwarder:
    """A gateway that changes nothing: every request to the upstream of its address, every answer back."""

    def __init__(self, upstream: Upstream, router: Router) -> None:
        self._upstream = upstream
        self._router = router

    async def forward(self, incoming: Incoming) -> Answer:
        route = self._router.route(None, incoming.headers, incoming.upstream)
        return Relayed(await self._upstream.send(call(route, incoming)))

    async def chat(self, incoming: Incoming) -> Answer:
        return await self.forward(incoming)
