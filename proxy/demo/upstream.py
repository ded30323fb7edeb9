"""A fake upstream that refuses what real ones refuse and remembers everything: the instrument of demo and tests.

An ASGI application with `/v1/chat/completions` and `/v1/models`. Its options are plain attributes and may be changed
while it runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.demo import rules, wording
from proxy.demo.answers import answer
from proxy.demo.exchange import ClientGone, Exchange, HeaderList, Receive, Scope, Send
from proxy.demo.record import OVERFLOW, Recorded, common_prefix
from proxy.demo.reply import Reply
from proxy.demo.summarizer import is_summary_call, read, summarise
from proxy.demo.tokenizer import Size, Tokenizer
from proxy.demo.wording import Worded, Wording

MODEL = "fake-model"
SUMMARIZER = "fake-summarizer"
_CREATED = 1_700_000_000
_HTML = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"


@dataclass
class FakeUpstream:
    """Everything but `window` has a default.

    window: tokens by its own tokeniser. ratio: how many times as many tokens it sees. alternation: the strict chat
    templates' rules. output_counts: prompt and requested output together must fit (not with llama.cpp's wording, which
    never does that). overflow_in_stream: a streaming request's overflow is the first event of a 200. advertise:
    `/v1/models` states the window. turn_ids: tool call ids start anew in every message. delay, pace: seconds before an
    answer and between two events of a stream.

    summarizer: one of `summarizer.MANNERS`; summarizer_delay: seconds before it says anything; summarizer_window: of
    the model `fake-summarizer` (default: the same); headings: whether summaries have section headings.

    intercept: called with every parsed chat request (summary calls too) before any rule; a `Worded` is sent as it is.
    """

    window: int = 4000
    wording: Wording = "openai"
    ratio: float = 1.0
    alternation: bool = False
    output_counts: bool = False
    overflow_in_stream: bool = False
    advertise: bool = False
    turn_ids: bool = False
    delay: float = 0.0
    pace: float = 0.0
    summarizer: str = "extractive"
    summarizer_model: str = SUMMARIZER
    summarizer_delay: float = 0.0
    summarizer_window: int | None = None
    headings: bool = False
    intercept: Callable[[Recorded], Worded | None] | None = None
    requests: list[Recorded] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer(self.ratio)
        self._before = b""

    @property
    def chats(self) -> list[Recorded]:
        return [r for r in self.requests if not r.summary]

    @property
    def summaries(self) -> list[Recorded]:
        return [r for r in self.requests if r.summary]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            exchange = Exchange(scope, receive, send)
            try:
                await self._serve(exchange)
            except ClientGone:
                return

    async def _serve(self, exchange: Exchange) -> None:
        path = exchange.path.rstrip("/")
        if path == "/v1/models":
            await exchange.body()
            windows = {MODEL: self.window, self.summarizer_model: self._window(True)}
            models = [wording.advertised(self.wording, n, w if self.advertise else None) for n, w in windows.items()]
            await exchange.reply(200, {"object": "list", "data": models})
        elif path == "/v1/chat/completions" and exchange.method == "POST":
            await self._chat(exchange)
        else:
            text = f"Invalid URL ({exchange.method} {exchange.path})"
            await exchange.reply(404, wording.refusal("openai", rules.Refusal("path", text)).body)

    async def _chat(self, exchange: Exchange) -> None:
        record = Recorded(await exchange.body(), exchange.headers, time.monotonic())
        self.requests.append(record)
        try:
            async with exchange:
                await self._answer(exchange, record)
        except (ClientGone, asyncio.CancelledError):
            record.went_away = True
            raise
        finally:
            record.ended = time.monotonic()

    async def _answer(self, exchange: Exchange, record: Recorded) -> None:
        refused, size = self._judge(record)
        streaming = bool(isinstance(record.data, Mapping) and record.data.get("stream"))
        if refused is not None:
            record.status = refused.status
            if record.refused == OVERFLOW and self.overflow_in_stream and streaming:
                record.status = 200
                await exchange.open_stream()
                await exchange.event(refused.body)
                await exchange.close_stream()
                return
            await exchange.reply(refused.status, refused.body, _request_id(len(self.requests)))
            return
        await exchange.pause(self.summarizer_delay if record.summary else self.delay)
        reply = self._reply(record)
        if not reply.fault:
            reply = self._bounded(reply, record, size)
        record.text = reply.text
        envelope = _Envelope(record, len(self.requests), self._usage(record, reply, size))
        await self._deliver(exchange, envelope, reply, streaming)

    def _judge(self, record: Recorded) -> tuple[Worded | None, Size]:
        """Whether the request is refused, and how; fills in what the record says about it."""
        nothing = Size(0, 0)
        try:
            record.data = json.loads(record.body)
        except ValueError:
            record.refused = "not JSON"
            text = "We could not parse the JSON body of your request."
            return wording.refusal(self.wording, rules.Refusal("not JSON", text)), nothing
        data = record.data
        if isinstance(data, Mapping):
            record.summary = data.get("model") == self.summarizer_model or is_summary_call(data)
        if self.intercept is not None and (worded := self.intercept(record)) is not None:
            record.refused = "intercepted"
            return worded, nothing
        if (broken := rules.check(data, alternation=self.alternation)) is not None:
            record.refused = broken.name
            return wording.refusal(self.wording, broken), nothing
        size = self.tokenizer.prompt(data["messages"], data.get("tools") or ())
        record.prompt_tokens = size.total
        window = self._window(data["model"] == self.summarizer_model)
        output = _output(data) if self.output_counts and self.wording != "llamacpp" else None
        # llama.cpp needs a free cell for the answer; the others take a prompt that fills the window to the brim.
        brim = window - 1 if self.wording == "llamacpp" else window
        if size.total + (output or 0) > brim:
            record.refused = OVERFLOW
            return wording.overflow(self.wording, window, size, output), size
        return None, size

    def _window(self, summarizer: bool) -> int:
        return self.summarizer_window if summarizer and self.summarizer_window is not None else self.window

    def _reply(self, record: Recorded) -> Reply:
        if record.summary:
            return summarise(read(record.data, self.tokenizer, self.headings), self.summarizer)
        return answer(record.data, turn_ids=self.turn_ids)

    def _bounded(self, reply: Reply, record: Recorded, size: Size) -> Reply:
        """Cut to the requested output and to what the window has left, as generation is."""
        room = self._window(record.data["model"] == self.summarizer_model) - size.total
        limit = min(_output(record.data) or room, room)
        if not reply.text or reply.calls or self.tokenizer.count(reply.text) <= limit:
            return reply
        return Reply(self.tokenizer.cut(reply.text, limit), finish="length", reasoning=reply.reasoning)

    def _usage(self, record: Recorded, reply: Reply, size: Size) -> dict[str, Any]:
        """OpenAI's usage object; `cached_tokens`: what the last accepted chat request began with too."""
        cached = 0
        if not record.summary:
            prompt = record.prompt
            cached = size.messages * common_prefix(self._before, prompt) // max(1, len(prompt))
            self._before = prompt
        answered = self.tokenizer.prompt([reply.message()]).total
        return {
            "prompt_tokens": size.total,
            "completion_tokens": answered,
            "total_tokens": size.total + answered,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    async def _deliver(self, exchange: Exchange, envelope: _Envelope, reply: Reply, streaming: bool) -> None:
        if reply.fault == "status":
            envelope.record.status = 500
            error = {"message": "The server had an error while processing your request.", "type": "server_error"}
            await exchange.reply(500, {"error": error | {"param": None, "code": None}}, _request_id(envelope.number))
        elif reply.fault == "html":
            await exchange.reply(200, _HTML)
        elif reply.fault == "hang" or (reply.fault == "stall" and not streaming):
            await exchange.pause(None)
        elif streaming:
            await self._stream(exchange, envelope, reply)
        else:
            await exchange.reply(200, envelope.completion(reply), _request_id(envelope.number))

    async def _stream(self, exchange: Exchange, envelope: _Envelope, reply: Reply) -> None:
        await exchange.open_stream()
        for delta in reply.deltas():
            await exchange.event(envelope.chunk(delta, None))
            if self.pace:
                await exchange.pause(self.pace)
        if reply.fault == "stall":
            await exchange.pause(None)
        await exchange.event(envelope.chunk({}, reply.finish))
        options = envelope.record.data.get("stream_options")
        if isinstance(options, Mapping) and options.get("include_usage"):
            await exchange.event(envelope.usage_chunk())
        await exchange.event("[DONE]")
        await exchange.close_stream()


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What stands round every answer: id, model, usage."""

    record: Recorded
    number: int
    usage: dict[str, Any]

    def completion(self, reply: Reply) -> dict[str, Any]:
        choice = {"index": 0, "message": reply.message(), "logprobs": None, "finish_reason": reply.finish}
        return self._head("chat.completion") | {"choices": [choice], "usage": self.usage}

    def chunk(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head("chat.completion.chunk") | {"choices": [choice]}

    def usage_chunk(self) -> dict[str, Any]:
        return self._head("chat.completion.chunk") | {"choices": [], "usage": self.usage}

    def _head(self, kind: str) -> dict[str, Any]:
        model = self.record.data["model"]
        return {"id": f"chatcmpl-fake{self.number:08d}", "object": kind, "created": _CREATED, "model": model}


def _output(data: Mapping[str, Any]) -> int | None:
    found = data.get("max_completion_tokens") or data.get("max_tokens")
    return found if isinstance(found, int) else None


def _request_id(number: int) -> HeaderList:
    return [(b"x-request-id", f"req_fake{number:08d}".encode())]


async def _lifespan(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})
