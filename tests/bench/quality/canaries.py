"""Canaries: sentences planted in a recorded conversation, whose survival is looked for later."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.bench.quality.wording import KINDS, Family, filled

Message = dict[str, Any]

PER_KIND = {"user": 3, "tool": 1, "assistant": 1}
SUPERSEDED = 5  # statements of the user's that he corrects later
LATEST = 0.85  # of the conversation: what comes later is hardly ever evicted
EDGE = 1_200  # characters at the head of a result that every summariser gets to read
SECRETS = (  # made up, each in the form that its issuer documents
    "AKIA{upper16}",
    "ghp_{mixed36}",
    "sk-proj-{mixed36}",
    "xoxb-{digits12}-{mixed24}",
    "glpat-{mixed20}",
)


@dataclass(frozen=True)
class Canary:
    """`turn` is the message it stands in, `key` what has to survive; `instead` the canary that supersedes it."""

    kind: str
    origin: str
    turn: int
    sentence: str
    key: str
    deep: bool = False  # in the middle of a long tool result
    instead: Canary | None = None

    def __repr__(self) -> str:
        return f"Canary({self.kind} by {self.origin} in {self.turn}{', superseded' if self.instead else ''})"


@dataclass(frozen=True)
class Planted:
    """A conversation with its canaries; `secrets` stand in its tool results, or in what the assistant said."""

    id: str
    messages: tuple[Message, ...] = field(repr=False)
    canaries: tuple[Canary, ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True)
class _Seed:
    """A canary before its place is known. `after`: the number of the seed that it supersedes."""

    kind: str
    origin: str
    sentence: str
    key: str
    after: int | None = None


def plant(id: str, messages: Sequence[Message], family: Family, seed: int) -> Planted:
    """The same arguments give the same conversation."""
    draw = Random(f"{id} {seed}")
    seeds = _seeds(messages, family, draw)
    changed = [copy.deepcopy(message) for message in messages]
    places = _user_places(changed, seeds, draw)
    canaries: list[Canary | None] = [None] * len(seeds)
    said: dict[int, list[int]] = {}
    for number, place in places.items():
        said.setdefault(place, []).append(number)
    result: list[Message] = []
    moved: dict[int, int] = {}
    where: dict[int, int] = {}
    for k, message in enumerate(changed):
        for number in sorted(said.get(k, ())):
            if result and result[-1]["role"] == "user":
                _append(result[-1], "\n\n" + seeds[number].sentence)
            else:
                result.append({"role": "user", "content": seeds[number].sentence})
            where[number] = len(result) - 1
        moved[k] = len(result)
        result.append(message)
    for number, one in reversed(list(enumerate(seeds))):
        deep = False
        if one.origin != "user":
            found = _other_place(result, one, draw)
            if found is None:
                continue
            where[number], deep = found
        later = next((i for i, other in enumerate(seeds) if other.after == number), None)
        instead = canaries[later] if later is not None else None
        canaries[number] = Canary(one.kind, one.origin, where[number], one.sentence, one.key, deep, instead)
    secrets = _secrets(result, draw)
    return Planted(f"{id}/{seed}", tuple(result), tuple(c for c in canaries if c is not None), secrets)


def _seeds(messages: Sequence[Message], family: Family, draw: Random) -> list[_Seed]:
    said = "\n".join(str(message.get("content")) for message in messages)
    used: set[str] = set()
    found: list[_Seed] = []

    def fresh(template: str) -> list[tuple[str, str]]:
        made = filled(template, draw)
        while any(key in said or any(key in k or k in key for k in used) for _, key in made):
            made = filled(template, draw)
        used.update(key for _, key in made)
        return made

    for origin, number in PER_KIND.items():
        for kind in KINDS:
            templates = family.templates(origin, kind)
            for template in draw.sample(templates, min(number, len(templates))):
                found += [_Seed(kind, origin, sentence, key) for sentence, key in fresh(template)]
    for kind in draw.sample(sorted(family.superseded), SUPERSEDED):
        old, new = fresh(draw.choice(family.pairs(kind)))
        found += [_Seed(kind, "user", *old), _Seed(kind, "user", *new, after=len(found))]
    return found


def _user_places(messages: Sequence[Message], seeds: Sequence[_Seed], draw: Random) -> dict[int, int]:
    """For each seed of the user's: the assistant message before which it is said."""
    slots = [
        k
        for k, message in enumerate(messages)
        if 0 < k < LATEST * len(messages) and message["role"] == "assistant" and messages[k - 1]["role"] != "system"
    ]
    places: dict[int, int] = {}
    for number, one in enumerate(seeds):
        if one.origin == "user":
            first = 0 if one.after is None else slots.index(places[one.after]) + 1
            last = len(slots) if one.after is not None else len(slots) * 3 // 4
            places[number] = slots[min(draw.randrange(first, max(first + 1, last)), len(slots) - 1)]
    return places


def _append(message: Message, text: str) -> None:
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [*content, {"type": "text", "text": text.strip()}]
    else:
        message["content"] = f"{content or ''}{text}".strip()


def _other_place(messages: Sequence[Message], one: _Seed, draw: Random) -> tuple[int, bool] | None:
    """Plants a seed in what a tool returned or the assistant said: where, and whether deep in a long result."""
    places = [
        k
        for k, message in enumerate(messages[: int(LATEST * len(messages))])
        if message["role"] == one.origin and isinstance(message.get("content") or "", str)
    ]
    if not places:
        return None
    turn = draw.choice(places)
    message = messages[turn]
    content: str = message.get("content") or ""
    if one.origin == "assistant":
        message["content"] = f"{content}\n{one.sentence}".strip()
        return turn, False
    breaks = [0, *(i + 1 for i, c in enumerate(content) if c == "\n")]
    at = draw.choice(breaks)
    message["content"] = f"{content[:at]}{one.sentence}\n{content[at:]}"
    return turn, at > EDGE and len(content) - at > EDGE // 4


def _secrets(messages: Sequence[Message], draw: Random) -> tuple[str, ...]:
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    pools = {"upper": alphabet[26:], "mixed": alphabet, "digits": alphabet[52:]}
    made = []
    for form in SECRETS:
        head, *slots = form.split("{")
        secret = head
        for slot in slots:
            name, tail = slot.split("}")
            letters = name.rstrip("0123456789")
            secret += "".join(draw.choice(pools[letters]) for _ in range(int(name[len(letters) :]))) + tail
        places = [
            k
            for k, m in enumerate(messages)
            if m["role"] in ("tool", "assistant") and isinstance(m.get("content"), str)
        ]
        if places:
            message = messages[draw.choice(places[: max(1, len(places) // 2)])]
            message["content"] += f"\nSERVICE_{'KEY' if draw.random() < 0.5 else 'TOKEN'}={secret}\n"
            made.append(secret)
    return tuple(made)
