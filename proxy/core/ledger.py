"""The ledger: the identifiers of a stretch of conversation, mechanically extracted, ranked and listed.

Models drop them when they summarise (one path in ten survives repeated summaries, one command in five hundred) and
cannot work on without them. So the machine carries them: from the originals, afresh for every compaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proxy.core.fit import Count, settle, weigh
from proxy.core.identifiers import Found, Kind, command, identifiers
from proxy.core.redact import ends, redact
from proxy.core.transcript import Message, ToolCall, callers, calls, leaves, ration, role, text

CHANGED, READ = "files changed", "files read"

# How likely an identifier of a kind is to be used again, and what it costs to lose it: measured on real transcripts
# as the share that recurs after a cut, rounded, and raised for those that cannot be guessed.
WORTH = {
    Kind.PATH: 1.5,
    Kind.URL: 1.0,
    Kind.HOST: 1.0,
    Kind.HASH: 0.9,
    Kind.ID: 1.3,
    Kind.REF: 1.1,
    Kind.ERROR: 1.0,
    Kind.ENV: 1.0,
    Kind.VERSION: 0.7,
    Kind.NAME: 0.8,
    Kind.QUANTITY: 0.5,
    Kind.COMMAND: 0.6,
}
LINE = 160  # characters of identifiers under one label of turns, so that labels cost a twentieth
DENSER = 1.25  # identifiers have more tokens a byte than prose
RESULT_SCAN = 60_000  # characters of one tool result that are looked at, head and tail: more holds no new names
SCAN = 400_000  # characters of any other text, head and tail; of a command much less
COMMAND_SCAN = 4_000
NEWEST = 1_000_000  # characters that are looked at in all, the newest first: a name not used since is hardly used again
OLDER = 200_000  # characters of what the user said before that

_PATH_KEY = re.compile(
    r"(?i)(?:^|_)(?:file_?)?(?:paths?|files?|name|notebook|document|target|source)(?:_?(?:path|name))?$"
)
_COMMAND_KEY = re.compile(r"(?i)^(?:cmd|command|commands|script|shell|code_?line)$")
_WRITES = re.compile(
    r"(?i)write|edit|create|insert|replace|patch|update|save|append|modify|delete|remove|rename|move|put"
)
_READS = re.compile(r"(?i)read|open|view|cat|load|show|get|fetch|file|grep|search|list|ls|find|glob")
_PATCHED = re.compile(r"(?m)^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?)([^\s\n]{1,300})")


@dataclass(slots=True)
class Entry:
    """What is known of one identifier. Turns are message numbers."""

    kind: Kind
    last: int = -1  # the last turn it was seen in
    used: int = 0  # turns of the user or the assistant (calls included) it was seen in
    used_last: int = -1
    shown: int = 0  # tool results it was seen in
    names: set[str] = field(default_factory=set)  # shorter forms folded into it


@dataclass(frozen=True, slots=True)
class Names:
    """The identifiers of a stretch of conversation, best first, and the files among them."""

    entries: dict[str, Entry]
    ranked: tuple[str, ...]
    changed: frozenset[str]
    read: frozenset[str]

    def text(self, budget: int, count: Count, skip: str = "", without: frozenset[str] = frozenset()) -> str:
        """The identifiers worth most within `budget` tokens; empty if there are none.

        Files changed and files read (known from tool calls) have a list each; the rest stands in order of last use,
        in lines labelled with the turns. Nothing that occurs in `skip` is repeated, nothing of `without` is listed.
        Same messages, same bytes.
        """
        ranked = [name for name in self.ranked if name not in skip and name not in without]

        def build(size: float) -> str:
            chosen: list[str] = []
            covered: set[str] = set()
            for name in ranked:
                if name in covered:
                    continue
                cost = weigh(name) * DENSER + 0.5
                if cost <= size:
                    size -= cost
                    chosen.append(name)
                    covered |= _tails(name)
                elif size < 1:
                    break
            return _render(chosen, self)

        return settle(build, budget, count)

    def __repr__(self) -> str:
        return f"Names({len(self.entries)} of which {len(self.changed)} changed, {len(self.read)} read)"


def names_of(messages: Sequence[Message]) -> Names:
    """Collect and rank the identifiers of `messages`: of a very long conversation those of its newest part, and what
    the user named before."""
    entries, changed, read = _collect(messages)
    _fold(entries)
    ranked = _ranked(entries, len(messages), changed | read)
    return Names(entries, tuple(ranked), frozenset(changed), frozenset(read))


def ledger(messages: Sequence[Message], budget: int, count: Count, *, skip: str = "") -> str:
    """See `Names.text`."""
    return names_of(messages).text(budget, count, skip)


def _collect(messages: Sequence[Message]) -> tuple[dict[str, Entry], set[str], set[str]]:
    entries: dict[str, Entry] = {}
    known: dict[str, Found] = {}
    changed: set[str] = set()
    read: set[str] = set()
    answered = callers(messages)
    newest = _newest(messages, answered)
    asked = [turn for turn in range(newest) if role(messages[turn]) == "user"]
    limit = ration([len(text(messages[turn])) for turn in asked], OLDER)
    for turn in asked:
        _note(entries, identifiers(ends(text(messages[turn]), min(limit, SCAN)), known), turn, used=True)
    for turn in range(newest, len(messages)):
        message = messages[turn]
        if answered[turn] is not None:
            _note(entries, identifiers(ends(text(message), RESULT_SCAN), known), turn, used=False)
            continue
        said = list(identifiers(ends(text(message), SCAN), known))
        for call in calls(message):
            pairs = leaves(call.arguments)
            said += identifiers(ends("\n".join(f"{key}: {value}" for key, value in pairs), SCAN), known)
            commands = (command(redact(value[:COMMAND_SCAN])) for key, value in pairs if _COMMAND_KEY.match(key))
            said += ((line, Kind.COMMAND) for line in commands if line)
            _files(call.name, pairs, changed, read)
        _note(entries, iter(said), turn, used=role(message) != "system")
    return entries, changed, read - changed


def _newest(messages: Sequence[Message], answered: Sequence[ToolCall | None]) -> int:
    """Where the newest messages begin of which `NEWEST` characters would be looked at."""
    left = NEWEST
    for turn in range(len(messages) - 1, -1, -1):
        length = len(text(messages[turn]))
        if answered[turn] is not None:
            left -= min(length, RESULT_SCAN)
        else:
            left -= min(length, SCAN) + sum(min(len(call.arguments), SCAN) for call in calls(messages[turn]))
        if left < 0:
            return turn + 1
    return 0


def _note(entries: dict[str, Entry], found: Iterator[tuple[str, Kind]], turn: int, used: bool) -> None:
    for name, kind in found:
        entry = entries.get(name)
        if entry is None:
            entry = entries[name] = Entry(kind)
        if used and entry.used_last != turn:
            entry.used += 1
            entry.used_last = turn
        elif not used and entry.last != turn:
            entry.shown += 1
        entry.last = turn


def _files(tool: str, pairs: list[tuple[str, str]], changed: set[str], read: set[str]) -> None:
    """Sort the paths among a call's arguments into files changed and files read, by the name of the tool."""
    patched = {path for _, value in pairs for path in _PATCHED.findall(value[:RESULT_SCAN])}
    changed |= patched
    target = changed if _WRITES.search(tool) else read if _READS.search(tool) else None
    if target is None:
        return
    for key, value in pairs:
        if _PATH_KEY.search(key) and len(value) <= 300 and "\n" not in value and value.strip():
            target.add(_tidy(redact(value.strip())))


def _tails(name: str) -> set[str]:
    """The shorter forms of a path: what is left of it when leading folders are dropped."""
    parts = name.removeprefix("./").split("/")
    return {"/".join(parts[first:]) for first in range(1, min(len(parts), 12))}


def _tidy(path: str) -> str:
    """A path as the text around it will have it found: no blanks inside, no trailing slash."""
    return " ".join(path.split()).rstrip("/") or path


def _fold(entries: dict[str, Entry]) -> None:
    """Count a path's shorter forms (`core/plan.py` of `/repo/core/plan.py`) with the path, where only one has them."""
    owners: dict[str, list[str]] = {}
    for name, entry in entries.items():
        if entry.kind is Kind.PATH:
            for tail in sorted(_tails(name)):
                owners.setdefault(tail, []).append(name)
            if name.startswith("./"):
                owners.setdefault(name[2:], []).append(name)
    for short in sorted((n for n, e in entries.items() if e.kind is Kind.PATH), key=len):
        longer = owners.get(short.removeprefix("./"), [])
        longer = [name for name in longer if name != short and name in entries]
        if len(longer) == 1 and short in entries:
            whole, part = entries[longer[0]], entries.pop(short)
            whole.last = max(whole.last, part.last)
            whole.used_last = max(whole.used_last, part.used_last)
            whole.used += part.used
            whole.shown += part.shown
            whole.names |= part.names | {short}


def _ranked(entries: dict[str, Entry], turns: int, files: set[str]) -> list[str]:
    """Names, best first: by kind, how often and how lately they were used, for what they cost."""

    def score(name: str) -> tuple[float, int, str]:
        entry = entries[name]
        return -_score(name, entry, turns, name in files), -entry.last, name

    return sorted(entries, key=score)


def _score(name: str, entry: Entry, turns: int, is_file: bool) -> float:
    """Worth for its cost. Measured over cuts of real transcripts: used once, one in seven is used again, twice one in
    three, five times two in three; recency doubles that at most; what tools merely showed counts little. The exact
    constants hardly matter: doubling or halving any of them moves the recall by less than two points."""
    seen, used = (turns - 1 - entry.last) / turns, (turns - 1 - entry.used_last) / turns
    often: float = (entry.used or 0.8) ** 0.8 + 0.2 * min(entry.shown, 5)
    lately: float = 0.5 + (2 ** (-10 * used) if entry.used else 0.5 * 2 ** (-10 * seen))
    cost: float = (4 + len(name)) ** 0.85
    worth: float = WORTH[entry.kind]
    return worth * often * lately * (1.4 if is_file else 1.0) / cost


def _render(chosen: Sequence[str], names: Names) -> str:
    entries = names.entries
    ordered = sorted(chosen, key=lambda name: (entries[name].last, name))
    lines = []
    for label, members in ((CHANGED, names.changed), (READ, names.read)):
        if listed := [name for name in ordered if name in members]:
            lines.append(f"{label}: {', '.join(listed)}")
    group: list[str] = []
    for name in ordered:
        if name in names.changed or name in names.read:
            continue
        group.append(name)
        if sum(map(len, group)) >= LINE:
            lines.append(_line(group, entries))
            group = []
    if group:
        lines.append(_line(group, entries))
    return "\n".join(lines)


def _line(group: Sequence[str], entries: dict[str, Entry]) -> str:
    first, last = entries[group[0]].last, entries[group[-1]].last
    label = f"{first}" if first == last else f"{first}-{last}"
    shown = (f"`{name}`" if entries[name].kind is Kind.COMMAND else name for name in group)
    return f"{label}: {', '.join(shown)}"
