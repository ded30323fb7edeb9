"""Everything under /v1 that is no chat completion: any path, any method, any body, streamed both ways."""

from __future__ import annotations

from proxy.core import wire
from proxy.core.glimpse import SMALL
from proxy.forward import Gateway, Incoming
from proxy.ports import Answer, Headers
from proxy.web.inlet import Inlet, Receive, Scope, Send
from proxy.web.relay import respond


async def passthrough(gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with what the upstream says to it."""
    inlet = Inlet(receive)
    await respond(inlet, send, scope["method"], stream(gateway, scope, inlet))


async def stream(gateway: Gateway, scope: Scope, inlet: Inlet) -> Answer:
    """Forward a request as soon as its body begins (or turns out to be empty). Nothing of it is collected, but for a
    little JSON: nobody can use a part of it, and its model may say where it has to go.
    """
    headers = tuple(scope["headers"])
    body = await inlet.read(SMALL if _is_small_json(headers) else 0)
    path: bytes = scope["raw_path"]
    incoming = Incoming(
        scope["method"],
        path.removeprefix(b"/v1"),
        scope["query_string"],
        headers,
        body,
        beginning=inlet.beginning,
    )
    return await gateway.forward(incoming)


def _is_small_json(headers: Headers) -> bool:
    length = wire.first(headers, b"content-length")
    kind = wire.first(headers, b"content-type") or b""
    return length is not None and int(length) <= SMALL and b"json" in kind.lower()
