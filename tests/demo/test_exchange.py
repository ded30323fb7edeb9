"""An exchange as a transcript of ASGI messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proxy.demo.exchange import ClientGone, Exchange

SCOPE = {"type": "http", "method": "POST", "path": "/x", "headers": [(b"a", b"b")]}
LEAVES = {"type": "http.disconnect"}


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def run(incoming: list[dict[str, Any]], story: Callable[[Exchange], Awaitable[None]]) -> list[Any]:
    """Play `incoming`, then silence; returns what was sent."""
    sent: list[Any] = []
    queue = list(incoming)

    async def receive() -> Any:
        if not queue:
            await asyncio.Event().wait()
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(story(Exchange(SCOPE, receive, send)), 5))
    return sent


def test_a_body_in_pieces_is_one_body() -> None:
    """All parts are read, in order."""

    async def story(exchange: Exchange) -> None:
        assert await exchange.body() == b"abc"
        await exchange.reply(200, {"a": "é"})

    sent = run([part(b"a", True), part(b"b", True), part(b"c")], story)
    assert sent[0]["status"] == 200 and sent[1]["body"] == b'{"a": "\\u00e9"}'


def test_leaving_before_the_end_of_the_body() -> None:
    """A client that leaves while it sends is gone."""

    async def story(exchange: Exchange) -> None:
        with pytest.raises(ClientGone):
            await exchange.body()

    assert run([part(b"a", True), LEAVES], story) == []


def test_leaving_during_a_pause() -> None:
    """An endless pause ends when the client leaves, and no event follows."""

    async def story(exchange: Exchange) -> None:
        await exchange.body()
        async with exchange:
            await exchange.open_stream()
            with pytest.raises(ClientGone):
                await exchange.pause(None)
            with pytest.raises(ClientGone):
                await exchange.event({"late": True})

    assert [m["type"] for m in run([part(b""), LEAVES], story)] == ["http.response.start"]


def test_a_pause_ends_by_itself() -> None:
    """With a client that stays, a pause is over after its time and the stream goes on."""

    async def story(exchange: Exchange) -> None:
        await exchange.body()
        async with exchange:
            await exchange.open_stream()
            await exchange.pause(0.01)
            await exchange.event("[DONE]")
            await exchange.close_stream()

    bodies = [m.get("body") for m in run([part(b"")], story)[1:]]
    assert bodies == [b"data: [DONE]\n\n", b""]
