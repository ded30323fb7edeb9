"""What is known of a request, and what of it may be shown."""

from __future__ import annotations

import asyncio

from proxy.engine.engine import Engine
from proxy.engine.story import Sending, Story
from tests.engine.fakes import CLIENT_KEY, World, body_of, incoming, talk


def opened(world: World, body: bytes, *headers: tuple[bytes, bytes]) -> Story:
    story = Engine._open(world.engine, incoming(body, *headers))
    assert story is not None
    return story


def test_the_scope_tells_tenant_model_and_head_apart() -> None:
    """Whose summaries are counted together; the turns do not matter."""

    async def scope(body: bytes, key: bytes = b"Bearer a") -> str:
        world = World(window=300)
        world.decider._reader._seed = 0
        story = opened(world, body)
        story.tenant = key.decode()
        assert await world.decider.decide(story, None, "over-limit")
        return story.scope

    async def story() -> None:
        usual = await scope(body_of(talk(3)))
        assert await scope(body_of(talk(4))) == usual
        others = [
            await scope(body_of(talk(3)), b"Bearer b"),
            await scope(body_of(talk(3), model="n")),
            await scope(body_of(talk(3), tools=[{"type": "function", "function": {"name": "f"}}])),
            await scope(body_of([{"role": "system", "content": "other"}, *talk(3)[1:]])),
        ]
        assert len({usual, *others}) == 5

    asyncio.run(story())


def test_no_text_and_no_key_in_what_is_shown() -> None:
    """A log may print any of these."""
    world = World(window=300)
    body = body_of([{"role": "user", "content": "my secret"}])
    story = opened(world, body)
    assert repr(story) == f"Story(Envelope(m, 1 messages, {len(body)} bytes) for http://upstream.test/v1 m)"
    assert repr(Sending(body, ("pass", "fits"))) == f"Sending(pass; fits, {len(body)} bytes)"
    shown = repr((story, incoming(body), story.route))
    assert "secret" not in shown and CLIENT_KEY[0][1].decode() not in shown
