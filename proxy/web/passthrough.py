"""Everything under /v1 that is no chat completion: any path, any method, any body, streamed both ways."""

from __future__ import annotations

from proxy.forward import Gateway, Incoming
from proxy.ports import Answer
from proxy.web.inlet import Inlet, Receive, Scope, Send
from proxy.web.relay import respond


async def passthrough(gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with what the upstream says to it."""
    inlet = Inlet(receive)
    await respond(inlet, send, scope["method"], stream(gateway, scope, inlet))


async def stream(gateway: Gateway, scope: Scope, inlet: Inlet) -> Answer:
    """Forward a request as soon as its body begins (or turns out to be empty); nothing of it is collected."""
    body = await inlet.read(0)
    path: bytes = scope["raw_path"]
    headers = tuple(scope["headers"])
    incoming = Incoming(scope["method"], path.removeprefix(b"/v1"), scope["query_string"], headers, body)
    return await gateway.forward(incoming)
