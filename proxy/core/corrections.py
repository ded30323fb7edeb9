"""Which of the user's sentences take the place of earlier ones.

Two answers. `link` finds what an earlier sentence may only stand together with, and would rather find too much: a
value must not stand without what superseded it. `replaces` tells whether a later sentence may be quoted in place of the
earlier one, and would rather find too little: of two things that hold side by side neither replaces the other.
"""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from proxy.core.words import (
    ADDING,
    ASSENT,
    CORRECTION,
    CORRECTION_PHRASES,
    EMPTY,
    LEANING,
    NOT,
    SELF,
    SMALL_TALK,
    SURELY,
    TALKING,
)
from proxy.core.worth import MARKED, WORD, Unit, asks

RARE = 10  # units; a word in more of them than this does not tell what a sentence is about
RUN = 3  # words in a row that two sentences share: hardly chance where few sentences have them
WEIGHTY = 0.4  # value of a sentence that says something at all
ALIKE = 0.35  # cosine of the words of two sentences of which the later one may be quoted in place of the other
SHARED = 0.5  # of the shorter sentence, that is in such runs: said again; less where another value is in place
PASTED = 0.5  # `Unit.place` of what stands in the middle of a paste; at most
SWAPPED = 3  # words at most that stand where others stood, and name another thing; more are another way to put it

_CODE = re.compile(r"#?(?=\d{0,12}[A-Z])(?=[A-Z]{0,12}\d)[A-Z\d]{4,20}")  # of a booking, of a part
_APART = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_AROUND = ".,:;!?\"'`()[]<>。，：；！？"
_TALK = SELF | LEANING | TALKING | CORRECTION  # a name has none of these
_Swap = tuple[tuple[str, ...], tuple[str, ...]]
"""Words, and those in their place in another sentence."""


def link(units: list[Unit]) -> None:
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
        if not (one.value and other.value and _may_correct(a, b, other)):  # a value of 0: said again later
            continue
        new = bool(other.concrete - one.concrete)
        alike = words / (len(one.words) * len(other.words)) ** 0.5
        inside = len(one.words) > 1 and words >= 0.6 * len(one.words) and weight >= 0.4
        if weight >= 0.15 and (inside or alike >= (0.22 if other.corrects else 0.3 if new else 0.6)):
            _supersede(units, a, b)
    for a, b in said_again(units):
        if b not in units[a].later and _may_correct(a, b, units[b]):
            _supersede(units, a, b)


def _may_correct(earlier: int, place: int, later: Unit) -> bool:
    """Not the sentence before of which it is the rest; and nothing from the middle of a paste unless it says so: such
    text has words in common with all that is talked about."""
    if later.goes_on and place == earlier + 1:
        return False
    return later.place > PASTED or _surely(later.said, frozenset())


def _supersede(units: Sequence[Unit], earlier: int, later: int) -> None:
    units[earlier].later.append(later)
    units[later].value = max(units[later].value, 0.8 * units[earlier].value)


def said_again(units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
    """Pairs that put most of what they say in the same words, in a row, however common each of the words may be."""
    said = [_apart(unit.said) if unit.value >= WEIGHTY else [] for unit in units]
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


def values_of(unit: Unit) -> frozenset[str]:
    """What of a sentence another may have in its place: its numbers, names, quoted words, paths, codes and the like."""
    words = [word.strip(_AROUND) for word in unit.said.split()]
    codes = frozenset(filter(_CODE.fullmatch, words))
    whole = frozenset(value for value in unit.concrete if not any(value in code for code in codes))
    return whole | codes | frozenset(filter(MARKED.search, words))


def stands(value: str, sentence: str) -> bool:
    """Whether a value stands in a sentence: 4 does not in 46."""
    at = sentence.find(value)
    while at >= 0:
        around = sentence[max(0, at - 1) : at], sentence[at + len(value) : at + len(value) + 1]
        if not any(edge.isdigit() and c.isdigit() for edge, c in zip((value[:1], value[-1:]), around, strict=True)):
            return True
        at = sentence.find(value, at + 1)
    return False


def replaces(one: Unit, later: Unit) -> bool:
    """Whether a sentence may be quoted in place of an earlier one.

    It takes a correction that is about the same, or the same said again with another value. Where the name of a thing
    has changed places too (`the port of production`, `the port of staging`), or more than one value, both hold, unless
    the later one surely corrects.
    """
    if min(one.value, later.value) < WEIGHTY or later.place < 1 or _adds(later.said):
        return False  # what is pasted corrects nothing
    old, new = values_of(one), values_of(later)
    surely = _surely(later.said, old)
    swaps = list(_swaps(one.said, later.said))
    if not surely and (
        one.turn == later.turn  # a list
        or asks(later.said)
        or _assents(later.said)
        or _side_by_side(swaps, old, new, several=later.corrects)
    ):
        return False
    gone = {_kind(value) for value in old if not stands(value, later.said)}
    put = {_kind(value) for value in new if not stands(value, one.said)}
    changed = not gone.isdisjoint(put if surely else put - {"code"})
    a, b = _telling(one), _telling(later)
    alike = len(one.words & later.words) / max(1, len(one.words) * len(later.words)) ** 0.5 >= ALIKE
    same = any(True for _ in said_again((one, later)))
    if a.isdisjoint(b) or not (same or alike):
        return False
    if later.corrects or surely:
        return changed or (surely and len(a & b) > 1)
    if not changed:  # nothing but said more fully, or with a name in it
        return same and bool(put) and not swaps and a <= b
    moved = {_key(word) for pair in swaps for words in pair for word in words}
    return min(len(a - b - moved), len(b - a - moved)) <= 1


def _side_by_side(swaps: Sequence[_Swap], old: frozenset[str], new: frozenset[str], *, several: bool) -> bool:
    """Whether two sentences tell of two things, which differ in name, or in more than one value if not `several`."""
    values = sum(_has(one, old) and _has(later, new) for one, later in swaps)
    named = any(_names_another(*pair) for pair in swaps if not (_has(pair[0], old) or _has(pair[1], new)))
    return named or (values > 1 and not several)


def _surely(sentence: str, old: frozenset[str]) -> bool:
    """Whether it says that it corrects: `actually`, `not 40` where 40 it was."""
    folded = sentence.casefold().replace("’", "'")
    words = WORD.findall(folded)
    if any(word in SURELY for word in words) or any(phrase in " ".join(words) for phrase in CORRECTION_PHRASES):
        return True
    return any(f"{no} {value.casefold()}" in folded for value in old for no in NOT)


def _adds(sentence: str) -> bool:
    return "as well" in sentence or any(word.casefold() in ADDING for word in WORD.findall(sentence))


def _assents(sentence: str) -> bool:
    return any(word.casefold() in ASSENT for word in WORD.findall(sentence)[:1])


def _kind(value: str) -> str:
    """Only a value of the same kind takes the place of another. A code, as of a booking, tells which thing is meant:
    two of them are two things."""
    if _CODE.fullmatch(value):
        return "code"
    if MARKED.search(value):
        return "path"
    return "number" if any(c.isdigit() for c in value) else "initials" if value.isupper() else "name"


def _telling(unit: Unit) -> frozenset[str]:
    """Its words, without those that could stand in any sentence."""
    return frozenset(filter(_tells, _apart(unit.said)))


def _tells(word: str) -> bool:
    key = _key(word)
    return bool(key) and key not in EMPTY and key not in SMALL_TALK


def _swaps(one: str, later: str) -> Iterator[_Swap]:
    """Words of the one, and those in their place in the other: between the same neighbours, or after or before the
    same."""
    a, b = _APART.findall(one), _APART.findall(later)
    both = _shared([_key(word) for word in a], [_key(word) for word in b])
    others = list(_gaps(b, both))
    by_left = {left: words for words, left, _ in others}
    by_right = {right: words for words, _, right in others}
    for words, left, right in _gaps(a, both):
        for other in {by_left.get(left): None, by_right.get(right): None}:
            if other and any(map(_tells, words)) and any(map(_tells, other)):
                yield words, other


def _shared(one: Sequence[str], later: Sequence[str]) -> set[str]:
    """Words that both have; a number only beside the same word: `berth 5 holds 6` and `berth 6 holds 9` have none."""
    placed = {word for pair in {*pairwise(one)} & {*pairwise(later)} for word in pair}
    return {word for word in {*one}.intersection(later) if word in placed or not any(c.isdigit() for c in word)}


def _gaps(words: Sequence[str], both: set[str]) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """Runs of words that the other sentence has not, with the neighbours of each: a word and the how many-th it is."""
    times: Counter[str] = Counter()
    start, left = 0, ("", 0)
    for i, word in enumerate((*words, "")):
        key = _key(word)
        if key in both or i == len(words):
            times[key] += 1
            right = (key, times[key]) if i < len(words) else ("", 0)
            if i > start:
                yield tuple(words[start:i]), left, right
            start, left = i + 1, right


def _has(words: Sequence[str], values: frozenset[str]) -> bool:
    said = " ".join(words)
    return any(value in said for value in values)


def _names_another(one: Sequence[str], later: Sequence[str]) -> bool:
    """Whether the words in place of others are a short name of another thing, rather than talk or another form."""
    if max(len(one), len(later)) > SWAPPED or one[-1].endswith(",") or later[-1].endswith(","):
        return False
    a, b = [_key(word) for word in one], [_key(word) for word in later]
    if any(word in _TALK for word in (*a, *b)):
        return False
    return not any(x[:n] == y[:n] for x in a for y in b if (n := max(4, min(len(x), len(y)) - 2)) <= len(x))


def _key(word: str) -> str:
    return word.strip(_AROUND).casefold()
