"""Which conversations are replayed at a window, and short sessions of one source made into long ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proxy.core.tokens import message_tokens
from tests.e2e.transcripts import Transcript, load

Message = dict[str, Any]

LEAST = 2.4  # windows that a conversation must have to be replayed: 48k tokens at 20k
STITCHED = 5  # windows that a stitched one gets


def conversations(folder: Path, window: int, count: Callable[[str], int]) -> list[tuple[str, list[Message]]]:
    """Every transcript of at least 2.4 windows, and the shorter ones of a source one after the other."""
    found: list[tuple[str, list[Message]]] = []
    short: dict[str, list[tuple[Transcript, int]]] = {}
    for transcript in load(folder):
        tokens = sum(message_tokens(message, count) for message in transcript.messages)
        if tokens >= LEAST * window:
            found.append((transcript.id, list(transcript.messages)))
        else:
            short.setdefault(transcript.file, []).append((transcript, tokens))
    for file, rest in sorted(short.items()):
        stem = file.removesuffix(".jsonl")
        found += [(f"{stem}+{n}", each) for n, each in enumerate(_stitched(rest, window))]
    return found


def _stitched(parts: Sequence[tuple[Transcript, int]], window: int) -> list[list[Message]]:
    made: list[list[Message]] = []
    current: list[Message] = []
    tokens = 0
    for transcript, more in parts:
        messages = list(transcript.messages)
        current += messages if not current else [m for m in messages if m["role"] not in ("system", "developer")]
        tokens += more
        if tokens >= STITCHED * window:
            made.append(current)
            current, tokens = [], 0
    return [*made, current] if tokens >= LEAST * window else made
