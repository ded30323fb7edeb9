"""A plain chat client over HTTP: it keeps its history, calls its tools, and knows nothing of what lies in between."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from proxy.demo.script import Conversation, Turn

_MOST_ROUNDS = 8  # tool rounds in one turn; the script needs one, a real model may want more


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request as the client saw it. `failure` is None if a whole answer came. Times are `time.monotonic()`."""

    started: float
    ended: float
    status: int
    failure: str | None
    message: Mapping[str, Any]
    usage: Mapping[str, Any]
    headers: Mapping[str, str]  # names in lower case
    history: tuple[Any, ...]  # the messages as they were sent

    @property
    def decision(self) -> str:
        """The proxy's own word, e.g. `reuse` or `compact; over-limit`; empty without a proxy."""
        return self.headers.get("x-compaction", "")

    @property
    def checkpoint(self) -> str:
        """The id of the compaction that was used; empty without one."""
        return self.headers.get("x-compaction-checkpoint", "")

    def __repr__(self) -> str:
        return f"Outcome({self.status}, {self.failure or 'ok'}, {len(self.history)} messages, {self.decision or '-'})"


@dataclass
class Client:
    """Plays one conversation turn by turn. `max_tokens` cycles from request to request (None: not sent)."""

    http: aiohttp.ClientSession
    base_url: str  # ends in /v1
    model: str
    script: Conversation
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_tokens: tuple[int | None, ...] = (None,)
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list, repr=False)
    sent: int = 0

    def __post_init__(self) -> None:
        self.messages = self.messages or self.script.head()

    async def play(self, turn: Turn) -> list[Outcome]:
        """One turn: the user's message, the model's calls and their results until it answers with text.

        A turn that fails is taken back, as a user would: the history stays valid.
        """
        before = len(self.messages)
        self.messages.append({"role": "user", "content": turn.text})
        outcomes: list[Outcome] = []
        while len(outcomes) < _MOST_ROUNDS:
            outcome = await self.ask(turn.stream)
            outcomes.append(outcome)
            if outcome.failure is not None:
                break
            self.messages.append(dict(outcome.message))
            calls = outcome.message.get("tool_calls") or ()
            self.messages += [self._run(call) for call in calls]
            if not calls:
                return outcomes
        del self.messages[before:]
        return outcomes

    async def ask(self, stream: bool) -> Outcome:
        """One request with the history as it stands. Never raises on anything a server or a network does."""
        body = self._body(stream)
        started = time.monotonic()
        status, headers = 0, dict[str, str]()
        message: dict[str, Any] = {}
        usage: dict[str, Any] = {}
        try:
            url = f"{self.base_url}/chat/completions"
            async with self.http.post(
                url, data=body, headers={"content-type": "application/json", **self.headers}
            ) as r:
                status = r.status
                headers = {name.lower(): value for name, value in r.headers.items()}
                streamed = r.content_type == "text/event-stream"
                message, usage, failure = await (_collect(r) if streamed else _whole(r))
        except (TimeoutError, aiohttp.ClientError) as error:
            failure = type(error).__name__
        history = tuple(self.messages)
        return Outcome(started, time.monotonic(), status, failure, message, usage, headers, history)

    def _body(self, stream: bool) -> bytes:
        body: dict[str, Any] = {"model": self.model, "messages": self.messages, **self.extra}
        if tools := self.script.tool_definitions():
            body["tools"] = tools
        if (limit := self.max_tokens[self.sent % len(self.max_tokens)]) is not None:
            body["max_tokens"] = limit
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        self.sent += 1
        return json.dumps(body).encode("ascii")

    def _run(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        result = self.script.result(str(function.get("name")), str(function.get("arguments")))
        return {"role": "tool", "tool_call_id": call["id"], "content": result}


Answer = tuple[dict[str, Any], dict[str, Any], str | None]  # message, usage, failure


async def _whole(response: aiohttp.ClientResponse) -> Answer:
    raw = await response.read()
    try:
        value = json.loads(raw)
        if response.status != 200:
            return {}, {}, _reason(value, response.status)
        return dict(value["choices"][0]["message"]), dict(value.get("usage") or {}), None
    except (ValueError, LookupError, TypeError):
        return {}, {}, f"{response.status}: no chat completion"


async def _collect(response: aiohttp.ClientResponse) -> Answer:
    """A streamed answer put together. It must have a finish reason and end with [DONE]."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    usage: dict[str, Any] = {}
    finish: str | None = None
    async for data in _events(response):
        if data == b"[DONE]":
            if calls:
                message["tool_calls"] = [calls[index] for index in sorted(calls)]
            return message, usage, None if finish else "the stream has no finish reason"
        try:
            value = json.loads(data)
        except ValueError:
            return {}, {}, "an event is not JSON"
        if value.get("error"):
            return {}, {}, _reason(value, response.status)
        usage = dict(value.get("usage") or usage)
        for choice in value.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            _add(message, calls, choice.get("delta") or {})
    return {}, {}, "the stream broke off"


def _add(message: dict[str, Any], calls: dict[int, dict[str, Any]], delta: Mapping[str, Any]) -> None:
    if isinstance(text := delta.get("content"), str) and (text or not calls):
        message["content"] = (message["content"] or "") + text
    for piece in delta.get("tool_calls") or ():
        function = piece.get("function") or {}
        call = calls.setdefault(
            piece.get("index", 0), {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The data of every server-sent event (single-line data, as chat servers send it); comments are skipped."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def _reason(value: Any, status: int) -> str:
    """The server's own words, whichever of the two envelopes they are in."""
    error = value.get("error", value) if isinstance(value, Mapping) else value
    text = error.get("message") if isinstance(error, Mapping) else error
    return f"{status}: {str(text)[:200]}"
