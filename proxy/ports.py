"""What the engine needs from the world, as Protocols; `adapters/` has one implementation per library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from proxy.core.checkpoint import Checkpoint

Headers = tuple[tuple[bytes, bytes], ...]
"""Header fields in order, names and values as the raw bytes of the wire (HTTP/1.1: ISO-8859-1)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request to an upstream. `url` is absolute and goes out byte for byte (no re-quoting).

    `body` is sent with a Content-Length when it is bytes. `head_timeout` (seconds) bounds the time until the head
    of the answer is there; None: no bound. The body may take as long as it wants.

    `upgrade` asks to go on in another protocol (RFC 9110, 7.8), and the body is no body then: if the answer is a 101,
    it is what this side says in that protocol, and the answer's chunks are what the upstream says, raw bytes both.
    After any other answer it is not read. The connection ends as soon as one of the two has nothing more to say.
    """

    method: str
    url: str
    headers: Headers
    body: bytes | AsyncIterator[bytes] = b""
    head_timeout: float | None = None
    upgrade: str | None = None


class Answer(Protocol):
    """An upstream's answer, head first. Chunks are the raw bytes of the wire: never decompressed, never merged."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises `Unreachable` when the upstream breaks off."""
        ...

    async def aclose(self) -> None:
        """Give the connection back, or close it if the body was not read to its end. May be called twice."""
        ...


class Upstream(Protocol):
    """An HTTP client that changes nothing: no redirects, no cookies, no .netrc, no header of its own."""

    async def send(self, call: Call) -> Answer:
        """Raises `Unreachable` or `UpstreamTimeout`. Cancelling the task closes the connection."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SummaryCall:
    """One call of a summariser, complete: nothing of the client's body but text.

    `url` is the full address of its chat-completions endpoint, `headers` hold its credentials and nothing else.
    `silence` and `total` are seconds: how long it may say nothing, and how long it may take in all.
    """

    url: str
    headers: Headers
    model: str
    system: str
    user: str
    max_tokens: int
    silence: float
    total: float


@dataclass(frozen=True, slots=True)
class SummaryAnswer:
    """Text (thinking removed), its finish reason, and the `usage` numbers where the server states them."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Summariser(Protocol):
    async def ask(self, call: SummaryCall) -> SummaryAnswer:
        """Raises `SummaryError`; reasons: overflow, http_4xx, http_5xx, rate_limited, timeout, silent, unreachable,
        tool_call, malformed."""
        ...


class Store(Protocol):
    """Checkpoints, leases and learned facts. Every method raises `StoreError` and nothing else.

    One contract suite (`tests/contracts/store.py`) holds for every implementation.
    """

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        """All checkpoints of `tenant` at any of `keys` (hex digests), in order of (deepest boundary, best rung, first
        written)."""
        ...

    async def put(self, checkpoint: Checkpoint) -> None:
        """Idempotent: a checkpoint with the same id is already there and stays as it was."""
        ...

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """Take or renew the lease `name`; False while somebody else holds it. An expired lease is free."""
        ...

    async def release(self, name: str, owner: str) -> None:
        """Give a lease back; nothing happens if `owner` does not hold it."""
        ...

    async def recall(self, kind: str) -> dict[str, str]:
        """All unexpired facts of a kind (learned windows, factors, ...): key -> JSON text."""
        ...

    async def remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        """Keep a fact for so long; the newest value of a key wins."""
        ...

    async def aclose(self) -> None: ...


class Records(Protocol):
    """A store as its operator reads it: whosever they are, and no use of them. Raises `StoreError` and nothing else."""

    async def checkpoint(self, id: str) -> Checkpoint | None: ...

    async def latest(self, number: int) -> list[Checkpoint]:
        """At most so many, the last written first."""
        ...


class Catalogue(Protocol):
    """What is known of models at well-known addresses; None where it is not."""

    def window(self, base_url: str, model: str) -> int | None:
        """The context window in tokens."""
        ...

    def cost(self, base_url: str, model: str, prompt: int, output: int) -> float | None:
        """US dollars for one call of so many tokens, none of them cached."""
        ...


BEFORE, AFTER = "before_compaction", "after_compaction"


@dataclass(frozen=True, slots=True)
class Event:
    """What a hook is asked (`BEFORE`) or told (`AFTER`). `fields` are JSON values; `messages` stand beside them, raw
    JSON as the client sent them."""

    name: str
    fields: Mapping[str, Any] = field(repr=False)
    messages: tuple[bytes, ...] = field(repr=False)

    @property
    def asks(self) -> bool:
        """Whether anybody reads the answer."""
        return self.name == BEFORE

    def document(self) -> bytes:
        """All of it as one JSON object, the messages byte for byte."""
        rest = json.dumps({"event": self.name, **self.fields})  # ASCII: any text there is can be sent
        return rest[:-1].encode("ascii") + b', "messages": [' + b",".join(self.messages) + b"]}"


class Hook(Protocol):
    """Something of the operator's that wants to know of compactions."""

    async def tell(self, event: Event) -> Any:
        """Its answer, a JSON value, None for none; nobody has looked at it yet. Raises `HookError`."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch: for what is stored."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back: for waits and durations."""
        ...
