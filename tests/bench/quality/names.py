"""Identifiers that a conversation uses again after a cut: found by patterns that know nothing of the ledger's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from proxy.core.ledger import names_of
from proxy.core.transcript import calls, text
from tests.bench.quality.world import Message

CUTS = (0.25, 0.5, 0.75)  # of the messages
CHARACTERS = 4_000
LEAST = 10  # names used again that a cut must have to count at all

_PATTERNS = (
    re.compile(r"https?://[^\s\"'<>()\[\]`]+[\w/]"),
    re.compile(r"(?<![\w/.:-])(?:~|\.{1,2})?/?(?:[\w@.-]+/)+[\w@-]+\.[A-Za-z]\w{0,7}\b"),  # a path with a suffix
    re.compile(r"(?<![\w/.:-])(?:~|\.{1,2})?/(?:[\w@.-]{2,}/)+[\w@.-]{2,}"),  # a path from the root
    re.compile(
        r"(?<![\w/.-])[A-Za-z_][\w-]{2,}\.(?:py|ts|tsx|js|json|md|rst|toml|yaml|yml|txt|sh|sql|html|css|cfg|lock|csv)\b"
    ),
    re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"),
    re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"),
    re.compile(r"\b[A-Z][A-Z0-9]+-\d+\b|(?<!\w)#\d{2,6}\b"),
    re.compile(r"\b(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{5,12}\b"),  # codes of bookings and the like
    re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b"),  # code
)


@dataclass(frozen=True)
class Recall:
    """At one cut: names of the cut-off part that were used again, and how many a ledger of either size has."""

    again: int
    tenth: int
    short: int


def named(words: str) -> set[str]:
    return {match.group() for pattern in _PATTERNS for match in pattern.finditer(words)}


def used(messages: Sequence[Message]) -> str:
    """What the assistant wrote: its answers and the arguments of its calls."""
    return "\n".join(
        f"{text(m)}\n" + "\n".join(call.arguments for call in calls(m)) for m in messages if m["role"] == "assistant"
    )


def mentioned(messages: Sequence[Message]) -> str:
    return "\n".join(f"{text(m)}\n" + "\n".join(call.arguments for call in calls(m)) for m in messages)


def recalls(messages: Sequence[Message], count: Callable[[str], int]) -> Iterator[Recall]:
    """The ledger put to the test at a few cuts."""
    for share in CUTS:
        cut = int(share * len(messages))
        while cut < len(messages) and messages[cut]["role"] == "tool":
            cut += 1
        evicted = messages[:cut]
        again = named(mentioned(evicted)) & named(used(messages[cut:]))
        if len(again) < LEAST:
            continue
        names = names_of(evicted)
        tenth = names.text(count(mentioned(evicted)) // 10, count)
        short = names.text(CHARACTERS, len)
        yield Recall(len(again), sum(name in tenth for name in again), sum(name in short for name in again))
