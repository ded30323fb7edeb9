"""What holds for every `Store`. A test module runs each of `CASES` with a maker of fresh, empty stores."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import strategies as st

from proxy.adapters.retention import DAY, LONGEST_LEASE, MOST_FACTS, OVERHEAD, Retention
from proxy.core.checkpoint import Checkpoint, Rung, Trim
from proxy.ports import Store

Make = Callable[..., Store]  # called with `now` and, where it matters, `retention`


class Time:
    """A clock that stands until it is set."""

    def __init__(self, seconds: float = 1_700_000_000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


def checkpoint(key: str = "aa", text: str = "said before", tenant: str = "t", **changes: object) -> Checkpoint:
    base = Checkpoint(
        tenant=tenant,
        key=key,
        start=4,
        end=6,
        text=text,
        carry=None,
        trims=(),
        rung=Rung.MODEL,
        created=1_700_000_000.5,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
whole = st.integers(0, 10**6)
odd_text = st.text(st.characters(codec=None), max_size=40)  # lone surrogates, NUL and all


def _covering(start: int, rest: int, carry: int | None, trims: list[Trim], **fields: Any) -> Checkpoint:
    """With its places within what it covers."""
    return Checkpoint(
        start=start,
        end=start + rest,
        carry=None if carry is None or not start else carry % start,
        trims=tuple(dataclasses.replace(trim, index=start + trim.index % rest) for trim in trims if rest),
        **fields,
    )


checkpoints = st.builds(
    _covering,
    tenant=odd_text,
    key=st.text("0123456789abcdef", min_size=1, max_size=16),
    start=whole,
    rest=whole,
    text=odd_text,
    carry=st.none() | whole,
    text_tokens=whole,
    trims=st.lists(st.builds(Trim, whole, whole, whole), max_size=4),
    rung=st.sampled_from(Rung),
    created=st.floats(0, 4e9),
    prose=odd_text,
    stats=st.dictionaries(st.text(), json_values, max_size=3),
)


async def what_is_put_is_found_unchanged(make: Make) -> None:
    """A checkpoint comes back equal in every field, those included that are no part of its identity."""
    store = make(now=Time())
    full = checkpoint(
        text="früher 早 \x00 \ud83d \ud83d\ude00",
        prose="\udfff",
        carry=2,
        trims=(Trim(4, 0, 12), Trim(5, 1200, 430)),
        text_tokens=7,
        stats={"calls": 2, "seconds": 1.5, "models": ["m"], "ok": None},
    )
    await store.put(full)
    (found,) = await store.find("t", ["aa"])
    assert dataclasses.asdict(found) == dataclasses.asdict(full)
    assert found.id == full.id


async def nothing_is_found_in_an_empty_store(make: Make) -> None:
    """No keys and unknown keys give an empty list."""
    store = make(now=Time())
    assert await store.find("t", []) == []
    assert await store.find("t", ["aa"]) == []


async def tenants_do_not_see_each_other(make: Make) -> None:
    """The same key under another tenant is another place."""
    store = make(now=Time())
    await store.put(checkpoint(tenant="one", text="secret of one"))
    assert await store.find("two", ["aa"]) == []
    assert [found.tenant for found in await store.find("one", ["aa"])] == ["one"]


async def order_is_deepest_then_best_then_first(make: Make) -> None:
    """Readers agree: deepest boundary, then the higher rung, then the first written, whatever `created` says."""
    store = make(now=Time())
    first = checkpoint("aa", "first", created=9.0)
    second = checkpoint("aa", "second", created=1.0)
    cleared = checkpoint("aa", "cleared", rung=Rung.CLEARED)
    digest = checkpoint("aa", "digest", rung=Rung.DIGEST)
    deeper = checkpoint("bb", "deeper", end=9, rung=Rung.CLEARED)
    for item in (cleared, first, digest, deeper, second):
        await store.put(item)
    found = await store.find("t", ["aa", "bb", "cc", "aa"])
    assert [item.text for item in found] == ["deeper", "first", "second", "digest", "cleared"]
    assert [item.text for item in await store.find("t", ["aa"])] == ["first", "second", "digest", "cleared"]


async def a_checkpoint_never_changes(make: Make) -> None:
    """A second `put` with the same effect leaves the first one, its record and its place as they were."""
    store = make(now=Time())
    await store.put(checkpoint(stats={"n": 1}))
    await store.put(checkpoint(text="other"))
    await store.put(checkpoint(stats={"n": 2}, created=5.0))
    found = await store.find("t", ["aa"])
    assert [(item.text, item.stats) for item in found] == [("said before", {"n": 1}), ("other", {})]


async def many_keys_are_one_question(make: Make) -> None:
    """A conversation of thousands of turns asks for all its boundaries at once."""
    store = make(now=Time())
    for index in (0, 1700, 3999):
        await store.put(checkpoint(f"{index:x}", start=0, end=index + 1))
    found = await store.find("t", [f"{index:x}" for index in range(4000)])
    assert [item.end for item in found] == [4000, 1701, 1]


async def unused_checkpoints_go(make: Make) -> None:
    """What nobody found for the idle time is dropped at the next `put`; what was found stays."""
    time = Time()
    store = make(retention=Retention(characters=10**6, idle=30 * DAY, grain=60), now=time)
    await store.put(checkpoint("aa"))
    await store.put(checkpoint("bb"))
    time.seconds += 20 * DAY
    await store.find("t", ["aa"])
    time.seconds += 20 * DAY
    await store.put(checkpoint("cc"))
    assert [item.key for item in await store.find("t", ["aa", "bb", "cc"])] == ["aa", "cc"]


async def the_longest_unused_go_when_it_is_full(make: Make) -> None:
    """Above the size limit the checkpoints longest unused go, only as many as needed, never the newest."""
    time = Time()
    store = make(retention=Retention(characters=250 + 2 * OVERHEAD, grain=60), now=time)
    for key in ("aa", "bb"):
        await store.put(checkpoint(key, key + "x" * 98))
        time.seconds += 100
    await store.find("t", ["aa"])
    time.seconds += 100
    await store.put(checkpoint("cc", "cc" + "x" * 90, prose="12345678"))
    assert [item.key for item in await store.find("t", ["aa", "bb", "cc"])] == ["aa", "cc"]
    await store.put(checkpoint("dd", "x" * 2000))
    assert [item.key for item in await store.find("t", ["aa", "bb", "cc", "dd"])] == ["dd"]


async def reading_often_is_one_use(make: Make) -> None:
    """Within the grain a second look does not count, so a store may skip the write."""
    time = Time()
    store = make(retention=Retention(characters=150 + 2 * OVERHEAD, grain=3600), now=time)
    await store.put(checkpoint("aa", "a" * 70))
    time.seconds += 1
    await store.put(checkpoint("bb", "b" * 70))
    time.seconds += 60
    await store.find("t", ["aa"])
    await store.put(checkpoint("cc", "c" * 70))
    assert [item.key for item in await store.find("t", ["aa", "bb", "cc"])] == ["bb", "cc"]


async def a_lease_has_one_holder(make: Make) -> None:
    """Until it is given back or expires; its holder may renew it, others may not release it."""
    time = Time()
    store = make(now=time)
    assert await store.lease("prefix", "one", 10)
    assert not await store.lease("prefix", "two", 10)
    assert await store.lease("other prefix", "two", 10)
    time.seconds += 9
    assert await store.lease("prefix", "one", 10)
    time.seconds += 9
    await store.release("prefix", "two")
    await store.release("unknown", "two")
    assert not await store.lease("prefix", "two", 10)
    await store.release("prefix", "one")
    assert await store.lease("prefix", "two", 10)


async def an_expired_lease_is_free(make: Make) -> None:
    """A holder that died blocks nobody for longer than it asked for."""
    time = Time()
    store = make(now=time)
    assert await store.lease("prefix", "one", 10)
    time.seconds += 10
    assert await store.lease("prefix", "two", 10)
    await store.release("prefix", "one")
    assert not await store.lease("prefix", "one", 10)


async def a_checkpoint_without_text_counts_too(make: Make) -> None:
    """Those that only shorten results are bounded in number, or a store of nothing else would grow for ever."""
    time = Time()
    store = make(retention=Retention(characters=3 * OVERHEAD), now=time)
    keys = [f"{index:02x}" for index in range(9)]
    for key in keys:
        time.seconds += 1
        await store.put(checkpoint(key, "", rung=Rung.CLEARED))
    assert sorted(item.key for item in await store.find("t", keys)) == keys[-3:]


async def a_clock_that_jumps_costs_little(make: Make) -> None:
    """A lease of a holder that died is free after a jump of a day either way; what is kept is still there."""
    for jump in (DAY, -DAY):
        time = Time()
        store = make(now=time)
        await store.put(checkpoint())
        await store.remember("window", "a", "1", 7 * DAY)
        assert await store.lease("prefix", "one", 10)
        time.seconds += jump
        assert await store.find("t", ["aa"]) == [checkpoint()]
        assert await store.recall("window") == {"a": "1"}
        assert await store.lease("prefix", "two", 10)
        assert not await store.lease("prefix", "three", 10)
        await store.put(checkpoint("bb"))
        assert len(await store.find("t", ["aa", "bb"])) == 2


async def no_lease_is_long(make: Make) -> None:
    """Whatever was asked for, a holder that died is forgotten soon."""
    time = Time()
    store = make(now=time)
    assert await store.lease("prefix", "one", DAY)
    time.seconds += LONGEST_LEASE - 1
    assert not await store.lease("prefix", "two", 10)
    time.seconds += 1
    assert await store.lease("prefix", "two", 10)


async def facts_of_a_kind_are_bounded(make: Make) -> None:
    """Clients choose the names in their keys; what would be forgotten next goes, never what was just learned."""
    store = make(now=Time())
    await store.remember("factor", "other kind", "1", 5)
    await store.remember("window", "brief", "1", 10)
    for index in range(MOST_FACTS):
        await store.remember("window", f"{index}", "1", 100 + index)
    known = await store.recall("window")
    assert len(known) == MOST_FACTS and "brief" not in known and "0" in known
    await store.remember("window", "short", "2", 1)
    known = await store.recall("window")
    assert len(known) == MOST_FACTS and known["short"] == "2" and "0" not in known
    assert await store.recall("factor") == {"other kind": "1"}


async def facts_are_kept_by_kind_and_expire(make: Make) -> None:
    """The newest value of a key wins, each has a time of its own, kinds do not mix."""
    time = Time()
    store = make(now=time)
    await store.remember("window", "a", "1", 100)
    await store.remember("window", "a", "2", 10)
    await store.remember("window", "b\ud800", json.dumps({"window": 3}), 20)
    await store.remember("factor", "a", '"\ud83d\ude00"', 100)
    assert await store.recall("window") == {"a": "2", "b\ud800": '{"window": 3}'}
    assert await store.recall("factor") == {"a": '"\ud83d\ude00"'}
    assert await store.recall("nothing") == {}
    time.seconds += 10
    assert await store.recall("window") == {"b\ud800": '{"window": 3}'}
    time.seconds += 10
    assert await store.recall("window") == {}


async def closing_twice_is_harmless(make: Make) -> None:
    """`aclose` may be called by whoever cleans up last."""
    store = make(now=Time())
    await store.put(checkpoint())
    await store.aclose()
    await store.aclose()


CASES: tuple[Callable[[Make], Coroutine[None, None, None]], ...] = (
    what_is_put_is_found_unchanged,
    nothing_is_found_in_an_empty_store,
    tenants_do_not_see_each_other,
    order_is_deepest_then_best_then_first,
    a_checkpoint_never_changes,
    many_keys_are_one_question,
    unused_checkpoints_go,
    the_longest_unused_go_when_it_is_full,
    reading_often_is_one_use,
    a_lease_has_one_holder,
    an_expired_lease_is_free,
    a_checkpoint_without_text_counts_too,
    a_clock_that_jumps_costs_little,
    no_lease_is_long,
    facts_of_a_kind_are_bounded,
    facts_are_kept_by_kind_and_expire,
    closing_twice_is_harmless,
)


def case_name(case: Callable[[Make], Coroutine[None, None, None]]) -> str:
    return case.__name__
