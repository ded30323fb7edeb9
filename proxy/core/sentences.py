"""Text taken apart into its sentences, each verbatim; and what of a sentence is words, where something wraps it."""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

FENCED = 6  # lines of a fence that may be somebody's words; a longer one is code or output, whatever it looks like
WRAPPERS = 4  # around one sentence: an address, a quote mark, a tag, one more

# Indented as it may be in what was copied from a terminal. One that is not closed hides nothing: what follows may be
# the user's own again.
_FENCE = re.compile(r"(?ms)^[ \t]{0,40}(```|~~~)([^\n]*)\n(.*?)^[ \t]{0,40}\1[^\n]*$")
_PLAIN = frozenset({"", "text", "txt", "plain", "plaintext", "md", "markdown"})  # labels of a fence that is no code
# A sentence ends at a stop before a blank (people who type fast begin in small letters), or at a line break that is no
# mere wrapping. A stop after an abbreviation or a number does not count.
_END = re.compile(
    r"(?<=[.!?…।॥؟۔])[\"'”’)\]]?[ \t]{1,8}(?=\S)|(?<=[。！？])"
    r"|(?<![,;])\n(?=[ \t]{0,40}(?:[^\sa-zà-ÿа-я]|$))|(?<=[.!?:;])\n|\n(?=[ \t]*\n)"
)
_ABBREVIATED = re.compile(
    r"(?<![^\s(])(?:\d{1,2}|[A-Z]|[a-z]\.[a-zA-Z]|Mrs?|Ms|Mx|Dr|St|Jr|Hrn?|Fr|Sra?|Mme|Mlle|Prof|Inc|Ltd|Co|Nos?|Nr|Art|Abs|Str"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|vs|etc|cf|esp|resp|bzw|usw|ggf|evtl|inkl|zzgl|ca|approx|incl|excl|max|min"
    r"|no|nr|vol|pp?|tel|env|usu|dept|est|fig)\.$"
)
_CLAUSE = re.compile(r"[,;:—](?=\s)|[，；、：]")  # where a sentence that is too long may be cut
_BEFORE = re.compile(  # what a chat program, a quotation, a heading, a table or a tag puts before somebody's words
    r"\s*(?:>{1,3}[ \t]|#{1,6}[ \t]|\|[ \t]*(?!-)|@[\w.-]{1,40}[:,]?[ \t]+|<[A-Za-z][\w-]{0,40}>[ \t]*"
    r"|\[(?!(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|NOTICE)\])[^\[\]\n]{1,80}\][ \t:]{1,4}(?=[^\W\d_]))"
)
_AFTER = re.compile(r"\s*(?:</[A-Za-z][\w-]{0,40}>|\|)\s*$")
_DATA = re.compile(r'\s*[\[{"]')
_STRING = re.compile(r'"([^"\n]{6,400})"')


def unfenced(words: str) -> str:
    """`words` without what stands in code fences, unless that is a few lines of plain words."""
    return _FENCE.sub(_opened, words)


def _opened(fence: re.Match[str]) -> str:
    lines = [line for line in fence[3][: FENCED * 1_000].split("\n") if line.strip()]
    spoken = fence[2].strip().lower() in _PLAIN and 0 < len(lines) <= FENCED and all(map(_spoken, lines))
    return f"\n{fence[3]}\n" if spoken else "\n"


def _spoken(line: str) -> bool:
    """Whether a line is a sentence rather than a command, code or output."""
    line = bare(line)
    long_enough = len(line.split()) > 2 or (len(line) > 5 and not line.isascii())
    ended = not line[:1].islower() or line.rstrip("\"'”) ").endswith((".", "!", "?"))
    return long_enough and ended and letters(line) >= 0.85 * len(line)


def letters(text: str) -> int:
    """How many of its characters are letters, the signs that some scripts write vowels with, or blanks."""
    if text.isascii():
        return sum(c.isalpha() or c == " " for c in text)
    return sum(c.isalpha() or c == " " or unicodedata.category(c)[0] == "M" for c in text)


def parts(plain: str) -> Iterator[str]:
    """The sentences of a text, each verbatim."""
    start = 0
    for end in _END.finditer(plain):
        if _ABBREVIATED.search(plain, max(start, end.start() - 8), end.start()):
            continue
        if sentence := plain[start : end.end()].strip():
            yield sentence
        start = end.end()
    if sentence := plain[start:].strip():
        yield sentence


def cut(sentence: str, most: int) -> list[str]:
    """A sentence of more than `most` characters as its first clauses, about half of that, and the rest; in one piece if
    it has no clauses."""
    if len(sentence) <= most:
        return [sentence]
    ends = [end.end() for end in _CLAUSE.finditer(sentence, 0, most)]
    end = max((end for end in ends if end <= most // 2), default=ends[0] if ends else 0)
    return [sentence[:end], sentence[end:].strip()] if end and sentence[end:].strip() else [sentence]


def bare(sentence: str) -> str:
    """The words of a sentence that something wraps: an address before it, a mark of quotation, a pair of tags, the bars
    of a table, the syntax of data."""
    start, stop = 0, len(sentence)
    for _ in range(WRAPPERS):
        if not (before := _BEFORE.match(sentence, start)):
            break
        start = before.end()
    if start and (after := _AFTER.search(sentence, max(start, stop - 60))):
        stop = after.start()
    words = sentence[start:stop].strip()
    if _DATA.match(words):
        strings = [each for each in _STRING.findall(words) if each.count(" ") > 1 or not each.isascii()]
        words = " ".join(strings) or words
    return words or sentence
