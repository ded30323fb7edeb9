"""WebSockets under /v1: the handshake goes to the upstream like any request, and if it agrees, both sides are joined.

Whatever follows its 101 passes as raw bytes: text, binary and control frames, pings, close codes, compression and
extensions are between the client and the upstream, and no message is ever collected. Any other answer is one like any
other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from proxy.core import wire
from proxy.forward import Gateway, Incoming
from proxy.ports import Answer
from proxy.web.inlet import Inlet, Receive, Scope, Send
from proxy.web.relay import respond
from proxy.web.server import SWITCH, UPGRADE, Line, Switch

PROTOCOL = "websocket"


def is_handshake(scope: Scope) -> bool:
    """Whether a request asks for a WebSocket, and its connection can become one (RFC 6455, 4.2.1)."""
    if SWITCH not in scope.get("extensions", ()) or scope["method"] != "GET" or scope["http_version"] != "1.1":
        return False
    headers = scope["headers"]
    upgrade = wire.first(headers, UPGRADE) or wire.first(headers, b"upgrade") or b""
    framed = any(wire.first(headers, name) is not None for name in (b"transfer-encoding", b"content-length"))
    return upgrade.lower() == PROTOCOL.encode() and b"upgrade" in wire.named_by_connection(headers) and not framed


async def websocket(gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
    """Give the client what the upstream says to its handshake, and join the two if that is a 101."""
    inlet = Inlet(receive)
    switch: Switch = scope["extensions"][SWITCH]["switch"]
    switched: asyncio.Future[Line] = asyncio.get_running_loop().create_future()

    async def said() -> AsyncIterator[bytes]:
        client = await switched
        while chunk := await client.read():
            yield chunk

    async def work() -> Answer:
        await inlet.read(0)  # there is no body, but from here on the client's leaving is noticed
        path: bytes = scope["raw_path"]
        headers = tuple(scope["headers"])
        query: bytes = scope["query_string"]
        return await gateway.forward(Incoming("GET", path.removeprefix(b"/v1"), query, headers, said(), PROTOCOL))

    async def converse(answer: Answer) -> None:
        client = switch(wire.switching_head(answer.headers, PROTOCOL.encode()))
        switched.set_result(client)
        try:
            async for chunk in answer.chunks():
                await client.write(chunk)
        finally:
            client.close()

    await respond(inlet, send, "GET", work(), converse=converse)
