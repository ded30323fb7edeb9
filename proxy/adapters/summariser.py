"""The summariser behind a chat-completions endpoint: asked with a request built from scratch, streamed inside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cachetools import LRUCache

from proxy.adapters.codings import ALL_CODINGS
from proxy.core import overflow
from proxy.core.coding import Decoder, Undecodable
from proxy.core.sse import Events
from proxy.core.wire import first
from proxy.errors import ProxyError, SummaryError
from proxy.ports import Answer, Call, Headers, SummaryAnswer, SummaryCall, Upstream

T = TypeVar("T")

TEMPERATURE = 0.3
"""Low, for a summary is no fiction; not 0, where small models fall into loops."""

TEXT_MOST = 64 * 1024
TEXT_PER_TOKEN = 8
"""Characters of one answer: 16,000 tokens, what models think aloud included, or twice what it may take at most, where
that is more. A server that goes on beyond it has lost count, and is left in the middle of its word."""

BODY_MOST = 8 * 1024 * 1024
STREAMED_PER_TOKEN = 4_096
"""Bytes of an answer, its reasoning and log probabilities included; of a streamed one so many for each token it may
have, where that is more: each stands in an event of its own, some hundred bytes with its frame."""

TOKENS_MOST = 1_000_000_000
"""What a `usage` may state; more is no number of tokens, and would spoil every sum."""

SLICE = 16 * 1024
"""Bytes that are read at once: a server that always has more must not keep the others from their turn."""

HEADERS: Headers = (
    (b"content-type", b"application/json"),
    (b"accept", b"text/event-stream, application/json"),
    (b"accept-encoding", b"identity"),
    (b"user-agent", b"compaction-proxy"),  # some firewalls refuse a request without one
)

_CODE = re.compile("[a-z]{2,20}(?:_[a-z]{1,20}){0,6}")  # `model_not_found`; no key is like that
_STATUSES = frozenset(map(str, range(400, 600)))

DIALECTS = 256  # endpoints and models whose wishes are remembered


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which parameters an endpoint and model take: the name of the output's limit (None: none), and a temperature."""

    limit: str | None = "max_tokens"
    temperature: bool = True

    def after(self, status: int, body: bytes) -> Dialect | None:
        """What to try after a refusal that names one of the parameters; None if it names none.

        OpenAI's reasoning models refuse both: `Unsupported parameter: 'max_tokens' is not supported with this model.
        Use 'max_completion_tokens' instead.`, then `Unsupported value: 'temperature' ...`. Every step takes something
        away, so a server that echoes the request in each error is asked four times at most.
        """
        if status not in (400, 422):
            return None
        if self.limit == "max_tokens" and b"max_completion_tokens" in body:
            return replace(self, limit="max_completion_tokens")
        if self.temperature and b"temperature" in body:
            return replace(self, temperature=False)
        if self.limit and self.limit.encode() in body:
            return replace(self, limit=None)
        return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer with a status other than 2xx."""

    status: int
    body: bytes = field(repr=False)


class HttpSummariser:
    """Implements `Summariser` on any `Upstream`."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._dialects: LRUCache[tuple[str, str], Dialect] = LRUCache(DIALECTS)

    async def ask(self, call: SummaryCall) -> SummaryAnswer:
        try:
            async with asyncio.timeout(call.total):
                return await self._negotiate(call)
        except TimeoutError:
            raise SummaryError("timeout") from None
        except SummaryError:
            raise
        except ProxyError:  # no connection, or it broke off
            raise SummaryError("unreachable") from None

    async def _negotiate(self, call: SummaryCall) -> SummaryAnswer:
        key = (call.url, call.model)
        dialect: Dialect = self._dialects.get(key, Dialect())
        while True:
            outcome = await self._once(call, dialect)
            if isinstance(outcome, SummaryAnswer):
                return outcome
            said = overflow.from_answer(outcome.status, outcome.body)
            if said is not None:
                raise _overflowed(said)
            other = dialect.after(outcome.status, outcome.body)
            if other is None:
                raise SummaryError(_reason(outcome.status), detail=_detail(outcome))
            dialect = self._dialects[key] = other

    async def _once(self, call: SummaryCall, dialect: Dialect) -> SummaryAnswer | Refusal:
        request = Call("POST", call.url, (*HEADERS, *call.headers), _body(call, dialect))
        most = max(TEXT_MOST, TEXT_PER_TOKEN * call.max_tokens)
        answer = await _within(call.silence, self._upstream.send(request))
        try:
            if not 200 <= answer.status < 300:
                return Refusal(answer.status, await _whole(answer, call.silence))
            if b"event-stream" in (first(answer.headers, b"content-type") or b"").lower():
                return await _streamed(answer, call.silence, most, max(BODY_MOST, STREAMED_PER_TOKEN * call.max_tokens))
            return _unary(await _whole(answer, call.silence), most)
        finally:
            # A stream is left at its last event, which closes its connection. That is wanted: llama.cpp closes it
            # without a word, and the request that waits for this summary would be sent into the closing connection.
            await answer.aclose()


@dataclass(slots=True)
class Draft:
    """An answer as it comes in, of at most so many characters; whole answers are drafts of one piece."""

    most: int
    parts: list[str] = field(default_factory=list, repr=False)
    size: int = 0
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """One chunk of a stream, or a whole completion. Raises `SummaryError` for a tool call, an error, and for
        what is neither."""
        if not isinstance(value, dict):
            raise SummaryError("malformed")
        choices = value.get("choices")
        if isinstance(value.get("usage"), dict):
            self.usage = value["usage"]
        if not isinstance(choices, list):
            raise SummaryError(_error_reason(value["error"]) if value.get("error") else "malformed")
        if not choices or not isinstance(choices[0], dict):  # a last chunk that has nothing but the usage
            return
        said = choices[0].get("delta") or choices[0].get("message") or {}
        if not isinstance(said, dict):
            raise SummaryError("malformed")
        if said.get("tool_calls") or said.get("function_call"):
            raise SummaryError("tool_call")
        text = _text(said.get("content"))
        self.parts.append(text)
        self.size += len(text)
        reason = choices[0].get("finish_reason")
        if isinstance(reason, str):
            self.finish_reason = reason

    @property
    def full(self) -> bool:
        return self.size > self.most

    def answer(self) -> SummaryAnswer:
        """`content` alone: where a model thinks is no place for an answer, and plans are no summaries."""
        prompt, completion = (_tokens(self.usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
        reason = "length" if self.full else self.finish_reason
        return SummaryAnswer("".join(self.parts)[: self.most], reason, prompt, completion)


def _tokens(stated: Any) -> int | None:
    """A number of tokens that can be one."""
    return stated if type(stated) is int and 0 <= stated <= TOKENS_MOST else None


def _body(call: SummaryCall, dialect: Dialect) -> bytes:
    """Nothing of the client's body but text: no tools, no formats, no options of its stream."""
    request: dict[str, Any] = {
        "model": call.model,
        "messages": [
            {"role": "system", "content": _whole_characters(call.system)},
            {"role": "user", "content": _whole_characters(call.user)},
        ],
        "stream": True,
    }
    if dialect.limit:
        request[dialect.limit] = call.max_tokens
    if dialect.temperature:
        request["temperature"] = TEMPERATURE
    return json.dumps(request).encode("ascii")


def _whole_characters(text: str) -> str:
    """Without lone surrogates, which many servers' JSON readers refuse: half a character says nothing anyway."""
    return text.encode("utf-8", "replace").decode("utf-8")


async def _streamed(answer: Answer, silence: float, most: int, bytes_most: int) -> SummaryAnswer:
    draft = Draft(most)
    events = Events()
    async for chunk in _chunks(answer, silence):
        bytes_most -= len(chunk)
        if bytes_most < 0:
            raise SummaryError("malformed")
        for event in events.feed(chunk):
            if _take(draft, event.name, event.data):
                return draft.answer()
        if draft.full:
            return draft.answer()
    last = events.finish()
    if last is not None and _take(draft, last.name, last.data):
        return draft.answer()
    if draft.finish_reason is None:  # neither an end nor a reason: whatever came is not the whole
        raise SummaryError("malformed")
    return draft.answer()


def _take(draft: Draft, name: str, data: bytes) -> bool:
    """Add one event; whether it was the last."""
    if data.strip() == b"[DONE]":
        return True
    if data.strip():
        said = overflow.from_event(data, name)
        if said is not None:
            raise _overflowed(said)
        draft.add(_parsed(data))
    return False


def _unary(body: bytes, most: int) -> SummaryAnswer:
    said = overflow.from_event(body)
    if said is not None:
        raise _overflowed(said)
    draft = Draft(most)
    draft.add(_parsed(body))
    return draft.answer()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise SummaryError("malformed") from None


async def _whole(answer: Answer, silence: float) -> bytes:
    body = bytearray()
    async for chunk in _chunks(answer, silence):
        body += chunk
        if len(body) > BODY_MOST:
            raise SummaryError("malformed")
    return bytes(body)


async def _chunks(answer: Answer, silence: float) -> AsyncIterator[bytes]:
    """The body without its content coding; `silence` is the longest wait for a chunk, comments included."""
    chunks = answer.chunks()
    try:
        decoder = Decoder(first(answer.headers, b"content-encoding"), codings=ALL_CODINGS)
        while (chunk := await _within(silence, anext(chunks, None))) is not None:
            data = decoder.feed(chunk)
            for start in range(0, len(data), SLICE):
                yield data[start : start + SLICE]
                await asyncio.sleep(0)
    except Undecodable:
        raise SummaryError("malformed") from None


async def _within(silence: float, awaited: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(silence):
            return await awaited
    except TimeoutError:
        raise SummaryError("silent") from None


def _text(content: Any) -> str:
    """Text of a content: a string, or a list of parts of which those that think are left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type", "text") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _reason(status: int) -> str:
    if status == 429:
        return "rate_limited"
    if status in (408, 504, 524):
        return "timeout"
    return "http_5xx" if status >= 500 else "http_4xx"


def _detail(refusal: Refusal) -> str:
    """Its status, and the code in its body where that is a word of the interface: nothing of what anybody said."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        error = json.loads(refusal.body)["error"]
        for word in (error.get("code"), error.get("type")) if isinstance(error, dict) else ():
            if isinstance(word, str) and _CODE.fullmatch(word):
                return f"status {refusal.status}, {word}"
    return f"status {refusal.status}"


def _error_reason(error: Any) -> str:
    """Of an error object inside an answer with status 200: its `code`, where that is a status."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    return _reason(int(code)) if code in _STATUSES else "http_5xx"


def _overflowed(said: overflow.Overflow) -> SummaryError:
    if said.prompt is None or said.window is None or said.at_least:
        return SummaryError("overflow")
    return SummaryError("overflow", (said.prompt + (said.output or 0)) / said.window)
