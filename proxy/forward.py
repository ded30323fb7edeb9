"""Passing a request through: what comes in, where it goes, and the answer as the client gets it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from proxy.core import envelope, glimpse, wire
from proxy.core.coding import CODINGS, Codings
from proxy.ports import Answer, Call, Headers, Upstream
from proxy.routing import Route, Router


def _unheard(waits: bool) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A client's request. `path` is the raw path after `/v1`; a `body` that is no bytes is read once, as it arrives,
    and `beginning` is what of it is here already.

    `upgrade` as in `ports.Call`: with it, `body` is what the client says once the protocol has been changed.
    `upstream` is the name in the address that the client uses, None for the common one. `caller` says whose request it
    is; None: its credential does. `waiting` is told when the request begins and ends to wait for a compaction.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes] = b""
    upgrade: str | None = None
    upstream: str | None = None
    caller: bytes | None = None
    beginning: bytes = b""
    waiting: Callable[[bool], None] = _unheard

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

    def trusts(self, headers: Headers) -> bool:
        """Whether a request may come in, considering what page of the web sent it, if any did."""
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
    """A gateway that reads nothing: every request to the upstream of its address, or else of its model as far as a
    glimpse tells, every answer back. The model's name is another there if the settings say so and the body is at hand.
    `before` hears the origin to which a POST is about to go.
    """

    def __init__(
        self,
        upstream: Upstream,
        router: Router,
        codings: Codings = CODINGS,
        before: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._upstream = upstream
        self._router = router
        self._codings = codings
        self._before = before

    async def forward(self, incoming: Incoming) -> Answer:
        route = self._router.route(self._model(incoming), incoming.headers, incoming.upstream)
        sent = call(route, incoming)
        if route.upstream_model is not None and isinstance(sent.body, bytes):
            body = _renamed(sent.body, route.upstream_model)
            if body is not sent.body:
                sent = replace(sent, body=body, headers=wire.without(sent.headers, wire.REWRITTEN))
        if incoming.method == "POST":
            self._before(route.origin)
        return Relayed(await self._upstream.send(sent))

    def _model(self, incoming: Incoming) -> str | None:
        if incoming.method != "POST":
            return None
        whole = isinstance(incoming.body, bytes)
        known = incoming.body if isinstance(incoming.body, bytes) else incoming.beginning
        coding = wire.first(incoming.headers, b"content-encoding")
        return glimpse.model(known, coding, whole=whole, codings=self._codings)

    async def chat(self, incoming: Incoming) -> Answer:
        return await self.forward(incoming)


def _renamed(body: bytes, model: str) -> bytes:
    """A small body of JSON with another model; any other body as it is."""
    spans = envelope.fields(body) if len(body) <= glimpse.SMALL else None
    if spans is None or "model" not in spans:
        return body
    return envelope.splice(body, spans, {"model": envelope.dumps(model)})
