"""A store that hangs, fails, or comes back: nobody waits for it longer than a moment, and little is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator

import pytest

from proxy.adapters.memory import MemoryStore
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.engine import tolerant
from proxy.engine.tolerant import LEFT_ALONE, TRIED_FOR, TolerantStore
from proxy.errors import StoreError
from proxy.ports import Store
from tests.contracts import store as contract
from tests.engine.fakes import FakeClock, NotedStore, until

ONE = Checkpoint("t", "k1", 4, 4, "said before", None, (), Rung.MODEL, created=1.0)
QUESTIONS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "find": lambda store: store.find("t", ["k1"]),
    "recall": lambda store: store.recall("window"),
    "lease": lambda store: store.lease("name", "owner", 10),
}
CHANGES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "put": lambda store: store.put(ONE),
    "remember": lambda store: store.remember("window", "m", "1", 10),
    "release": lambda store: store.release("name", "owner"),
}


class HangingStore(NotedStore):
    """Says nothing to the methods in `broken` while they stand there."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__()
        self.silent = set(broken)

    async def _hang(self, method: str) -> None:
        while method in self.silent:
            self.lines.append(f"{method} hangs")
            await asyncio.sleep(3600)

    async def find(self, tenant: str, keys: object) -> list[Checkpoint]:
        await self._hang("find")
        return await super().find(tenant, keys)  # type: ignore[arg-type]

    async def recall(self, kind: str) -> dict[str, str]:
        await self._hang("recall")
        return await super().recall(kind)

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        await self._hang("lease")
        return await super().lease(name, owner, seconds)

    async def put(self, checkpoint: Checkpoint) -> None:
        await self._hang("put")
        await super().put(checkpoint)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is waited for by the machine's clock; the pause by the fake one is what it is."""
    monkeypatch.setattr(tolerant, "ANSWER_WITHIN", 0.05)
    monkeypatch.setattr(tolerant, "WRITE_WITHIN", 0.05)
    monkeypatch.setattr(tolerant, "FLUSHED_WITHIN", 0.2)
    yield


def around(store: Store) -> tuple[TolerantStore, FakeClock]:
    clock = FakeClock()
    return TolerantStore(store, clock), clock


class Flushed:
    """The contract asks right after it wrote; behind this one everything is written by then."""

    def __init__(self, store: TolerantStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Coroutine[None, None, object]]:
        async def call(*arguments: object) -> object:
            answer = await getattr(self._store, name)(*arguments)
            await self._store.flush()
            return answer

        return call


@pytest.mark.parametrize("case", contract.CASES, ids=contract.case_name)
def test_contract(case: Callable[[contract.Make], Coroutine[None, None, None]]) -> None:
    """Around a healthy store it is a store like any other, a moment later."""

    def make(**options: object) -> Flushed:
        return Flushed(around(MemoryStore(**options))[0])  # type: ignore[arg-type]

    asyncio.run(case(make))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_not_waited_for(name: str) -> None:
    """It fails after a moment, the next ones at once, and after a while it is asked again."""
    store = HangingStore([name])

    async def story() -> None:
        patient, clock = around(store)
        for _ in range(3):
            with pytest.raises(StoreError):
                await QUESTIONS[name](patient)
        assert store.lines == [f"{name} hangs"]
        store.silent.clear()
        clock.advance(LEFT_ALONE)
        await QUESTIONS[name](patient)
        await QUESTIONS[name](patient)
        assert store.lines[1:] == [f"store ← {name}"] * 2

    asyncio.run(story())


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_never_waited_for(name: str) -> None:
    """Nor is it in the store when the call returns; a moment later it is."""
    store = NotedStore()

    async def story() -> None:
        patient, _ = around(store)
        await CHANGES[name](patient)
        assert store.lines == []
        await until(lambda: len(store.lines) == 1)

    asyncio.run(story())


def test_changes_go_in_order_and_again_until_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is locked for a while costs nothing at all."""
    monkeypatch.setattr(tolerant, "LEFT_ALONE", 0.01)
    store = NotedStore(broken=["put"])

    async def story() -> None:
        patient, _ = around(store)
        await patient.put(ONE)
        await patient.remember("window", "m", "1", 10)
        await patient.remember("window", "m", "2", 10)
        await patient.release("name", "owner")
        await until(lambda: len(store.lines) > 3)
        assert set(store.lines) == {"store ← put"}
        store.broken.clear()
        await until(lambda: "store ← release" in store.lines)
        assert store.lines[-4:] == ["store ← put", *["store ← remember window"] * 2, "store ← release"]
        assert await store.inner.recall("window") == {"m": "2"}

    asyncio.run(story())


def test_a_change_that_never_goes_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Others behind it have their turn."""
    monkeypatch.setattr(tolerant, "LEFT_ALONE", 0.01)
    store = NotedStore(broken=["put"])

    async def story() -> None:
        patient, clock = around(store)
        await patient.put(ONE)
        await patient.remember("window", "m", "1", 10)
        await until(lambda: len(store.lines) > 1)
        clock.advance(TRIED_FOR)
        await until(lambda: store.lines[-1] == "store ← remember window")

    asyncio.run(story())
    assert "given up: 1 " in caplog.text


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The oldest goes first; the newest facts are worth most."""
    monkeypatch.setattr(tolerant, "MOST_WAITING", 3)
    store = HangingStore(["put"])

    async def story() -> None:
        patient, _ = around(store)
        await patient.put(ONE)
        await until(lambda: store.lines == ["put hangs"])
        for number in range(5):
            await patient.remember("window", f"m{number}", "1", 10)
        store.silent.clear()
        await patient.flush()
        assert list(await store.inner.recall("window")) == ["m2", "m3", "m4"]
        assert await store.inner.find("t", ["k1"]) == [ONE]

    asyncio.run(story())
    assert caplog.text.count("given up: 1 ") == 2


def test_reading_goes_on_while_nothing_can_be_written() -> None:
    """A disk that is full, or a file that is locked or may not be written, still has what was put there before."""
    store = NotedStore(broken=["put", "lease"])

    async def story() -> None:
        await store.inner.put(ONE)
        patient, _ = around(store)
        with pytest.raises(StoreError):
            await patient.lease("name", "owner", 10)
        await patient.put(ONE)
        assert await patient.find("t", ["k1"]) == [ONE]

    asyncio.run(story())


def test_the_end_writes_what_waits_and_waits_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A pause is cut short for one more try; a store that is still away then loses what there was."""

    async def story(store: NotedStore, back: bool) -> None:
        patient, _ = around(store)
        await patient.put(ONE)
        await patient.remember("window", "m", "1", 10)
        await until(lambda: bool(store.lines))
        if back:
            store.broken.clear()
        begun = time.monotonic()
        await patient.aclose()
        assert time.monotonic() - begun < LEFT_ALONE

    failing = NotedStore(broken=["put"])
    asyncio.run(story(failing, back=True))
    assert failing.lines[1:] == ["store ← put", "store ← remember window"] and "given up" not in caplog.text
    asyncio.run(story(NotedStore(broken=["put"]), back=False))
    assert caplog.text.count("given up: 1 ") == 1
    caplog.clear()
    asyncio.run(story(HangingStore(["put"]), back=False))
    assert "given up: 1 " in caplog.text


def test_the_log_hears_once_and_of_the_end_and_of_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """A store that is away for an hour is two lines, not one a request."""
    store = NotedStore(broken=["find"])

    async def story() -> None:
        patient, clock = around(store)
        for _ in range(20):
            with pytest.raises(StoreError):
                await patient.find("t", ["k1"])
            clock.advance(LEFT_ALONE)
        store.broken.clear()
        await patient.put(ONE)
        await patient.find("t", ["k1"])

    with caplog.at_level(logging.DEBUG, "compaction_proxy"):
        asyncio.run(story())
    assert [record.getMessage() for record in caplog.records] == [
        "the store cannot be read, requests go on without: the disk is full",
        "the store can be read again",
    ]


def test_its_repr_has_no_text() -> None:
    """Fit for a log."""
    patient, _ = around(NotedStore())
    assert "said" not in repr(patient) and repr(patient).endswith("0 waiting)")
