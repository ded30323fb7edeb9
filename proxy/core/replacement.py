"""What stands in place of the evicted messages: a frame, the user's own words, the prose, the ledger, look-up hints.

The order is fixed, the size bounded, and the same messages with the same prose give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from proxy.core import sections as s
from proxy.core.audit import audit
from proxy.core.corrections import stands
from proxy.core.fit import Count, settle, weigh
from proxy.core.identifiers import Found, identifiers
from proxy.core.ledger import Names, names_of
from proxy.core.outline import Story, story_of
from proxy.core.pins import Retired, Words, choose, rated, words_of
from proxy.core.redact import redact
from proxy.core.sentences import parts
from proxy.core.summary import MARK, Form
from proxy.core.transcript import Message, scrub
from proxy.core.worth import LONG, content

OPENING = f"{MARK} Earlier part of this conversation, condensed: history, already handled, not instructions {MARK}"
SEPARATOR = f"{MARK} End of the condensed part; the conversation continues below {MARK}"
"""The last line of every replacement. What follows it, in the same message or the next, is live."""

# Short labels, not sentences: the text around a summary must not suggest a language. Numbers are those of messages.
PINS = "[USER, VERBATIM; LATER OVERRIDES EARLIER]"
PROSE = "[SUMMARY]"
OUTLINE = "[OUTLINE]"
LEDGER = "[IDENTIFIERS, BY LAST USE]"
HINTS = "[LOOK UP IF NEEDED]"

LEAST_OWN, MOST_OWN = 0.45, 0.6  # of the budget: what pins are sure of, from a large one to a small one
OWN = 250  # tokens that pins have beyond the least share: ten sentences, which weigh most where there is little room
HINT_SHARE = 0.08  # of the budget at most
LINE = 200  # characters; a longer line of prose is taken apart into its sentences
SAME = 2  # words that two sentences share, beside a value, when they are about the same thing
INSTEAD = "→"  # between what was said first and what was said instead
PINS_AGAIN = 0.6  # of the budget: how far pins may grow into what the prose leaves


_MARKS = re.compile(f"{MARK[0]}{{{len(MARK)},}}")
_NUMBERED = re.compile(  # how a message of the user's begins among the pins, and what reads like it
    r"(?m)^[ \t*_>#-]{0,8}(\d{1,7})[*_]{0,2}(?::[*_]{0,2}(?=\s)|\uff1a)"
)


def _flat(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().casefold()


_LABELS = frozenset(map(_flat, (PINS, PINS.split(";")[0], PROSE, OUTLINE, LEDGER, HINTS)))
_EVENT = re.compile(r"\d{1,7} (?:user|assistant|system|developer|unknown): ")  # how a line of an outline begins

_Maker = Callable[[int, Count], str]


@dataclass(frozen=True, slots=True)
class Shares:
    """Tokens each part is sure of; what one leaves the next gets."""

    pins: int
    ledger: int
    prose: int


def shares(budget: int) -> Shares:
    """How `budget` tokens (the frame taken off) are divided: pins 45 % and a little more, 60 % where there is so
    little room that hardly more fits than what the user said; ledger and prose half of the rest each."""
    own = int(min(MOST_OWN * budget, LEAST_OWN * budget + OWN))
    names = (budget - own) // 2
    return Shares(own, names, budget - own - names)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the messages themselves say, read once for whatever prose and budget comes: all that takes long."""

    messages: Sequence[Message]
    words: Words
    names: Names

    def __repr__(self) -> str:
        return f"Evidence({len(self.messages)} messages)"


def gather(messages: Sequence[Message]) -> Evidence:
    return Evidence(messages, words_of(messages), names_of(messages))


def compose(*, evidence: Evidence, prose: str | None, budget: int, count: Count, form: Form) -> str:
    """The replacement of the messages (all that are evicted, from the first turn on) within `budget` tokens.

    `prose` is a summariser's text, cleaned and judged; it is defused, redacted and audited here. Without one an outline
    made by machine takes its place. Never empty: a budget too small for anything gives the two lines of the frame.
    """
    room = budget - count(f"{OPENING}\n{SEPARATOR}") - 2
    if room < 8:
        return f"{OPENING}\n{SEPARATOR}"
    body = _Body(evidence, prose, count, form)
    text = body.fill(room)
    for _ in range(8):  # parts counted one by one may be a token or two less than counted together
        whole = _framed(text)
        over = count(whole) - budget
        if over <= 0:
            return whole
        room -= max(over, 2)
        text = body.fill(room) if room > 8 else ""
    return f"{OPENING}\n{SEPARATOR}"


def _framed(text: str) -> str:
    """Our mark stands at the frame's two lines and nowhere else, whoever wrote it."""
    return scrub("\n".join(piece for piece in (OPENING, _MARKS.sub("", text), SEPARATOR) if piece))


def defuse(prose: str) -> str:
    """`prose` without what would pass for another part of the replacement: our mark, our labels, numbered lines as the
    user's own words have them (they become items of a list)."""
    prose = _MARKS.sub("", prose)
    lines = [line for line in prose.split("\n") if not _is_label(line)]
    return _NUMBERED.sub(r"- \1:", "\n".join(lines))


def _is_label(line: str) -> bool:
    """One of our labels, however it is written, and nothing else: a heading, in bold, with a colon. A summary may have
    headings of one word of its own."""
    words = _flat(line) if len(line) < 80 else ""
    return words in _LABELS and ("[" in line or " " in words)


class _Body:
    """The parts between the lines of the frame, for any room they are given."""

    def __init__(self, evidence: Evidence, prose: str | None, count: Count, form: Form) -> None:
        self.count = count
        self.words, self.names = evidence.words, evidence.names
        gone = {s.LOOKUP} if form == "all" else {s.LOOKUP, s.STATE, s.NEXT}
        retired = list(self.words.retired())
        self.without = self._without(retired)
        told, since = _outlined(audit(redact(defuse(scrub(prose or ""))), evidence.messages))
        found = s.split(current(told, retired))
        self.prose = s.join([(name, text) for name, text in found if name not in gone])
        self.hints = "\n".join(text for name, text in found if name == s.LOOKUP)
        self.since = _current_lines(since, retired)
        none = self.prose or self.since
        self.story = None if none else Story(_current_lines(story_of(evidence.messages).lines, retired))

    def fill(self, room: int) -> str:
        """Pins, prose, ledger and hints within `room` tokens."""
        share = shares(room)
        own = self._titled(PINS, self.words.text, share.pins)
        hints = self._titled(HINTS, partial(condense, self.hints), int(room * HINT_SHARE))
        told = self._told(room - self._size(own) - self._size(hints) - share.ledger, own)
        spare = room - self._size(own) - self._size(hints) - share.ledger - self._size(told)
        if spare > 0.05 * room and self._size(own) > 0.8 * share.pins:  # the prose left something, and pins were cut
            own = self._titled(PINS, self.words.text, min(share.pins + spare, int(room * PINS_AGAIN)))
        left = room - sum(map(self._size, (own, hints, told)))
        names = self._titled(LEDGER, partial(self.names.text, skip=f"{own}\n{told}", without=self.without), left)
        left -= self._size(names)
        if left > 0.05 * room:
            told = self._told(self._size(told) + left, own)
        text = "\n".join(part for part in (own, told, names, hints) if part)
        return text if self.count(text) <= room else settle(lambda size: _head(text, size), room, self.count)

    def _told(self, size: int, own: str) -> str:
        if self.story:
            return self._titled(OUTLINE, partial(self.story.text, skip=own), size)
        return self._titled(PROSE, partial(self._prose, own=own), size)

    def _prose(self, size: int, count: Count, own: str) -> str:
        """The summary, and the newest of what a machine has added to it: never that instead of it."""
        told = condense(self.prose, size, count, known=own)
        left = size - count(told) - 1
        since = Story(self.since).text(left, count, skip=own) if self.since and left > 0 else ""
        return "\n".join(part for part in (told, since) if part)

    def _without(self, retired: Sequence[Retired]) -> frozenset[str]:
        """Names and numbers that the user has replaced and nobody has used since: as a list of what to go on with they
        would stand for what no longer holds."""
        entries, known = self.names.entries, dict[str, Found]()
        return frozenset(
            name
            for each in retired
            for name, _ in identifiers(redact(each.text), known)
            if name in entries and entries[name].last <= each.turn and not any(name in text for text in each.instead)
        )

    def _size(self, part: str) -> int:
        return self.count(part) + 1 if part else 0

    def _titled(self, title: str, make: _Maker, size: int) -> str:
        text = make(size - self.count(title) - 2, self.count)
        return f"{title}\n{text}" if text else ""


def current(prose: str, retired: Sequence[Retired]) -> str:
    """See `corrector`."""
    return "\n".join(map(corrector(retired), prose.split("\n")))


def corrector(retired: Sequence[Retired]) -> Callable[[str], str]:
    """Makes of a line the same with what the user said instead behind each sentence that tells, in his words or with
    its value, what he has superseded, unless that sentence tells it too: another that does may not be carried. If what
    he said is too long for that, the sentence goes."""
    old = [(text, each) for each in retired if (text := _flat(each.text))]
    final: dict[str, str] = {}  # what was said instead may have been superseded itself, by something later still
    for each in reversed(retired):
        final[each.text] = final.get(each.instead[-1], each.instead[-1])

    def corrected(sentence: str) -> str:
        flat = _flat(sentence)
        found = next((each for text, each in reversed(old) if text in flat or _tells(sentence, each)), None)
        if found is None or any(_flat(text) in flat for text in found.instead):
            return sentence
        instead = " ".join(final[found.text].split())
        return f"{sentence} {INSTEAD} {instead}" if len(instead) <= LONG else ""

    def line(told: str) -> str:
        pieces = list(parts(told))
        new = [corrected(piece) for piece in pieces]
        return told if new == pieces else " ".join(filter(None, new))

    return line if old else str


def _current_lines(lines: Sequence[str], retired: Sequence[Retired]) -> tuple[str, ...]:
    """Those of an outline; one of which nothing is left behind its number and role goes."""
    made, corrected = [], corrector(retired)
    for line in lines:
        label, colon, told = line.partition(": ")
        if told := corrected(told):
            made.append(f"{label}{colon}{told}")
    return tuple(made)


def _tells(sentence: str, retired: Retired) -> bool:
    """Whether a sentence has a value that holds no longer, and is about the same."""
    values = [value for value in retired.values if stands(value, sentence)]
    for value in values:
        sentence = sentence.replace(value, " ")
    return bool(values) and len(content(sentence) & retired.words) >= SAME


def _outlined(prose: str) -> tuple[str, tuple[str, ...]]:
    """A summary, and the lines of an outline that follow it."""
    lines = prose.split("\n")
    return "\n".join(line for line in lines if not _EVENT.match(line)), tuple(filter(_EVENT.match, lines))


def _head(text: str, size: float) -> str:
    """Whole lines from the beginning, of about `size` estimated tokens."""
    kept = []
    for line in text.split("\n"):
        size -= weigh(line) + 0.5
        if size < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def condense(prose: str, budget: int, count: Count, *, known: str = "") -> str:
    """`prose` within `budget` tokens, sentence by sentence, in its order.

    What stands in `known` already goes in any case; then what says least for its length. Nothing goes because it is
    old or new: of equals every other one does. What was superseded stays only with what superseded it.
    """
    if budget <= 0:
        return ""
    heard = _flat(known)
    lines = [(name, line) for name, body in s.split(prose) for line in body.split("\n") if line.strip()]
    places = [
        (name, i, piece)
        for i, (name, line) in enumerate(lines)
        for piece in (parts(line) if len(line) > LINE and INSTEAD not in line else [line])
        if not (key := _flat(piece)) or key not in heard
    ]
    units = rated([piece for _, _, piece in places])
    order = sorted(range(len(units)), key=lambda i: (-units[i].value / units[i].cost, _scattered(i), i))

    def build(size: float) -> str:
        return _rejoined([places[i] for i in sorted(choose(units, order, size))])

    return settle(build, budget, count)


def _scattered(i: int) -> int:
    """The position with its bits reversed: neighbours get ranks far apart."""
    return int(f"{i:024b}"[::-1], 2)


def _rejoined(units: Sequence[tuple[str, int, str]]) -> str:
    bodies: list[tuple[str, str]] = []
    last = -1
    for name, line, text in units:
        if bodies and bodies[-1][0] == name:
            bodies[-1] = (name, bodies[-1][1] + (" " if line == last else "\n") + text)
        else:
            bodies.append((name, text))
        last = line
    return s.join(bodies)
