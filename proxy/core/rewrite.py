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
        users = [turns[checkpoint.carry]]
        # Two user messages in a row would be neighbours that the client did not have: strict templates refuse them.
        if kept and _role(kept[0]) == "user":
            users, kept = [*users, kept[0]], kept[1:]
        return [*messages[:head], merge_all(checkpoint.text, users), *kept]
    if kept and _role(kept[0]) == "user":
        return [*messages[:head], merge(checkpoint.text, kept[0]), *kept[1:]]
    return [*messages[:head], envelope.dumps({"role": "user", "content": checkpoint.text}), *kept]


def _role(raw: bytes) -> Any:
    message = envelope.value(raw)
    return message.get("role") if isinstance(message, dict) else None


def merge(text: str, raw: bytes) -> bytes:
    """The message with `text` in front of its content, whose own bytes stay as they are."""
    return ahead(envelope.dumps({"content": text}), raw)


def merge_all(text: str, raws: Sequence[bytes]) -> bytes:
    """Several user messages as one, `text` in front: the last one with the contents of those before it ahead of its
    own. Every content keeps its own bytes."""
    merged = raws[-1]
    for raw in reversed(raws[:-1]):
        merged = ahead(raw, merged)
    return merge(text, merged)


def ahead(first: bytes, second: bytes) -> bytes:
    """`second` with the content of `first` ahead of its own."""
    one, other = _content(first), _content(second)
    if other == b"null":
        joined = one
    elif one[:1] == other[:1] == b'"':
        joined = one[:-1] + envelope.dumps(SEPARATOR)[1:-1] + other[1:]
    else:
        parts = [part for part in (_parts(one), _parts(other)) if part]
        joined = b"[" + b",".join(parts) + b"]"
    spans = envelope.fields(second) or {}
    if "content" not in spans:
        return b'{"content":' + joined + b"," + second[1:].lstrip()
    return envelope.splice(second, spans, {"content": joined})


def _content(raw: bytes) -> bytes:
    """The raw value of a message's content; that of an absent one is `null`."""
    spans = envelope.fields(raw) or {}
    return raw[slice(*spans["content"])] if "content" in spans else b"null"


def _parts(content: bytes) -> bytes:
    """The inside of a list of parts that says the same as this content."""
    if content[:1] == b'"':
        return b'{"type":"text","text":' + content + b"}"
    if content[:1] == b"[":
        return content[1:-1].strip()
    return b"" if content == b"null" else content


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
