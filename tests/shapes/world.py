"""An engine in memory before an upstream that is as strict, or as lenient, as real ones are."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from proxy.adapters.codings import ALL_CODINGS
from proxy.adapters.memory import MemoryStore
from proxy.core.coding import decode
from proxy.core.wire import first
from proxy.demo import rules, wording
from proxy.demo.tokenizer import Tokenizer
from proxy.engine.assembly import assemble
from proxy.forward import Incoming
from proxy.ports import Answer, Call, Headers, SummaryAnswer, SummaryCall
from proxy.settings import Settings
from tests.engine.fakes import FakeAnswer, FakeClock, NoCatalogue

JSON: Headers = ((b"content-type", b"application/json"),)
PROSE = "The user asked for several things one after the other, and each of them was done and reported back."
HANG = 60.0  # seconds; nothing here waits for anything, so this only ends what would never end
_COMPLETION = {"role": "assistant", "content": "fine"}


def count(text: str) -> int:
    return -(-len(text) // 4)


@dataclass
class ShapedUpstream:
    """Refuses what is longer than `window` by its own tokeniser. `strict`: and all that OpenAI refuses; `alternation`:
    and what strict chat templates do; else anything that has a list of messages is answered."""

    window: int
    strict: bool = True
    alternation: bool = False
    tokenizer: Tokenizer = field(default_factory=Tokenizer)
    refusals: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)

    async def send(self, call: Call) -> Answer:
        assert isinstance(call.body, bytes)
        if call.method != "POST":  # it has no list of models
            return FakeAnswer(404, b"{}")
        self.bodies.append(call.body)
        return self.answer(call.body, call.headers)

    async def aclose(self) -> None:
        """Nothing is open."""

    def answer(self, body: bytes, headers: Headers) -> FakeAnswer:
        refused = self._refused(body, headers)
        if refused is not None:
            self.errors.append(json.dumps(refused.body).encode())
            return FakeAnswer(refused.status, self.errors[-1])
        usage = {"prompt_tokens": self._size, "completion_tokens": 1, "total_tokens": self._size + 1}
        choice = {"index": 0, "message": _COMPLETION, "finish_reason": "stop"}
        return FakeAnswer(200, json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode())

    def _refused(self, body: bytes, headers: Headers) -> wording.Worded | None:
        self._size = 0
        plain = decode(body, first(headers, b"content-encoding"), codings=ALL_CODINGS)
        try:
            data = json.loads(plain or b"")
        except (ValueError, RecursionError):
            return self._refusal(rules.Refusal("not JSON", "We could not parse the JSON body of your request."))
        if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
            return self._refusal(rules.Refusal("messages", "Missing required parameter: 'messages'."))
        broken = rules.check(data, alternation=self.alternation) if self.strict else None
        if broken is not None:
            return self._refusal(broken)
        tools = data.get("tools")
        size = self.tokenizer.prompt(data["messages"], tools if isinstance(tools, list) else ())
        self._size = size.total
        if size.total > self.window:
            self.refusals.append("overflow")
            return wording.overflow("openai", self.window, size, None)
        return None

    def _refusal(self, why: rules.Refusal) -> wording.Worded:
        self.refusals.append(why.name)
        return wording.refusal("openai", why)

    @property
    def invalid(self) -> list[str]:
        return [name for name in self.refusals if name != "overflow"]


class Prosaic:
    """A summariser that always says the same."""

    def __init__(self) -> None:
        self.calls: list[SummaryCall] = []

    async def ask(self, call: SummaryCall) -> SummaryAnswer:
        self.calls.append(call)
        return SummaryAnswer(PROSE, "stop")


@dataclass(frozen=True)
class Got:
    status: int
    headers: Headers
    body: bytes

    @property
    def outcome(self) -> str:
        return (first(self.headers, b"x-compaction") or b"").decode()


class World:
    """An engine before `upstream`. `window`: what the settings say of it; None: nothing."""

    def __init__(self, upstream: ShapedUpstream, window: int | None = None, **settings: Any) -> None:
        given = {"upstream": "http://upstream.test/v1", "store": "memory:", "models": {"*": {"window": window}}}
        made = Settings.model_validate({**given, "summarizer": {"window": 100_000}, **settings})
        self.upstream, self.summariser = upstream, Prosaic()
        store, clock = MemoryStore(), FakeClock()
        parts = assemble(
            made,
            secret=b"secret",
            upstream=upstream,
            summariser=self.summariser,
            store=store,
            clock=clock,
            catalogue=NoCatalogue(),
            count=count,
            codings=ALL_CODINGS,
        )
        self.engine, self.compactor = parts.engine, parts.compactor

    async def chat(self, body: bytes, *headers: tuple[bytes, bytes]) -> Got:
        """One request, its answer read to the end."""
        async with asyncio.timeout(HANG):
            incoming = Incoming("POST", b"/chat/completions", b"", ((b"authorization", b"Bearer k"), *headers), body)
            answer = await self.engine.chat(incoming)
            try:
                return Got(answer.status, answer.headers, b"".join([c async for c in answer.chunks()]))
            finally:
                await answer.aclose()


class Faults(logging.Handler):
    """What the proxy logs as an error while this is entered: it fails open, so nothing else would tell."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> Faults:
        logging.getLogger("compaction_proxy").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("compaction_proxy").removeHandler(self)


async def read(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])
