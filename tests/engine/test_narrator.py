"""Getting the prose of a summary out of a model, whatever it answers."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import itertools
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.core import turns
from proxy.engine.bill import Effort
from proxy.engine.narrator import CALLS_MOST, LEAST_ROOM, LONGEST, Endpoint, Narrator, Task
from proxy.engine.prudence import BACK_OFF, Prudence
from proxy.errors import SummaryError
from proxy.ports import SummaryAnswer
from proxy.routing import origin
from tests.engine.fakes import GOOD, FakeClock, FakeSummariser, Message, Reply, count, talk

LOOP = "The user asked for the berth plan of Monday morning. " * 40
POINTS = [
    "- The crane was checked against the list and put where it belongs.",
    "- A permit had run out; the clerk renewed it on the same day, at no cost.",
    "- Nobody knew who had moved the manifest, so the archive was searched twice.",
    "- Of three courier services the cheapest was chosen, for it comes every morning.",
    "- What remains open is the tariff, which is to be settled next week, once it belongs.",
]
CUT = SummaryAnswer("\n".join([*POINTS, "- And th"]), "length")
SHORT = SummaryAnswer("The user as", "length")


class Room:
    """A narrator with its summariser and clock."""

    def __init__(self, *script: Reply) -> None:
        self.clock = FakeClock()
        self.prudence = Prudence(self.clock)
        self.summariser = FakeSummariser(script=script)
        self.narrator = Narrator(self.summariser, self.prudence, count)

    def tell(self, asked: Task, *endpoints: Endpoint) -> tuple[str, int, str]:
        """The prose, the calls that its writer took, and who that was."""
        before = len(self.summariser.calls)
        self.effort = Effort()
        told, endpoint = asyncio.run(self.narrator.tell(asked, endpoints or (at("m"),), self.effort))
        assert self.effort.calls == len(self.summariser.calls) - before
        return told, sum(call.model == endpoint.model for call in self.summariser.calls[before:]), endpoint.model

    @property
    def lines(self) -> list[str]:
        return self.summariser.lines

    def transcripts(self) -> list[str]:
        """What stood between the marks in each call, its nonce removed."""
        found = []
        for call in self.summariser.calls:
            match = re.search(r"BEGIN TRANSCRIPT (\w+) .*?\n(.*)\n.*?END TRANSCRIPT \1", call.user, re.DOTALL)
            assert match is not None
            found.append(match[2])
        return found


def at(model: str, *, window: int | None = 100_000, **more: Any) -> Endpoint:
    values: dict[str, Any] = {
        "max_tokens": None,
        "calls_per_hour": 100,
        "scale": 1.0,
        "silence": 9.0,
        "total": 99.0,
        **more,
    }
    return Endpoint(url="http://u/v1/chat/completions", headers=((b"k", b"v"),), model=model, window=window, **values)


def task(messages: Sequence[Message] = tuple(talk(5)[1:]), **more: Any) -> Task:
    starts = turns.rounds([turns.read(m, 1) for m in messages])
    values: dict[str, Any] = {"first": 0, "previous": None, "form": "sliding", "budget": 400, **more}
    return Task(messages=messages, starts=starts, **values)


def test_what_fits_is_one_call() -> None:
    """The task, the transcript as data, the instruction again, and nothing of the client's body."""
    room = Room()
    assert room.tell(task()) == (GOOD, 1, "m")
    assert room.lines == ["summariser ← 11 messages"]
    (call,) = room.summariser.calls
    assert (call.url, call.headers, call.model) == ("http://u/v1/chat/completions", ((b"k", b"v"),), "m")
    assert (call.silence, call.total) == (9.0, 99.0)
    assert "Question 3" in room.transcripts()[0] and "Question" not in call.system


def test_the_summary_before_it_is_updated() -> None:
    """Its text goes along, and the messages are numbered on."""
    room = Room()
    room.tell(task(previous="What was told before.", first=30))
    (call,) = room.summariser.calls
    assert "What was told before." in call.user and "[30 user]" in call.user


def test_the_operators_words_are_part_of_the_task() -> None:
    """A prompt in place of ours, instructions of the configuration and of the moment; the transcript stays data."""
    room = Room()
    prompt = "Write a haiku of {words} words."
    told = room.tell(task(instructions="Name all ships."), at("m", prompt=prompt, instructions=" Be brief.\n"))
    assert told == (GOOD, 1, "m")
    (call,) = room.summariser.calls
    assert f"Write a haiku of {int(400 * 0.7)} words." in call.system and "[GOALS]" not in call.system
    assert call.system.index("Be brief.\nName all ships.") > call.system.index("haiku")
    assert "Question 3" in room.transcripts()[0] and "Question" not in call.system


def test_long_instructions_take_their_room() -> None:
    """Each call fits all the same."""
    room = Room(*(f"{GOOD} Part {i}." for i in range(8)))
    room.tell(task(talk(60)[1:], budget=300), at("m", window=8_000, instructions="Mind the gap. " * 600))
    assert len(room.lines) > 2
    for call in room.summariser.calls:
        assert count(call.system) + count(call.user) + call.max_tokens <= 8_000


def test_two_calls_never_share_a_nonce() -> None:
    """What a transcript quotes of an older call cannot end this one."""
    room = Room()
    room.tell(task())
    room.tell(task())
    first, second = (re.findall(r"BEGIN TRANSCRIPT (\w+)", call.user) for call in room.summariser.calls)
    assert first != second


def test_what_is_too_long_is_folded() -> None:
    """Each chunk updates the summary of those before it, every message is in one of them, and each call fits."""
    summaries = [f"Part {i}: the user asked for several things, and each of them was done." for i in range(3)]
    room = Room(*summaries)
    told, calls, _ = room.tell(task(talk(60)[1:], budget=300), at("m", window=6_000))
    assert (told, calls) == (summaries[2], 3)
    assert [[f"Part {i}" in call.user for i in range(2)] for call in room.summariser.calls] == [
        [False, False],
        [True, False],
        [False, True],
    ]
    everything = "\n\n".join(room.transcripts())
    assert re.findall(r"(?m)^\[(\d+) ", everything) == [str(i) for i in range(121)]
    for call in room.summariser.calls:
        assert count(call.system) + count(call.user) + call.max_tokens <= 6_000


def test_long_results_are_squeezed_rather_than_told_in_two_calls() -> None:
    """A cut in the middle of the longest costs less than a summary of a summary."""
    messages = [*talk(2)[1:], {"role": "assistant", "content": "look"}, {"role": "user", "content": "long " * 1_500}]
    room = Room()
    room.tell(task(messages), at("m", window=3_000))
    assert room.lines == ["summariser ← 7 messages"]
    assert "characters left out" in room.transcripts()[0]


def overflow(excess: float | None = None) -> SummaryError:
    return SummaryError("overflow", excess)


@pytest.mark.parametrize("window", [3_000, 100_000, None])
@pytest.mark.parametrize("excess", [None, 1.01, 1.8])
def test_after_an_overflow_each_call_is_shorter(window: int | None, excess: float | None) -> None:
    """The same bytes would be refused again, whether the tokeniser or the window is other than we thought."""
    room = Room(*[overflow(excess)] * 3)
    told, calls, _ = room.tell(task(talk(12)[1:]), at("m", window=window))
    assert told.startswith(GOOD) and 4 <= calls <= CALLS_MOST
    sizes = [count(text) for text in room.transcripts()[:4]]
    least = 1.1 if excess else 1.9
    assert all(a >= least * b or b <= LEAST_ROOM for a, b in itertools.pairwise(sizes)), sizes
    assert len(set(sizes)) == 4


def test_overflows_without_end_are_at_most_eight_calls() -> None:
    """Fewer where nothing can be made smaller any more; then it failed."""
    room = Room(*[overflow()] * 20)
    with pytest.raises(SummaryError, match="overflow"):
        room.tell(task(talk(60)[1:]))
    sizes = [count(text) for text in room.transcripts()]
    assert len(sizes) <= CALLS_MOST and sizes == sorted(set(sizes), reverse=True)
    room = Room(*[overflow()] * 20)
    with pytest.raises(SummaryError, match="overflow"):
        room.tell(task(talk(1)[1:]))
    sizes = [count(text) for text in room.transcripts()]
    assert sizes == sorted(set(sizes), reverse=True) and sizes[-1] <= LEAST_ROOM


def test_what_was_learned_of_its_tokeniser_is_remembered() -> None:
    """The next summary of the same length is in chunks at once."""
    room = Room(overflow(2.0))
    room.tell(task(talk(24)[1:]), at("m", window=8_000))
    before = len(room.lines)
    room.tell(task(talk(24)[1:]), at("m", window=8_000))
    assert room.lines[0].endswith("overflow") and before >= 3
    assert not any("overflow" in line for line in room.lines[before:]) and len(room.lines) - before >= 2


def test_a_usage_teaches_the_scale_within_reason() -> None:
    """Less than ours or far more is not believed."""

    def chunks(*prompts: int) -> int:
        room = Room(*(SummaryAnswer(GOOD, "stop", prompt) for prompt in prompts))
        for _ in prompts:
            room.tell(task(talk(12)[1:]), at("m", window=8_000))
        before = len(room.lines)
        room.tell(task(talk(24)[1:]), at("m", window=8_000))
        return len(room.lines) - before

    assert chunks() == chunks(100) == chunks(10**9) == 1
    assert chunks(7_000) > 1


@pytest.mark.parametrize("corrected", [False, True])
def test_never_more_than_eight_calls(corrected: bool) -> None:
    """What is older than they reach is outlined, and so is what corrections leave no call for."""
    script = [LOOP if corrected and i % 2 == 0 else f"{GOOD} Part {i}." for i in range(40)]
    room = Room(*script)
    told, calls, _ = room.tell(task(talk(400)[1:], budget=300), at("m", window=4_000))
    assert calls == len(room.lines) == CALLS_MOST
    assert told.startswith(f"{GOOD} Part 7.")
    # the older ones stand as an outline in the first call, the newest, if they were not reached, behind the last
    assert re.search(r"(?m)^\d+ user: Question \d+ about", room.summariser.calls[0].user)
    assert bool(re.search(r"(?m)^\d+ user: Question 39\d about", told)) == corrected


# --- judging


@pytest.mark.parametrize(
    "bad",
    ["", "I'm sorry, I cannot help with that.", LOOP, "<html><body>502</body></html>", '{"name": "look", "arguments": {}}', SHORT],
    ids=["empty", "refusal", "loop", "html", "tool", "cut off at once"],
)  # fmt: skip
def test_a_bad_answer_is_corrected_once(bad: Reply) -> None:
    """The second call names what was wrong; a good answer is then as good as any."""
    room = Room(bad)
    assert room.tell(task()) == (GOOD, 2, "m")
    first, second = room.summariser.calls
    assert "Your last answer" in second.user and "Your last answer" not in first.user
    grown = bad == "" or bad is SHORT
    assert second.max_tokens == first.max_tokens * (2 if grown else 1)


@pytest.mark.parametrize(("window", "grown"), [(100_000, 2.0), (4_000, None)])
def test_a_larger_allowance_stays_within_the_window(window: int, grown: float | None) -> None:
    """Twice as much where there is room for it behind the prompt, else what there is."""
    room = Room("")
    room.tell(task(talk(10)[1:], budget=700), at("m", window=window))
    first, second = room.summariser.calls
    if grown:
        assert second.max_tokens == grown * first.max_tokens
    else:
        assert first.max_tokens < second.max_tokens < 2 * first.max_tokens
        assert count(first.system) + count(first.user) + second.max_tokens <= window


def test_twice_bad_is_a_failure() -> None:
    """And nobody is asked a third time."""
    room = Room("", "I'm sorry, I cannot help with that.")
    with pytest.raises(SummaryError, match="refusal"):
        room.tell(task())
    assert len(room.lines) == 2


def test_what_a_machine_can_mend_is_mended() -> None:
    """A long answer that was cut off at once; a looping one only if it loops again."""
    room = Room(CUT)
    told, calls, _ = room.tell(task())
    assert calls == 1 and told.endswith("belongs.") and "And th" not in told
    mendable = CUT.text.replace("And th", "") + LOOP
    room = Room(mendable, mendable)
    told, calls, _ = room.tell(task())
    assert calls == 2 and told.count("berth plan of Monday") <= 2


def test_the_log_says_why_a_call_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    """As far as the summariser said."""
    room = Room(SummaryError("http_4xx", detail="status 401, invalid_api_key"))
    with pytest.raises(SummaryError, match="http_4xx"):
        room.tell(task())
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith(" failed: the summarizer refused the call (status 401, invalid_api_key)")


def test_what_goes_round_in_itself_from_the_first_word_is_a_failure() -> None:
    """Nothing is left once it is mended: the next model is asked."""
    bad = "the " * 600
    room = Room(bad, bad, GOOD)
    assert room.tell(task(), at("m"), at("other")) == (GOOD, 1, "other")
    assert [call.model for call in room.summariser.calls] == ["m", "m", "other"]


def test_what_was_mended_is_judged_again() -> None:
    """What stands before the circle is a copy of the transcript: no summary either."""
    room = Room()
    messages = talk(5)[1:]
    room.tell(task(messages))
    copied = room.transcripts()[0]
    bad = SummaryAnswer(copied[: copied.index("\n", 700)] + "\n" + "and so on " * 140, "stop")
    room = Room(bad, bad)
    with pytest.raises(SummaryError, match="loop"):
        room.tell(task(messages))


def test_a_copy_is_refused() -> None:
    """The transcript is no summary of itself."""
    room = Room()
    messages = talk(5)[1:]
    room.tell(task(messages))
    copy = room.transcripts()[0][:1_500]
    room = Room(copy, copy)
    with pytest.raises(SummaryError, match=r"echo|continuation"):
        room.tell(task(messages))


def test_the_summary_before_it_told_again_is_asked_for_once_more() -> None:
    """New turns came: if a model has nothing to say of them even so, an outline has."""
    room = Room(GOOD, GOOD)
    told, calls, _ = room.tell(task(previous=GOOD))
    assert calls == 2 and "Your last answer" in room.summariser.calls[1].user
    assert told.startswith(GOOD) and "Question 3" in told[len(GOOD) :]


def test_what_is_never_added_to_does_not_grow_without_end() -> None:
    """A model that always tells the same gets its own words and the outlines of all turns back each time."""
    told = GOOD
    for _ in range(30):
        told = Room(told, told).tell(task(previous=told, budget=100))[0]
    assert count(told) <= 4 * 100


def test_secrets_in_an_answer_go_no_further() -> None:
    """Neither into the summary nor into the call that updates it."""
    key = "sk-proj-Zb3dEfGh1jKlMn0pQrStUv"
    room = Room(f"{GOOD} The key is {key}.", GOOD, GOOD + " At last.")
    told, _, _ = room.tell(task(talk(60)[1:], budget=300), at("m", window=6_000))
    assert key not in told and not any(key in call.user for call in room.summariser.calls)
    assert "[redacted]" in room.summariser.calls[1].user


def test_a_summary_far_over_its_budget_is_condensed() -> None:
    """What says most stays: it goes along with every later call."""
    lines = [f"- In step {i} the assistant looked at the next part, which was like the one before." for i in range(900)]
    lines[450] = "- The night shift has 14 people, and Mrs. Okafor signs the contracts."
    room = Room("\n".join(lines))
    told, _, _ = room.tell(task(talk(400)[1:], budget=300))
    assert count(told) <= LONGEST * 300 and lines[450] in told


# --- what it took


def test_every_answer_is_charged_to_whoever_gave_it() -> None:
    """Good or bad, by its own numbers or by our count; a call without an answer is counted as a call."""
    answers: list[Reply] = [SummaryAnswer("", "stop", 900, 7), SummaryAnswer("", "stop"), SummaryError("timeout"), GOOD]
    room = Room(*answers)
    room.tell(task(), at("a"), at("b"), at("c"))
    effort = room.effort
    assert (effort.calls, effort.failed, effort.refused) == (4, ["empty", "timeout"], ["empty", "empty"])
    assert [(c.target.model, c.output, c.stated) for c in effort.charges] == [
        ("a", 7, True), ("a", 0, False), ("c", count(GOOD), False),
    ]  # fmt: skip
    assert effort.charges[0].prompt == 900 and effort.charges[2].prompt > 500
    assert str(effort.charges[0].target) == "http://u/v1 a"


def test_what_nobody_could_tell_is_charged_as_well() -> None:
    """The caller's own record has it, though there is no summary."""
    room = Room(SummaryAnswer("", "stop", 900, 7), SummaryAnswer("", "stop", 950, 9))
    with pytest.raises(SummaryError):
        room.tell(task())
    assert [(c.prompt, c.output) for c in room.effort.charges] == [(900, 7), (950, 9)]


def test_a_price_is_that_of_the_place_whatever_the_address_says_beside_it() -> None:
    """Azure's addresses have a version behind them."""
    endpoint = Endpoint("http://u/v1/chat/completions?api-version=1", (), "m", None, None, 1, None, 1.0, 1.0)
    assert str(endpoint.target) == "http://u/v1 m"


# --- somebody else's summary


@pytest.mark.parametrize(
    ("text", "reason"),
    [(GOOD, None), (f"<think>hm</think>{GOOD}", None), ("", "empty"), (LOOP, "loop"), ("I'm sorry, I can't.", "refusal")],
)  # fmt: skip
def test_a_summary_of_somebody_else_is_judged(text: str, reason: str | None) -> None:
    """As a model's last answer is: cleaned, mended where that is possible, refused by the same rules."""
    room, effort = Room(), Effort()
    if reason is None:
        assert asyncio.run(room.narrator.vet(task(), text, effort)) == GOOD
    else:
        with pytest.raises(SummaryError, match=reason):
            asyncio.run(room.narrator.vet(task(), text, effort))
    assert effort.refused == ([reason] if reason else []) and not room.lines


def test_a_copy_by_somebody_else_is_refused() -> None:
    """It is compared with the whole transcript."""
    room, effort = Room(), Effort()
    room.tell(task())
    with pytest.raises(SummaryError, match="echo"):
        asyncio.run(room.narrator.vet(task(), "As it was: " + room.transcripts()[0][40:2_000], effort))


# --- beside the event loop


class Noted(dict[str, Any]):
    """A message that notes which threads look at it."""

    threads: set[int] | None = None

    def get(self, key: str, default: Any = None) -> Any:
        if self.threads is not None:
            self.threads.add(threading.get_ident())
        return super().get(key, default)


def test_nothing_that_takes_long_is_done_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading, counting, outlining, judging, mending, condensing: in all of a summary with chunks and corrections."""
    threads: dict[str, set[int]] = {}

    def note(name: str) -> set[int]:
        return threads.setdefault(name, set())

    def watch(place: str) -> None:
        owner, _, name = place.rpartition(".")
        work = getattr(importlib.import_module(owner), name)

        def noted(*args: Any, **named: Any) -> Any:
            note(name).add(threading.get_ident())
            return work(*args, **named)

        monkeypatch.setattr(place, noted)

    def counted(text: str) -> int:
        note("count").add(threading.get_ident())
        return count(text)

    for name in ("outline", "judge", "mend", "redact", "condense", "fit", "cut"):
        watch(f"proxy.engine.narrator.{name}")
    for name in ("render", "chunk"):
        watch(f"proxy.core.transcript.{name}")
    for name in ("clean", "prompt"):
        watch(f"proxy.core.summary.{name}")
    long = "\n".join(f"- In step {i} all was as before, {i * 7} times." for i in range(130))
    parts = [f"{GOOD} Part {i}." for i in range(40)]
    for exchanges, script in ((400, [LOOP, long, *parts]), (60, [CUT, *parts])):
        room = Room(*script)
        narrator = Narrator(room.summariser, room.prudence, counted)
        messages = [Noted(message) for message in talk(exchanges)[1:]]
        asked = task(messages, budget=300)
        for message in messages:
            message.threads = note("messages")
        asyncio.run(narrator.tell(asked, (at("m", window=4_000),), Effort()))
    assert set(threads) == {
        *("outline", "judge", "mend", "redact", "condense", "fit", "cut", "render", "chunk", "clean", "prompt"),
        *("count", "messages"),
    }
    assert not [name for name, where in threads.items() if threading.get_ident() in where or not where]


@pytest.mark.parametrize("window", [4_000, 16_000])
def test_what_no_call_can_reach_is_not_counted(window: int) -> None:
    """A conversation three times as long costs no more counting; all of it is told, the oldest in an outline."""

    def asked(exchanges: int) -> tuple[int, FakeSummariser]:
        total = 0

        def counted(text: str) -> int:
            nonlocal total
            total += len(text)
            return count(text)

        room = Room(*(f"{GOOD} Part {i}." for i in range(CALLS_MOST)))
        narrator = Narrator(room.summariser, room.prudence, counted)
        asyncio.run(narrator.tell(task(talk(exchanges)[1:], budget=300), (at("m", window=window),), Effort()))
        return total, room.summariser

    exchanges = window // 4
    (one, first), (three, second) = asked(exchanges), asked(3 * exchanges)
    assert three < 1.2 * one
    assert len(first.calls) == len(second.calls) == CALLS_MOST
    assert f"[{6 * exchanges} user]" in second.calls[-1].user and "SUMMARY" in second.calls[0].user


# --- who is asked


def test_when_one_fails_the_next_is_asked() -> None:
    """In their order; the name of the one who wrote it comes along."""
    room = Room(SummaryError("http_5xx"), SummaryError("timeout"))
    assert room.tell(task(), at("a"), at("b"), at("c")) == (GOOD, 1, "c")
    assert [call.model for call in room.summariser.calls] == ["a", "b", "c"]


def test_a_failure_rests_and_a_success_ends_it() -> None:
    """Nobody waits for a server that just failed."""
    room = Room(SummaryError("unreachable"))
    with pytest.raises(SummaryError, match="unreachable"):
        room.tell(task())
    with pytest.raises(SummaryError, match="resting"):
        room.tell(task())
    assert room.tell(task(), at("m"), at("b"))[2] == "b"
    room.clock.advance(BACK_OFF)
    assert room.tell(task(), at("m"), at("b"))[2] == "m"
    room.summariser.script = [SummaryError("unreachable")]
    with pytest.raises(SummaryError, match="unreachable"):
        room.tell(task())
    room.clock.advance(BACK_OFF)
    assert room.tell(task())[2] == "m"


def test_a_refused_key_closes_no_other_clients_door() -> None:
    """Who rests is a summariser together with the credentials that it is asked with, and its model."""
    room = Room(SummaryError("http_4xx"))
    mine, theirs = at("m"), dataclasses.replace(at("m"), headers=((b"k", b"w"),))
    with pytest.raises(SummaryError, match="http_4xx"):
        room.tell(task(), mine)
    with pytest.raises(SummaryError, match="resting"):
        room.tell(task(), mine)
    assert room.tell(task(), theirs) == (GOOD, 1, "m")
    assert room.tell(task(), mine, at("other")) == (GOOD, 1, "other")


def test_each_has_its_own_window_patience_and_cap() -> None:
    """One that has had its calls, or whose window is small, stands in nobody's way."""
    room = Room(SummaryError("timeout"))
    small = at("a", window=2_500, silence=1.0, total=2.0, max_tokens=300)
    large = at("b", silence=3.0, total=4.0, calls_per_hour=1)
    messages = talk(15)[1:]
    assert room.tell(task(messages), small, large)[2] == "b"
    first, second = room.summariser.calls
    assert (first.silence, first.total, first.max_tokens) == (1.0, 2.0, 300)
    assert (second.silence, second.total) == (3.0, 4.0)
    assert count(first.user) < 2_500 < count(second.user)
    with pytest.raises(SummaryError, match="resting"):
        room.tell(task(messages), small, large)
    room.clock.advance(BACK_OFF)
    assert room.tell(task(messages), small, large)[2] == "a"


def test_a_cap_on_calls() -> None:
    """Whatever happens, an hour costs no more than that, but for what was begun."""
    room = Room()
    frugal = at("m", calls_per_hour=3)
    for _ in range(3):
        room.tell(task(), frugal)
    with pytest.raises(SummaryError, match="calls_per_hour"):
        room.tell(task(), frugal)
    room.clock.advance(3_601)
    assert room.tell(task(), frugal)[1] == 1


def test_nobody_to_ask() -> None:
    """That is a failure like any other."""
    with pytest.raises(SummaryError, match="no_use"):
        asyncio.run(Room().narrator.tell(task(), (), Effort()))


def test_the_answer_has_its_share_of_the_window() -> None:
    """At most a quarter, or what is configured."""
    room = Room()
    room.tell(task(budget=2_000))
    room.tell(task(budget=2_000), at("m", window=6_000))
    room.tell(task(budget=2_000), at("m", max_tokens=700))
    assert [call.max_tokens for call in room.summariser.calls] == [2_600, 1_500, 700]


def test_no_text_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is told by its reason, and where it was."""
    room = Room("I'm sorry, I cannot say what Question 1 was.", "I'm sorry, I cannot do that.")
    with pytest.raises(SummaryError):
        room.tell(task(), at("m\nnext"))
    assert [r.getMessage() for r in caplog.records] == [
        f"the summarizer 'm\\nnext' at {origin(at('m').url)} failed: it refused"
    ]
