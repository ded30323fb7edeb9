"""POST /v1/chat/completions: the body is read within a bound, and a streaming client that waits hears from us."""

from __future__ import annotations

import asyncio

from proxy.core import wire
from proxy.core.coding import Codings, decode
from proxy.forward import Gateway, Incoming
from proxy.ports import Answer
from proxy.web.inlet import Inlet, Receive, Scope, Send
from proxy.web.passthrough import stream
from proxy.web.relay import EVENT_STREAM, respond

COMMENT = b": keepalive\n"  # one newline: with a blank line after it, two SDKs dispatch an empty event
PULSE = 10.0  # seconds between two comments at most; load balancers cut what is silent for 30 to 60


async def chat(
    gateway: Gateway,
    scope: Scope,
    receive: Receive,
    send: Send,
    max_body: int,
    keepalive_after: float | None,
    codings: Codings,
) -> None:
    """Answer a chat request. A body above `max_body` bytes passes through as a stream, unread."""
    inlet = Inlet(receive)
    headers = tuple(scope["headers"])
    patience = Patience(send, keepalive_after, codings)

    async def work() -> Answer:
        length = wire.first(headers, b"content-length")
        if length is not None and int(length) > max_body:
            return await stream(gateway, scope, inlet)
        body = await inlet.read(max_body)
        path: bytes = scope["raw_path"]
        incoming = Incoming(
            "POST",
            path.removeprefix(b"/v1"),
            scope["query_string"],
            headers,
            body,
            beginning=inlet.beginning,
            waiting=patience.waiting,
        )
        if not isinstance(body, bytes):
            return await gateway.forward(incoming)
        patience.begin(body, wire.first(headers, b"content-encoding"))
        return await gateway.chat(incoming)

    await respond(inlet, send, "POST", work(), patience)


class Patience:
    """Keeps a client that asked for a stream from giving up while its request waits for a compaction.

    Only then: otherwise the upstream is asked, and its status and fields are the client's to see. `after` seconds after
    the request came, whatever it spent them on, it looks whether a stream is asked for (not earlier: few requests wait,
    and reading costs), commits to status 200, and sends comments until the answer is there.
    """

    __slots__ = ("_after", "_begun", "_body", "_coding", "_promised", "_send", "_task", "_timer", "codings")

    def __init__(self, send: Send, after: float | None, codings: Codings) -> None:
        self._send = send
        self._after = after
        self.codings = codings
        self._begun = 0.0
        self._body = b""
        self._coding: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._promised = False

    def begin(self, body: bytes, content_encoding: bytes | None) -> None:
        """The request is complete; from now on the time counts."""
        self._begun = asyncio.get_running_loop().time()
        self._body, self._coding = body, content_encoding

    def waiting(self, waits: bool) -> None:
        """Whether the request waits for a compaction now. What has been promised once is kept."""
        if self._after is None or self._promised:
            return
        self._stop()
        if waits:
            self._timer = asyncio.get_running_loop().call_at(self._begun + self._after, self._start)

    async def end(self) -> bool:
        """Stop, and say whether a stream has been promised. No comment is cut in two: sending one is a single write."""
        task = self._task
        self._stop()
        if task is not None:
            await asyncio.wait([task])
        return self._promised

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._timer = self._task = None

    def _start(self) -> None:
        self._task = asyncio.create_task(self._pulse())

    async def _pulse(self) -> None:
        if not await asyncio.to_thread(_wants_stream, self._body, self._coding, self.codings):
            return
        await self._send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
        self._promised = True
        while True:
            await self._send({"type": "http.response.body", "body": COMMENT, "more_body": True})
            await asyncio.sleep(min(PULSE, self._after or PULSE))


def _wants_stream(body: bytes, content_encoding: bytes | None, codings: Codings) -> bool:
    decoded = decode(body, content_encoding, codings=codings)
    return decoded is not None and wire.wants_stream(decoded)
