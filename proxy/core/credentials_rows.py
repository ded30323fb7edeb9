"""Credentials told by the lines before them: a name that ends its line, a name and its value apart, the head of a
table, a Secret of Kubernetes.
"""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.credentials import HIDDEN, Demand, Name, ambiguous, folded, harmless, meant, mixed, names, opaque
from proxy.core.credentials_line import CLOSE, SIGN, THING

MOST = 50  # values below one name
NEAR = 4  # lines from a name to its value
WIDE = 400  # characters from a name to its value in one line
LONGEST = 4_000  # characters of a row; longer ones are no table
TOLD = 3  # words before a name that make a sentence of them: what it announces may be anything
END = 200  # characters at the end of a line that may announce what the next holds
SEPARATORS = ("|", "\t", ";", ",", "  ")
FAR = 200  # lines from a Secret's kind to its data

_SIGNED_END = re.compile(rf"(?i)(?:{SIGN}|>)[ \t]{{0,8}}(?:[|>][+-]?|[\[({{]|\\?[\"'`*]{{1,3}})?[ \t\r]{{0,8}}$")
_BARE_END = re.compile(r"[\"'`*.)]{0,3}[ \t\r]{0,8}$")
_ITEM = re.compile(  # a line that is one value: of a list, in quotes, escaped
    r"(?P<before>[\s>]{0,200}(?:[-*•] |\d{1,3}[.)] )?(?P<open>\\{0,7}[\"'`*]{0,3}))"
    r"(?P<value>\[redacted\]|[^\s\"'`\\<>\[\]{}]{4,4096})(?P<after>\\{0,7}[\"'`*]{0,3}[\])}]{0,3}[,;.]?\s{0,200})$"
)
_PROSE_END = re.compile(r"([ \t(][^\n:=]{1,48})[:：][ \t\r*]{0,8}$")
_PROSE = re.compile(r"(?<![\w.-])[^\W\d_]{1,20}(?=[ \t])")
_OF_A_THING = re.compile(r"(?i)\b(?:commits?|hash(?:es)?|sha-?\d{0,3}|digests?|checksums?|files?|lines?|tests?)\b")
_FENCE = re.compile(r"\s{0,20}(?:```\w{0,20}|\[)?\s{0,20}$")
_CALLED = re.compile(
    r"(?i)(?:name|key|id|field|label|header|param|parameter|var(?:iable)?|env|setting|property|option|title|type)"
    r"[\"'\\]{0,16}[ \t]{0,8}[:=>][ \t]{0,8}[\"'\\]{0,16}[\w./ -]{0,48}$"
)
_CLOSED = re.compile(rf"{CLOSE}[ \t\r]{{0,8}}(?:[,;}}/><]|$|(?<=[ \t]))")
_VALUE = re.compile(
    r"(?i)(?<![a-z])(?:[a-z]{1,12}[_-]?)?(?:value|(?<=<)string)[\"'\\]{0,16}\s{0,8}[:=>]\s{0,8}\\{0,15}[\"'`]?([^\s\"'`\\<>,{}]{2,4096})"
)
_LAST_VALUE = re.compile(
    r"(?i)value[\"'\\]{0,16}[ \t]{0,8}[:=][ \t]{0,8}\\{0,15}[\"'`]?([^\s\"'`\\<>,{}]{2,512})\\{0,15}[\"'`]?[ \t,]{0,4}"
    r"(?:\\{0,15}[\"'])?$"
)
_OTHER = re.compile(r"(?i)[{}\]]|(?<![a-z])(?:name|key|id)[\"'\\]{0,16}\s{0,8}[:=]")
_CELL_END = re.compile(r"[\"'`*]{0,3}[ \t\r]{0,40}(?:[|,;\t]|$|(?<=  ))")
_HEAD = re.compile(r"[\w .()/#*\"'`-]{0,40}\r?")
_ARGUMENT = re.compile(r"\w{1,40}: ")  # a call's, before the first line of its value
_RULE = re.compile(r"[\s|:+=-]{3,4096}")
_NOTHING = re.compile(r"[-–—✓✔✗✘xX*•?]{1,12}")
_WORD = re.compile(r"[^\s|]{4,4096}")
_KIND = re.compile(r"kind\\?[\"']?[ \t]{0,4}:[ \t]{0,4}\\?[\"']?Secret(?!\w)")
_DATA = re.compile(r"(?:\w{1,40}: )?[\s\"']{0,80}(?:stringData|data)[\"']?[ \t]{0,4}:[ \t]{0,4}\{?\s{0,8}$")
_ENTRY = re.compile(r"(\s{1,80}[\"']?[\w.-]{1,253}[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?)([^\s\"'|>{}\[\]]{2,4096})")
_INLINE = re.compile(r"((?:stringData|data)\\{0,7}\"\s{0,4}:\s{0,4}\{)([^{}\n]{1,65536})(?=\})")
_STRING = re.compile(r"(:\s{0,4}\\{0,7}\")([^\"\\]{1,4096})")
_DOCUMENT = re.compile(r"---|\s{0,20}- apiVersion\b")


@dataclass(slots=True)
class _Wanted:
    """What a line has announced for those below it."""

    demand: Demand
    spoken: bool
    left: int  # lines
    apart: bool = False  # the value is behind the word `value`
    blank: int = 2  # lines without a value, before the first


@dataclass(frozen=True, slots=True)
class _Table:
    separator: str  # empty: columns begin at the same place in every row
    cells: int
    columns: tuple[tuple[int, bool], ...]  # number or place; whether whatever stands there is a secret


def strike(lines: list[str], lows: Sequence[str], hints: Sequence[str]) -> None:
    """Take out, in place, what the lines before make a credential of.

    `hints` are the beginnings of names that occur at all, `lows` the lines as they were, folded.
    """
    wanted: _Wanted | None = None
    table: _Table | None = None
    kinds: list[int] = []
    for k, low in enumerate(lows):
        if wanted is not None:
            lines[k], wanted = _below(lines[k], wanted)
        if table is not None:
            lines[k], table = _row(lines[k], table)
        if not any(hint in low for hint in hints):
            continue
        if "kind" in low and _KIND.search(lines[k]):
            kinds.append(k)
        low, before = folded(lines[k]), lows[k - 1] if k else ""
        last = list(names(lines[k], low, hints, max(0, len(low) - END)))
        wanted = (_announced(lines[k], last[-1]) if last else None) or wanted
        valued = "value" in low or "value" in before[:WIDE]
        if valued or (len(low) <= LONGEST and any(sign in low for sign in SEPARATORS)):
            found = list(names(lines[k], low, hints)) if len(low) > END else last
            if table is None and (table := _headed(lines[k], found, hints)):
                wanted = None
            if valued:
                _apart(lines, k, found)
    _kubernetes(lines, kinds)


# --- a name that ends its line


def _announced(line: str, name: Name) -> _Wanted | None:
    """What the last name of a line announces."""
    if len(line) - name.end > 60:
        return None
    before = line[max(0, name.start - END) : name.start]
    if _SIGNED_END.match(line, name.end):
        told = len(_PROSE.findall(before)) >= TOLD
        if told and _OF_A_THING.search(before):
            return None
        return _Wanted(Demand.OPAQUE, False, MOST) if told else _Wanted(name.demand, name.spoken, MOST)
    if _CLOSED.match(line, name.end) and _called(line, name):
        return None if _OTHER.search(line, name.end) else _Wanted(name.demand, name.spoken, NEAR, apart=True)
    prose = _PROSE_END.match(line, name.end)
    if ambiguous(line[name.start : name.end].lower()) or _OF_A_THING.search(before):
        return None
    if _BARE_END.match(line, name.end) or (prose and not THING.search(prose[1])):
        return _Wanted(Demand.OPAQUE, False, 3)
    return None


def _below(line: str, wanted: _Wanted) -> tuple[str, _Wanted | None]:
    """A line below a name, and what is still wanted of the next."""
    wanted.left -= 1
    if wanted.apart:
        if value := _VALUE.search(line[:WIDE]):
            return _without(line, [value.span(1)] if meant(value[1], wanted.demand) else []), None
        return line, wanted if wanted.left > 0 and line.strip() and not _OTHER.search(line[:WIDE]) else None
    if wanted.blank and _FENCE.match(line):
        wanted.blank -= 1
        return line, wanted
    item = _ITEM.match(line)
    if item is None or not _is_value(item, wanted):
        return line, None
    wanted.blank = 0
    return f"{item['before']}{HIDDEN}{item['after']}", wanted if wanted.left > 0 else None


def _is_value(item: re.Match[str], wanted: _Wanted) -> bool:
    value = item["value"]
    if value == HIDDEN:
        return True
    if value.endswith(":") or harmless(value):
        return False
    if wanted.demand is Demand.OPAQUE and not wanted.spoken:
        return opaque(value)
    return opaque(value) or mixed(value) or (wanted.spoken and any(quote in item["open"] for quote in "\"'`"))


# --- a name and its value apart: `name: X`, `value: Y`


def _called(line: str, name: Name) -> re.Match[str] | None:
    return _CALLED.search(line, max(0, name.start - 120), name.start)


def _apart(lines: list[str], k: int, found: Sequence[Name]) -> None:
    line, spans = lines[k], []
    for name in found:
        if not _CLOSED.match(line, name.end) or not (called := _called(line, name)):
            continue
        value = _VALUE.search(line, name.end, name.end + WIDE)
        if value and not _OTHER.search(line, name.end, value.start()):
            spans += [value.span(1)] if meant(value[1], name.demand) else []
        elif before := _LAST_VALUE.search(line, max(0, called.start() - WIDE), called.start()):
            spans += [before.span(1)] if meant(before[1], name.demand) else []
        elif k and _begins(lines, k - 1) and (before := _VALUE.search(lines[k - 1][:WIDE])):
            lines[k - 1] = _without(lines[k - 1], [before.span(1)] if meant(before[1], name.demand) else [])
    lines[k] = _without(line, spans)


def _begins(lines: Sequence[str], k: int) -> bool:
    """Whether an item begins with this line."""
    return lines[k].lstrip().startswith(("- ", "{")) or (k > 0 and lines[k - 1].rstrip().endswith("{"))


def _without(line: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces, end = [], 0
    for start, stop in sorted(set(spans)):
        if start >= end:
            pieces += [line[end:start], HIDDEN]
            end = stop
    return "".join(pieces) + line[end:]


# --- tables


def _headed(line: str, found: Sequence[Name], hints: Sequence[str]) -> _Table | None:
    """The table that a line is the head of, if one of its cells is a name for a secret."""
    if len(line) > LONGEST or not any(_CELL_END.match(line, name.end) for name in found):
        return None
    separator = next((sign for sign in SEPARATORS if sign in line), "  ")
    if separator == "  ":
        return _aligned(line, found)
    cells = _cells(line, separator)
    plain = [_ARGUMENT.sub("", cells[0], count=1), *cells[1:]]
    if len(cells) < 2 or not all(map(_HEAD.fullmatch, plain)) or (separator in ",;" and not all(map(str.strip, plain))):
        return None
    loose = separator == "," and ", " in line  # as prose has it
    columns = []
    for number, cell in enumerate(plain):
        bare = cell.strip(" \t\r\"'`*")
        last = next((n for n in names(bare, folded(bare), hints) if n.end == len(bare)), None)
        if last and not (last.demand is Demand.OPAQUE and bare[-1] in "sS"):
            columns.append((number, last.spoken and not loose and not ambiguous(bare.lower())))
    return _Table(separator, len(cells), tuple(columns)) if columns else None


def _aligned(line: str, found: Sequence[Name]) -> _Table | None:
    if "  " not in line.strip():
        return None
    starts = [line.rfind("  ", 0, name.start) + 2 for name in found if _CELL_END.match(line, name.end)]
    columns = [start if line[:start].strip() else 0 for start in starts]
    if argument := _ARGUMENT.match(line):
        columns += [start - argument.end() for start in columns if start >= argument.end()]
    return _Table("", 0, tuple((start, False) for start in sorted(columns)))


def _row(line: str, table: _Table) -> tuple[str, _Table | None]:
    """A row without the cells under such a name; a line that is none ends the table."""
    if _RULE.fullmatch(line):
        return line, table
    if not line.strip() or len(line) > LONGEST:
        return line, None
    if not table.separator:
        words = (_WORD.match(line, place) for place, _ in table.columns if not line[max(0, place - 1) : place].strip())
        return _without(line, [word.span() for word in words if word and _in_column(word.group(), False)]), table
    cells = _cells(line, table.separator)
    if len(cells) != table.cells:
        return line, None
    for number, whatever in table.columns:
        value = cells[number].strip(" \t\r\"'`*")
        if _in_column(value, whatever):
            cells[number] = cells[number].replace(value, HIDDEN, 1)
    return table.separator.join(cells), table


def _in_column(value: str, whatever: bool) -> bool:
    if len(value) < 2 or harmless(value) or _NOTHING.fullmatch(value):
        return False
    return whatever or opaque(value) or (len(value) >= 8 and mixed(value) and " " not in value)


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a row; a separator in double quotes is none."""
    cells: list[str] = []
    quoted = False
    for piece in line.split(separator):
        if quoted:
            cells[-1] += separator + piece
        else:
            cells.append(piece)
        quoted ^= piece.count('"') % 2 == 1
    return cells


# --- Secrets of Kubernetes: whatever they hold, under whatever name


def _kubernetes(lines: list[str], kinds: Sequence[int]) -> None:
    """Strike the data of Secrets, of which these lines say that they are."""
    done = 0
    for kind in kinds:
        lines[kind] = _INLINE.sub(lambda m: m[1] + _STRING.sub(rf"\1{HIDDEN}", m[2]), lines[kind])
        first, last = kind, max(kind + 1, done)
        while first > max(done, kind - FAR) and not _DOCUMENT.match(lines[first]):
            first -= 1
        while last < min(len(lines), kind + FAR) and not _DOCUMENT.match(lines[last]):
            last += 1
        _data(lines, max(first, done), last)
        done = max(done, last)


def _data(lines: list[str], first: int, last: int) -> None:
    indent: int | None = None
    for k in range(first, last):
        line = lines[k]
        deep = len(line) - len(line.lstrip())
        if indent is not None and deep > indent:
            lines[k] = _ENTRY.sub(rf"\1{HIDDEN}", line, count=1) if _ENTRY.match(line) else line
        else:
            indent = deep if _DATA.match(line) else None
