"""What the planner knows of a message, and where a list of messages may be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.core import digest

HEAD_ROLES = frozenset({"system", "developer"})
TOOL_ROLES = frozenset({"tool", "function"})


@dataclass(frozen=True, slots=True)
class Turn:
    """Facts about one message, computed once for the same bytes."""

    role: str
    calls: int  # tool calls in it (a legacy `function_call` counts as one)
    real: bool  # a user message that says something
    digest: bytes  # 16 bytes, see core/digest.py
    tokens: int  # our count, template overhead included
    chars: int  # characters of its text content
    media: bool  # holds parts that are not text


def read(message: Mapping[str, Any], tokens: int) -> Turn:
    """The facts about one parsed message; any field may be missing or of the wrong type."""
    role = message.get("role")
    role = role if isinstance(role, str) else ""
    calls = message.get("tool_calls")
    number = len(calls) if isinstance(calls, list) else 0
    if role == "assistant" and isinstance(message.get("function_call"), Mapping):
        number += 1
    chars, parts, media = _content(message.get("content"))
    return Turn(
        role=role,
        calls=number if role == "assistant" else 0,
        real=role == "user" and (parts > 0),
        digest=digest.message_digest(message),
        tokens=tokens,
        chars=chars,
        media=media,
    )


def _content(content: Any) -> tuple[int, int, bool]:
    """Characters of text, parts that say something, and whether some part is not text."""
    if isinstance(content, str):
        return len(content), int(bool(content.strip())), False
    if isinstance(content, Mapping):  # one part without its list: some servers take it
        content = [content]
    if not isinstance(content, list):
        return 0, 0, False
    chars = parts = 0
    media = False
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            chars += len(text)
            parts += bool(text.strip())
        else:
            media = True
            parts += 1
    return chars, parts, media


def head_length(roles: Sequence[str]) -> int:
    """How many leading messages belong to the head."""
    for index, role in enumerate(roles):
        if role not in HEAD_ROLES:
            return index
    return len(roles)


def rounds(turns: Sequence[Turn]) -> list[int]:
    """The start index of every round, ascending.

    An assistant message with calls and the tool messages right after it are one round, paired by position. A tool
    message that follows no call (the client's own fault) stays with what stands before it, so that no cut makes it
    the first kept message.
    """
    return [i for i, turn in enumerate(turns) if i == 0 or turn.role not in TOOL_ROLES]


def last_real_user(turns: Sequence[Turn]) -> int | None:
    for index in range(len(turns) - 1, -1, -1):
        if turns[index].real:
            return index
    return None


def pending(turns: Sequence[Turn]) -> int:
    """Start of what the model has not reacted to yet: the last round, and an older tool round if no assistant message
    stands behind it (a user who interrupts). Never evicted, never cleared."""
    starts = rounds(turns)
    if not starts:
        return 0
    start = starts[-1]
    for begin in reversed(starts):
        if turns[begin].role == "assistant":
            return begin if turns[begin].calls else start
    return start
