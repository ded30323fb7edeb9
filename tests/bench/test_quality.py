"""The benchmark of what survives compaction: that it measures, and that it can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from proxy.core import replacement
from proxy.core.pins import Words
from tests.bench.quality.canaries import Canary, plant
from tests.bench.quality.figures import Figures, figures
from tests.bench.quality.leaks import leaks
from tests.bench.quality.names import Recall, named
from tests.bench.quality.replay import common, old_ones, replay
from tests.bench.quality.report import Run, forgotten, missed, row_of, totals
from tests.bench.quality.sources import LEAST, STITCHED, holds, stitched, tokens
from tests.bench.quality.summarisers import MANNERS, Scripted
from tests.bench.quality.survival import Survival, flat, last, stale, survival
from tests.bench.quality.wording import FAMILIES, KINDS, filled
from tests.bench.quality.world import Capturing, Message
from tests.e2e.transcripts import Transcript
from tests.engine.fakes import count, talk

WINDOW = 4_000


def conversation() -> list[Message]:
    """Sixty short exchanges with a look into a file now and then: four times the window."""
    messages = []
    for i, message in enumerate(talk(60, 50)):
        messages.append(message)
        if message["role"] == "user" and i % 10 == 1:
            call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a/b.py"}'}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": "c", "content": "line one\nline two\nline three"})
    return messages


def played(manner: str, seed: int = 0) -> tuple[Figures, Survival]:
    planted = plant("talk", conversation(), FAMILIES["a"], seed)
    summariser = Scripted(manner, planted.canaries)
    exchanges = asyncio.run(replay(planted.messages, WINDOW, summariser, count))
    tokens = Capturing(WINDOW, count).tokens
    row = figures("talk", planted.messages, exchanges, WINDOW, summariser.spent, tokens, count, planted.secrets)
    return row, survival(planted, exchanges)


def test_what_the_machine_carries_survives_and_is_missed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's words are there though the summary says nothing; with pins switched off the benchmark fails."""
    row, kept = played("useless")
    assert row.compactions > 1 and row.errors == row.over == 0
    whole = kept.share(KINDS, "user") or 0.0
    assert whole > 0.6
    monkeypatch.setattr(replacement, "words_of", lambda messages: Words(()))
    row, lost = played("useless")
    assert (lost.share(KINDS, "user") or 0.0) < whole / 2
    assert any("the user's rules" in line for line in missed(Run(WINDOW, "useless", [row], lost)))


@pytest.mark.parametrize("manner", sorted(MANNERS))
def test_every_summariser_is_served(manner: str) -> None:
    """Whatever it writes: no error, nothing above the window, no secret in a ledger, and a table of it."""
    row, kept = played(manner)
    assert (row.errors, row.over, row.secrets) == (0, 0, 0)
    assert row.calls > 0 and 0 < row.prefix < row.ceiling < 1 and not kept.stale
    assert row_of(row, kept).startswith(row.name)
    assert any(each.startswith("user ") for each in totals(Run(WINDOW, manner, [row], kept)))


def test_a_planted_conversation_is_the_clients_own_but_for_what_was_planted() -> None:
    """Every sentence stands where it is said to, results still follow their calls, and a seed gives the same again."""
    planted = plant("talk", conversation(), FAMILIES["b"], 3)
    assert planted == plant("talk", conversation(), FAMILIES["b"], 3) != plant("talk", conversation(), FAMILIES["b"], 4)
    for canary in planted.canaries:
        message = planted.messages[canary.turn]
        assert message["role"] == canary.origin and canary.sentence in message["content"]
        assert canary.key in canary.sentence
        assert canary.instead is None or canary.instead.turn > canary.turn
    assert {canary.kind for canary in planted.canaries if canary.origin == "user"} == set(KINDS)
    for before, message in zip(planted.messages, planted.messages[1:], strict=False):
        assert message["role"] != "tool" or before.get("tool_calls")
    assert all(any(secret in str(m["content"]) for m in planted.messages) for secret in planted.secrets)


def test_the_families_share_no_wording() -> None:
    """One is held out: nothing in it may be known from the others."""
    lines = [line for family in FAMILIES for line in _lines(family)]
    assert len(FAMILIES) == 3 and len(lines) == len(set(lines)) > 400


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_wording_has_one_key(family: str) -> None:
    """A sentence without one would not be looked for; of a superseded pair neither key stands in the other sentence."""
    for line in _lines(family):
        made = filled(line, Random(1))
        assert len(made) == 1 + (" => " in line), line
        assert all(key in sentence for sentence, key in made)
        assert len(made) == 1 or (last(made[0][1], made[1][0]) < 0 and last(made[1][1], made[0][0]) < 0), line


def _lines(family: str) -> Sequence[str]:
    known = FAMILIES[family]
    lines = [
        line for origin in ("user", "tool", "assistant") for kind in KINDS for line in known.templates(origin, kind)
    ]
    return [*lines, *(line for kind in known.superseded for line in known.pairs(kind))]


OLD, NEW = "port 4711", "port 4712"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("the port 4711 and later the port 4712", 0),
        ("the port 4712 and later the port 4711", 1),
        ("only the port 4711", 1),
        ("only the port 4712", 0),
        ("the port 4712 and 11 of transport 4711", 0),
        ("neither", 0),
    ],
)
def test_a_superseded_value_must_not_have_the_last_word(sent: str, expected: int) -> None:
    """The old value may stand before the new one, never behind it or alone."""
    new = Canary("number", "user", 4, f"now {NEW}", NEW)
    old = Canary("number", "user", 2, f"use {OLD}", OLD, instead=new)
    assert len(list(stale([old, new], 6, sent))) == expected
    assert not list(stale([old, new], 4, sent))  # not corrected yet


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([], ["a"], (0, 0)),
        (["abc", "d"], ["abc", "d", "e"], (2, 4)),
        (["abc", "dx"], ["abc", "dy", "e"], (1, 4)),
        (["x"], ["abc"], (0, 0)),
    ],
)
def test_what_two_requests_have_in_common(one: list[str], other: list[str], expected: tuple[int, int]) -> None:
    """Whole messages, and characters up to the first that differs."""
    assert common(one, other) == expected


@pytest.mark.parametrize(
    ("written", "added", "expected"),
    [
        (["abc", "d", "e"], ["d", "e"], 3),
        (["abc", "dx"], ["e", "dx"], 3),
        (["abc"], [], 3),
        (["abc"], ["x", "abc"], 0),
    ],
)
def test_what_could_have_been_the_same(written: list[str], added: list[str], expected: int) -> None:
    """All but the client's new messages at the end."""
    assert old_ones(written, added) == expected


def test_a_ledger_that_forgets_is_reported() -> None:
    """Either size has a floor of its own; nothing used again is nothing forgotten."""
    assert not list(forgotten(20_000, [("one", [Recall(100, 90, 60)]), ("other", [])]))
    assert len(list(forgotten(20_000, [("one", [Recall(100, 89, 59)])]))) == 2
    assert not list(forgotten(20_000, []))


def transcript(id: str, messages: Sequence[Message]) -> Transcript:
    said = (message for message in messages if message["role"] != "system")
    return Transcript(id, "talks.jsonl", ({"role": "system", "content": id}, *said))


def test_an_extract_of_a_conversation_is_no_other_one() -> None:
    """Its messages in a row, whatever instructions stand before them."""
    whole = conversation()
    assert holds(transcript("a", whole), transcript("b", whole[10:30]))
    assert not holds(transcript("a", whole), transcript("b", [*whole[10:30], *whole[:3]]))


def test_short_conversations_make_one_that_is_long_enough_by_the_engines_own_count() -> None:
    """Only the first one's instructions count, and a rest that is too short is left out."""
    parts = [transcript(str(i), conversation()) for i in range(3)]
    size = tokens(parts[0].messages, count)
    made = stitched(parts, int(2 * size / STITCHED) - 10, count)
    assert [sum(m["role"] == "system" for m in each) for each in made] == [1]
    assert len(stitched(parts[:1], int(size / LEAST) - 1, count)) == 1
    assert not stitched(parts[:1], int(size / LEAST) + 1, count)


@pytest.mark.parametrize(
    ("ledger", "secrets"),
    [
        ("12: src/app/main.py, 0f3a9c1d2e4b5a69788796a5b4c3d2e1f0a9b8c7, REQ-1042", 0),
        ("3: AKIA2E0A8F3B244C9986", 1),
        ("3: password=hunter2hunter2", 1),
        ("3: password=[redacted]", 0),
        ("3: q8Zr2LkV0xNt7YwB4mJc9HsD1fGp6UeA", 1),
        ("3: getElementsByClassNameAndAttributeValue", 0),
    ],
)
def test_the_detector_of_secrets(ledger: str, secrets: int) -> None:
    """It knows keys from names, hashes and paths."""
    assert len(leaks(ledger)) == secrets


def test_names_are_found_without_the_ledgers_help() -> None:
    """Paths, addresses, hashes, tickets and names of code; not plain words."""
    words = "see src/core/plan.py, https://example.test/a?b=c, OPS-17, load_all and deadbeef1234 in the usual place"
    assert named(words) >= {"src/core/plan.py", "https://example.test/a?b=c", "OPS-17", "load_all", "deadbeef1234"}
    assert not {"usual", "place", "see"} & named(words)
    assert flat(" a\n b ") == "a b"
