"""The world around an engine, in memory: an upstream with a window, a summariser, a clock, a store that may break.

Each writes what happens to it into one list of readable lines, so that a test compares a request's whole story.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.adapters.memory import MemoryStore
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.engine.assembly import assemble
from proxy.errors import StoreError
from proxy.forward import Incoming
from proxy.ports import Answer, Call, Headers, Store, SummaryAnswer, SummaryCall
from proxy.routing import Router
from proxy.settings import Settings

Message = dict[str, Any]
Lines = list[str]

BASE = "http://upstream.test/v1"
CLIENT_KEY: Headers = ((b"authorization", b"Bearer key-of-a-client"),)
SECRET = b"the secret of this install"
JSON: Headers = ((b"content-type", b"application/json"),)
SSE: Headers = ((b"content-type", b"text/event-stream"),)


def count(text: str) -> int:
    """A tokeniser: four characters a token."""
    return -(-len(text) // 4)


class NoCatalogue:
    def window(self, base_url: str, model: str) -> int | None:
        return None

    def cost(self, base_url: str, model: str, prompt: int, output: int) -> float | None:
        return None


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds - 1_600_000_000.0

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class FakeAnswer:
    """An upstream's answer. A chunk that is an exception is raised; one that is an event is waited for."""

    def __init__(
        self,
        status: int = 200,
        body: bytes | Sequence[bytes | BaseException | asyncio.Event] = b"",
        headers: Headers = JSON,
    ) -> None:
        self.status = status
        self.headers = headers
        self.closed = 0
        self.given = 0
        self._body = [body] if isinstance(body, bytes) else body

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._body:
            if isinstance(chunk, BaseException):
                raise chunk
            if isinstance(chunk, asyncio.Event):
                await chunk.wait()
                continue
            self.given += 1
            yield chunk

    async def aclose(self) -> None:
        self.closed += 1


def openai_wording(window: int, prompt: int, output: int) -> Message:
    """OpenAI's error, as its API gives it."""
    said = f"This model's maximum context length is {window} tokens. However, "
    if output and prompt <= window:
        said += (
            f"you requested {prompt + output} tokens ({prompt} in the messages, {output} in the completion). Please "
        )
        said += "reduce the length of the messages or completion."
    else:
        said += f"your messages resulted in {prompt} tokens. Please reduce the length of the messages."
    return {"message": said, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}


def mute_wording(window: int, prompt: int, output: int) -> Message:
    """One without a number."""
    return {"message": "The prompt is too long.", "type": "invalid_request_error"}


Scripted = Callable[[], Answer | BaseException]


class FakeUpstream:
    """Answers chat requests; refuses those above `window` tokens (a tokeniser of its own: `factor` times ours).

    `script` goes first: what it holds for the next requests is answered or raised; None answers as usual.
    """

    def __init__(
        self,
        lines: Lines | None = None,
        window: int | None = None,
        *,
        factor: float = 1.0,
        counts_output: bool = False,
        wording: Callable[[int, int, int], Message] = openai_wording,
        script: Sequence[Scripted | None] = (),
    ) -> None:
        self.lines = lines if lines is not None else []
        self.window = window
        self.factor = factor
        self.counts_output = counts_output
        self.wording = wording
        self.script = list(script)
        self.calls: list[Call] = []
        self.answers: list[FakeAnswer] = []
        self.accepted: list[Message] = []

    @property
    def bodies(self) -> list[bytes]:
        return [call.body for call in self.calls if isinstance(call.body, bytes)]

    def tokens(self, request: Message) -> int:
        messages = request.get("messages") or []
        return int(sum(6 + count(_said(message)) for message in messages) * self.factor)

    async def send(self, call: Call) -> Answer:
        if call.method == "GET":
            return FakeAnswer(404, b"{}")  # no list of models here
        self.calls.append(call)
        scripted = self.script.pop(0) if self.script else None
        if scripted is not None:
            made = scripted()
            if isinstance(made, BaseException):
                self._note(call, type(made).__name__)
                raise made
            self._note(call, str(made.status))
        else:
            made = self._answer(call)
        if isinstance(made, FakeAnswer):
            self.answers.append(made)
        return made

    async def aclose(self) -> None:
        """Nothing is open."""

    def _answer(self, call: Call) -> FakeAnswer:
        assert isinstance(call.body, bytes)
        request = _parsed(call.body)
        if request is None:
            self._note(call, "200")
            return FakeAnswer(200, b'{"object":"whatever"}')
        prompt = self.tokens(request)
        output = request.get("max_tokens") or 0
        asked = output if self.counts_output else 0
        if self.window is not None and prompt + asked > self.window:
            self._note(call, f"overflow window={self.window} prompt={prompt}" + (f" output={asked}" if asked else ""))
            error = {"error": self.wording(self.window, prompt, asked)}
            return FakeAnswer(400, json.dumps(error).encode())
        self.accepted.append(request)
        self._note(call, "200")
        usage = {"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2}
        message = {"role": "assistant", "content": "fine"}
        completion = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
        return FakeAnswer(200, json.dumps(completion).encode())

    def _note(self, call: Call, what: str) -> None:
        request = _parsed(call.body) if isinstance(call.body, bytes) else None
        size = f"{len(request['messages'])} messages" if request else "a body"
        self.lines.append(f"upstream ← {size}: {what}")


def _parsed(body: bytes) -> Message | None:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) and isinstance(request.get("messages"), list) else None


def _said(message: Any) -> str:
    return json.dumps(message.get("content"), ensure_ascii=False) if isinstance(message, dict) else ""


GOOD = "The user asked for several things one after the other, and each of them was done and reported back."
MORE = " What came after that was done as well."
Reply = str | SummaryAnswer | BaseException


class FakeSummariser:
    """Writes `GOOD`, and something else than before where it is to update that; or what `script` holds for the next calls. While `gate` is there and not set, a call hangs."""

    def __init__(self, lines: Lines | None = None, script: Sequence[Reply] = (), window: int | None = None) -> None:
        self.lines = lines if lines is not None else []
        self.script = list(script)
        self.gate: asyncio.Event | None = None
        self.window = window  # of the prompt; above it the call is refused as an overflow
        self.calls: list[SummaryCall] = []

    async def ask(self, call: SummaryCall) -> SummaryAnswer:
        self.calls.append(call)
        number = len(re.findall(r"(?m)^\[\d+ \w", call.user))
        if self.gate is not None and not self.gate.is_set():
            self.lines.append(f"summariser ← {number} messages: silence")
            await self.gate.wait()
        again = GOOD if MORE in call.user or GOOD not in call.user else GOOD + MORE
        reply = self.script.pop(0) if self.script else again
        if isinstance(reply, BaseException):
            self.lines.append(f"summariser ← {number} messages: {reply}")
            raise reply
        self.lines.append(f"summariser ← {number} messages")
        return reply if isinstance(reply, SummaryAnswer) else SummaryAnswer(reply, "stop")


class NotedStore:
    """A store in memory that notes each question; the methods named in `broken` fail."""

    def __init__(self, lines: Lines | None = None, broken: Sequence[str] = ()) -> None:
        self.lines = lines if lines is not None else []
        self.broken = set(broken)
        self.inner = MemoryStore()

    def _note(self, method: str) -> None:
        self.lines.append(f"store ← {method}")
        if method in self.broken:
            raise StoreError("the disk is full")

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        self._note("find")
        return await self.inner.find(tenant, keys)

    async def put(self, checkpoint: Checkpoint) -> None:
        self._note("put")
        await self.inner.put(checkpoint)

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        self._note("lease")
        return await self.inner.lease(name, owner, seconds)

    async def release(self, name: str, owner: str) -> None:
        self._note("release")
        await self.inner.release(name, owner)

    async def recall(self, kind: str) -> dict[str, str]:
        self._note("recall")
        return await self.inner.recall(kind)

    async def remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        self._note(f"remember {kind}")
        await self.inner.remember(kind, key, value, seconds)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(frozen=True)
class Received:
    """What the client got."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        return next((v.decode() for n, v in self.headers if n.lower() == name.encode()), None)

    @property
    def outcome(self) -> str:
        return self.header("x-compaction") or ""


class World:
    """An engine and all that it talks to. `settings` as in the configuration file."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        window: int | None = None,
        upstream: FakeUpstream | None = None,
        summariser: FakeSummariser | None = None,
        store: Store | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.lines: Lines = []
        self.clock = clock or FakeClock()
        given = dict(settings or {})
        summarizer = {"model": "s", "window": 100_000, **given.pop("summarizer", {})}  # so that one call is enough
        common = {"upstream": BASE, "store": "memory:", "models": {"*": {"window": window}}}
        self.settings = Settings.model_validate({**common, "summarizer": summarizer, **given})
        self.upstream = upstream or FakeUpstream()
        self.summariser = summariser or FakeSummariser()
        self.upstream.lines = self.summariser.lines = self.lines
        self.store: Store = store or MemoryStore()
        parts = assemble(
            self.settings,
            secret=SECRET,
            upstream=self.upstream,
            summariser=self.summariser,
            store=self.store,
            clock=self.clock,
            catalogue=NoCatalogue(),
            count=count,
        )
        self.engine, self.decider, self.compactor = parts.engine, parts.decider, parts.compactor
        self.checkpoints, self.knowledge, self.prudence = parts.checkpoints, parts.knowledge, parts.prudence
        self.background = parts.background
        self.accounts = parts.accounts
        self.router = Router(self.settings)

    async def chat(self, request: bytes | Sequence[Message], *headers: tuple[bytes, bytes], **fields: Any) -> Received:
        """One request, its answer read to the end and closed. `fields` go into the body beside the messages."""
        body = request if isinstance(request, bytes) else body_of(request, **fields)
        parsed = _parsed(body)
        self.lines.append(f"client → {len(parsed['messages'])} messages" if parsed else "client → a body")
        answer = await self.engine.chat(incoming(body, *headers))
        try:
            read = b"".join([chunk async for chunk in answer.chunks()])
        finally:
            await answer.aclose()
        received = Received(answer.status, answer.headers, read)
        self.lines.append(f"client ← {received.status} {received.outcome}")
        return received

    def sent(self, index: int = -1) -> list[Message]:
        """The messages of a request as the upstream got it."""
        messages: list[Message] = json.loads(self.upstream.bodies[index])["messages"]
        return messages


async def summarised(store: MemoryStore) -> None:
    """Let others work until a summary is in the store: it is written behind the back of whoever made it."""
    for _ in range(2_000):
        if any(made.rung == Rung.MODEL for made in await store.latest(9)):
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nothing was stored")


async def until(condition: Callable[[], bool]) -> None:
    """Let others work until it is so."""
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came to that")


def incoming(body: bytes, *headers: tuple[bytes, bytes]) -> Incoming:
    return Incoming("POST", b"/chat/completions", b"", (*CLIENT_KEY, *JSON, *headers), body)


def body_of(messages: Sequence[Message], **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


SYSTEM: Message = {"role": "system", "content": "You help."}


def changed(messages: Sequence[Message], first: str) -> list[Message]:
    """The same conversation with another first user message."""
    return [messages[0], {"role": "user", "content": first}, *messages[2:]]


def talk(exchanges: int, size: int = 100, *, opening: str = "harbour") -> list[Message]:
    """A system message, so many questions (about `size` tokens each) with answers, and a last question."""
    messages = [SYSTEM]
    for i in range(exchanges):
        messages.append({"role": "user", "content": f"Question {i} about the {opening}. " + _filler(i, size)})
        messages.append({"role": "assistant", "content": f"Answer {i} of the {opening}. " + _filler(i + 500, size)})
    return [*messages, {"role": "user", "content": f"Question {exchanges}: what now?"}]


def _filler(seed: int, tokens: int) -> str:
    words = (
        "crane",
        "berth",
        "tariff",
        "ledger",
        "courier",
        "permit",
        "invoice",
        "archive",
        "manifest",
        "pilot",
        "gate",
    )
    text = " ".join(f"{words[(seed * 7 + k * k) % 11]} {words[(seed + k * 5) % 11]}" for k in range(tokens))
    return text[: tokens * 4]
