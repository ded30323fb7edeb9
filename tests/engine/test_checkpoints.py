"""A cache of checkpoints in front of a store that may fail."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest

from proxy.core.checkpoint import Checkpoint, Rung
from proxy.engine.checkpoints import CACHED_CHARS, Checkpoints
from tests.engine.fakes import NotedStore


def checkpoint(key: str, text: str = "said before", *, tenant: str = "t", rung: Rung = Rung.MODEL) -> Checkpoint:
    return Checkpoint(tenant, key, 4, 4, text, None, (), rung, created=1.0)


ONE, TWO = checkpoint("k1"), checkpoint("k2")


def test_what_is_kept_is_known_here_and_in_the_store() -> None:
    """One question to the store; looking into the cache is none."""
    store = NotedStore()

    async def story() -> None:
        here = Checkpoints(store)
        await here.keep(ONE)
        assert here.cached(["k0", "k1", "k2"], "x") == (ONE,)
        assert here.cached([], "x") == ()
        assert store.lines == ["store ← put"]
        elsewhere = Checkpoints(store)
        assert elsewhere.cached(["k1"], "x") == ()
        assert await elsewhere.fetch("t", ["k0", "k1"])
        assert elsewhere.cached(["k1"], "x") == (ONE,)

    asyncio.run(story())


def test_fetching_tells_whether_it_brought_anything_new() -> None:
    """Only then is it worth planning again."""
    store = NotedStore()

    async def story() -> None:
        here = Checkpoints(store)
        assert not await here.fetch("t", ["k1"])
        await store.inner.put(ONE)
        assert await here.fetch("t", ["k1"])
        assert not await here.fetch("t", ["k1"])
        await store.inner.put(TWO)
        assert await here.fetch("t", ["k1", "k2"])
        assert here.cached(["k2", "k1"], "x") == (TWO, ONE)

    asyncio.run(story())


def test_the_same_twice_is_one_and_others_at_the_same_key_stay() -> None:
    """Equal effect, equal id: the first one stays, its record with it."""

    async def story() -> None:
        here = Checkpoints(NotedStore())
        again = dataclasses.replace(ONE, created=9.0, stats={"calls": 2})
        lower = checkpoint("k1", "made by machine", rung=Rung.DIGEST)
        for made in (ONE, again, lower):
            await here.keep(made)
        (first, second) = here.cached(["k1"], "x")
        assert (first.created, first.stats, second) == (1.0, {}, lower)

    asyncio.run(story())


def test_what_one_target_refused_is_not_offered_there_again() -> None:
    """Another model may well take it."""

    async def story() -> None:
        here = Checkpoints(NotedStore())
        await here.keep(ONE)
        here.reject(ONE, "strict")
        assert here.cached(["k1"], "strict") == ()
        assert here.cached(["k1"], "lenient") == (ONE,)
        assert here.rejected(ONE, "strict") and not here.rejected(ONE, "lenient")

    asyncio.run(story())


@pytest.mark.parametrize("broken", ["find", "put"])
def test_a_store_that_fails_costs_nothing_but_what_it_would_have_kept(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The cache goes on, and the log says so without the text."""
    caplog.set_level(logging.DEBUG, "compaction_proxy")
    store = NotedStore(broken=[broken])

    async def story() -> None:
        here = Checkpoints(store)
        await here.keep(ONE)
        assert not await here.fetch("t", ["k1"])
        assert here.cached(["k1"], "x") == (ONE,)

    asyncio.run(story())
    assert "the disk is full" in caplog.text and "said before" not in caplog.text


def test_the_cache_is_bounded_by_its_text() -> None:
    """What was not looked at for longest goes; the store has it still."""
    store = NotedStore()
    large = "x" * (CACHED_CHARS // 2 - 1_000)

    async def story() -> None:
        here = Checkpoints(store)
        await here.keep(checkpoint("k1", large))
        await here.keep(checkpoint("k2", large))
        here.cached(["k1"], "x")
        await here.keep(checkpoint("k3", large))
        assert [c.key for c in here.cached(["k1", "k2", "k3"], "x")] == ["k1", "k3"]

    asyncio.run(story())
