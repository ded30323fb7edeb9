"""Apply a checkpoint: raw messages in, raw messages out.

A pure function of request and checkpoint. Kept messages are the client's own bytes; one user message carries the
replacement text; a trimmed tool result keeps everything but the middle of its content.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from proxy.core import envelope
from proxy.core.checkpoint import Checkpoint

SEPARATOR = "\n\n"
"""Between the replacement text and the message it is merged into; the text ends with its own closing line."""

MENTIONS = 12
"""How many identifiers the note of a removed result names: enough to know what it was about, and short."""

_MENTION = re.compile(
    r"(?:[\w.~-]{1,64}/){1,12}[\w.-]{1,64}|\b[\w-]{1,64}\.[A-Za-z]{1,5}\b|\b[A-Z]{2,12}[-_]?\d{1,12}\b|\b[0-9a-f]{7,40}\b"
)
_SCANNED = 20_000
"""Characters of a removed result that are searched for what to name."""


def apply(messages: Sequence[bytes], head: int, checkpoint: Checkpoint) -> list[bytes]:
    """The messages with `checkpoint` applied; the first `head` of them and all from its `end` on are untouched.

    Raises ValueError if the messages are not what the checkpoint was made of.
    """
    turns = list(messages[head:])
    for trim in checkpoint.trims:
        if trim.index >= checkpoint.start:
            turns[trim.index] = shorten(turns[trim.index], trim.keep)
    if checkpoint.start == 0:
        return [*messages[:head], *turns]
    kept = turns[checkpoint.start :]
    if checkpoint.carry is not None:
        front = merge(checkpoint.text, turns[checkpoint.carry])
        # Two user messages in a row would be neighbours that the client did not have: strict templates refuse them.
        if kept and _role(kept[0]) == "user":
            front, kept = merge_messages(front, kept[0]), kept[1:]
        return [*messages[:head], front, *kept]
    if kept and _role(kept[0]) == "user":
        return [*messages[:head], merge(checkpoint.text, kept[0]), *kept[1:]]
    return [*messages[:head], envelope.dumps({"role": "user", "content": checkpoint.text}), *kept]


def _role(raw: bytes) -> Any:
    message = envelope.value(raw)
    return message.get("role") if isinstance(message, dict) else None


def merge(text: str, raw: bytes) -> bytes:
    """The message with `text` in front of its content, whose own bytes stay as they are."""
    spans = envelope.fields(raw) or {}
    if "content" not in spans:
        return b'{"content":' + envelope.dumps(text) + b"," + raw[1:].lstrip()
    start, end = spans["content"]
    own = raw[start:end]
    if own[:1] == b'"':
        merged = envelope.dumps(text + SEPARATOR)[:-1] + own[1:]
    elif own == b"null":
        merged = envelope.dumps(text)
    else:
        merged = _joined(envelope.dumps([{"type": "text", "text": text}]), _as_list(own))
    return envelope.splice(raw, spans, {"content": merged})


def _as_list(content: bytes) -> bytes:
    """A content as a list of parts; what stands alone, of whatever type, becomes the only one."""
    if content[:1] == b"[":
        return content
    if content[:1] == b'"':
        return envelope.dumps([{"type": "text", "text": envelope.value(content)}])
    return b"[]" if content == b"null" else b"[" + content + b"]"


def _joined(first: bytes, second: bytes) -> bytes:
    """Two lists as one, their own bytes kept."""
    return first[:-1] + (b"," if first[1:].strip() != b"]" and second[1:].strip() != b"]" else b"") + second[1:]


def merge_messages(first: bytes, second: bytes) -> bytes:
    """Two user messages as one: `first` and behind it the content of `second`."""
    message = envelope.value(first)
    content = message["content"]
    if isinstance(content, str):
        return merge(content, second)
    front = envelope.dumps(content)
    spans = envelope.fields(second) or {}
    if "content" not in spans:
        return b'{"content":' + front + b"," + second[1:].lstrip()
    return envelope.splice(second, spans, {"content": _joined(front, _as_list(second[slice(*spans["content"])]))})


def shorten(raw: bytes, keep: int) -> bytes:
    """A tool message whose text content keeps `keep` characters, head and tail, with a note of what is missing.

    A pure function of the message and the number: the same bytes on every turn and every replica. Parts that are no
    text stay unless the whole is removed. Never longer than the original.
    """
    spans = envelope.fields(raw) or {}
    if "content" not in spans:
        return raw
    start, end = spans["content"]
    content = envelope.value(raw[start:end])
    if isinstance(content, str):
        shorter = _cut(content, keep)
        new: Any = shorter
    elif isinstance(content, list):
        texts = [p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str)]
        others = [p for p in content if not (isinstance(p, dict) and isinstance(p.get("text"), str))]
        new = [{"type": "text", "text": _cut("\n".join(texts), keep)}, *(others if keep else ())]
    else:
        return raw
    replaced = envelope.splice(raw, spans, {"content": envelope.dumps(new)})
    return replaced if len(replaced) < len(raw) else raw


def _cut(text: str, keep: int) -> str:
    """Head and tail at line boundaries where one is near; the tail gets a third (results end with what counts)."""
    if keep <= 0:
        named = list(dict.fromkeys(m.group() for m in _MENTION.finditer(text[:_SCANNED])))[:MENTIONS]
        about = f"; it mentioned {', '.join(named)}" if named else ""
        return f"[old tool result of {len(text):,} characters removed{about}]"
    if keep >= len(text):
        return text
    tail = keep // 3
    head = keep - tail
    first, last = text[:head], text[len(text) - tail :] if tail else ""
    newline = first.rfind("\n", head - head // 8)
    first = first[:newline] if newline > 0 else first
    newline = last.find("\n", 0, tail // 8)
    last = last[newline + 1 :] if newline >= 0 else last
    gone = len(text) - len(first) - len(last)
    return f"{first}\n[… {gone:,} of {len(text):,} characters left out …]\n{last}"
