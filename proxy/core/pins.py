"""Pins: the user's own words, carried verbatim.

An assistant's narration can be made again, an instruction cannot: of rules that were only summarised, one in six was
still there some compactions later. So what the user said is kept by a machine, from user messages alone; where it does
not all fit, sentence by sentence, the sentences worth most for their length first: rules, preferences, corrections and
facts before questions, errands and thanks.
"""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from proxy.core.fit import Count, settle, weigh
from proxy.core.sentences import parts, unfenced
from proxy.core.transcript import Message, ration, role, text
from proxy.core.words import (
    COMPARING,
    CONDITION,
    CORRECTION,
    CORRECTION_PARTS,
    LASTING,
    LEANING,
    LEANING_PARTS,
    LIMIT,
    RULE,
    RULE_PARTS,
    SELF,
    SELF_PARTS,
    SMALL_TALK,
    SMALL_TALK_TEXTS,
    TALKING,
)

GAP = "[…]"
TYPED = 600  # characters; a longer message was hardly typed: it is a paste, with the user's own words at its edges
LISTED = 0.6  # of its value that an item of a list in a paste has: a fragment, and rarely of the user's own making
SCAN = 20_000  # characters of a message in which words are looked up
SAID = 500_000  # characters of the user's that are looked at in all; the longest messages lose their middle
HEARD = 2_000_000  # characters in all in which words are looked up
OVERHEAD = 10  # tokens added to a sentence's cost: short scraps would win on density otherwise
LONG = 400  # characters; a sentence beyond is prose or data: it is worth no more than one of this length
RARE = 10  # units; a word in more of them than this does not tell what a sentence is about
RUN = 3  # words in a row that two sentences share: hardly chance where few sentences have them
WEIGHTY = 0.4  # value of a sentence that says something at all
ALIKE = 0.35  # cosine of the words of two sentences of which the later one may be quoted in place of the other
SHARED = 0.5  # of the shorter sentence, that is in such runs: said again; less where another value is in place
CHAIN = 24  # sentences that may have to come along as corrections of one

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_APART = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_CJK_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_NUMBER = re.compile(r"\d(?:[\d.,:]*\d)?")
_QUOTED = re.compile(r"[\"“„«「『`][^\"“”„«»「」『』`\n]{2,80}[\"”“»」』`]")
_MARKED = re.compile(r"[/\\@#_$%€£¥]|\w\.\w|[a-z][A-Z]")
_AROUND = ".,:;!?\"'`()[]<>"
_NAME = re.compile(r"(?<=[^\W_] )[A-Z][^\W\d_]{2,}|(?<=, )[A-Z][^\W\d_]{2,}|\b[A-Z]{2,6}\b")
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])\s+")
_MACHINE_LINE = re.compile(  # how logs, listings, diffs, code and markup begin or end a line
    r"^\s*(?:[>│├└┌┐┘┤⎿☐☒⏺●✓✗|+@$%#<{}\[\]]|at \S+\(|File \"|Traceback|\d{4}-\d\d-\d\d[T ]\d\d:|\[\d"
    r"|[-dl][r-][w-][x-]|\d+\s*[|:→+-]|(?:INFO|WARN|DEBUG|ERROR|TRACE)\b"
    r"|(?:import|from|def|class|return|const|let|var|function|public|private|if|for|while|else)\b.*[:;({=]\s*$)"
    r"|[;{}]\s*$|^\s{8,}\S"
)


@dataclass(slots=True)
class Unit:
    """A sentence."""

    turn: int
    order: int
    text: str
    before: str = " "  # the blanks between it and the sentence before
    place: float = 1.0  # factor for where it stands in its message
    value: float = 0.0  # see `_rate`
    cost: float = 0.0
    corrects: bool = False
    concrete: frozenset[str] = frozenset()  # its numbers, names and quoted words
    words: frozenset[str] = frozenset()
    later: list[int] = field(default_factory=list)  # units that correct this one


@dataclass(frozen=True, slots=True)
class Retired:
    """A sentence that was superseded: the last `turn` in which that happened, the sentences that stand `instead`, and
    what it was about: its `words`, and the `values` that none of the others has."""

    text: str
    turn: int
    instead: tuple[str, ...]
    words: frozenset[str]
    values: frozenset[str]

    def __repr__(self) -> str:
        return f"Retired(in {self.turn}, {len(self.instead)} instead)"


@dataclass(frozen=True, slots=True)
class Words:
    """What the user said in a stretch of conversation, taken apart and rated."""

    units: tuple[Unit, ...]

    def text(self, budget: int, count: Count) -> str:
        """The words worth most within `budget` tokens, in the order of the conversation; empty if there are none.

        One line per message: its number, its words, `[…]` where sentences are left out. A sentence whose value was
        superseded later stands only together with the sentence that does so.
        """
        units = self.units
        ranked = sorted(range(len(units)), key=lambda i: (-units[i].value / units[i].cost, -i))
        extent = {unit.turn: unit.order + 1 for unit in units}
        return settle(lambda size: _render(choose(units, ranked, size), units, extent), budget, count)

    def retired(self) -> Iterator[Retired]:
        """What the user has taken back, or said anew with another value.

        Stricter than what a sentence may only stand together with: here a correction says that it is one, or has a
        value in place of another.
        """
        for unit in self.units:
            if not unit.later or not unit.value:
                continue
            said = unit.concrete | {word.strip(_AROUND) for word in unit.text.split() if _MARKED.search(word)}
            later = [each for i in unit.later if _replaces(unit, each := self.units[i], said)]
            if later:
                instead = tuple(each.text for each in later)
                values = frozenset(value for value in said if not any(value in text for text in instead))
                yield Retired(unit.text, max(each.turn for each in later), instead, unit.words, values)

    def __repr__(self) -> str:
        return f"Words({len(self.units)} units)"


def words_of(messages: Sequence[Message]) -> Words:
    """What the user said in `messages`; linear in their length up to a bound."""
    units = _units(messages)
    _link(units)
    return Words(tuple(units))


def rated(sentences: Sequence[str]) -> list[Unit]:
    """Sentences of anyone, each rated among the others, and linked to those that may supersede it."""
    units = [Unit(i, 0, sentence, words=content(sentence[:LONG])) for i, sentence in enumerate(sentences)]
    heard = Counter(word for unit in units for word in unit.words)
    for unit in units:
        _rate(unit, heard)
    _link(units)
    return units


def pins(messages: Sequence[Message], budget: int, count: Count) -> str:
    """See `Words.text`."""
    return words_of(messages).text(budget, count)


def _units(messages: Sequence[Message]) -> list[Unit]:
    units: list[Unit] = []
    asked = [(turn, text(message).strip()) for turn, message in enumerate(messages) if role(message) == "user"]
    limit = ration([len(words) for _, words in asked], SAID)
    for turn, words in asked:
        opening = not units
        found: list[Unit] = []
        for piece in _ends(words, limit):
            plain, end = unfenced(piece), 0
            skipped = found[-1].order + 2 if found else 0  # the middle, which nobody looked at
            for order, sentence in enumerate(parts(plain), skipped):
                start = plain.index(sentence, end)
                found.append(Unit(turn, order, sentence, before=plain[end:start] or " "))
                end = start + len(sentence)
        for i, unit in enumerate(found):
            edge = min(i, len(found) - 1 - i)
            unit.place = 1.3 if opening and i < 4 else 1.0 if len(words) <= TYPED or edge < 3 else 0.5
            if len(words) > TYPED and not opening and _BULLET.match(unit.text):
                unit.place *= LISTED
        units += found
    elsewhere = _heard(messages, units)
    common = max(RARE, len(messages) // 10)
    for unit in units:
        unit.words = frozenset(word for word in unit.words if elsewhere[word] <= common)
        _rate(unit, elsewhere)
    _settle_repeats(units)
    return units


def _ends(words: str, limit: int) -> list[str]:
    """A text, or two thirds of `limit` characters of its head and a third of its tail, cut between words."""
    if len(words) <= limit:
        return [words]
    head, tail = words[: limit * 2 // 3], words[len(words) - limit // 3 :]
    return [head[: max(head.rfind(" "), head.rfind("\n")) + 1 or len(head)], tail[tail.find(" ") + 1 :]]


def _heard(messages: Sequence[Message], units: Sequence[Unit]) -> Counter[str]:
    """In how many messages of the conversation, by whomever, each word of the user's occurs."""
    for unit in units:
        unit.words = content(unit.text[:LONG])
    wanted = frozenset().union(*(unit.words for unit in units))
    heard: Counter[str] = Counter()
    said = [text(message)[:SCAN] for message in messages]
    limit = ration([len(words) for words in said], HEARD)
    for words in said:
        heard.update(content(words[:limit]) & wanted)
    return heard


def content(sentence: str) -> frozenset[str]:
    """The words a sentence is about, lower case; pairs of characters where words are not separated."""
    if sentence.isascii():
        return frozenset(word.lower() for word in _WORD.findall(sentence) if len(word) > 2) - _EMPTY
    words = {word.casefold() for word in _WORD.findall(sentence) if len(word) > 2 and not _CJK.search(word)}
    pairs = {run[i : i + 2] for run in _CJK_RUN.findall(sentence) for i in range(len(run) - 1)}
    return frozenset(words - _EMPTY | pairs)


_EMPTY = RULE | LEANING | CORRECTION | SELF | SMALL_TALK


def _rate(unit: Unit, heard: Counter[str]) -> None:
    """Set what it would cost to lose the sentence, and what it costs to keep it.

    The value is about 0 for thanks, 1 for a plain statement, 3 for a rule. Three things make it: words that hint at
    rules and corrections; something concrete (numbers, names, quotes); and that it cannot be had from anywhere else:
    what the user said once, in words that occur nowhere else, is lost with the sentence.
    """
    sentence = unit.text[:LONG]
    unit.cost = weigh(unit.text) + OVERHEAD
    folded = sentence.casefold().replace("’", "'")
    words = _WORD.findall(folded)
    if not words or (len(words) <= 6 and all(word in SMALL_TALK for word in words)) or sentence in SMALL_TALK_TEXTS:
        unit.value = 0.02
        return
    numbers = {m.group() for m in _NUMBER.finditer(_BULLET.sub("", sentence))}
    names = {m.group() for m in _NAME.finditer(sentence)}
    quoted = {m.group() for m in _QUOTED.finditer(sentence)}
    unit.concrete = frozenset(numbers | names | quoted)
    rules = sum(word in RULE for word in words) + sum(part in sentence for part in RULE_PARTS)
    rules += sum(phrase in folded for phrase in LASTING)
    leaning = sum(word in LEANING or word in LIMIT for word in words)
    own = any(word in SELF for word in words) or any(part in sentence for part in SELF_PARTS)
    unit.corrects = any(w in CORRECTION for w in words) or any(part in sentence for part in CORRECTION_PARTS)
    alone = sum(heard[word] <= 1 for word in unit.words) + 0.6 * sum(heard[word] == 2 for word in unit.words)
    leaning += any(part in folded for part in LEANING_PARTS) + (words[0] in CONDITION)
    leaning += bool(numbers) and any(word in COMPARING for word in words)
    value = 0.4 + min(1.2, 0.8 * min(rules, 1) + 0.2 * rules + 0.3 * min(leaning, 2)) + 0.4 * unit.corrects + 0.1 * own
    value += 0.3 * bool(numbers) + 0.3 * bool(names) + 0.2 * bool(quoted) + 0.2 * bool(_MARKED.search(sentence))
    value += 0.42 * min(alone, 5)
    if sentence.rstrip("\"'”) ").endswith(("?", "？", "؟", ":", "：")):
        value *= 0.45
    length = len(words) + len(_CJK.findall(sentence)) / 2
    value *= 0.45 if length < 3 else 0.7 if length < 5 else 1.0
    value *= 0.85 if words[0] in TALKING and not unit.corrects else 1.0
    unit.value = value * _human(unit.text) * unit.place


def _human(sentence: str) -> float:
    """From 1 for something a person wrote down to 0.05 for logs, code and data."""
    lines = sentence.split("\n", 40)[:40]
    prose = sum(not _MACHINE_LINE.search(_BULLET.sub("", line)) for line in lines) / len(lines)
    head = sentence[:1000]
    letters = sum(c.isalpha() or c == " " for c in head) / len(head)
    odd = min(1.0, max(0.0, (letters - 0.5) / 0.3))
    long = min(1.0, LONG / len(sentence))
    return max(0.05, prose * odd * long)


def _settle_repeats(units: list[Unit]) -> None:
    """A sentence said again counts once, where it was said last; what comes up three times is made by a machine."""
    last = {unit.text: i for i, unit in enumerate(units)}
    times = Counter(unit.text for unit in units)
    for i, unit in enumerate(units):
        if times[unit.text] > 1:
            unit.value *= 0.0 if last[unit.text] != i else 0.5 if times[unit.text] > 2 else 1.0


def _link(units: list[Unit]) -> None:
    """Find which later sentences may supersede which earlier ones: rare words shared, and something new said."""
    places: dict[str, list[int]] = {}
    for i, unit in enumerate(units):
        for word in sorted(unit.words):
            places.setdefault(word, []).append(i)
    shared: dict[tuple[int, int], tuple[float, int]] = {}
    for found in places.values():
        if 1 < len(found) <= RARE:
            for pair in ((a, b) for n, a in enumerate(found) for b in found[n + 1 :]):
                weight, words = shared.get(pair, (0.0, 0))
                shared[pair] = (weight + 1 / (len(found) - 1), words + 1)
    for (a, b), (weight, words) in sorted(shared.items()):
        one, other = units[a], units[b]
        if not (one.value and other.value):
            continue  # said again later
        new = bool(other.concrete - one.concrete)
        alike = words / (len(one.words) * len(other.words)) ** 0.5
        inside = len(one.words) > 1 and words >= 0.6 * len(one.words) and weight >= 0.4
        if weight >= 0.15 and (inside or alike >= (0.22 if other.corrects else 0.3 if new else 0.6)):
            _supersede(units, a, b)
    for a, b in _said_again(units):
        if b not in units[a].later:
            _supersede(units, a, b)


def _supersede(units: Sequence[Unit], earlier: int, later: int) -> None:
    units[earlier].later.append(later)
    units[later].value = max(units[later].value, 0.8 * units[earlier].value)


def _said_again(units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
    """Pairs that put most of what they say in the same words, in a row, however common each of the words may be."""
    said = [_apart(unit.text[:LONG]) if unit.value >= WEIGHTY else [] for unit in units]
    places: dict[tuple[str, ...], list[int]] = {}
    for i, words in enumerate(said):
        for run in dict.fromkeys(zip(*(words[n:] for n in range(RUN)), strict=False)):
            places.setdefault(run, []).append(i)
    shared: Counter[tuple[int, int]] = Counter()
    telling: set[tuple[int, int]] = set()  # pairs whose run has a word that tells what they are about
    for run, found in places.items():
        if 1 < len(found) <= RARE:
            pairs = [(a, b) for n, a in enumerate(found) for b in found[n + 1 :]]
            shared.update(pairs)
            telling.update(pair for pair in pairs if not units[pair[0]].words.isdisjoint(run))
    for (a, b), runs in sorted(shared.items()):
        new = units[b].corrects or bool(units[b].concrete - units[a].concrete)
        long_enough = runs > 1 or (a, b) in telling
        if long_enough and runs + RUN - 1 >= SHARED * (0.8 if new else 1) * min(len(said[a]), len(said[b])):
            yield a, b


def _apart(sentence: str) -> list[str]:
    """Its words in order, a path being one; single characters where words are not separated."""
    return [word for piece in _APART.findall(sentence.casefold()) if (word := piece.strip(_AROUND))]


def _replaces(one: Unit, later: Unit, values: frozenset[str]) -> bool:
    """Whether a sentence may be quoted in place of an earlier one with these values: they share most of what either is
    about, or put it in the same words, and the later one says that it corrects or has another value."""
    if min(one.value, later.value) < WEIGHTY:
        return False
    same = any(True for _ in _said_again((one, later)))
    alike = len(one.words & later.words) / max(1, len(one.words) * len(later.words)) ** 0.5
    gone = same or any(value not in later.text for value in values)  # a correction may name what it replaces
    new = bool(later.concrete - values or _MARKED.search(later.text))
    return (same or alike >= ALIKE) and (later.corrects or (gone and new))


def choose(units: Sequence[Unit], ranked: Sequence[int], size: float) -> set[int]:
    """Units by value for cost, each with all that supersede it, within `size` estimated tokens."""
    chosen: set[int] = set()
    for i in ranked:
        if size < 1:
            break
        if i in chosen or units[i].value < 0.01:
            continue
        group = _with_later(units, i, chosen)
        cost = sum(units[j].cost for j in group)
        if cost <= size and group:
            chosen |= group
            size -= cost
    return chosen


def _with_later(units: Sequence[Unit], start: int, chosen: set[int]) -> set[int]:
    """The unit and what has to come with it; nothing if that is a chain too long to be carried."""
    group, open_ = {start}, [start]
    while open_:
        for j in units[open_.pop()].later:
            if j not in group and j not in chosen:
                group.add(j)
                open_.append(j)
        if len(group) > CHAIN:
            return set()
    return group


def _render(chosen: set[int], units: Sequence[Unit], extent: Mapping[int, int]) -> str:
    lines: list[str] = []
    by_turn = groupby(sorted(chosen), key=lambda i: units[i].turn)
    for turn, members in by_turn:
        line, order = f"{turn}:", -1
        for unit in (units[i] for i in members):
            whole = unit.order == order + 1
            line += (unit.before if whole and order >= 0 else " " if whole else f" {GAP} ") + unit.text
            order = unit.order
        lines.append(line if order + 1 == extent[turn] else f"{line} {GAP}")
    return "\n".join(lines)
