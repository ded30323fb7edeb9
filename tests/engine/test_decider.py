"""What is looked at before a decision, and what is taken in from a refusal."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.overflow import Overflow
from proxy.core.plan import Compact, Forward, Pass, Reuse
from proxy.engine.decider import BLIND, SHRINK
from proxy.engine.engine import Engine
from proxy.engine.story import Sending, Story
from tests.engine.fakes import FakeUpstream, Message, NotedStore, World, body_of, incoming, talk

FORCE = (b"x-compaction", b"force")


class Bench:
    """A world of which only the decider is used; `opened` stories are what the engine makes of requests."""

    def __init__(self, window: int | None = 4_000, **settings: Any) -> None:
        self.store = NotedStore()
        self.world = World(settings, window=window, store=self.store, upstream=FakeUpstream())
        self.decider = self.world.decider
        self.knowledge = self.world.knowledge

    def open(self, messages: Sequence[Message] | bytes, *headers: tuple[bytes, bytes], **fields: Any) -> Story:
        body = messages if isinstance(messages, bytes) else body_of(messages, **fields)
        story = Engine._open(self.world.engine, incoming(body, *headers))
        assert story is not None
        return story

    async def decide(self, story: Story, below: int | None = None) -> Any:
        return await self.decider.decide(story, below, "over-limit")


# --- what is looked at


def test_what_surely_fits_is_not_even_read() -> None:
    """Text alone cannot have more tokens than bytes."""
    bench = Bench()

    async def story() -> None:
        short = bench.open(talk(1))
        assert await bench.decide(short) == Pass("fits")
        assert (short.reading, short.view, short.keys, bench.store.lines) == (None, None, [], [])

    asyncio.run(story())


def test_an_unknown_window_is_no_reason_to_read() -> None:
    """Only the upstream's refusal tells then."""
    bench = Bench(None)

    async def story() -> None:
        long = bench.open(talk(200))
        assert await bench.decide(long) == Pass("window-unknown")
        assert long.reading is None and bench.store.lines == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA"}},
        {"type": "file", "file": {"file_id": "f"}},
    ],
)
def test_what_costs_more_than_its_bytes_is_counted(part: Message) -> None:
    """An image's address is short."""
    bench = Bench()

    async def story() -> None:
        short = bench.open([{"role": "user", "content": [part]}])
        assert await bench.decide(short) == Pass("fits")
        assert short.view is not None and short.view.total > 10

    asyncio.run(story())


def test_the_store_is_asked_only_when_it_could_help_and_once() -> None:
    """Not for what fits once it was counted; for what does not, before anything is made."""
    bench = Bench()

    async def story() -> None:
        assert await bench.decide(bench.open(talk(12))) == Pass("fits")
        assert bench.store.lines == []
        long = bench.open(talk(20))
        assert isinstance(await bench.decide(long), Compact)
        assert isinstance(await bench.decide(long, 2_000), Compact)
        assert bench.store.lines == ["store ← find"]

    asyncio.run(story())


def test_what_is_known_here_needs_no_store_and_what_is_there_no_model() -> None:
    """The cache goes first; another process's checkpoint is as good."""
    bench, other = Bench(), Bench()

    async def story() -> None:
        await bench.world.chat(talk(20))
        bench.store.lines.clear()
        found = await bench.decide(bench.open(talk(20)))
        assert isinstance(found, Reuse) and bench.store.lines == []
        other.store.inner = bench.store.inner
        assert await other.decide(other.open(talk(20))) == found
        assert other.store.lines == ["store ← find"]

    asyncio.run(story())


def test_what_cannot_be_read_passes() -> None:
    """Nested too deeply, for instance."""
    bench = Bench()
    deep = body_of(talk(20)).replace(b'"You help."', b"[" * 100 + b"]" * 100)

    async def story() -> None:
        for headers in ((), (FORCE,)):
            found = bench.open(deep, *headers)
            assert await bench.decide(found) == Pass("unreadable")
            assert found.view is None

    asyncio.run(story())


@pytest.mark.parametrize("window", [None, 100_000])
def test_a_lower_limit_may_be_set(window: int | None) -> None:
    """With a window or without: windows of a million tokens exist, money and attention do not scale with them."""
    bench = Bench(window, models={"*": {"window": window, "compact_at": 2_000}})

    async def story() -> None:
        assert isinstance(await bench.decide(bench.open(talk(20))), Compact)
        assert await bench.decide(bench.open(talk(3))) == Pass("fits")

    asyncio.run(story())


@pytest.mark.parametrize("window", [None, 4_000, 100_000])
def test_a_request_may_ask_for_it(window: int | None) -> None:
    """Whatever the window: it is brought below what it is. A second time nothing new is made."""
    bench = Bench(window)

    async def story() -> None:
        found = await bench.decide(bench.open(talk(8), FORCE))
        assert isinstance(found, Compact) and found.reason == "forced"
        forced = await bench.world.chat(talk(8), FORCE)
        assert forced.outcome == "compact; forced"
        assert isinstance(await bench.decide(bench.open(talk(8), FORCE)), Reuse)
        assert isinstance(await bench.decide(bench.open([{"role": "user", "content": "hi"}], FORCE)), Pass | Forward)

    asyncio.run(story())


def test_what_the_compacted_form_taught_is_not_applied_to_the_whole() -> None:
    """It would seem to fit again, and the upstream's prompt cache would be lost for one turn."""
    bench, history = Bench(), talk(17)

    async def story() -> None:
        before = await answered(bench, history[: 2 * 14], 1.0)
        now = bench.open(history[: 2 * 15])
        made = await bench.decide(now)
        assert isinstance(before, Pass) and isinstance(made, Compact)
        kept = Checkpoint(
            now.tenant, now.keys[made.end], made.start, made.end, "so far", made.carry, (), Rung.MODEL, 1.0
        )
        await bench.world.checkpoints.keep(kept)
        await answered(bench, history[: 2 * 15], 0.7, form=kept.id)
        then = bench.open(history[: 2 * 16])
        assert await bench.decide(then) == Reuse(kept)
        assert then.view is not None and then.view.scale == 0.7 and then.view.ratios == {"": 1.0, kept.id: 0.7}

    async def answered(bench: Bench, messages: list[Message], ratio: float, form: str = "") -> Any:
        found = bench.open(messages)
        decision = await bench.decide(found)
        assert await bench.decider.count(found) is not None
        await bench.knowledge.saw_usage(
            found.target, found.tenant, found.keys[-1], 1_000, int(1_000 * ratio), form=form
        )
        return decision

    asyncio.run(story())


def test_what_was_made_ahead_serves_a_client_that_drops_its_first_messages() -> None:
    """It is found at its place in what is left; a client of another key finds nothing."""
    bench, history = Bench(), talk(20)

    async def story() -> None:
        now = bench.open(history[:28])
        assert await bench.decide(now) == Pass("fits")
        made = bench.decider.ahead(now, Sending(b"", ("pass", "fits"), total(now)), mends=True)
        assert isinstance(made, Compact)
        kept = Checkpoint(now.tenant, now.keys[made.end], made.start, made.end, "so far", None, (), Rung.MODEL, 1.0)
        await bench.world.checkpoints.keep(kept)
        left = [history[0], *history[3:34]]
        then, others = bench.open(left), bench.open(left, (b"authorization", b"Bearer another"))
        assert await bench.decide(then) == Reuse(dataclasses.replace(kept, start=made.start - 2, end=made.end - 2))
        assert isinstance(await bench.decide(others), Compact)

    asyncio.run(story())


# --- the output


@pytest.mark.parametrize(
    ("asked", "counts", "lowered"),
    [
        ({"max_tokens": 3_000}, True, True),
        ({"max_completion_tokens": 3_000}, True, True),
        ({"max_tokens": 500}, True, False),
        ({"max_tokens": 3_000}, False, False),
        ({"max_tokens": "many"}, True, False),
        ({}, True, False),
    ],
)
def test_an_output_is_lowered_only_where_it_is_known_to_count(
    asked: dict[str, Any], counts: bool, lowered: bool
) -> None:
    """To what fits behind the prompt, with a little room for two tokenisers that differ."""
    bench = Bench()

    async def story() -> None:
        found = bench.open(talk(8), **asked)
        if counts:
            await bench.knowledge.saw_output_counted(found.target)
        assert await bench.decide(found) == Pass("fits")
        if found.view is None:  # small enough together
            assert not lowered
            return
        output = bench.decider.output(found, found.view.total)
        assert (output == 4_000 - found.view.total - 80) if lowered else output is None

    asyncio.run(story())


def test_an_output_is_never_lowered_to_nothing() -> None:
    """Zero would be another error."""
    bench = Bench()

    async def story() -> None:
        found = bench.open(talk(20), max_tokens=500)
        await bench.knowledge.saw_output_counted(found.target)
        await bench.decide(found)
        assert bench.decider.output(found, 5_000) == 1
        assert bench.decider.output(found, None) is None

    asyncio.run(story())


def test_where_the_output_counts_a_small_request_may_not_fit() -> None:
    """Its bytes and the output together are compared with the window, no more with the limit."""
    bench = Bench()

    async def story() -> None:
        found = bench.open(talk(1), max_tokens=3_900)
        assert await bench.decide(found) == Pass("fits") and found.view is None
        await bench.knowledge.saw_output_counted(found.target)
        assert await bench.decide(found) == Pass("fits") and found.view is not None

    asyncio.run(story())


# --- refusals


def total(story: Story) -> int:
    assert story.reading is not None
    return story.reading.head_tokens + sum(t.tokens for t in story.reading.turns)


@pytest.mark.parametrize(
    ("said", "share"),
    [
        (Overflow(window=4_000, prompt=5_000), SHRINK),
        (Overflow(window=4_000), SHRINK),
        (Overflow(prompt=9_000), SHRINK),
        (Overflow(window=4_000, prompt=4_001, at_least=True), SHRINK),
        (Overflow(window=4_000, output=1_000), SHRINK),
        (Overflow(), BLIND),
        (Overflow(output=1_000), BLIND),
    ],
    ids=str,
)
def test_each_attempt_has_to_be_smaller(said: Overflow, share: float) -> None:
    """Ten percent where the upstream stated a size, by its own measure; forty where it stated nothing."""
    bench = Bench(None)

    async def story() -> None:
        found = bench.open(talk(20))
        assert await bench.decide(found) == Pass("window-unknown")
        below = await bench.decider.learn(found, Sending(b"", ("pass", "window-unknown")), said)
        scale = bench.knowledge.scale(found.target, found.tenant, found.keys)
        assert below == int(share * total(found) * scale)
        made = await bench.decide(found, below)
        assert isinstance(made, Compact) and found.view is not None and made.size(found.view) <= below

    asyncio.run(story())


def test_what_was_sent_counts_not_what_came() -> None:
    """The second refusal is about what we wrote."""
    bench = Bench(None)

    async def story() -> None:
        found = bench.open(talk(20))
        await bench.decide(found)
        sending = Sending(b"", ("compact", "refused"), counted=2_000)
        assert await bench.decider.learn(found, sending, Overflow()) == int(BLIND * 2_000)
        assert await bench.decider.learn(found, sending, Overflow(prompt=3_000)) == int(SHRINK * 3_000)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("said", "fields", "only"),
    [
        (Overflow(window=4_000, prompt=3_000, output=2_000), {"max_tokens": 2_000}, True),
        (Overflow(window=4_000, prompt=3_919), {"max_tokens": 2_000}, True),
        (Overflow(window=4_000, prompt=3_920), {"max_tokens": 2_000}, False),
        (Overflow(window=4_000, prompt=4_500, output=2_000), {"max_tokens": 2_000}, False),
        (Overflow(window=4_000, prompt=3_000, at_least=True), {"max_tokens": 2_000}, False),
        (Overflow(window=4_000, prompt=3_000), {}, False),
        (Overflow(prompt=3_000, output=2_000), {"max_tokens": 2_000}, False),
    ],
    ids=str,
)
def test_when_only_the_output_is_too_big_nothing_is_summarised(
    said: Overflow, fields: dict[str, Any], only: bool
) -> None:
    """It is remembered of this upstream and model, and lowered from then on."""
    bench = Bench()

    async def story() -> None:
        found = bench.open(talk(12), **fields)
        await bench.decide(found)
        below = await bench.decider.learn(found, Sending(b"", ("pass", "fits")), said)
        assert (below is None) == only == bench.knowledge.counts_output(found.target)
        again = await bench.decider.learn(found, Sending(b"", ("pass", "fits")), said)
        assert again is not None  # lowered already, and refused all the same

    asyncio.run(story())


def test_a_refusal_of_what_cannot_be_read_teaches_nothing() -> None:
    """There is nothing to compare its numbers with."""
    bench = Bench()
    deep = b'{"model":"m","messages":[{"role":"user","content":' + b"[" * 100 + b"]" * 100 + b"}]}"

    async def story() -> None:
        found = bench.open(deep)
        said = Overflow(window=3_000, prompt=3_100)
        assert await bench.decider.learn(found, Sending(deep, ("pass", "unreadable")), said) is None
        assert bench.decider.budget(found) == bench.decider.budget(bench.open(talk(1)))

    asyncio.run(story())


def test_a_refusal_lowers_the_sizes_of_the_next_attempt() -> None:
    """What is aimed at and what is tried at most; a limit is not raised by it."""
    bench = Bench()
    story = bench.open(json.dumps({"model": "m", "messages": [{"role": "user"}]}).encode())
    usual = bench.decider.budget(story)
    assert usual is not None and (usual.window, usual.limit) == (4_000, 3_200)
    lower = bench.decider.budget(story, 2_500)
    assert lower is not None and (lower.limit, lower.hard) == (2_500, 2_500)
    higher = bench.decider.budget(story, 9_000)
    assert higher is not None and higher.limit == usual.limit


def test_without_a_window_only_a_refusal_gives_a_size() -> None:
    """Nothing is known: nothing is aimed at."""

    async def story() -> None:
        blind = Bench(None)
        assert blind.decider.budget(blind.open(talk(1))) is None
        sizes = blind.decider.budget(blind.open(talk(1)), 2_500)
        assert sizes is not None and (sizes.limit, sizes.hard) == (2_500, 2_500)

    asyncio.run(story())
