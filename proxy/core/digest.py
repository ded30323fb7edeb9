"""What identifies a conversation prefix: a canonical form of each message and a hash chained over them.

The canonical form leaves out what clients change between turns without meaning it (seen in public issue threads of
SDKs and agents): key order, `null` and empty fields, cache markers, reasoning fields, and whether a text stands as a
string or as a list with one text part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

VERSION = b"1"
"""Part of every digest: a change of the canonical form must not meet old checkpoints."""

IGNORED = frozenset(
    {
        "cache_control",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "reasoning_opaque",
        "thinking",
        "thinking_blocks",
        "redacted_thinking",
        "signature",
        "thought_signature",
        "provider_specific_fields",
        "extra_content",
    }
)
"""Cache markers, and the reasoning state that providers hand out and clients drop or resend as they like."""

_EMPTY: tuple[Any, ...] = (None, "", [], {})


def _text_of_single_part(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping) and value[0].get("type") == "text":
        text = value[0].get("text")
        if isinstance(text, str) and not set(value[0]) - {"type", "text"} - IGNORED:
            return text
    return value


def canonical(value: Any) -> Any:
    """The JSON value without what does not count; the caller serialises it with sorted keys."""
    if isinstance(value, Mapping):
        kept = {k: canonical(_text_of_single_part(v) if k == "content" else v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if k not in IGNORED and v not in _EMPTY}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value


def message_digest(message: Mapping[str, Any]) -> bytes:
    """16 bytes for one parsed message; equal canonical forms, equal digests."""
    text = json.dumps(canonical(message), sort_keys=True, separators=(",", ":"))  # ASCII: lone surrogates too
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()


def chain(tenant: str, digests: Iterable[bytes]) -> list[str]:
    """`d[0] ... d[n]` as hex: `d[k]` stands for the first k turns of this tenant's conversation."""
    return chain_on(hashlib.blake2b(VERSION + tenant.encode(), digest_size=16).hexdigest(), digests)


def chain_on(key: str, digests: Iterable[bytes]) -> list[str]:
    """The chain from `key` on, itself included."""
    state = bytes.fromhex(key)
    keys = [key]
    for digest in digests:
        state = hashlib.blake2b(state + digest, digest_size=16).digest()
        keys.append(state.hex())
    return keys
