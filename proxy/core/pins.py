"""Pins: the user's own words, carried verbatim.

An assistant's narration can be made again, an instruction cannot: of rules that were only summarised, one in six was
still there some compactions later. So what the user said is kept by a machine, from user messages alone; where it does
not all fit, sentence by sentence, the sentences worth most for their length first: rules, preferences, corrections and
facts before questions, errands and thanks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from proxy.core.corrections import PASTED, link, replaces, stands, values_of
from proxy.core.fit import Count, settle
from proxy.core.sentences import bare, cut, parts, unfenced
from proxy.core.transcript import Message, calls, ration, role, text
from proxy.core.worth import BULLET, LONG, Unit, content, hints, rate

GAP = "[…]"
TYPED = 600  # characters; a longer message was hardly typed: it is a paste, with the user's own words at its edges
LENGTHY = 2_000  # characters; of a sentence in a message up to this length one may have typed more than is kept whole
LISTED = 0.6  # of its value that an item of a list in a paste has: a fragment, and rarely of the user's own making
SCAN = 20_000  # characters of a message in which words are looked up
SAID = 500_000  # characters of the user's that are looked at in all; the longest messages lose their middle
HEARD = 2_000_000  # characters in all in which words are looked up
RARE = 10  # messages; a word in more of them than this does not tell what a sentence is about
CHAIN = 24  # sentences that may have to come along as corrections of one
FEW = 6  # sentences of a message in a wrapper (see `sentences.bare`) that a person may have written; more are a paste
EARLY = 12  # messages of the user's in which one says what will hold
OFTEN, NEARLY = 8, 0.8  # messages, and of all of the user's: what stands in so many is put there by a machine


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

        Stricter than what a sentence may only stand together with: see `corrections.replaces`.
        """
        for unit in self.units:
            if later := self.instead(unit):
                said = tuple(each.whole or each.text for each in later)
                values = frozenset(value for value in values_of(unit) if not any(stands(value, text) for text in said))
                yield Retired(unit.text, later[-1].turn, said, unit.words, values)

    def instead(self, unit: Unit) -> list[Unit]:
        """What may be quoted in place of a sentence, the last last."""
        later = (self.units[i] for i in sorted(unit.later))
        return [each for each in later if replaces(unit, each)]

    def __repr__(self) -> str:
        return f"Words({len(self.units)} units)"


def words_of(messages: Sequence[Message]) -> Words:
    """What the user said in `messages`; linear in their length up to a bound."""
    units = _units(messages)
    link(units)
    return Words(tuple(units))


def rated(sentences: Sequence[str]) -> list[Unit]:
    """Sentences of anyone, each rated among the others, and linked to those that may supersede it."""
    units = [Unit(i, 0, each, said=each[:LONG], words=content(each[:LONG])) for i, each in enumerate(sentences)]
    heard = Counter(word for unit in units for word in unit.words)
    for unit in units:
        rate(unit, heard)
    link(units)
    return units


def pins(messages: Sequence[Message], budget: int, count: Count) -> str:
    """See `Words.text`."""
    return words_of(messages).text(budget, count)


def _units(messages: Sequence[Message]) -> list[Unit]:
    units: list[Unit] = []
    asked = [(turn, text(message).strip()) for turn, message in enumerate(messages) if role(message) == "user"]
    limit = ration([len(words) for _, words in asked], SAID)
    for number, (turn, words) in enumerate(asked):
        opening = not units
        found = _sentences(turn, _ends(words, limit))
        for i, unit in enumerate(found):
            edge = min(i, len(found) - 1 - i)
            unit.place = 1.3 if opening and i < 4 else 1.0 if len(words) <= TYPED or edge < 3 else PASTED
            if len(words) > TYPED and not opening and BULLET.match(unit.text):
                unit.place *= LISTED
        if len(found) == 1 and number < EARLY:
            found[0].curt = not (turn + 1 < len(messages) and calls(messages[turn + 1]))  # an errand leads to calls
        units += found
    elsewhere = _heard(messages, units)
    common = max(RARE, len(messages) // 10)
    for unit in units:
        unit.words = frozenset(word for word in unit.words if elsewhere[word] <= common)
        rate(unit, elsewhere)
    _settle_repeats(units, len(asked))
    return units


def _sentences(turn: int, pieces: Sequence[str]) -> list[Unit]:
    """Those of a message that is looked at in these pieces."""
    found: list[Unit] = []
    typed = sum(map(len, pieces)) <= LENGTHY
    for piece in pieces:
        plain, end = unfenced(piece), 0
        order = found[-1].order + 2 if found else 0  # without the middle, which nobody looked at
        for whole in parts(plain):
            head, *rest = cut(whole, LONG) if typed and hints(whole[:LONG]) else (whole,)
            for sentence in (head, *rest):
                start = plain.index(sentence, end)
                found.append(Unit(turn, order, sentence, before=plain[end:start] or " ", goes_on=sentence is not head))
                end, order = start + len(sentence), order + 1
            if rest:
                found[-2].whole = whole
    said = [bare(unit.text) for unit in found]
    few = sum(words != unit.text for words, unit in zip(said, found, strict=True)) <= FEW
    for unit, words in zip(found, said, strict=True):
        unit.said = (words if few else unit.text)[:LONG]
    return found


def _ends(words: str, limit: int) -> list[str]:
    """A text, or two thirds of `limit` characters of its head and a third of its tail, cut between words."""
    if len(words) <= limit:
        return [words]
    head, tail = words[: limit * 2 // 3], words[len(words) - limit // 3 :]
    return [head[: max(head.rfind(" "), head.rfind("\n")) + 1 or len(head)], tail[tail.find(" ") + 1 :]]


def _heard(messages: Sequence[Message], units: Sequence[Unit]) -> Counter[str]:
    """In how many messages of the conversation, by whomever, each word of the user's occurs."""
    for unit in units:
        unit.words = content(unit.said)
    wanted = frozenset().union(*(unit.words for unit in units))
    heard: Counter[str] = Counter()
    said = [text(message)[:SCAN] for message in messages]
    limit = ration([len(words) for words in said], HEARD)
    for words in said:
        heard.update(content(words[:limit]) & wanted)
    return heard


def _settle_repeats(units: list[Unit], messages: int) -> None:
    """A sentence said again counts once, where it was said last; what stands in nearly all of the user's `messages` is
    made by a machine. Nobody says a thing that often, and what somebody repeats is worth no less for it."""
    last = {unit.text: i for i, unit in enumerate(units)}
    times = Counter(said for said, _ in {(unit.text, unit.turn) for unit in units})
    for i, unit in enumerate(units):
        if last[unit.text] != i:
            unit.value = 0.0
        elif times[unit.text] >= max(OFTEN, NEARLY * messages):
            unit.value *= 0.5


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
