"""The store in memory keeps the contract, and makes no promise beyond it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from hypothesis import given

from proxy.adapters.memory import MemoryStore
from proxy.core.checkpoint import Checkpoint
from tests.contracts import records
from tests.contracts import store as contract


@pytest.mark.parametrize("case", contract.CASES, ids=contract.case_name)
def test_contract(case: Callable[[contract.Make], Coroutine[None, None, None]]) -> None:
    """Every case of the contract holds."""
    asyncio.run(case(MemoryStore))


@pytest.mark.parametrize("case", records.CASES, ids=records.case_name)
def test_records(case: Callable[[records.Make], Coroutine[None, None, None]]) -> None:
    """Its operator can read it."""
    asyncio.run(case(MemoryStore))


@given(contract.checkpoints)
def test_any_checkpoint_round_trips(checkpoint: Checkpoint) -> None:
    """Odd text, big numbers and empty fields come back as they went in."""

    async def story() -> None:
        store = MemoryStore()
        await store.put(checkpoint)
        assert await store.find(checkpoint.tenant, [checkpoint.key]) == [checkpoint]

    asyncio.run(story())


def test_repr_shows_no_text() -> None:
    """A store in a log line says how much it holds and nothing of what."""
    store = MemoryStore()
    asyncio.run(store.put(contract.checkpoint(text="private words")))
    assert repr(store) == "MemoryStore(1 checkpoints)"
