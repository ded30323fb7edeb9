"""How the fake reads: text to sentences, sentences to words, and how much a sentence tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Quotation marks and the full-width stops of CJK text, by number: they look like something else in source code.
_QUOTES = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb"
_BREAK = re.compile(rf"(?<=[.!?])[{_QUOTES})]?\s+|(?<=[\u3002\uff01\uff1f])")
_MARKS = f" \t-*\u2022>#|{_QUOTES}"
_NUMBERING = re.compile(r"\[?\d{1,5}\]?[:.)]\s+")  # of a list item
_WORD = re.compile(r"[^\W_]+(?:[-_.:/][^\W_]+)*")
_QUESTION = re.compile(rf"[?\uff1f][{_QUOTES})*_ ]*$")

_SHORTEST, _LONGEST = 12, 400  # characters of a sentence worth keeping

# Words that carry no subject: what is left of a question after them must stand in the sentence that answers it.
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        """a an and are at be by can could did do does for from give had has have how i in is it its know me my of on or
        our please recall remember remind say tell that the their there this to us was we were what when where which
        who whom whose will with would you your answer exactly word words again now still""",
    )
)
# Words that announce something worth remembering: facts, rules, decisions, failures.
_TELLING = frozenset(
    re.findall(
        r"\w+",
        """agreed always assigned because begins belongs called caused codename contact deadline decided decision deploy
        ends error failed fixed forbidden limit listens lives located must named never note only owner port prefer
        record remember requires root rule runs set stored threshold uses version""",
    )
)


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or its text parts, one a paragraph."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n\n".join(text for text in texts if isinstance(text, str))


def last_line(text: str) -> str:
    """What a message is about when something was put in front of it: its last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def sentences(text: str) -> Iterator[str]:
    """Sentences in order, without list marks, numbering and quotes round them."""
    for line in text.splitlines():
        item = line.lstrip(_MARKS)
        numbering = _NUMBERING.match(item)
        for piece in _BREAK.split(item[numbering.end() :] if numbering else item):
            if piece.endswith("}"):
                piece = piece.rstrip('"}], ')  # the end of a JSON object whose last string ends in a sentence
            if sentence := piece.strip(_MARKS):
                yield sentence


def subject(text: str) -> frozenset[str]:
    """The words a sentence or question is about: lower case, without empty words, plurals and verbs folded."""
    return frozenset(_stem(word) for word in words(text) if word not in _EMPTY)


def words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def is_question(sentence: str) -> bool:
    return bool(_QUESTION.search(sentence))


def worth(sentence: str) -> int:
    """How much a sentence tells, 0 to 8: names, numbers and identifiers, decisions; below 0: not worth a line.

    A line that is no prose (a log line, a call) tells nothing by itself, however many numbers it has.
    """
    if not _SHORTEST <= len(sentence) <= _LONGEST or is_question(sentence):
        return -1
    found: list[str] = _WORD.findall(sentence)
    if len(found) < 3:
        return -1
    exact = sum(any(c.isdigit() or c in "/_" for c in word) for word in found)
    names = sum(word[0].isupper() for word in found[1:])
    telling = sum(word.lower() in _TELLING for word in found)
    prose = sum(word.isalpha() and word.islower() for word in found) >= 3
    return (min(exact, 2) + min(names, 2) + min(2 * telling, 4)) if prose else 0


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
