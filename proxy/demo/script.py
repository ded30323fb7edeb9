"""A long, realistic conversation, the same on every run: what a client says, offers and answers to tool calls.

An engineer and an assistant work on a booking service for harbour cranes. Facts are planted on the way, in the user's
words and in tool results, and asked for at the end. Everything is a function of the options and the turn's number.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from proxy.demo.tokenizer import Tokenizer

SYSTEM = (
    "You are the engineering assistant of the Harbour Booking team. You know the code base, you read files, logs and "
    "tickets with the tools you are given, and you say what you would do and why. Keep answers under ninety words. "
    "When the user asks for something that was said before, answer with the exact words."
)

_COMPONENTS = (
    "crane scheduler",
    "berth allocator",
    "tariff calculator",
    "billing importer",
    "courier gateway",
    "notification worker",
    "session cache",
    "audit exporter",
    "search indexer",
    "manifest parser",
    "weather adapter",
    "permit checker",
    "invoice renderer",
    "archive reader",
    "tide forecast",
    "partner webhook",
    "access guard",
    "report builder",
    "container ledger",
    "pricing engine",
    "",
)
_CONCERNS = (
    "retries pile up behind the slow partner",
    "timestamps drift between the two regions",
    "operators see yesterday's figures until noon",
    "nobody can tell which queue is blocked",
    "duplicates appear when a vessel is rebooked",
    "the nightly import holds its lock for too long",
    "a cancelled permit still shows as valid",
    "the totals differ from what finance expects",
    "the dashboard hides the slowest tenants",
    "restarts lose the last few updates",
    "",
)
_WISHES = (
    "Please outline how you would approach it without touching the public interface",
    "Please describe the smallest change that makes it testable",
    "Let us think through what could go wrong before anybody writes code",
    "Suggest an order of work that a new colleague can follow",
    "Sketch the steps and mention what you would leave for later",
    "Go through the alternatives briefly and tell me which one you prefer",
)
_CONTEXT = (
    "Support raised it again this morning.",
    "It came up while we reviewed the release notes.",
    "The harbour master mentioned it on the phone.",
    "We saw the same pattern two sprints earlier.",
    "I would like to close this before the weekend.",
    "Somebody from finance is waiting for a reply.",
)
_TOOLS = {
    "read_file": ("path", "Read a file of the repository and return its text."),
    "search_logs": ("query", "Search the service logs of the last day and return the matching lines."),
    "get_ticket": ("key", "Return a ticket with its state, owner and notes."),
}
_BIG_FILE = "logs/import-nightly.log"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something said once, in turn `turn`, and asked for later. `value` is what the answer must contain."""

    turn: int
    by: str  # "user" or "tool"
    sentence: str
    question: str
    value: str


FACTS = (
    Fact(
        3,
        "user",
        "For the record, the release codename of the harbour project is BLUE-HERON-4172.",
        "What is the release codename of the harbour project?",
        "BLUE-HERON-4172",
    ),
    Fact(
        8,
        "user",
        "We decided that the deployment freeze of the billing cluster begins on 17 November.",
        "When does the deployment freeze of the billing cluster begin?",
        "17 November",
    ),
    Fact(
        15,
        "tool",
        "The signing key of the courier gateway is stored in vault slot K-5581.",
        "Where is the signing key of the courier gateway stored?",
        "K-5581",
    ),
    Fact(
        33,
        "user",
        "The emergency contact for the pricing engine is Marit Oyelaran, extension 6620.",
        "Who is the emergency contact for the pricing engine?",
        "Marit Oyelaran",
    ),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says in one turn, whether the answer is streamed, and which fact it asks for."""

    number: int
    text: str
    stream: bool
    asks: Fact | None = None
    plants: Fact | None = None


@dataclass(frozen=True)
class Conversation:
    """The whole script.

    tools: offer tools and use them in every `tools_every`-th turn (two or three calls at once), one result of
    `big_tokens` tokens in turn `big_turn`. stream_every: every so many-th turn is streamed (0: none).
    variant: another conversation; its first `shared_turns` turns are those of variant 0.
    """

    turns: int = 60
    tools: bool = True
    tools_every: int = 5
    stream_every: int = 3
    big_turn: int = 30
    big_tokens: int = 3000
    variant: int = 0
    shared_turns: int = 0

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What is planted and asked for; the first is asked for in the last turn, the others shortly before."""
        planted = [f for f in FACTS if f.turn < self.turns - 3 * len(FACTS)] or [FACTS[0]]
        return tuple(f for f in planted if f.by == "user" or self.tools)

    def head(self) -> list[dict[str, Any]]:
        return [{"role": "system", "content": SYSTEM}]

    def tool_definitions(self) -> list[dict[str, Any]]:
        """The tools as a request offers them; empty without tools."""
        return [_definition(name, *about) for name, about in _TOOLS.items()] if self.tools else []

    def turn(self, number: int) -> Turn:
        """Turn `number`, from 1. The text is one line, so that its end is the end of the message."""
        facts = self.facts
        asks = next((f for place, f in enumerate(facts) if number == self.turns - 3 * place), None)
        plants = next((f for f in facts if f.turn == number), None)
        chance = self._chance(number)
        said = f"One thing from before, answer exactly. {asks.question}" if asks else _small_talk(chance)
        if plants is not None and plants.by == "user":
            said = f"{plants.sentence} {said}"
        if self.tools and number % self.tools_every == 0:
            said = f"{self._orders(number, chance)} {said if asks else ''}".strip()
        streamed = self.stream_every > 0 and number % self.stream_every == 0
        return Turn(number, said, streamed, asks, plants)

    def result(self, name: str, arguments: str) -> str:
        """What the client's tool `name` returns. Never raises: a real model may ask for anything."""
        parameter = _TOOLS.get(name, ("", ""))[0]
        try:
            value = str(json.loads(arguments)[parameter])
        except (ValueError, KeyError, TypeError):
            return f"error: {name} does not take these arguments"
        chance = random.Random(f"{name} {value}")
        if value == _BIG_FILE:
            return _long_log(chance, self.big_tokens)
        if name == "read_file":
            return _source(value, chance)
        return _log(value, chance) if name == "search_logs" else self._ticket(value, chance)

    def _chance(self, number: int) -> random.Random:
        return random.Random(f"{self.variant if number > self.shared_turns else 0} {number}")

    def _orders(self, number: int, chance: random.Random) -> str:
        names = [c.replace(" ", "_") for c in chance.sample(_COMPONENTS, 2)]
        files = [f"services/{names[0]}/worker_{number}.py"]
        if number == self.big_turn:
            files.append(_BIG_FILE)
        orders = (
            f"Run `read_file` on {' and '.join(f'`{f}`' for f in files)}, then `get_ticket` for `HB-{1000 + number}`"
        )
        if number % 2 and len(files) == 1:
            orders += f" and `search_logs` for `{names[1]}-{number}`"
        return f"{orders}, and tell me in plain words what they have in common."

    def _ticket(self, key: str, chance: random.Random) -> str:
        component = chance.choice(_COMPONENTS)
        notes = [f"Reported by the {component} team.", chance.choice(_CONTEXT)]
        notes += [f.sentence for f in self.facts if f.by == "tool" and key == f"HB-{1000 + f.turn}"]
        ticket = {"key": key, "state": chance.choice(("open", "blocked", "in review")), "component": component}
        return json.dumps(ticket | {"estimate_hours": chance.randrange(2, 40), "notes": " ".join(notes)})


def _definition(name: str, parameter: str, about: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def _small_talk(chance: random.Random) -> str:
    one, other = chance.sample(_COMPONENTS, 2)
    return (
        f"About the {one}: {chance.choice(_CONCERNS)}, and the {other} suffers from it. {chance.choice(_CONTEXT)} "
        f"{chance.choice(_WISHES)}."
    )


def _source(path: str, chance: random.Random) -> str:
    name = path.rsplit("/", 1)[-1].removesuffix(".py")
    limit, pause = chance.randrange(20, 900), chance.randrange(2, 60)
    return (
        f"# {path}\nBATCH = {limit}\nPAUSE = {pause}\n\n\ndef {name}(queue, store):\n"
        "    for item in queue.take(BATCH):\n        if not store.known(item.key):\n            store.put(item)\n"
        f"    return queue.sleep(PAUSE)"
    )


def _log(query: str, chance: random.Random) -> str:
    return "\n".join(_log_line(query, chance) for _ in range(3))


def _log_line(query: str, chance: random.Random) -> str:
    clock = f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
    what = chance.choice(("accepted", "retried", "skipped", "committed", "released"))
    return f"2031-05-{chance.randrange(1, 29):02}T{clock} {query} {what} batch {chance.randrange(10**5)}"


def _long_log(chance: random.Random, tokens: int) -> str:
    """A log of about so many tokens; its last line is an error, as the interesting line of a log often is."""
    counter = Tokenizer()
    last = "2031-05-28T23:59:58 nightly-import ERROR lock held by worker 17, giving up after 900 s"
    lines, size = list[str](), counter.count(last)
    while size < tokens:
        lines.append(_log_line(chance.choice(_COMPONENTS).replace(" ", "-"), chance))
        size += counter.count(lines[-1]) + 1
    return "\n".join([*lines, last])
