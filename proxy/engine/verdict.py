"""Looks at the beginning of an upstream's answer without taking anything away from it.

An answer that is an error is read whole (errors are small); of a stream only what stands before the first event that
says something is held back, and not for long. What was read is replayed: the client gets every byte as it came.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from proxy.core import overflow
from proxy.core.coding import CODINGS, Codings, Decoder, Undecodable
from proxy.core.overflow import Overflow
from proxy.core.sse import Events
from proxy.core.wire import first
from proxy.ports import Answer, Headers

HELD_MOST = 256 * 1024
"""Bytes held back at most: no error body and no run of comments before a first event is longer."""

HELD_SECONDS = 1.0
"""How long a 200 is held back: as long as an upstream may take to find a prompt too long after it has said 200, and
less than any client's patience."""

HELD_SECONDS_NEAR = 15.0
"""The same for a request that may well be too long: shorter than proxies and load balancers wait, 30 seconds and up."""

WHOLE_MOST = 64 * 1024
"""A unary 200 up to here is looked at whole: some servers send errors with status 200."""

INLINE_BYTES = 4 * 1024
"""An error body up to here is read on the event loop: about a millisecond; a larger one may cost half a second."""

TAIL = 16 * 1024
"""Bytes at an answer's end in which its `usage` is looked for."""

UNPACKED_MOST = 16 * 1024 * 1024
"""Bytes of a compressed answer that are unpacked to find it: 64,000 tokens at 250 bytes an event."""

_USAGE = re.compile(rb'(?<!\\)"prompt_tokens"\s*:\s*(\d{1,9})(?!\d)')
"""In a completion's text the quotes are escaped, so this matches a true key only."""


_CACHED = re.compile(rb'(?<!\\)"cached_tokens"\s*:\s*(\d{1,9})(?!\d)')


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer` replays what was looked at. `overflow` is set when the prompt was refused as too long."""

    answer: Answer
    overflow: Overflow | None
    complaint: bytes = b""  # what an error answer says, decoded


class Peek:
    """An answer whose chunks are read ahead, for `seconds` at most (None: without a limit), and then replayed."""

    def __init__(self, answer: Answer, seconds: float | None) -> None:
        self._answer = answer
        self._chunks = answer.chunks()
        self._ends = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._under_way: asyncio.Task[bytes | None] | None = None  # a chunk that had not come when time was up
        self.held: list[bytes] = []
        self.complete = False

    async def ahead(self) -> bytes | None:
        """The next chunk, which is kept for the client; None at the end (`complete`), or when time is up."""
        if self._ends is None:
            chunk = await anext(self._chunks, None)
        else:
            # Cancelling a read would end the answer, so it goes on when time is up.
            task = self._under_way = self._under_way or asyncio.ensure_future(_next(self._chunks))
            left = self._ends - asyncio.get_running_loop().time()
            await asyncio.wait({task}, timeout=max(0.0, left))
            if not task.done():
                return None
            self._under_way = None
            chunk = task.result()
        if chunk is None:
            self.complete = True
        else:
            self.held.append(chunk)
        return chunk

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Headers:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        held, self.held = self.held, []
        for chunk in held:
            yield chunk
        task, self._under_way = self._under_way, None
        if task is not None:
            late = await task
            if late is not None:
                yield late
        async for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        task, self._under_way = self._under_way, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # nobody else will ask for it
        await self._answer.aclose()


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


class _Tail:
    """The end of what a body says, its content codings undone on the side; nothing of one that cannot be read."""

    def __init__(self, answer: Answer, codings: Codings) -> None:
        coding = first(answer.headers, b"content-encoding")
        self._decoder: Decoder | None = None
        self._readable = True
        self.bytes = b""
        if coding is not None:
            try:
                self._decoder = Decoder(coding, UNPACKED_MOST, codings=codings)
            except Undecodable:
                self._readable = False

    def feed(self, chunk: bytes) -> None:
        if not self._readable:
            return
        if self._decoder is not None:
            try:
                chunk = self._decoder.feed(chunk)
            except Undecodable:
                self._readable, self.bytes = False, b""
                return
        self.bytes = (self.bytes + chunk)[-TAIL:] if len(chunk) < TAIL else chunk[-TAIL:]


class Observed:
    """An answer whose end is reported when it has been passed on: the prompt's tokens, if it stated them, and whether
    those that were cached come on top. `report` raises nothing: the client has its answer."""

    def __init__(
        self,
        answer: Answer,
        headers: Headers,
        report: Callable[[int | None, bool], Awaitable[None]] | None,
        codings: Codings = CODINGS,
    ) -> None:
        self._answer = answer
        self._headers = headers
        self._report = report
        self._tail = _Tail(answer, codings)

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Headers:
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        report, tail = self._report, self._tail
        async for chunk in self._answer.chunks():
            yield chunk
            if report is not None:
                tail.feed(chunk)
        if report is not None:
            found = _USAGE.findall(tail.bytes)
            prompt = int(found[-1]) if found else None
            await report(prompt, prompt is not None and _cached(tail.bytes) > prompt)

    async def aclose(self) -> None:
        await self._answer.aclose()


def _cached(tail: bytes) -> int:
    """Cached tokens, where stated. OpenAI counts them as part of the prompt; who leaves them out has more of them."""
    found = _CACHED.findall(tail)
    return int(found[-1]) if found else 0


async def examine(answer: Answer, codings: Codings = CODINGS, *, seconds: float | None = None) -> Verdict:
    """Read as much as it takes to know. Closes the answer when it raises.

    A 200 is held back for `seconds` at most, its bytes then go out as they come: some upstreams say nothing but blanks
    or comments while a request waits in a queue, and those are meant for the client. Who states a length has its answer
    ready, and a timer for it would cost as much as reading it.
    """
    failing = not 200 <= answer.status < 300
    ready = failing or first(answer.headers, b"content-length") is not None
    kind = (first(answer.headers, b"content-type") or b"").lower()
    look = _error if failing else _stream if b"event-stream" in kind else _unary if b"json" in kind else None
    if look is None:
        return Verdict(answer, None)
    peek = Peek(answer, None if ready else seconds)
    try:
        return await look(peek, codings)
    except BaseException:
        await peek.aclose()
        raise


async def _take(peek: Peek, most: int) -> None:
    """Chunks up to `most` bytes."""
    size = 0
    while size <= most and (chunk := await peek.ahead()) is not None:
        size += len(chunk)


async def _error(peek: Peek, codings: Codings) -> Verdict:
    await _take(peek, HELD_MOST)
    body = _decoded(peek, codings)
    if body is None:
        return Verdict(peek, None)
    if len(body) <= INLINE_BYTES:
        return Verdict(peek, overflow.from_answer(peek.status, body), body)
    return Verdict(peek, await asyncio.to_thread(overflow.from_answer, peek.status, body), body)


async def _unary(peek: Peek, codings: Codings) -> Verdict:
    await _take(peek, WHOLE_MOST)
    body = _decoded(peek, codings) if peek.complete else None
    if body is None or not any(mark in body for mark in (b'"error"', overflow.CONTEXT_FINISH.encode())):
        return Verdict(peek, None)
    return Verdict(peek, overflow.from_event(body))


def _decoded(peek: Peek, codings: Codings) -> bytes | None:
    try:
        decoder = Decoder(first(peek.headers, b"content-encoding"), HELD_MOST * 4, codings=codings)
        return decoder.feed(b"".join(peek.held))
    except Undecodable:
        return None


async def _stream(peek: Peek, codings: Codings) -> Verdict:
    """Up to the first event that is an answer, or an error: comments and role-only chunks are neither."""
    try:
        decoder = Decoder(first(peek.headers, b"content-encoding"), HELD_MOST * 4, codings=codings)
    except Undecodable:
        return Verdict(peek, None)
    events = Events()
    size = 0
    while size <= HELD_MOST and (chunk := await peek.ahead()) is not None:
        size += len(chunk)
        try:
            found = events.feed(decoder.feed(chunk))
        except Undecodable:
            return Verdict(peek, None)
        for event in found:
            if event.comment:
                continue
            said = overflow.from_event(event.data, event.name)
            if said is not None or b'"error"' in event.data or overflow.is_answer(event.data):
                return Verdict(peek, said)
    last = events.finish() if peek.complete else None
    said = overflow.from_event(last.data, last.name) if last is not None and not last.comment else None
    return Verdict(peek, said)
