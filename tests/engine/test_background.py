"""What is made before it is needed, when it begins, and for what it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proxy.adapters.memory import MemoryStore
from proxy.engine import background as background_module
from proxy.engine.background import RESTS
from proxy.errors import SummaryError
from proxy.forward import Incoming
from proxy.ports import SummaryAnswer, SummaryCall
from tests.engine.fakes import GOOD, FakeSummariser, Message, World, summarised, talk, until

NEAR = talk(13)  # about 2,950 tokens: within a tenth of the limit, which is 3,200
LONGER = talk(16)
OTHER = talk(2, opening="forest")
HERE = "http://upstream.test:80"


@pytest.fixture(autouse=True)
def no_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_module, "QUIET", 0.0)


def told(world: World, story: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    async def whole() -> None:
        try:
            await story()
        finally:
            await world.background.aclose()
            await world.compactor.aclose()

    asyncio.run(whole())
    return world.lines


def test_the_summary_is_there_before_the_request_that_needs_it() -> None:
    """And the request before it goes out as it came."""
    world = World(window=4_000)

    async def story() -> None:
        await world.chat(NEAR)
        await until(lambda: len(world.summariser.calls) == 1)
        await world.chat(LONGER)

    lines = told(world, story)
    assert lines[0:3] == ["client → 28 messages", "upstream ← 28 messages: 200", "client ← 200 pass; fits"]
    assert lines[3].startswith("summariser ← ") and lines[-1] == "client ← 200 reuse; known"
    assert len(world.summariser.calls) == 1


@pytest.mark.parametrize(
    ("settings", "headers", "messages"),
    [
        ({"background": False}, (), NEAR),
        ({"mode": "observe"}, (), NEAR),
        ({}, ((b"x-compaction", b"off"),), NEAR),
        ({}, ((b"x-compaction", b"observe"),), NEAR),
        ({}, (), talk(11)),
    ],
)
def test_nothing_is_made_where_it_may_not_or_need_not(
    settings: dict[str, Any], headers: tuple[tuple[bytes, bytes], ...], messages: list[Message]
) -> None:
    """Switched off, told to change nothing, or far from the limit."""
    world = World(settings, window=4_000)

    async def story() -> None:
        await world.chat(messages, *headers)
        await asyncio.sleep(0.05)

    told(world, story)
    assert not world.summariser.calls


def gated(world: World) -> asyncio.Event:
    world.summariser.gate = asyncio.Event()
    return world.summariser.gate


async def begun(world: World) -> asyncio.Task[Any]:
    """The work behind an answer near the limit, while its summariser says nothing."""
    await world.chat(NEAR)
    await until(lambda: len(world.summariser.calls) == 1)
    [flight] = world.compactor._flights.values()
    assert flight.task is not None
    return flight.task


@pytest.mark.parametrize(("scheme", "goes_on"), [("http", False), ("https", True)])
def test_a_request_for_the_same_origin_breaks_it_off_where_slots_are_few(scheme: str, goes_on: bool) -> None:
    """Over https what was begun has a price, and slots are many."""
    world = World({"upstream": f"{scheme}://upstream.test/v1"}, window=4_000)

    async def story() -> None:
        gate = gated(world)
        await begun(world)
        await world.chat(OTHER)
        await asyncio.sleep(0.02)
        gate.set()
        await asyncio.sleep(0.05)
        await world.chat(LONGER)

    lines = told(world, story)
    assert (lines[-1] == "client ← 200 reuse; known") is goes_on
    assert len(world.summariser.calls) == 2 - goes_on


def test_the_second_attempt_for_a_conversation_goes_on() -> None:
    """A client that never pauses would pay for beginnings alone."""
    world = World(window=4_000)

    async def story() -> None:
        gate = gated(world)
        await begun(world)
        world.background.make_way(HERE)
        await world.chat(NEAR)
        await until(lambda: len(world.summariser.calls) == 2)
        world.background.make_way(HERE)
        gate.set()
        await until(lambda: sum(line.startswith("summariser ←") for line in world.lines) >= 3)
        await world.chat(LONGER)

    assert told(world, story)[-1] == "client ← 200 reuse; known"
    assert len(world.summariser.calls) == 2


def test_before_it_has_begun_a_request_stops_it_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent whose tools are quick is not made to pay."""
    monkeypatch.setattr(background_module, "QUIET", 0.1)
    world = World(window=4_000)

    async def story() -> None:
        await world.chat(NEAR)
        await asyncio.sleep(0.01)
        await world.chat(OTHER)
        await asyncio.sleep(0.15)

    told(world, story)
    assert not world.summariser.calls


def test_what_is_late_is_not_asked_for_twice() -> None:
    """The request that waited in vain goes out without a model, and the one summary serves the next."""
    world = World({"summarizer": {"wait": 0.1}}, window=4_000)

    async def story() -> None:
        gate = gated(world)
        await begun(world)
        late = await world.chat(LONGER)
        assert late.outcome == "compact; over-limit"
        gate.set()
        await asyncio.sleep(0.05)

    told(world, story)
    assert len(world.summariser.calls) == 1


def test_a_text_made_without_a_model_is_made_better_when_there_is_one_again() -> None:
    """Once its rest is over the summariser is asked for the same place, and the next request has it."""
    world = World(window=4_000, summariser=FakeSummariser(script=[SummaryError("unavailable")]))

    async def story() -> None:
        first = await world.chat(LONGER)
        assert first.outcome == "compact; over-limit"
        await world.chat(LONGER)
        await asyncio.sleep(0.02)
        assert len(world.summariser.calls) == 1  # it rests
        world.clock.advance(60)
        await made_better(world)

    told(world, story)


async def made_better(world: World) -> None:
    """Behind one answer a model is asked, and the request after it has what it wrote."""
    before = len(world.summariser.calls)
    await world.chat(LONGER)
    await until(lambda: len(world.summariser.calls) == before + 1)
    await asyncio.sleep(0.05)
    await world.chat(LONGER)
    assert GOOD in str(world.sent())


def test_what_was_broken_off_is_no_chance_taken(caplog: pytest.LogCaptureFixture) -> None:
    """A text made without a model is made better behind the next answer, and the log says what became of the first."""
    caplog.set_level(logging.INFO)
    world = World(window=4_000, summariser=FakeSummariser(script=[SummaryError("unreachable")]))

    async def story() -> None:
        await world.chat(LONGER)
        world.clock.advance(RESTS)
        gate = gated(world)
        await world.chat(LONGER)
        await until(lambda: len(world.summariser.calls) == 2)
        world.background.make_way(HERE)
        await until(lambda: "gave way" in caplog.text)
        gate.set()
        await made_better(world)

    told(world, story)


def test_what_was_paid_for_before_it_was_broken_off_is_in_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that was no summary; nobody knows of the one that never came."""
    world = World(window=4_000, summariser=FakeSummariser(script=[SummaryAnswer("", "stop", 900, 7)]))
    ask = world.summariser.ask

    async def once(call: SummaryCall) -> SummaryAnswer:
        answer = await ask(call)
        world.summariser.gate = asyncio.Event()  # the next one hangs
        return answer

    monkeypatch.setattr(world.summariser, "ask", once)

    async def story() -> None:
        await world.chat(NEAR)
        await until(lambda: len(world.summariser.calls) == 2)
        world.background.make_way(HERE)
        await until(lambda: world.accounts.spent.tokens == 907)

    told(world, story)


def test_work_that_has_not_begun_is_left_to_the_request_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or there would be two summaries of one conversation at once."""
    monkeypatch.setattr(background_module, "QUIET", 0.05)
    world = World(window=4_000)

    async def story() -> None:
        gate = gated(world)
        await world.chat(NEAR)
        await asyncio.sleep(0.01)
        needs = asyncio.create_task(world.chat(LONGER))
        await asyncio.sleep(0.15)
        assert len(world.summariser.calls) == 1
        gate.set()
        await needs

    told(world, story)
    assert len(world.summariser.calls) == 1


def test_a_summary_that_a_request_waits_for_goes_first() -> None:
    """It is as urgent as the request, and on a server with one slot it would stand behind the other."""
    world = World(window=4_000)

    async def story() -> None:
        gate = gated(world)
        work = await begun(world)
        needs = asyncio.create_task(world.chat(talk(16, opening="forest")))
        await until(lambda: len(world.summariser.calls) == 2)
        assert work.cancelled()
        gate.set()
        await needs

    told(world, story)


def test_a_request_that_is_passed_through_goes_first_too() -> None:
    """Whatever it asks for, it is for the same slot; a look at the list of models is not."""
    world = World(window=4_000)

    async def story() -> None:
        gate = gated(world)
        work = await begun(world)
        await world.engine.forward(Incoming("GET", b"/models", b"", ()))
        await asyncio.sleep(0.01)
        assert not work.cancelled()
        await world.engine.forward(Incoming("POST", b"/completions", b"", (), b"{}"))
        await until(work.cancelled)
        gate.set()

    told(world, story)


def test_what_came_to_nothing_is_not_begun_again_for_a_while() -> None:
    """Each answer near the limit would ask again; the request that needs it will. The while doubles, whatever was the
    matter (here nothing that a summariser would rest for)."""
    world = World(window=4_000, summariser=FakeSummariser(script=[RuntimeError("odd")] * 3))

    async def story() -> None:
        for calls, rest in ((1, RESTS), (2, 2 * RESTS), (3, 4 * RESTS)):
            await world.chat(NEAR)
            await until(lambda: len(world.summariser.calls) >= calls)  # noqa: B023  (awaited at once)
            await asyncio.sleep(0.02)
            world.clock.advance(rest - 1)
            await world.chat(NEAR)
            await asyncio.sleep(0.02)
            assert len(world.summariser.calls) == calls
            world.clock.advance(1)

    told(world, story)


def test_a_text_that_could_not_be_made_better_does_not_stop_the_next_compaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One chance is all that it has; when its conversation comes near the limit again, what is ahead comes first."""
    failures = [SummaryError("unreachable"), SummaryError("unreachable")]
    world = World(window=4_000, summariser=FakeSummariser(script=failures))
    caplog.set_level(logging.INFO)

    async def story() -> None:
        await world.chat(LONGER)
        world.clock.advance(RESTS)
        await world.chat(LONGER)
        await until(lambda: len(world.summariser.calls) == 2)  # it was not made better
        await asyncio.sleep(0.02)
        world.clock.advance(2 * RESTS)
        for n in range(16, 40):
            answer = await world.chat(talk(n))
            await asyncio.sleep(0.02)
            if len(world.summariser.calls) > 2:
                break
        assert answer.outcome == "reuse; known"  # made behind it
        await until(lambda: any("reason=ahead" in record.getMessage() for record in caplog.records))

    told(world, story)


def test_what_another_process_has_made_ahead_is_not_made_again() -> None:
    """Nor what it has made better: the store is looked into before a model is asked."""
    shared = MemoryStore()
    one, other = World(window=4_000, store=shared), World(window=4_000, store=shared)

    async def story() -> None:
        await one.chat(NEAR)
        await summarised(shared)
        await other.chat(NEAR)
        await asyncio.sleep(0.05)
        assert (await other.chat(LONGER)).outcome == "reuse; known"
        await one.background.aclose()
        await one.compactor.aclose()

    told(other, story)
    assert not other.summariser.calls


def test_a_chance_that_could_not_be_taken_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks again at once stops it before it has begun; it is begun behind the next answer."""
    monkeypatch.setattr(background_module, "QUIET", 0.05)
    world = World(window=4_000, summariser=FakeSummariser(script=[SummaryError("unreachable")]))

    async def story() -> None:
        await world.chat(LONGER)
        world.clock.advance(60)
        for _ in range(3):
            await world.chat(LONGER)
            await asyncio.sleep(0.005)
        await until(lambda: len(world.summariser.calls) == 2)

    told(world, story)
    assert len(world.summariser.calls) == 2
