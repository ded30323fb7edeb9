"""A detector of secrets that shares nothing with the product's: known forms, assignments, and entropy."""

from __future__ import annotations

import math
import re
from collections import Counter

from proxy.core.replacement import HINTS, LEDGER, SEPARATOR

RANDOM = 4.2  # bits a character, of strings of 24 and more: base64 keys have 4.5 and above, words below 4

_KNOWN = re.compile(
    r"AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|glpat-[\w-]{20}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}|AIza[\w-]{35}|-----BEGIN [A-Z ]*PRIVATE KEY|SG\.[\w-]{16,}\.[\w-]{16,}"
)
_ASSIGNED = re.compile(r"(?i)\b\w*(?:passwd|password|secret|api_?key|access_?token)\w*\s*[=:]\s*[\"']?([^\s\"',]{6,})")
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{24,}")


def leaks(ledger: str, secrets: tuple[str, ...] = ()) -> list[str]:
    """What looks like a secret in a ledger, or is known to be one."""
    found = [s for s in secrets if s in ledger] + [m.group() for m in _KNOWN.finditer(ledger)]
    found += [m.group(1) for m in _ASSIGNED.finditer(ledger) if "redacted" not in m.group(1)]
    return found + [m.group() for m in _LONG.finditer(ledger) if _random(m.group())]


def _random(run: str) -> bool:
    mixed = any(c.islower() for c in run) and any(c.isupper() for c in run) and any(c.isdigit() for c in run)
    shares = [n / len(run) for n in Counter(run).values()]
    return mixed and "/" not in run and -sum(p * math.log2(p) for p in shares) > RANDOM


def ledger_of(text: str) -> str:
    """The ledger of a replacement."""
    start = text.find(f"{LEDGER}\n")
    ends = (text.find(mark, start) for mark in (f"\n{HINTS}", f"\n{SEPARATOR}"))
    return text[start : min((e for e in ends if e >= 0), default=len(text))] if start >= 0 else ""
