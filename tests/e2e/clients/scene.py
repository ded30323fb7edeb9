"""A conversation of some forty turns with tools and streams, played by a real client, and what the client saw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from proxy.demo.record import OVERFLOW
from proxy.demo.script import SYSTEM, Conversation, Fact, Turn
from proxy.demo.upstream import MODEL, FakeUpstream
from tests.e2e.clients.drivers.pipe import Opening
from tests.e2e.clients.programs import Driver

WINDOW = 4_000  # tokens
KNOWN: dict[str, Any] = {"models": {"*": {"window": WINDOW}}}  # the settings of a proxy that is told
ENDLESS = 1_000_000  # tokens: a window no conversation here comes to the end of
# Every fifth turn calls two or three tools, every third is streamed (so both, in turns 15 and 30), turn 30 brings a
# result of 1,500 tokens, and the facts of turns 3, 8 and 15 (this one from a tool) are asked for at the end.
SCRIPT = Conversation(turns=40, tools_every=5, stream_every=3, big_turn=30, big_tokens=1_500)
STREAMED = replace(SCRIPT, stream_every=1)
# More than any window here holds, in one message: no compaction can help.
HOPELESS = "The harbour is wide and the water is deep. " * 800


@dataclass
class Played:
    """What the client saw: an entry a turn, `{"seen": ...}` or `{"error": ...}` (see `drivers.pipe`)."""

    turns: list[tuple[Turn, Any]] = field(default_factory=list, repr=False)

    @property
    def errors(self) -> list[Any]:
        return [saw["error"] for _, saw in self.turns if "error" in saw]

    @property
    def answers(self) -> int:
        return sum(len(saw.get("seen", ())) for _, saw in self.turns)

    @property
    def calls(self) -> int:
        return sum(len(answer["calls"]) for _, saw in self.turns for answer in saw.get("seen", ()))

    @property
    def forgotten(self) -> list[Fact]:
        """The facts that were asked for and did not come back."""
        asked = [(turn.asks, saw) for turn, saw in self.turns if turn.asks is not None]
        return [fact for fact, saw in asked if "error" in saw or fact.value not in saw["seen"][-1]["text"]]

    @property
    def told(self) -> list[Any]:
        """What does not depend on how a fact is worded: all of it, but the last answers of turns that ask for one."""
        return [saw.get("seen", saw)[:-1] if turn.asks and "seen" in saw else saw for turn, saw in self.turns]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a play was like upstream."""

    compactions: int
    overflows: int
    invalid: int

    @classmethod
    def of(cls, fake: FakeUpstream) -> Figures:
        overflows = sum(record.refused == OVERFLOW for record in fake.requests)
        return cls(len(fake.summaries), overflows, sum(record.invalid for record in fake.requests))


def opening(base_url: str, script: Conversation = SCRIPT, **more: str) -> Opening:
    return Opening(base_url, MODEL, SYSTEM, script.tool_definitions(), **more)


def play(
    driver: Driver, base_url: str, script: Conversation = SCRIPT, *, until_error: bool = False, **more: str
) -> Played:
    """Play the script against `base_url`; with `until_error` no further than to the first error.

    `more` are fields of the `Opening`.
    """
    driver.begin(opening(base_url, script, **more))
    played = Played()
    for turn in _turns(script):
        played.turns.append((turn, driver.say(turn.text, turn.stream, script.result)))
        if until_error and played.errors:
            break
    return played


def expected(bounded: Played, endless: Played, *, known: bool) -> list[Any]:
    """What a client behind the proxy is told, by what it sees without: with the real window, and with none.

    Before it overflows, a window that the proxy does not know may cut an answer short at its brim.
    """
    before = [] if known else bounded.told[:-1]
    return before + endless.told[len(before) :]


def _turns(script: Conversation) -> Iterable[Turn]:
    return (script.turn(number) for number in range(1, script.turns + 1))
