"""The narrative that needs no model: what was asked, which tools were called and how that ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from proxy.core.fit import Count, settle, weigh
from proxy.core.redact import redact
from proxy.core.transcript import ERROR, Message, ToolCall, callers, calls, leaves, role, text

ASKED, ANSWERED, ARGUMENT, FAULT = 140, 160, 60, 100  # characters of a request, an answer, an argument, an error
FAILED = 2_000  # characters at the head and the tail of a result in which an error is looked for


@dataclass(frozen=True, slots=True)
class Story:
    """What happened in a stretch of conversation: for each message that said or did something, one line."""

    lines: tuple[str, ...]

    def text(self, budget: int, count: Count, skip: str = "") -> str:
        """The lines within `budget` tokens, the newest first to stay; without those whose words stand in `skip`."""
        lines = [line for line in self.lines if line.split(": ", 1)[1].removesuffix(" …") not in skip]
        costs = [weigh(line) + 1 for line in lines]

        def build(size: float) -> str:
            first = len(lines)
            while first and costs[first - 1] <= size:
                first -= 1
                size -= costs[first]
            return "\n".join(lines[first:])

        return settle(build, budget, count)


def story_of(messages: Sequence[Message], first: int = 0) -> Story:
    """`first` is the number of the first message."""
    return Story(tuple(_lines(messages, first)))


def outline(messages: Sequence[Message], budget: int, count: Count, first: int = 0) -> str:
    """See `story_of` and `Story.text`."""
    return story_of(messages, first).text(budget, count)


def _lines(messages: Sequence[Message], first: int) -> list[str]:
    outcomes: dict[int, list[str]] = {}
    made_by = -1
    for turn, (message, call) in enumerate(zip(messages, callers(messages), strict=True)):
        if call is None:
            made_by = turn
        else:
            outcomes.setdefault(made_by, []).append(_outcome(call, text(message)))
    lines = []
    for turn, message in enumerate(messages):
        if role(message) in ("tool", "function"):
            continue
        said = _first(redact(text(message)), ASKED if role(message) == "user" else ANSWERED)
        done = outcomes.get(turn) or [_named(call) for call in calls(message)]
        line = " -> ".join(part for part in (said, _collapse(done)) if part)
        if line:
            lines.append(f"{first + turn} {role(message)[:20]}: {line}")
    return lines


def _first(words: str, limit: int) -> str:
    """The beginning of a text on one line, cut between words."""
    flat = " ".join(words[: limit * 4].split())
    if len(flat) <= limit:
        return flat
    head = flat[:limit].rsplit(" ", 1)[0]
    return f"{head} …"


def _named(call: ToolCall) -> str:
    """The call with the argument that tells most: the first short one."""
    values = [redact(value) for _, value in leaves(call.arguments[:20_000]) if value and "\n" not in value.strip()]
    shown = _first(values[0], ARGUMENT) if values else ""
    return f"{call.name[:40]}({shown})"


def _outcome(call: ToolCall, result: str) -> str:
    for part in (result[:FAILED], result[-FAILED:]):
        if found := ERROR.search(part):
            line = part[part.rfind("\n", 0, found.start()) + 1 :].split("\n", 1)[0]
            return f"{_named(call)} error: {_first(redact(line), FAULT)}"
    return f"{_named(call)} ok"


def _collapse(done: Sequence[str]) -> str:
    """Equal neighbours once, with how often."""
    groups = [(one, len(list(same))) for one, same in groupby(done)]
    return ", ".join(f"{one} x{times}" if times > 1 else one for one, times in groups)
