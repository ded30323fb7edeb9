"""What holds for every `Records`. A test module runs each of `CASES` with a maker of fresh, empty stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine
from typing import Protocol

from proxy.adapters.retention import OVERHEAD, Retention
from proxy.ports import Records, Store
from tests.contracts.store import Time, checkpoint


class Both(Store, Records, Protocol):
    """A store that its operator can read."""


Make = Callable[..., Both]


async def one_is_found_by_its_id(make: Make) -> None:
    """Whosever it is, in every field; no id is no checkpoint."""
    store = make(now=Time())
    one, other = checkpoint(tenant="a", stats={"n": 1}), checkpoint("bb", "more", tenant="b")
    await store.put(one)
    await store.put(other)
    for made in (one, other):
        found = await store.checkpoint(made.id)
        assert found is not None and dataclasses.asdict(found) == dataclasses.asdict(made)
    for id in ("", "nothing", one.id[:10], one.id.upper() + " "):
        assert await store.checkpoint(id) is None


async def the_last_written_come_first(make: Make) -> None:
    """Whatever `created` says; as many as are asked for."""
    store = make(now=Time())
    assert await store.latest(5) == []
    made = [checkpoint(f"{index:02x}", str(index), created=100.0 - index) for index in range(4)]
    for one in made:
        await store.put(one)
    await store.put(made[0])
    assert [one.text for one in await store.latest(10)] == ["3", "2", "1", "0"]
    assert [one.text for one in await store.latest(2)] == ["3", "2"]
    assert await store.latest(0) == await store.latest(-1) == []


async def looking_is_no_use(make: Make) -> None:
    """What an operator reads is not kept for longer."""
    time = Time()
    store = make(retention=Retention(characters=150 + 2 * OVERHEAD, grain=1), now=time)
    for key in ("aa", "bb"):
        await store.put(checkpoint(key, key * 35))
        time.seconds += 100
    assert await store.checkpoint(checkpoint("aa", "aa" * 35).id) is not None
    assert len(await store.latest(10)) == 2
    await store.put(checkpoint("cc", "cc" * 35))
    assert [one.key for one in await store.latest(10)] == ["cc", "bb"]


CASES: tuple[Callable[[Make], Coroutine[None, None, None]], ...] = (
    one_is_found_by_its_id,
    the_last_written_come_first,
    looking_is_no_use,
)


def case_name(case: Callable[[Make], Coroutine[None, None, None]]) -> str:
    return case.__name__
