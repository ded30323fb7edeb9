"""From a decision to a job."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from proxy.core import envelope
from proxy.core.plan import Compact, View
from proxy.engine.jobs import Job
from proxy.engine.knowledge import Target
from proxy.engine.reader import Reader
from tests.engine.fakes import FakeUpstream, World, body_of, changed, count, incoming, talk


def job(messages: Any, tenant: str = "t", **plan: Any) -> Job:
    request = envelope.parse(body_of(messages))
    assert request is not None
    reading = asyncio.run(Reader(count).read(request))
    assert reading is not None
    wanted = {"start": 6, "end": 6, "carry": None, "trims": (), "text": 100, "base": None, "form": "sliding", **plan}
    view = View(reading.head_tokens, reading.turns)
    turns = request.messages[reading.head :]
    return Job(tenant, "k", "s", Compact(**wanted), view, turns, (), Target("http://u/v1", "m"))


def test_a_conversation_has_a_name_while_its_opening_stays() -> None:
    """The same for a longer history and another head, another for another opening or tenant."""
    short = job(talk(5))
    assert short.conversation == job(talk(9)).conversation and len(short.conversation) == 16
    assert short.conversation == job([{"role": "system", "content": "Other."}, *talk(5)[1:]]).conversation
    others = [job(changed(talk(5), "Hello.")), job(talk(5), "u"), job([*talk(5)[:2], *talk(5, opening="fish")[2:]])]
    assert short.conversation not in {other.conversation for other in others}


def test_what_is_told_for_the_first_time_begins_behind_the_last_summary() -> None:
    """And never behind the cut."""
    first = job(talk(5))
    assert first.since == 0

    async def made() -> Any:
        world = World(window=4_000)
        await world.chat(talk(25))
        (found,) = await world.store.latest(1)  # type: ignore[attr-defined]
        return found

    base = asyncio.run(made())
    for start in (2, 4, 6, 9):
        other = dataclasses.replace(base, start=start)
        assert job(talk(5), base=other).since == min(start, 6)
    assert "Question" not in repr(first)


def test_those_who_may_be_asked_and_how() -> None:
    """The section's model, then its fallbacks; each with the section's patience and the window known of it."""
    section = {
        "model": "s", "window": None, "fallbacks": ["f", "g"], "wait": 1, "silence": 2, "total": 3, "max_tokens": 400,
        "calls_per_hour": 5,
    }  # fmt: skip
    models = {"f": {"window": 9_000}, "*": {"window": 4_000}}
    world = World({"summarizer": section, "models": models})
    asked: list[Any] = []

    async def story() -> None:
        make = world.compactor.make

        async def noted(job: Job, wait: float) -> Any:
            asked.extend(job.endpoints)
            return await make(job, wait)

        world.compactor.make = noted  # type: ignore[method-assign]
        await world.chat(talk(25))

    asyncio.run(story())
    assert [(e.model, e.window) for e in asked] == [("s", 4_000), ("f", 9_000), ("g", 4_000)]
    assert {(e.silence, e.total, e.max_tokens, e.calls_per_hour) for e in asked} == {(2, 3, 400, 5)}


def test_a_summariser_is_asked_as_its_section_says() -> None:
    """Its prompt and instructions, and the version of the interface that the client asked for."""
    section = {"model": None, "prompt": "Ahoy.", "instructions": "Be brief.", "fallbacks": ["other"]}
    world = World({"summarizer": section}, window=4_000, upstream=FakeUpstream(window=4_000))

    async def story() -> None:
        asked = incoming(body_of(talk(25)))
        answer = await world.engine.chat(dataclasses.replace(asked, query=b"api-version=2024-10-21&x=1"))
        await answer.aclose()

    asyncio.run(story())
    (call,) = world.summariser.calls
    assert call.url == "http://upstream.test/v1/chat/completions?api-version=2024-10-21"
    assert "Ahoy." in call.system and "Be brief." in call.system and call.model == "m"
