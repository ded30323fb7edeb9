"""What is learned from upstreams, for whom, for how long, and what is not believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from proxy.adapters.memory import MemoryStore
from proxy.core.overflow import Overflow
from proxy.engine.knowledge import LEARNED_FOR, LEAST_WINDOW, RESTS, USELESS, Knowledge, Target
from tests.engine.fakes import FakeClock, NotedStore

ONE = Target("http://one/v1", "m")
OTHER_MODEL = Target("http://one/v1", "n")
OTHER_PLACE = Target("http://two/v1", "m")
SAID = Overflow(window=4_000, prompt=5_000)


class Mind:
    """Knowledge with its store and clock; `run` plays one story."""

    def __init__(self, store: MemoryStore | NotedStore | None = None) -> None:
        self.clock = FakeClock()
        self.store = store or MemoryStore(now=self.clock.now)
        self.knows = Knowledge(self.store, self.clock)

    def again(self) -> Knowledge:
        """After a restart."""
        return Knowledge(self.store, self.clock)

    async def refuse(self, said: Overflow, *, tenant: str = "a", key: str = "k", counted: int = 5_000) -> None:
        await self.knows.saw_overflow(ONE, tenant, key, counted, said)


def play(story: Callable[[Mind], Awaitable[None]], store: NotedStore | None = None) -> None:
    async def told() -> None:
        await story(Mind(store))

    asyncio.run(told())


# --- windows


def test_nothing_is_known_but_what_is_configured() -> None:
    """None stands for not knowing."""
    mind = Mind()
    assert mind.knows.window(ONE, "a", None) is None
    assert mind.knows.window(ONE, "a", 9_000) == 9_000


def test_of_a_configured_and_a_learned_window_the_smaller_holds() -> None:
    """A configured one can be wrong, and so can what was read out of an error."""

    async def story(mind: Mind) -> None:
        await mind.refuse(SAID)
        assert mind.knows.window(ONE, "a", None) == 4_000
        assert mind.knows.window(ONE, "a", 9_000) == 4_000
        assert mind.knows.window(ONE, "a", 3_000) == 3_000
        assert mind.knows.window(OTHER_MODEL, "a", 9_000) == 9_000
        assert mind.knows.window(OTHER_PLACE, "a", 9_000) == 9_000

    play(story)


def test_a_learned_window_expires() -> None:
    """A local server may come back with a larger context."""

    async def story(mind: Mind) -> None:
        await mind.refuse(SAID)
        mind.clock.advance(LEARNED_FOR - 1)
        assert mind.knows.window(ONE, "a", None) == 4_000
        await mind.refuse(SAID)  # said again: remembered anew
        mind.clock.advance(LEARNED_FOR - 1)
        assert mind.knows.window(ONE, "a", None) == 4_000
        mind.clock.advance(1)
        assert mind.knows.window(ONE, "a", None) is None

    play(story)


def test_two_tenants_must_have_heard_it_before_it_holds_for_all() -> None:
    """An error may echo what a client wrote."""

    async def story(mind: Mind) -> None:
        await mind.refuse(SAID, tenant="a")
        await mind.refuse(SAID, tenant="a")
        assert mind.knows.window(ONE, "b", 9_000) == 9_000
        await mind.refuse(SAID, tenant="b")
        assert mind.knows.window(ONE, "c", 9_000) == 4_000

    play(story)


def test_an_expired_window_has_no_witnesses() -> None:
    """The count of tenants begins anew."""

    async def story(mind: Mind) -> None:
        await mind.refuse(SAID, tenant="a")
        mind.clock.advance(LEARNED_FOR + 1)
        await mind.refuse(SAID, tenant="b")
        assert mind.knows.window(ONE, "c", None) is None

    play(story)


@pytest.mark.parametrize("window", [1, LEAST_WINDOW - 1])
def test_a_window_too_small_to_be_one_is_not_learned(window: int) -> None:
    """Some other number of the error was taken for it."""

    async def story(mind: Mind) -> None:
        await mind.refuse(Overflow(window=window, prompt=5_000))
        assert mind.knows.window(ONE, "a", None) is None

    play(story)


def test_never_below_what_was_accepted() -> None:
    """What the upstream itself counted and answered proves more than an error's words."""

    async def story(mind: Mind) -> None:
        await mind.knows.saw_usage(ONE, "t", "k", 5_900, 6_000)
        await mind.refuse(SAID)
        assert mind.knows.window(ONE, "a", None) is None
        await mind.refuse(Overflow(window=6_000))
        assert mind.knows.window(ONE, "a", None) == 6_000
        await mind.knows.saw_usage(ONE, "t", "k", 6_900, 7_000)
        assert mind.knows.window(ONE, "a", None) is None

    play(story)


@pytest.mark.parametrize("prompt", [2_000_000, 999_999_999])
def test_a_usage_that_cannot_be_believed_accepts_nothing(prompt: int) -> None:
    """A misreported usage must not keep true windows from being learned."""

    async def story(mind: Mind) -> None:
        await mind.refuse(SAID)
        await mind.knows.saw_usage(ONE, "t", "k", 3_000, prompt)
        assert mind.knows.window(ONE, "a", None) == 4_000
        await mind.refuse(Overflow(window=3_500, prompt=3_600))
        assert mind.knows.window(ONE, "a", None) == 3_500

    play(story)


# --- the tokeniser


@pytest.mark.parametrize(("counted", "prompt"), [(1_000, 499), (1_000, 4_001), (199, 300), (0, 300)])
def test_a_usage_that_tells_nothing_teaches_nothing(counted: int, prompt: int) -> None:
    """Far below our count is a sign of truncation, far above one of a mistake; of few tokens most is template."""

    async def story(mind: Mind) -> None:
        await mind.knows.saw_usage(ONE, "t", "k", counted, prompt)
        assert mind.knows.scale(ONE, "t", ["k"]) == 1.0

    play(story)


def test_a_conversation_has_its_own_scale_and_others_start_from_the_factor() -> None:
    """The deepest known prefix counts; the factor follows slowly, for each model at each upstream."""

    async def story(mind: Mind) -> None:
        await mind.knows.saw_usage(ONE, "t", "k1", 1_000, 1_600)
        await mind.knows.saw_usage(ONE, "t", "k2", 1_000, 1_500)
        assert mind.knows.scale(ONE, "t", ["k0", "k1", "k2", "k3"]) == 1.5
        assert mind.knows.scale(ONE, "t", ["k0", "k1"]) == 1.6
        assert mind.knows.scale(ONE, "t", ["elsewhere"]) == pytest.approx(1.57)
        assert mind.knows.scale(ONE, "t", []) == pytest.approx(1.57)
        assert mind.knows.scale(OTHER_MODEL, "t", ["k1"]) == mind.knows.scale(OTHER_PLACE, "t", ["k1"]) == 1.0

    play(story)


def test_a_refusal_with_a_prompt_teaches_the_scale_at_once() -> None:
    """The upstream is believed over our count, for this client's conversations: an error can echo what it wrote."""

    async def story(mind: Mind) -> None:
        await mind.refuse(Overflow(window=4_000, prompt=8_000), tenant="t")
        assert mind.knows.scale(ONE, "t", ["k"]) == mind.knows.scale(ONE, "t", []) == 1.6
        assert mind.knows.scale(ONE, "another", []) == 1.0 and mind.knows.factor(ONE) is None
        await mind.knows.saw_usage(ONE, "t", "k", 5_000, 5_500)
        assert mind.knows.scale(ONE, "t", []) == mind.knows.scale(ONE, "another", []) == pytest.approx(1.1)

    play(story)


def test_each_form_of_a_conversation_has_a_ratio_of_its_own() -> None:
    """A summary is other text than what it stands for: what is learned of one form says nothing of the other."""

    async def story(mind: Mind) -> None:
        knows = mind.knows
        await knows.saw_usage(ONE, "t", "k0", 3_000, 3_300)
        await knows.saw_usage(ONE, "t", "k1", 2_000, 1_800, form="c")
        await mind.refuse(Overflow(prompt=2_400), counted=2_000, key="k2", tenant="t")
        keys = ["k0", "k1", "k2"]
        assert [knows.ratio(ONE, keys[:2], form) for form in ("", "c", "d")] == [1.1, 0.9, None]
        assert knows.ratio(ONE, keys, "") == 1.2 and knows.ratio(ONE, keys, "c") == 0.9
        assert knows.scale(ONE, "t", keys[:2]) == 0.9  # the newest of any form, for what was never sent before
        assert knows.ratio(OTHER_MODEL, keys, "") is None

    play(story)


@pytest.mark.parametrize(
    ("said", "counted", "here", "elsewhere"),
    [
        (Overflow(window=4_000), 3_000, 4_001 / 3_000, 1.0),  # only a window: the prompt is just above it
        (Overflow(window=4_000), 6_000, 1.0, 1.0),  # or what we counted, if that is more
        (Overflow(window=4_000, prompt=4_001, at_least=True), 3_000, 4_001 / 3_000, 1.0),  # it stopped counting there
        (Overflow(window=4_000, prompt=4_001, at_least=True), 6_000, 1.0, 1.0),
        (Overflow(window=4_000, output=2_000), 3_000, 1.0, 1.0),  # the sum of both: says nothing of the prompt
        (Overflow(), 3_000, 1.0, 1.0),
        (Overflow(prompt=90_000), 3_000, 8.0, 8.0),  # bounded
        (Overflow(prompt=300), 3_000, 0.5, 0.5),
        (Overflow(prompt=200), 100, 2.0, 1.0),  # too few tokens to speak for other conversations
        (Overflow(prompt=200), 0, 1.0, 1.0),
    ],
)
def test_what_a_refusal_says_of_the_scale(said: Overflow, counted: int, here: float, elsewhere: float) -> None:
    """As much as its numbers carry."""

    async def story(mind: Mind) -> None:
        await mind.refuse(said, counted=counted, tenant="t")
        assert mind.knows.scale(ONE, "t", ["k"]) == pytest.approx(here)
        assert mind.knows.scale(ONE, "t", ["elsewhere"]) == elsewhere

    play(story)


# --- persistence


def test_a_restart_forgets_nothing_that_is_kept() -> None:
    """Windows with their witnesses and their end, factors, and who counts the output."""

    async def story(mind: Mind) -> None:
        await mind.refuse(Overflow(window=4_000, prompt=6_000), tenant="a")
        await mind.knows.saw_usage(ONE, "a", "k", 5_000, 6_000)
        await mind.refuse(Overflow(window=6_500), tenant="a")
        await mind.knows.saw_output_counted(ONE)
        mind.clock.advance(100)
        knows = mind.again()
        assert not knows.counts_output(ONE)
        await knows.load()
        assert knows.window(ONE, "a", None) == 6_500
        assert knows.window(ONE, "b", None) is None
        assert knows.scale(ONE, "t", []) == 1.2
        assert knows.counts_output(ONE) and not knows.counts_output(OTHER_MODEL)
        mind.clock.advance(LEARNED_FOR - 100)
        assert knows.window(ONE, "a", None) is None

    play(story)


def test_a_factor_is_written_only_when_it_moves() -> None:
    """Not with every answer; and what counts the output is written once."""
    store = NotedStore()

    async def story(mind: Mind) -> None:
        for prompt in (1_600, 1_601, 1_599, 1_600):
            await mind.knows.saw_usage(ONE, "t", "k", 1_000, prompt)
        await mind.knows.saw_usage(ONE, "t", "k", 1_000, 2_400)
        await mind.knows.saw_output_counted(ONE)
        await mind.knows.saw_output_counted(ONE)
        assert store.lines == ["store ← remember factor", "store ← remember factor", "store ← remember counts_output"]

    play(story, store)


def test_a_store_that_fails_costs_only_the_memory() -> None:
    """What is learned is used all the same."""

    async def story(mind: Mind) -> None:
        await mind.knows.load()
        await mind.refuse(Overflow(window=4_000, prompt=6_000))
        await mind.knows.saw_usage(ONE, "t", "k", 1_000, 1_600)
        await mind.knows.saw_output_counted(ONE)
        assert mind.knows.window(ONE, "a", None) == 4_000
        assert mind.knows.scale(ONE, "t", ["k"]) == 1.6
        assert mind.knows.counts_output(ONE)

    play(story, NotedStore(broken=["recall", "remember"]))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("window", "nonsense"),
        ("window", "[]"),
        ("window", json.dumps({"window": 4_000})),
        ("window", json.dumps({"window": "wide", "expires": 9e9, "tenants": ["a", "b"]})),
        ("window", json.dumps({"window": 4_000, "expires": None, "tenants": ["a", "b"]})),
        ("factor", '"x"'),
        ("factor", "null"),
        ("factor", "NaN"),
        ("factor", "-2"),
    ],
)
def test_what_cannot_be_read_is_not_taken_in(kind: str, value: str) -> None:
    """A row that another version wrote, or nobody: everything is as if it were not there, and nothing breaks later."""

    async def story(mind: Mind) -> None:
        await mind.store.remember(kind, str(ONE), value, 1e9)
        await mind.knows.load()
        assert mind.knows.window(ONE, "a", 9_000) == 9_000
        assert mind.knows.scale(ONE, "t", []) == 1.0

    play(story)


def test_no_text_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    """A model's name is the client's to choose: it cannot begin a line of its own."""

    async def story(mind: Mind) -> None:
        odd = Target("http://one/v1", "m\n2026-01-01 E all keys leaked")
        await mind.knows.saw_overflow(odd, "a", "k", 5_000, SAID)

    play(story)
    assert "4000 tokens" in caplog.text
    assert all(len(record.getMessage().splitlines()) == 1 for record in caplog.records)


# --- compactions of no use


@pytest.mark.parametrize("reason", USELESS)
def test_a_compaction_of_no_use_is_remembered_for_minutes(reason: str) -> None:
    """For this conversation at this upstream, however it goes on; then it is worth another try."""
    mind = Mind()
    mind.knows.was_useless(ONE, "k1", reason)
    assert mind.knows.useless(ONE, ["k0", "k1", *(f"later{i}" for i in range(500))]) == reason
    assert mind.knows.useless(ONE, ["k0", "edited"]) is None
    assert mind.knows.useless(OTHER_MODEL, ["k0", "k1"]) is mind.knows.useless(OTHER_PLACE, ["k0", "k1"]) is None
    mind.clock.advance(RESTS)
    assert mind.knows.useless(ONE, ["k0", "k1"]) is None


def test_the_newest_reason_that_holds_counts() -> None:
    """What was of no use before is no news once it has expired."""
    mind = Mind()
    mind.knows.was_useless(ONE, "k1", "timeout")
    mind.clock.advance(RESTS / 2)
    mind.knows.was_useless(ONE, "k0", "refused")
    assert mind.knows.useless(ONE, ["k0", "k1"]) == "timeout"
    mind.clock.advance(RESTS / 2)
    assert mind.knows.useless(ONE, ["k0", "k1"]) == "refused"
