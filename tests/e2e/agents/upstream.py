"""The server behind the agents: OpenAI's rules, window, errors and `usage` around the model of `coder.py`.

An ASGI application. Requests with tools are the agent's work; a request for a summary (the proxy's, or the agent's own
compaction) is answered with extracts; anything else, such as a title for the session, with a few words.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.demo import rules, wording
from proxy.demo.exchange import ClientGone, Exchange, Receive, Scope, Send
from proxy.demo.reading import text_of
from proxy.demo.record import OVERFLOW, Recorded
from proxy.demo.reply import Reply
from proxy.demo.summarizer import is_summary_call, read, summarise
from proxy.demo.tokenizer import Size, Tokenizer

MODEL = "coder"
MOST_TURNS = 160
"""Turns after which the model gives up: one that has lost its way must not go on for ever."""
_OWN = re.compile(r"summar|compact|condens", re.IGNORECASE)

_TITLE = re.compile(r"\btitle\b", re.IGNORECASE)

Model = Callable[[Mapping[str, Any], int], Reply | None]
"""The model at work: a request's body and the number of turns so far to a reply; None: this is no work."""


@dataclass
class Upstream:
    """`window` in tokens of its own tokeniser. `own`: the agent's own summary calls, `proxys`: the proxy's."""

    window: int
    model: Model
    work: list[Recorded] = field(default_factory=list, repr=False)
    proxys: list[Recorded] = field(default_factory=list, repr=False)
    own: list[Recorded] = field(default_factory=list, repr=False)
    others: list[Recorded] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer()

    @property
    def turns(self) -> int:
        return sum(record.accepted for record in self.work)

    def refused(self, why: str) -> int:
        """How many requests of any kind were refused as `OVERFLOW`, or, with "invalid", for their shape."""
        everything = [*self.work, *self.proxys, *self.own, *self.others]
        return sum(r.refused == OVERFLOW if why == OVERFLOW else r.invalid for r in everything)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        exchange = Exchange(scope, receive, send)
        try:
            body = await exchange.body()
            if exchange.path == "/v1/models":
                await exchange.reply(200, {"object": "list", "data": [wording.advertised("openai", MODEL, None)]})
            elif exchange.path == "/v1/chat/completions":
                async with exchange:
                    await self._chat(exchange, Recorded(body, exchange.headers, time.monotonic()))
            else:
                await exchange.reply(404, wording.refusal("openai", rules.Refusal("path", "Invalid URL")).body)
        except ClientGone:
            return

    async def _chat(self, exchange: Exchange, record: Recorded) -> None:
        record.data = json.loads(record.body)
        size = Size(0, 0)
        broken = rules.check(record.data)
        if broken is None:
            size = self.tokenizer.prompt(record.data["messages"], record.data.get("tools") or ())
        over = size.total > self.window
        record.prompt_tokens = size.total
        record.refused = broken.name if broken else OVERFLOW if over else None
        reply = self._reply(record)
        if broken is not None or over:
            worded = (
                wording.overflow("openai", self.window, size, None)
                if broken is None
                else wording.refusal("openai", broken)
            )
            record.status = worded.status
            await exchange.reply(worded.status, worded.body)
        elif record.data.get("stream"):
            await self._stream(exchange, record, reply, size)
        else:
            choice = {"index": 0, "message": reply.message(), "logprobs": None, "finish_reason": reply.finish}
            await exchange.reply(200, _envelope(".", [choice]) | {"usage": self._usage(reply, size)})

    def _reply(self, record: Recorded) -> Reply:
        """The answer, the request filed under its kind. A refused request is filed, too."""
        data = record.data
        if is_summary_call(data):
            record.summary = True
            self.proxys.append(record)
            return summarise(read(data, self.tokenizer, False), "extractive")
        worked = self.model(data, self.turns) if record.accepted else None
        if worked is not None or (not record.accepted and data.get("tools")):
            self.work.append(record)
            return worked if worked is not None and self.turns < MOST_TURNS else Reply("I give up.")
        ends = [text_of(m.get("content")) for m in (data["messages"][0], data["messages"][-1])]
        if _OWN.search("\n".join(ends)) and not _TITLE.search(ends[0][:200]):
            self.own.append(record)
            return summarise(read(data, self.tokenizer, False), "extractive")
        self.others.append(record)
        return Reply("Wrong constants")

    async def _stream(self, exchange: Exchange, record: Recorded, reply: Reply, size: Size) -> None:
        await exchange.open_stream()
        for delta in reply.deltas():
            await exchange.event(_chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]))
            await asyncio.sleep(0)
        await exchange.event(_chunk([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reply.finish}]))
        if (record.data.get("stream_options") or {}).get("include_usage"):
            await exchange.event(_chunk([]) | {"usage": self._usage(reply, size)})
        await exchange.event("[DONE]")
        await exchange.close_stream()

    def _usage(self, reply: Reply, size: Size) -> dict[str, Any]:
        answered = self.tokenizer.prompt([reply.message()]).total
        return {
            "prompt_tokens": size.total,
            "completion_tokens": answered,
            "total_tokens": size.total + answered,
            "prompt_tokens_details": {"cached_tokens": 0},
        }


def _chunk(choices: list[Any]) -> dict[str, Any]:
    return _envelope(".chunk", choices)


def _envelope(kind: str, choices: list[Any]) -> dict[str, Any]:
    head = {
        "id": "chatcmpl-coder",
        "object": f"chat.completion{kind.rstrip('.')}",
        "created": 1_700_000_000,
        "model": MODEL,
    }
    return head | {"choices": choices}
