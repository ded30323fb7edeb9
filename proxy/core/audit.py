"""Checking a summary against what was really said: what nobody said is struck from it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from proxy.core.fit import cut
from proxy.core.identifiers import TOKEN, Kind, classify, pieces
from proxy.core.sections import CONSTRAINTS, join, split
from proxy.core.transcript import Message, ration, role, source, text

GAP = "…"  # what stands in place of a struck identifier
CHECKED = frozenset({Kind.PATH, Kind.URL, Kind.HASH, Kind.ID, Kind.REF})
_KEPT = "abcdefghijklmnopqrstuvwxyz0123456789"
_OTHERS = bytes(set(range(256)) - set(_KEPT.encode()))
_NUMERIC = re.compile(  # 1.5, 12ms, 4e-5, 0x1F, 7x24, a quarter or a year of business
    r"[#+]?[\d.,:/-]+(?:[A-Za-z]{1,4}|%)?|[+-]?\d[\d.,]*[eE][+-]?\d{1,3}|0[xX][0-9A-Fa-f]{1,4}|0b[01]{1,16}"
    r"|\d+(?:\.\d+)?[x\u00d7]\d+(?:\.\d+)?|(?:\d{2,4}[-/]?)?(?:Q[1-4]|H[12]|FY|CW|KW)(?:[-/]?\d{2,4})?"
    r"|[\d.,]+/[a-z]{1,8}|\d{1,2}(?::\d\d)?[ap]m(?:-\d{1,2}(?::\d\d)?[ap]m)?|\d{1,2}h\d\d"
)
_PRODUCT = re.compile(  # Node.js, UTF-8, Python3, 2nd, ISO-8601: names that a summary may use of its own accord
    r"[A-Z][a-z]+\.(?:js|io|ai|py)|[A-Za-z]+[-/]?\d{1,3}(?:\.\d{1,3}){0,2}|[a-z]\d{1,2}[a-z]|x86[_-]64|utf8mb\d"
    r"|(?:AES|RSA|SHA|ECDSA)-?\d{1,4}(?:-[A-Z]{2,6}){0,2}|[a-z]{1,3}/[a-z]{1,3}\d?|\d+(?:st|nd|rd|th|x|k|K|M)|[A-Z]\.\d{2,4}"
    r"|(?:ISO|IEC|RFC|IEEE|DIN|ANSI|ECMA|NIST|PEP|EN)(?:[-/][A-Z]{2,5})?-?\d{1,6}(?:[-.:]\d{1,4}){0,2}"
)
_WORD = re.compile(r"[^\W\d_]{4,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")
_LINE = re.compile(r"[^\n]{1,2000}")
INVENTED = 100  # names; of a summary that made up so many no more is looked up twice: each look-up reads all there is
READ = 400_000_000  # characters; in so many look-ups of a longer source no more is believed either
TAILS = 12  # folders that are dropped from a made-up path, one after the other
PIECE = 256 * 1024  # characters that are folded in one go
OVERLAP = 2_000_000  # characters of tools, and as many of people, in which rules are looked for
STOLEN, OWN = 0.6, 0.5  # shares of a rule's words: that make it a tool's, that leave it to a person


def strike(prose: str, original: str) -> str:
    """`prose` without the paths, URLs, hashes and ids that occur nowhere in `original`; numbers are never struck.

    A path that is right but for its beginning keeps the part that occurs (`core/plan.py` of `/made/up/core/plan.py`);
    anything else leaves an ellipsis.
    """
    plain = _bare(original)
    most = min(INVENTED, 1 + READ // (len(original) + 1))
    instead: dict[str, str | None] = {}  # None: may stay

    def verdict(name: str, kind: Kind) -> str | None:
        if kind not in CHECKED or _NUMERIC.fullmatch(name) or _PRODUCT.fullmatch(name) or name in original:
            return None
        if sum(better is not None for better in instead.values()) >= most:
            return GAP
        bare = _bare(name)
        if not bare or bare in plain:  # written differently, but there: SHA256 and sha-256, a hash in capitals
            return None
        return _known_part(name, original) if kind is Kind.PATH else GAP

    def checked(match: re.Match[str]) -> str:
        token = match.group()
        for piece in pieces(token):
            for name, kind in classify(piece):
                if name not in instead:
                    instead[name] = verdict(name, kind)
                if (better := instead[name]) is not None:
                    token = token.replace(name, better)
        return token

    return TOKEN.sub(checked, prose)


def _bare(text: str) -> bytes:
    """The letters and digits of ASCII in a text, small."""
    pieces = (text[at : at + PIECE].casefold().encode("utf-8", "replace") for at in range(0, len(text), PIECE))
    return b"".join(piece.translate(None, _OTHERS) for piece in pieces)


def _known_part(path: str, original: str) -> str:
    parts = path.split("/")
    for first in range(1, min(len(parts), TAILS + 1)):
        tail = "/".join(parts[first:])
        if len(tail) > 3 and tail in original:
            return tail
    return GAP


def disown(prose: str, messages: Sequence[Message]) -> str:
    """`prose` without the lines of its constraints section whose words stand only in tool results.

    What a web page or a log demands is no rule of this conversation. A line goes if six tenths of its words stand
    together in a tool result and less than half of them in anything that the user or the assistant said.
    """
    parts = split(prose)
    rules = [line for name, body in parts if name == CONSTRAINTS for line in body.split("\n") if line.strip()]
    if not rules:
        return prose
    by_tools = _overlap(rules, [text(m) for m in messages if role(m) in ("tool", "function")])
    by_people = _overlap(rules, [text(m) for m in messages if role(m) not in ("tool", "function")])
    stolen = {r for r, tool, person in zip(rules, by_tools, by_people, strict=True) if tool >= STOLEN and person < OWN}
    kept = [
        (name, "\n".join(ln for ln in body.split("\n") if ln not in stolen) if name == CONSTRAINTS else body)
        for name, body in parts
    ]
    return join(kept)


def _overlap(rules: Sequence[str], texts: Sequence[str]) -> list[float]:
    """For each rule: the largest share of its words that stand together in two neighbouring lines of the texts."""
    wanted = [frozenset(word.casefold() for word in _WORD.findall(rule)) for rule in rules]
    holders: dict[str, list[int]] = {}
    for i, words in enumerate(wanted):
        for word in sorted(words):
            holders.setdefault(word, []).append(i)
    best = [0.0] * len(rules)
    limit = ration([len(said) for said in texts], OVERLAP)
    for said in texts:
        before: set[str] = set()
        for line in _LINE.finditer(cut(said, limit)):
            here = {word for found in _WORD.findall(line.group()) if (word := found.casefold()) in holders}
            both = here | before
            for i in {i for word in here for i in holders[word]}:
                best[i] = max(best[i], len(both & wanted[i]) / len(wanted[i]))
            before = here
    return best


def audit(prose: str, messages: Sequence[Message]) -> str:
    """Both checks: what is left of `prose` may stand in a replacement of `messages`."""
    return disown(strike(prose, source(messages)), messages) if prose else ""
