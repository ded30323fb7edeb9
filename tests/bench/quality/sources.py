"""Which conversations are replayed at a window, and short sessions of one source made into long ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proxy.core.tokens import head_tokens, message_tokens
from tests.e2e.transcripts import Transcript, load

Message = dict[str, Any]

LEAST = 2.4  # windows that a conversation must have to be replayed: 48k tokens at 20k
STITCHED = 3.5  # windows that a stitched one gets


def conversations(folder: Path, window: int, count: Callable[[str], int]) -> list[tuple[str, list[Message]]]:
    """Every transcript of at least 2.4 windows, and the shorter ones of a source one after the other."""
    sized = [(each, tokens(each.messages, count)) for each in load(folder)]
    long = [each for each, size in sized if size >= LEAST * window]
    short: dict[str, list[Transcript]] = {}
    for each, size in sized:
        if size < LEAST * window and not any(holds(other, each) for other in long):
            short.setdefault(each.file, []).append(each)
    found = [(each.id, list(each.messages)) for each in long]
    for file, rest in sorted(short.items()):
        stem = file.removesuffix(".jsonl")
        found += [(f"{stem}+{n}", each) for n, each in enumerate(stitched(rest, window, count))]
    return found


def tokens(messages: Sequence[Message], count: Callable[[str], int]) -> int:
    """Of a request with these messages, as the engine counts it."""
    return head_tokens({}, count) + sum(message_tokens(message, count) for message in messages)


def holds(whole: Transcript, part: Transcript) -> bool:
    """Whether one is an extract of the other: instructions aside, its messages stand there in a row."""
    inner, outer = turns(part), turns(whole)
    return any(outer[k : k + len(inner)] == inner for k in range(len(outer) - len(inner) + 1))


def turns(transcript: Transcript) -> list[Message]:
    return [message for message in transcript.messages if message["role"] not in ("system", "developer")]


def stitched(parts: Sequence[Transcript], window: int, count: Callable[[str], int]) -> list[list[Message]]:
    """The instructions of the first of each, the turns of all; a rest that is too short is left out."""
    made: list[list[Message]] = []
    current: list[Message] = []
    for transcript in parts:
        current += turns(transcript) if current else transcript.messages
        if tokens(current, count) >= STITCHED * window:
            made.append(current)
            current = []
    return [*made, current] if tokens(current, count) >= LEAST * window else made
