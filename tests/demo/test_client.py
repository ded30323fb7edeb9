"""The plain client, against answers of every kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from proxy.demo.client import Client, Outcome
from proxy.demo.script import Conversation
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import MODEL, FakeUpstream

SCRIPT = Conversation(turns=20)
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


class Canned:
    """An ASGI application with one answer, sent in the given pieces."""

    def __init__(self, status: int, kind: bytes, pieces: list[bytes]) -> None:
        self.status, self.kind, self.pieces = status, kind, pieces

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"content-type", self.kind)]})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _turns(base: str, numbers: range, **options: Any) -> tuple[Client, list[list[Outcome]]]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http:
        client = Client(http, base, MODEL, SCRIPT, **options)
        return client, [await client.play(SCRIPT.turn(n)) for n in numbers]


@pytest.fixture
def fake() -> Iterator[tuple[FakeUpstream, str]]:
    upstream = FakeUpstream(100_000)
    with serve_in_thread(upstream) as address:
        yield upstream, f"{address}/v1"


def test_a_tool_round_is_played_to_its_end(fake: tuple[FakeUpstream, str]) -> None:
    """Calls are answered in order and the turn ends with text; the streamed turn gives the same kind of messages."""
    upstream, base = fake
    client, turns = asyncio.run(_turns(base, range(1, 16)))
    assert [len(outcomes) for outcomes in turns] == [2 if n % 5 == 0 else 1 for n in range(1, 16)]
    assert all(o.failure is None for outcomes in turns for o in outcomes)
    roles = [m["role"] for m in client.messages]
    assert roles.count("user") == 15 and roles[-1] == "assistant"
    assert {r.refused for r in upstream.requests} == {None}
    streamed = [m for m in client.messages if m.get("tool_calls")][-1]  # turn 15 is streamed and calls tools
    assert [c["function"]["name"] for c in streamed["tool_calls"]] == ["read_file", "get_ticket", "search_logs"]


def test_a_failed_turn_is_taken_back() -> None:
    """The history after a refusal is the history before it."""
    with serve_in_thread(FakeUpstream(150)) as address:
        client, turns = asyncio.run(_turns(f"{address}/v1", range(1, 3)))
    assert all(outcomes[-1].failure and "maximum context length" in outcomes[-1].failure for outcomes in turns)
    assert client.messages == SCRIPT.head()


def test_options_are_sent(fake: tuple[FakeUpstream, str]) -> None:
    """Output bounds cycle from request to request; headers and extra fields go along."""
    upstream, base = fake
    asyncio.run(_turns(base, range(1, 4), max_tokens=(None, 90), headers={"x-probe": "1"}, extra={"seed": 5}))
    assert [r.data.get("max_tokens") for r in upstream.requests] == [None, 90, None]
    assert all(r.data["seed"] == 5 and (b"x-probe", b"1") in r.headers for r in upstream.requests)


@pytest.mark.parametrize(
    ("status", "kind", "pieces", "failure"),
    [
        (200, b"application/json", [b'{"choices": []}'], "no chat completion"),
        (200, b"text/html", [b"<html>"], "no chat completion"),
        (429, b"application/json", [json.dumps({"error": {"message": "slow down"}}).encode()], "429: slow down"),
        (400, b"application/json", [json.dumps({"object": "error", "message": "too long"}).encode()], "400: too long"),
        (200, b"text/event-stream", [CHUNK, END], "broke off"),
        (200, b"text/event-stream", [CHUNK, DONE], "no finish reason"),
        (200, b"text/event-stream", [b"data: {\n\n"], "not JSON"),
        (200, b"text/event-stream", [b'data: {"error": {"message": "too long"}}\n\n', DONE], "200: too long"),
    ],
)
def test_what_counts_as_a_failure(status: int, kind: bytes, pieces: list[bytes], failure: str) -> None:
    """Anything that is not a whole answer is a failed call, in the server's own words where it has any."""
    with serve_in_thread(Canned(status, kind, pieces), lifespan="off") as address:
        _, [[outcome]] = asyncio.run(_turns(address, range(1, 2)))
    assert outcome.failure is not None and failure in outcome.failure


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_streams_are_read_at_every_split(size: int) -> None:
    """Comments are skipped and events found however the bytes are cut."""
    raw = b": keepalive\n" + CHUNK + b": still here\n\n" + CHUNK.replace(b"\n", b"\r\n") + END + DONE
    pieces = [raw[i : i + size] for i in range(0, len(raw), size)]
    with serve_in_thread(Canned(200, b"text/event-stream", pieces), lifespan="off") as address:
        client, [[outcome]] = asyncio.run(_turns(address, range(1, 2)))
    assert outcome.failure is None
    assert client.messages[-1] == {"role": "assistant", "content": "hihi"}


def test_nobody_listens() -> None:
    """A refused connection is a failed call, not an exception."""
    _, [[outcome]] = asyncio.run(_turns("http://127.0.0.1:9", range(1, 2)))
    assert outcome.status == 0 and outcome.failure is not None
