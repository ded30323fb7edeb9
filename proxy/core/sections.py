"""The sections of a summary, told apart by fixed markers: asked for, never demanded."""

from __future__ import annotations

import re
from collections.abc import Sequence

GOALS, CONSTRAINTS, EVENTS, DECISIONS = "GOALS", "CONSTRAINTS", "EVENTS", "DECISIONS"
DETAILS, ERRORS, STATE, NEXT, LOOKUP = "DETAILS", "ERRORS", "STATE", "NEXT", "LOOKUP"
ORDER = (GOALS, CONSTRAINTS, EVENTS, DECISIONS, DETAILS, ERRORS, STATE, NEXT, LOOKUP)
"""Language-neutral markers: a summary in any language has the same ones, alone on a line in square brackets."""

_MARKER = re.compile(rf"(?mi)^[ \t#*>_-]{{0,8}}\[({'|'.join(ORDER)})\][ \t:*_]{{0,4}}")


def split(prose: str) -> list[tuple[str, str]]:
    """Sections in the order written, `(marker, body)`; text before the first marker is EVENTS. Nothing is lost."""
    found = list(_MARKER.finditer(prose))
    starts = [m.start() for m in found] + [len(prose)]
    parts = [(EVENTS, prose[: starts[0]].strip("\n"))]
    parts += [(m.group(1).upper(), prose[m.end() : end].strip("\n")) for m, end in zip(found, starts[1:], strict=True)]
    return [(name, body) for name, body in parts if body.strip()]


def join(parts: Sequence[tuple[str, str]]) -> str:
    """The text of sections; a lone EVENTS, which is what text without markers is, gets no marker."""
    parts = [(name, body) for name, body in parts if body.strip()]
    if len(parts) == 1 and parts[0][0] == EVENTS:
        return parts[0][1]
    return "\n".join(f"[{name}]\n{body}" for name, body in parts)
