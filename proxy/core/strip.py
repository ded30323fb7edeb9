"""Taking out what an upstream complained of: images that make a body too large, reasoning it cannot verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.core import envelope

PLACEHOLDER = "[image left out: the request was too large]"

REASONING = frozenset(
    {"reasoning", "reasoning_content", "reasoning_details", "reasoning_opaque", "thinking", "thinking_blocks"}
)
"""Fields of an assistant message that hold reasoning state (DeepSeek, OpenRouter, LiteLLM, Copilot)."""

THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Types of content parts that do."""


def has_images(body: bytes) -> bool:
    """Whether images lie in the body itself."""
    return b";base64," in body and b"image" in body


def oldest_images(messages: Sequence[bytes], excess: int) -> list[bytes] | None:
    """The messages with the oldest images in base64 replaced by a note, until `excess` bytes are saved or all are
    gone; None if there are none."""
    out = list(messages)
    saved = 0
    for index, raw in enumerate(messages):
        if saved >= excess:
            break
        if not has_images(raw):
            continue
        message = envelope.value(raw)
        spans = envelope.fields(raw) or {}
        content = message.get("content")
        if not isinstance(content, list) or not any(map(_is_embedded, content)):
            continue
        parts = [{"type": "text", "text": PLACEHOLDER} if _is_embedded(part) else part for part in content]
        out[index] = envelope.splice(raw, spans, {"content": envelope.dumps(parts)})
        saved += len(raw) - len(out[index])
    return out if saved else None


def _is_embedded(part: Any) -> bool:
    if not isinstance(part, Mapping) or "image" not in str(part.get("type")):
        return False
    inner = part.get("image_url", part.get("image"))
    url = inner.get("url") if isinstance(inner, Mapping) else inner
    return isinstance(url, str) and url.startswith("data:")


def older_reasoning(messages: Sequence[bytes], before: int) -> list[bytes] | None:
    """The messages with all reasoning taken out of those in front of index `before`, whole message by whole message:
    signed thinking is valid as it came or not at all. None if there is none."""
    out = list(messages)
    found = False
    for index, raw in enumerate(messages[:before]):
        message = envelope.value(raw)
        if message.get("role") != "assistant":
            continue
        content = message.get("content")
        kept = {key: value for key, value in message.items() if key not in REASONING}
        if isinstance(content, list):
            kept["content"] = [p for p in content if not (isinstance(p, Mapping) and p.get("type") in THOUGHTS)]
            if not kept["content"]:  # an empty list is refused where null is not
                kept["content"] = None
        if kept != message:
            out[index] = envelope.dumps(kept)
            found = True
    return out if found else None
