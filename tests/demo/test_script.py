"""The scripted conversation."""

from __future__ import annotations

import json

import pytest

from proxy.demo.answers import answer
from proxy.demo.script import FACTS, Conversation
from proxy.demo.tokenizer import Tokenizer


def test_it_is_the_same_every_time() -> None:
    """Two scripts with the same options say and return the same."""
    one, other = Conversation(), Conversation()
    assert [one.turn(n) for n in range(1, 61)] == [other.turn(n) for n in range(1, 61)]
    assert one.result("get_ticket", '{"key": "HB-7"}') == other.result("get_ticket", '{"key": "HB-7"}')


def test_no_turn_is_like_another() -> None:
    """Every turn has words of its own, in one line."""
    texts = [Conversation().turn(n).text for n in range(1, 61)]
    assert len(set(texts)) == len(texts)
    assert not any("\n" in text for text in texts)


def test_facts_are_planted_once_and_asked_for_at_the_end() -> None:
    """The fact of turn 3 is asked for in turn 60 and said nowhere else; the others come shortly before."""
    script = Conversation()
    turns = [script.turn(n) for n in range(1, script.turns + 1)]
    assert [t.asks for t in turns if t.asks] == list(reversed(FACTS))
    assert turns[-1].asks is FACTS[0] and FACTS[0].turn == 3
    for fact in FACTS:
        said = [t.number for t in turns if fact.value in t.text]
        assert said == ([fact.turn] if fact.by == "user" else [])


def test_a_fact_of_a_tool_is_in_its_result_alone() -> None:
    """The fact that no user ever says comes from the ticket of its turn."""
    fact = next(f for f in FACTS if f.by == "tool")
    script = Conversation()
    keys = [f"HB-{1000 + n}" for n in range(5, 61, 5)]
    telling = [key for key in keys if fact.value in script.result("get_ticket", json.dumps({"key": key}))]
    assert telling == [f"HB-{1000 + fact.turn}"]
    assert fact not in Conversation(tools=False).facts


def test_every_fifth_turn_calls_two_or_three_tools() -> None:
    """The fake takes the orders as they are meant, and the huge result has its size."""
    script = Conversation()
    counter = Tokenizer()
    sizes = []
    for number in range(1, script.turns + 1):
        user = {"role": "user", "content": script.turn(number).text}
        calls = answer({"messages": [user], "tools": script.tool_definitions()}).calls
        assert len(calls) in ((2, 3) if number % 5 == 0 else (0,))
        results = [script.result(c["function"]["name"], c["function"]["arguments"]) for c in calls]
        assert not any(r.startswith("error") for r in results)
        sizes += [counter.count(r) for r in results]
    assert sum(size > 300 for size in sizes) == 1
    assert max(sizes) == pytest.approx(3000, rel=0.05)


def test_every_third_turn_is_streamed() -> None:
    """Streaming follows its option, and zero means none."""
    assert [n for n in range(1, 13) if Conversation().turn(n).stream] == [3, 6, 9, 12]
    assert not any(Conversation(stream_every=0).turn(n).stream for n in range(1, 61))


def test_without_tools_nothing_is_ordered() -> None:
    """The plain chat offers no tools and asks for none."""
    plain = Conversation(tools=False)
    assert plain.tool_definitions() == []
    assert not any("`" in plain.turn(n).text for n in range(1, 61))


def test_variants_share_their_opening() -> None:
    """Another variant says the same for as long as it is told to, and something else from then on."""
    one, other = Conversation(), Conversation(variant=1, shared_turns=10)
    same = [one.turn(n) == other.turn(n) for n in range(1, 41)]
    assert all(same[:10]) and not any(same[10:13])


@pytest.mark.parametrize("turns", [3, 4, 12, 20, 200])
def test_other_lengths(turns: int) -> None:
    """A script of any length asks for the fact of turn 3 in its last turn."""
    assert Conversation(turns=turns).turn(turns).asks is FACTS[0]


@pytest.mark.parametrize(
    ("name", "arguments"), [("read_file", ""), ("read_file", "[]"), ("read_file", "{}"), ("nothing", "{}"), ("", "x")]
)
def test_odd_calls_get_an_answer(name: str, arguments: str) -> None:
    """Whatever a model asks for, the client answers."""
    assert Conversation().result(name, arguments).startswith("error")
