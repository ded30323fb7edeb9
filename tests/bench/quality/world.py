"""What an engine needs around it, in memory: a clock, a store and an upstream that take notes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.adapters.memory import MemoryStore
from proxy.core.checkpoint import Checkpoint
from proxy.core.tokens import head_tokens, message_tokens
from proxy.ports import Call, Headers

Message = dict[str, Any]


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class NoCatalogue:
    def window(self, base_url: str, model: str) -> int | None:
        return None

    def cost(self, base_url: str, model: str, prompt: int, output: int) -> float | None:
        return None


class Shelf:
    """A store in memory that can be asked for a checkpoint by its id."""

    def __init__(self) -> None:
        self._inner = MemoryStore()
        self.by_id: dict[str, Checkpoint] = {}

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        return await self._inner.find(tenant, keys)

    async def put(self, checkpoint: Checkpoint) -> None:
        self.by_id.setdefault(checkpoint.id, checkpoint)
        await self._inner.put(checkpoint)

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        return await self._inner.lease(name, owner, seconds)

    async def release(self, name: str, owner: str) -> None:
        await self._inner.release(name, owner)

    async def recall(self, kind: str) -> dict[str, str]:
        return await self._inner.recall(kind)

    async def remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        await self._inner.remember(kind, key, value, seconds)

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass
class Noted:
    """An `Answer` from memory."""

    status: int
    body: bytes
    headers: Headers = ((b"content-type", b"application/json"),)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body

    async def aclose(self) -> None:
        """Nothing is open."""


class Capturing:
    """`Upstream` with a window: states what a prompt took, refuses what is too long, keeps what it was sent."""

    def __init__(self, window: int, count: Callable[[str], int]) -> None:
        self._window, self._count = window, count
        self._known: dict[str, int] = {}
        self.sent: list[tuple[Message, ...]] = []

    def tokens(self, messages: Sequence[Message]) -> int:
        return head_tokens({}, self._count) + sum(self.one(json.dumps(message), message) for message in messages)

    def one(self, raw: str, message: Message) -> int:
        """Tokens of a message whose JSON is `raw`."""
        if raw not in self._known:
            self._known[raw] = message_tokens(message, self._count)
        return self._known[raw]

    async def send(self, call: Call) -> Noted:
        if call.method != "POST" or not isinstance(call.body, bytes):
            return Noted(404, b"{}")
        messages = tuple(json.loads(call.body)["messages"])
        self.sent.append(messages)
        prompt = self.tokens(messages)
        if prompt > self._window:
            said = f"This model's maximum context length is {self._window} tokens. However, your messages resulted in "
            error = {"message": f"{said}{prompt} tokens.", "code": "context_length_exceeded"}
            return Noted(400, json.dumps({"error": error}).encode())
        usage = {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1}
        choice = {"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}
        return Noted(200, json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode())

    async def aclose(self) -> None:
        """Nothing is open."""
