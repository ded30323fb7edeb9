"""The narrative that needs no model: what was asked, which tools were called and how that ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from proxy.core.fit import Count, settle, weigh
from proxy.core.redact import redact
from proxy.core.transcript import ERROR, Message, ToolCall, callers, calls, leaves, role, text

ASKED, ANSWERED, ARGUMENT, FAULT = 140, 160, 60, 100  # characters of a request, an answer, an argument, an error
FAILED = 2_000  # characters at the head and the tail of a result in which an error is looked for
HEAD = 2_048  # characters of a text or an argument that are looked at: more than is shown, for credentials are cut out
LINES = 100_000  # characters of lines that are made, the newest first: twelve thousand tokens twice over


@dataclass(frozen=True, slots=True)
class Story:
    """What happened in a stretch of conversation: for each message that said or did something, one line."""

    lines: tuple[str, ...]

    def text(self, budget: int, count: Count, skip: str = "") -> str:
        """The lines within `budget` tokens, the newest first to stay; without those whose words stand in `skip`."""
        lines = [line for line in self.lines if line.partition(": ")[2].removesuffix(" …") not in skip]
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
    return Story(tuple(reversed(list(_newest(messages, first)))))


def outline(messages: Sequence[Message], budget: int, count: Count, first: int = 0) -> str:
    """See `story_of` and `Story.text`."""
    return story_of(messages, first).text(budget, count)


def _newest(messages: Sequence[Message], first: int) -> Iterator[str]:
    """The lines from the last one backwards, as many as could ever be wanted."""
    answered = callers(messages)
    results: dict[int, list[int]] = {}
    made_by = -1
    for turn, call in enumerate(answered):
        if call is None:
            made_by = turn
        else:
            results.setdefault(made_by, []).append(turn)
    left = LINES
    for turn in range(len(messages) - 1, -1, -1):
        if left <= 0:
            return
        message = messages[turn]
        if role(message) in ("tool", "function"):
            continue
        said = _first(redact(text(message)[:HEAD]), ASKED if role(message) == "user" else ANSWERED)
        ends = ((answered[i], text(messages[i])) for i in results.get(turn, ()))
        done = [_outcome(call, result) for call, result in ends if call] or [_named(call) for call in calls(message)]
        line = " -> ".join(part for part in (said, _collapse(done)) if part)
        if line:
            left -= len(line)
            yield f"{first + turn} {' '.join(role(message)[:20].split())}: {line}"


def _first(words: str, limit: int) -> str:
    """The beginning of a text on one line, cut between words."""
    flat = " ".join(words[: limit * 4].split())
    if len(flat) <= limit:
        return flat
    head = flat[:limit].rsplit(" ", 1)[0]
    return f"{head} …"


def _named(call: ToolCall) -> str:
    """The call with the argument that tells most: the first short one."""
    values = (value for _, value in leaves(call.arguments[:20_000]) if value and "\n" not in value.strip())
    shown = _first(redact(next(values, "")[:HEAD]), ARGUMENT)
    return f"{' '.join(call.name[:40].split())}({shown})"


def _outcome(call: ToolCall, result: str) -> str:
    for part in (result[:FAILED], result[-FAILED:]):
        if found := ERROR.search(part):
            line = part[part.rfind("\n", 0, found.start()) + 1 :].split("\n", 1)[0]
            return f"{_named(call)} error: {_first(redact(line[:HEAD]), FAULT)}"
    return f"{_named(call)} ok"


def _collapse(done: Sequence[str]) -> str:
    """Equal neighbours once, with how often."""
    groups = [(one, len(list(same))) for one, same in groupby(done)]
    return ", ".join(f"{one} x{times}" if times > 1 else one for one, times in groups)
