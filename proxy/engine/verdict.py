"""Looks at the beginning of an upstream's answer without taking anything away from it.

An answer that is an error is read whole (errors are small); of a stream only what stands before the first event that
says something is held back. What was read is replayed: the client gets every byte as it came.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from proxy.core import overflow
from proxy.core.coding import CODINGS, Codings, Decoder, Undecodable
from proxy.core.overflow import Overflow
from proxy.core.sse import Events
from proxy.core.wire import first
from proxy.engine.faults import place
from proxy.ports import Answer, Headers

log = logging.getLogger("compaction_proxy")

HELD_MOST = 256 * 1024
"""Bytes held back at most: no error body and no run of comments before a first event is longer."""

WHOLE_MOST = 64 * 1024
"""A unary 200 up to here is looked at whole: some servers send errors with status 200."""

INLINE_BYTES = 4 * 1024
"""An error body up to here is read on the event loop: about a millisecond; a larger one may cost half a second."""

TAIL = 16 * 1024
"""Bytes at an answer's end in which its `usage` is looked for."""

_USAGE = re.compile(rb'(?<!\\)"prompt_tokens"\s*:\s*(\d{1,9})(?!\d)')
"""In a completion's text the quotes are escaped, so this matches a true key only."""


_CACHED = re.compile(rb'(?<!\\)"cached_tokens"\s*:\s*(\d{1,9})(?!\d)')


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer` replays what was looked at. `overflow` is set when the prompt was refused as too long."""

    answer: Answer
    overflow: Overflow | None
    complaint: bytes = b""  # what an error answer says, decoded


class Replay:
    """An answer with the chunks that were read already in front."""

    def __init__(self, answer: Answer, held: list[bytes], rest: AsyncIterator[bytes] | None) -> None:
        self._answer = answer
        self._held = held
        self._rest = rest

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Headers:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._held:
            yield chunk
        if self._rest is not None:
            async for chunk in self._rest:
                yield chunk

    async def aclose(self) -> None:
        await self._answer.aclose()


class Observed:
    """An answer whose `usage` is reported when it has been passed on to its end."""

    def __init__(self, answer: Answer, headers: Headers, report: Callable[[int, bool], Awaitable[None]] | None) -> None:
        self._answer = answer
        self._headers = headers
        self._report = report

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Headers:
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        report = self._report
        tail = b""
        async for chunk in self._answer.chunks():
            yield chunk
            if report is not None:
                tail = (tail + chunk)[-TAIL:] if len(chunk) < TAIL else chunk[-TAIL:]
        if report is not None:
            found = _USAGE.findall(tail)
            if found:
                try:
                    await report(int(found[-1]), _cached(tail) > int(found[-1]))
                except Exception as error:  # the client has its answer: what we make of it must not break it off
                    log.error("a usage was not taken in: %s", place(error))

    async def aclose(self) -> None:
        await self._answer.aclose()


def _cached(tail: bytes) -> int:
    """Cached tokens, where stated. OpenAI counts them as part of the prompt; who leaves them out has more of them."""
    found = _CACHED.findall(tail)
    return int(found[-1]) if found else 0


async def examine(answer: Answer, codings: Codings = CODINGS) -> Verdict:
    """Read as much as it takes to know. Closes the answer when it raises."""
    try:
        if not 200 <= answer.status < 300:
            return await _error(answer, codings)
        kind = (first(answer.headers, b"content-type") or b"").lower()
        if b"event-stream" in kind:
            return await _stream(answer, codings)
        if b"json" in kind:
            return await _unary(answer, codings)
        return Verdict(answer, None)
    except BaseException:
        await answer.aclose()
        raise


async def _take(chunks: AsyncIterator[bytes], most: int) -> tuple[list[bytes], bool]:
    """Chunks up to `most` bytes, and whether that was all."""
    held: list[bytes] = []
    size = 0
    async for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > most:
            return held, False
    return held, True


async def _error(answer: Answer, codings: Codings) -> Verdict:
    chunks = answer.chunks()
    held, complete = await _take(chunks, HELD_MOST)
    replay = Replay(answer, held, None if complete else chunks)
    body = _decoded(answer, held, codings)
    if body is None:
        return Verdict(replay, None)
    if len(body) <= INLINE_BYTES:
        return Verdict(replay, overflow.from_answer(answer.status, body), body)
    return Verdict(replay, await asyncio.to_thread(overflow.from_answer, answer.status, body), body)


async def _unary(answer: Answer, codings: Codings) -> Verdict:
    chunks = answer.chunks()
    held, complete = await _take(chunks, WHOLE_MOST)
    replay = Replay(answer, held, None if complete else chunks)
    body = _decoded(answer, held, codings) if complete else None
    if body is None or not any(mark in body for mark in (b'"error"', overflow.CONTEXT_FINISH.encode())):
        return Verdict(replay, None)
    return Verdict(replay, overflow.from_event(body))


def _decoded(answer: Answer, held: list[bytes], codings: Codings) -> bytes | None:
    try:
        decoder = Decoder(first(answer.headers, b"content-encoding"), HELD_MOST * 4, codings=codings)
        return decoder.feed(b"".join(held))
    except Undecodable:
        return None


async def _stream(answer: Answer, codings: Codings) -> Verdict:
    """Up to the first event that is an answer, or an error: comments and role-only chunks are neither."""
    try:
        decoder = Decoder(first(answer.headers, b"content-encoding"), HELD_MOST * 4, codings=codings)
    except Undecodable:
        return Verdict(answer, None)
    events = Events()
    held: list[bytes] = []
    size = 0
    chunks = answer.chunks()
    async for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        try:
            found = events.feed(decoder.feed(chunk))
        except Undecodable:
            break
        for event in found:
            if event.comment:
                continue
            said = overflow.from_event(event.data, event.name)
            if said is not None or b'"error"' in event.data or overflow.is_answer(event.data):
                return Verdict(Replay(answer, held, chunks), said)
        if size > HELD_MOST:
            break
    else:
        last = events.finish()
        said = overflow.from_event(last.data, last.name) if last is not None and not last.comment else None
        return Verdict(Replay(answer, held, None), said)
    return Verdict(Replay(answer, held, chunks), None)
