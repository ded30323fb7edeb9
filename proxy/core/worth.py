"""What a sentence of the user's is worth: its value, from words that hint at rules and from what it alone tells, and
what it costs to keep it."""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from proxy.core.fit import weigh
from proxy.core.sentences import letters
from proxy.core.words import (
    ASKING,
    COMPARING,
    CONDITION,
    CORRECTION,
    CORRECTION_PARTS,
    CORRECTION_PHRASES,
    FORBIDDING,
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

OVERHEAD = 10  # tokens added to a sentence's cost: short scraps would win on density otherwise
LONG = 400  # characters; a sentence beyond is prose or data: it is worth no more than one of this length
CURT = 1.6  # value of a word or two that somebody sent as a message of its own: at that length there is nothing to tell


def _marks() -> str:
    """The signs that many scripts write vowels with, as ranges for a set of characters: `\\w` does not have them."""
    signs = [c for c in range(0x300, 0x1CFF) if unicodedata.category(chr(c))[0] == "M"]
    runs = [[c for _, c in run] for _, run in groupby(enumerate(signs), lambda each: each[1] - each[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


WORD = re.compile(rf"(?:[^\W_][{_marks()}]*)+(?:['’-](?:[^\W_][{_marks()}]*)+)*")
MARKED = re.compile(r"[/\\@#_$%€£¥]|\w\.\w|[a-z][A-Z]")
BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])\s+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_UNBROKEN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese, Khmer: without blanks
_CJK_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_NUMBER = re.compile(r"\d(?:[\d.,:]*\d)?")
_QUOTED = re.compile(r"[\"“„«「『`][^\"“”„«»「」『』`\n]{2,80}[\"”“»」』`]")
_NAME = re.compile(r"(?<=[^\W_] )[A-Z][^\W\d_]{2,}|(?<=, )[A-Z][^\W\d_]{2,}|\b[A-Z]{2,6}\b")
_MACHINE_LINE = re.compile(  # how logs, listings, diffs, code and markup begin or end a line
    r"^\s*(?:[>│├└┌┐┘┤⎿☐☒⏺●✓✗|+@$%#<{}\[\]]|at \S+\(|File \"|Traceback|\d{4}-\d\d-\d\d[T ]\d\d:|\[\d"
    r"|[-dl][r-][w-][x-]|\d+\s*[|:→+-]|(?:INFO|WARN|DEBUG|ERROR|TRACE)\b"
    r"|(?:import|from|def|class|return|const|let|var|function|public|private|if|for|while|else)\b.*[:;({=]\s*$)"
    r"|[;{}]\s*$|^\s{8,}\S"
)
_STOPS = (".", "!", "。", "！", "।")
_ASKED = ("?", "？", "؟")
_EMPTY = RULE | LEANING | CORRECTION | SELF | SMALL_TALK


@dataclass(slots=True)
class Unit:
    """A sentence."""

    turn: int
    order: int
    text: str
    said: str = ""  # what of it is words, at most `LONG` characters
    whole: str = ""  # of a long sentence of which this is the beginning
    goes_on: bool = False  # the rest of such a one
    before: str = " "  # the blanks between it and the sentence before
    place: float = 1.0  # factor for where it stands in its message
    curt: bool = False  # a short message of its own, where one says what will hold
    value: float = 0.0  # see `rate`
    cost: float = 0.0
    corrects: bool = False
    concrete: frozenset[str] = frozenset()  # its numbers, names and quoted words
    words: frozenset[str] = frozenset()
    later: list[int] = field(default_factory=list)  # units that correct this one


def content(sentence: str) -> frozenset[str]:
    """The words a sentence is about, lower case; pairs of characters where words are not separated."""
    if sentence.isascii():
        return frozenset(word.lower() for word in WORD.findall(sentence) if len(word) > 2) - _EMPTY
    words = {word.casefold() for word in WORD.findall(sentence) if len(word) > 2 and not _CJK.search(word)}
    pairs = {run[i : i + 2] for run in _CJK_RUN.findall(sentence) for i in range(len(run) - 1)}
    return frozenset(words - _EMPTY | pairs)


def rate(unit: Unit, heard: Mapping[str, int]) -> None:
    """Set what it would cost to lose the sentence, and what it costs to keep it.

    The value is about 0 for thanks, 1 for a plain statement, 3 for a rule. Three things make it: words that hint at
    rules and corrections; something concrete (numbers, names, quotes); and that it cannot be had from anywhere else:
    what the user said once, in words that occur nowhere else, is lost with the sentence. `heard`: in how many messages
    each word occurs.
    """
    sentence = unit.said
    unit.cost = weigh(unit.text) + OVERHEAD
    folded = sentence.casefold().replace("’", "'")
    words = WORD.findall(folded)
    if not words or (len(words) <= 6 and all(word in SMALL_TALK for word in words)) or sentence in SMALL_TALK_TEXTS:
        unit.value = 0.02
        return
    numbers = {m.group() for m in _NUMBER.finditer(BULLET.sub("", sentence))}
    names = {m.group() for m in _NAME.finditer(sentence)}
    quoted = {m.group() for m in _QUOTED.finditer(sentence)}
    unit.concrete = frozenset(numbers | names | quoted)
    unit.corrects = corrects(sentence, words)
    rules = hints(folded)
    leaning = sum(word in LEANING or word in LIMIT for word in words)
    leaning += any(part in folded for part in LEANING_PARTS) + (words[0] in CONDITION)
    leaning += bool(numbers) and any(word in COMPARING for word in words)
    own = any(word in SELF for word in words) or any(part in sentence for part in SELF_PARTS)
    alone = sum(heard[word] <= 1 for word in unit.words) + 0.6 * sum(heard[word] == 2 for word in unit.words)
    value = 0.4 + min(1.2, 0.8 * min(rules, 1) + 0.2 * rules + 0.3 * min(leaning, 2)) + 0.4 * unit.corrects + 0.1 * own
    value += 0.3 * bool(numbers) + 0.3 * bool(names) + 0.2 * bool(quoted) + 0.2 * bool(MARKED.search(sentence))
    value += 0.42 * min(alone, 5)
    if asks(sentence) and not (rules and folded.startswith(ASKING)):
        value *= 0.45
    length = len(words) + len(_CJK.findall(sentence)) / 2 + len(_UNBROKEN.findall(sentence)) / 5
    if unit.curt and length < 5 and sentence.endswith(_STOPS) and not BULLET.match(sentence):
        value = max(value, CURT)
    else:
        value *= 0.45 if length < 3 else 0.7 if length < 5 else 1.0
    value *= 0.85 if words[0] in TALKING and not unit.corrects else 1.0
    unit.value = value * human(unit) * unit.place


def hints(sentence: str) -> int:
    """How many words and phrases of it are those of rules."""
    folded = sentence.casefold().replace("’", "'")
    words = WORD.findall(folded)
    said = f" {' '.join(words)} "
    count = sum(word in RULE for word in words) + sum(f" {phrase} " in said for phrase in FORBIDDING)
    return count + sum(part in folded for part in RULE_PARTS) + sum(phrase in folded for phrase in LASTING)


def corrects(sentence: str, words: list[str]) -> bool:
    """Whether it has a word that goes with corrections; `words` are its own, lower case."""
    return (
        any(word in CORRECTION for word in words)
        or any(part in sentence for part in CORRECTION_PARTS)
        or any(phrase in " ".join(words) for phrase in CORRECTION_PHRASES)
    )


def asks(sentence: str) -> bool:
    """A question, or what only announces something."""
    return sentence.rstrip("\"'”) ").endswith((*_ASKED, ":", "："))


def human(unit: Unit) -> float:
    """From 1 for something a person wrote down to 0.05 for logs, code and data."""
    lines = unit.said.split("\n", 40)[:40]
    prose = sum(not _MACHINE_LINE.search(BULLET.sub("", line)) for line in lines) / len(lines)
    odd = min(1.0, max(0.0, (letters(unit.said) / len(unit.said) - 0.5) / 0.3))
    long = min(1.0, LONG / len(unit.text))
    return max(0.05, prose * odd * long)
