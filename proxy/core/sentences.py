"""Text taken apart into its sentences, each verbatim."""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
from collections.abc import Iterator

# Indented as it may be in what was copied from a terminal. One that is not closed hides nothing: what follows may be
# the user's own again.
_FENCE = re.compile(r"(?ms)^[ \t]{0,40}(```|~~~)[^\n]*\n.*?^[ \t]{0,40}\1[^\n]*$")
# A sentence ends at a stop before a blank (people who type fast begin in small letters), or at a line break that is no
# mere wrapping. A stop after an abbreviation or a number does not count.
_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]?[ \t]{1,8}(?=\S)|(?<=[。！？])"
    r"|(?<![,;])\n(?=[ \t]{0,40}(?:[^\sa-zà-ÿа-я]|$))|(?<=[.!?:;])\n|\n(?=[ \t]*\n)"
)
_ABBREVIATED = re.compile(
    r"(?<![^\s(])(?:\d{1,2}|[A-Z]|[a-z]\.[a-zA-Z]|Mrs?|Ms|Mx|Dr|St|Jr|Hrn?|Fr|Sra?|Mme|Mlle|Prof|Inc|Ltd|Co|Nos?|Nr|Art|Abs|Str"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|vs|etc|cf|esp|resp|bzw|usw|ggf|evtl|inkl|zzgl|ca|approx|incl|excl|max|min"
    r"|no|nr|vol|pp?|tel|env|usu|dept|est|fig)\.$"
)


def unfenced(words: str) -> str:
    """`words` without what stands in code fences."""
    return _FENCE.sub("\n", words)


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
