"""From a gateway's answer to the client, chunk by chunk; what fails on the way; and the wait before it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from proxy.core import wire
from proxy.core.coding import Codings, Decoder, Undecodable
from proxy.errors import ProxyError, Unreachable, UpstreamError
from proxy.ports import Answer, Headers
from proxy.web.inlet import ClientGone, Inlet, Send

log = logging.getLogger(__name__)

MAX_ERROR = 1024 * 1024  # bytes of an upstream's error that are read where it must be put into a stream
EVENT_STREAM: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"via", wire.VIA),
)
UNREADABLE = "the upstream's answer has a content coding that cannot be undone in a stream that has begun"
_BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)  # RFC 9112, 6.3


class Wait(Protocol):
    """What happens while a request waits for its answer. `codings`: what can be undone of one that comes too late."""

    @property
    def codings(self) -> Codings: ...

    async def end(self) -> bool:
        """Stop; whether a status and a stream have been promised to the client by now."""
        ...


Converse = Callable[[Answer], Awaitable[None]]
"""What is done with a 101: the rest of the connection, both ways."""


async def respond(
    inlet: Inlet,
    send: Send,
    method: str,
    work: Awaitable[Answer],
    wait: Wait | None = None,
    converse: Converse | None = None,
) -> None:
    """Perform `work` and give its answer to the client; one that leaves cancels whatever is going on, at any time."""
    watcher = inlet.watch()
    try:
        await _respond(inlet, send, method, work, wait, converse)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not inlet.gone or task is None:
            raise
        task.uncancel()
    finally:
        watcher.cancel()


async def _respond(
    inlet: Inlet, send: Send, method: str, work: Awaitable[Answer], wait: Wait | None, converse: Converse | None
) -> None:
    answer: Answer | None = None
    failure: Exception | None = None
    try:
        try:
            answer = await work
        except Exception as error:  # the last net: whatever it is, the client gets an answer
            failure = error
        promised = wait is not None and await wait.end()
        if answer is None:
            if failure is not None and not inlet.gone:
                await _refuse(inlet, send, failure, promised)
        elif wait is not None and promised:
            await _continue(inlet, send, answer, wait.codings)
        elif answer.status == HTTPStatus.SWITCHING_PROTOCOLS and converse is not None:
            inlet.complete = True
            await converse(answer)
        else:
            await _relay(inlet, send, method, answer)
    except ClientGone:
        pass  # between the upstream's agreement and the client's hearing of it
    except (Unreachable, Undecodable) as error:
        # The head is out: an answer that is left incomplete is all that can still be said. The server closes the
        # connection then, without the last chunk or the missing bytes.
        if not inlet.gone:
            log.info("an answer was broken off: %s", error)
    finally:
        if wait is not None:
            await wait.end()
        if answer is not None:
            await answer.aclose()


async def _relay(inlet: Inlet, send: Send, method: str, answer: Answer) -> None:
    status, headers = answer.status, answer.headers
    if not 200 <= status <= 599:
        await _refuse(inlet, send, UpstreamError("the upstream answered with an impossible status"), False)
        return
    bodiless = method == "HEAD" or status in _BODILESS
    if status in _BODILESS:
        headers = wire.without(headers, (b"content-length",))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if not bodiless:
        async for chunk in answer.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await _finish(inlet, send, b"")


async def _continue(inlet: Inlet, send: Send, answer: Answer, codings: Codings) -> None:
    """Put an answer behind the comments of a stream that was promised, whatever the answer is."""
    try:  # the head that would have named a coding is out already
        decoder = Decoder(wire.first(answer.headers, b"content-encoding"), codings=codings)
    except Undecodable:
        await _finish(inlet, send, wire.error_ending(wire.error_body(UNREADABLE, UpstreamError.type)))
        return
    good = 200 <= answer.status < 300
    if good and (wire.first(answer.headers, b"content-type") or b"").lower().startswith(b"text/event-stream"):
        async for chunk in answer.chunks():
            await send({"type": "http.response.body", "body": decoder.feed(chunk), "more_body": True})
        await _finish(inlet, send, b"")
        return
    body = bytearray()
    async for chunk in answer.chunks():
        body += decoder.feed(chunk)
        if not good and len(body) > MAX_ERROR:
            break
    await _finish(inlet, send, wire.single_event(bytes(body)) if good else wire.error_event(bytes(body), answer.status))


async def _refuse(inlet: Inlet, send: Send, error: Exception, promised: bool) -> None:
    """Answer with an error of our own, in OpenAI's shape."""
    if isinstance(error, ProxyError):
        status, body = error.status, wire.error_body(str(error) or "the request failed", error.type)
    else:
        _log_without_text(error)
        status, body = 500, wire.error_body("an internal error of the proxy", ProxyError.type)
    if promised:
        await _finish(inlet, send, wire.error_ending(body))
    else:
        await answer_json(inlet, send, status, body)


async def answer_json(inlet: Inlet, send: Send, status: int, body: bytes, extra: Headers = ()) -> None:
    """A complete answer of our own."""
    headers = ((b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"via", wire.VIA))
    await send({"type": "http.response.start", "status": status, "headers": headers + extra})
    await _finish(inlet, send, body)


async def _finish(inlet: Inlet, send: Send, body: bytes) -> None:
    inlet.complete = True
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _log_without_text(error: Exception) -> None:
    """An exception's words may be a client's: its type and where it happened are enough."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames[-8:]))
    log.error("unexpected %s at %s", type(error).__name__, where)
