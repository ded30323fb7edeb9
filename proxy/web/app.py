"""The ASGI application: which path is whose, start and stop. Plain ASGI, for speed.

A bare starlette route with the same HTTP client costs 1.4 times as much CPU at 1 KB as all of this package with it
(tests/bench/speed.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from proxy.core import wire
from proxy.core.coding import CODINGS, LIMIT, Codings
from proxy.core.redact import redact
from proxy.forward import Addressed, Door, Gateway
from proxy.web.chat import chat
from proxy.web.inlet import Inlet, Receive, Scope, Send
from proxy.web.passthrough import passthrough
from proxy.web.relay import answer_json
from proxy.web.server import serve_options
from proxy.web.websocket import is_handshake, websocket

log = logging.getLogger("compaction_proxy")

CHAT = frozenset((b"/v1/chat/completions", b"/v1/chat/completions/"))
NO_SUCH_PATH = "no such path: the base URL of this proxy ends in /v1, as in http://host:port/v1"
NO_SUCH_NAME = "no upstream is named %.60a here; the common one is at http://host:port/v1"
NO_KEY = "this proxy accepts no request without one of its own API keys, as in `Authorization: Bearer KEY`"
FOREIGN = (
    "this proxy holds API keys of its own, and a page of another host must not spend them: with `clients` in its "
    "configuration, keys say who may use it"
)
CHALLENGE = (b"www-authenticate", b"Bearer")  # RFC 9110, 15.5.2: a 401 has one
LOST_BODY = "the body of a request that asks for an upgrade could not be read: ask for HTTP/1.1 alone"
FRAMING = (b"content-length", b"transfer-encoding")

__all__ = ["App", "create_app", "serve_options"]

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]


def create_app(
    gateway: Gateway,
    door: Door,
    *,
    keepalive_after: float | None = 10.0,
    max_body: int = LIMIT,
    codings: Codings = CODINGS,
    lifespan: Lifespan = nullcontext,
) -> App:
    """The application over a gateway. `door` says who may use it; `lifespan` is entered before the first request and
    left after the last.

    `keepalive_after` (seconds; None: never) and `max_body` (bytes) as in the settings of these names. `codings`: which
    content codings of a body can be undone.
    """
    return App(gateway, door, keepalive_after, max_body, codings, lifespan)


class App:
    """An ASGI 3 application."""

    def __init__(
        self,
        gateway: Gateway,
        door: Door,
        keepalive_after: float | None,
        max_body: int,
        codings: Codings,
        lifespan: Lifespan,
    ) -> None:
        self._gateway = gateway
        self._door = door
        self._keepalive_after = keepalive_after
        self._max_body = max_body
        self._codings = codings
        self._lifespan = lifespan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})  # of another server: ours leaves handshakes to us

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: bytes = scope["raw_path"]
        found = self._door.find(path)
        if _has_lost_body(scope):
            body = wire.error_body(LOST_BODY, "invalid_request_error")
            await _say(receive, send, 501, body, (b"connection", b"close"))
        elif found is not None:
            await self._enter(*found, scope, receive, send)
        elif path == b"/healthz":
            await _say(receive, send, 200, b'{"status":"ok"}')
        else:
            log.info("refused: no such address %.100a status=404", redact(path[:1_000].decode("latin-1")))
            await _say(receive, send, 404, wire.error_body(_lost(path), "invalid_request_error", code="not_found"))

    async def _enter(self, upstream: str | None, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Handlers see the path from `/v1` on, and no key that is this proxy's own."""
        if not self._door.trusts(scope["headers"]):
            log.info("refused: a page of another host, which must not spend the keys of the configuration status=403")
            body = wire.error_body(FOREIGN, "invalid_request_error", code="foreign_origin")
            await _say(receive, send, 403, body)
            return
        caller = self._door.admit(scope["headers"])
        if caller is None:
            log.info("refused: no key of `clients` status=401")
            body = wire.error_body(NO_KEY, "invalid_request_error", code="invalid_api_key")
            await _say(receive, send, 401, body, CHALLENGE)
            return
        gateway = self._gateway
        if upstream is not None or caller.name is not None:
            gateway = Addressed(gateway, upstream, caller.name)
        scope = {**scope, "raw_path": path, "headers": caller.headers}
        if path in CHAT and scope["method"] == "POST":
            await chat(gateway, scope, receive, send, self._max_body, self._keepalive_after, self._codings)
        else:
            handler = websocket if is_handshake(scope) else passthrough
            await handler(gateway, scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._lifespan():  # a failure here ends the server: uvicorn logs it and stops
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _lost(path: bytes) -> str:
    """Why an address is none."""
    _, name, rest = (*path.split(b"/", 2), b"", b"")[:3]
    is_name = name and (rest == b"v1" or rest.startswith(b"v1/"))
    return NO_SUCH_NAME % name.decode("latin-1") if is_name else NO_SUCH_PATH


def _has_lost_body(scope: Scope) -> bool:
    headers = scope["headers"]
    return wire.first(headers, b"upgrade") is not None and any(wire.first(headers, name) for name in FRAMING)


async def _say(receive: Receive, send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    await answer_json(Inlet(receive), send, status, body, headers)
