"""What a request is made ready for, as far as whoever waits for it hears of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.engine.fakes import FakeUpstream, World, body_of, incoming, talk, until

LONG = body_of(talk(20))  # about 4,500 tokens


def signals(world: World, body: bytes, *headers: tuple[bytes, bytes]) -> list[bool | str]:
    """What the client's side hears, and what the others do meanwhile."""
    heard: list[bool | str] = []
    world.lines = world.upstream.lines = world.summariser.lines = heard  # type: ignore[assignment]

    async def story() -> None:
        answer = await world.engine.chat(replace(incoming(body, *headers), waiting=heard.append))
        await answer.aclose()

    asyncio.run(story())
    return [line if isinstance(line, bool) else line.partition(" ←")[0] for line in heard]


def test_a_summary_is_waited_for_and_nothing_else_is() -> None:
    """Not the upstream, before or behind it."""
    assert signals(World(window=4_000), LONG) == [True, "summariser", False, "upstream"]
    refused = World(upstream=FakeUpstream(window=4_000))
    assert signals(refused, LONG)[:5] == ["upstream", True, "summariser", False, "upstream"]


@pytest.mark.parametrize("mode", [{"mode": "passthrough"}, {"mode": "observe"}, {}])
def test_without_a_summary_nobody_is_told_to_wait(mode: dict[str, str]) -> None:
    """Whether it is switched off, watched, or not needed."""
    assert signals(World(mode, window=4_000), LONG if mode else body_of(talk(1))) == ["upstream"]
    assert signals(World(window=4_000), LONG, (b"x-compaction", b"off")) == ["upstream"]


def test_the_wait_ends_when_the_client_leaves() -> None:
    """However it ends."""
    world = World(window=4_000)
    heard: list[bool] = []

    async def story() -> None:
        world.summariser.gate = asyncio.Event()
        task = asyncio.create_task(world.engine.chat(replace(incoming(LONG), waiting=heard.append)))
        await until(lambda: heard == [True])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await world.compactor.aclose()

    asyncio.run(story())
    assert heard == [True, False]
