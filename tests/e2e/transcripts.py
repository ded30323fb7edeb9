"""Recorded conversations, as the sequence of requests that a client would have made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True)
class Transcript:
    """`messages` in the chat format; `file` is where it comes from."""

    id: str
    file: str
    messages: tuple[Message, ...] = field(repr=False)

    def histories(self, turns: int | None = None) -> Iterator[Sequence[Message]]:
        """What stood before each of the first `turns` answers: the body of one request each."""
        answers = (k for k, message in enumerate(self.messages) if message["role"] == "assistant" and k > 0)
        for number, k in enumerate(answers):
            if number == turns:
                return
            yield self.messages[:k]

    def turns(self) -> int:
        return sum(1 for _ in self.histories())

    def size(self, turns: int) -> int:
        """Characters of JSON of the longest of the first `turns` requests."""
        return max((len(json.dumps(history)) for history in self.histories(turns)), default=0)


def folder() -> Path:
    """Where the transcripts are, if they are there: beside the checkout, or where the environment says."""
    shared = os.environ.get("COMPACTION_PROXY_SHARED")
    base = Path(shared) if shared else Path(__file__).resolve().parents[3] / "shared"
    return base / "transcripts"


def load(path: Path) -> list[Transcript]:
    """All conversations of a folder of JSON lines, in order of file and line."""
    found = []
    for file in sorted(path.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.append(Transcript(row["id"], file.name, tuple(row["messages"])))
    return found


def shortest(transcripts: Sequence[Transcript], turns: int, number: int) -> list[Transcript]:
    """Of `number` files the conversation that is shortest at `turns` turns, the shortest first."""
    best: dict[str, Transcript] = {}
    for transcript in sorted(transcripts, key=lambda each: each.size(turns)):
        if transcript.turns() >= turns:
            best.setdefault(transcript.file, transcript)
    return list(best.values())[:number]


def head(history: Sequence[Message]) -> list[Message]:
    """The leading messages with instructions."""
    leading = 0
    while leading < len(history) and history[leading]["role"] in ("system", "developer"):
        leading += 1
    return list(history[:leading])


def needed(history: Sequence[Message]) -> list[Message]:
    """Head and last user message: what no proxy can leave out."""
    last = [message for message in history if message["role"] == "user"][-1:]
    return head(history) + last


def pending(history: Sequence[Message]) -> list[Message]:
    """The same with the newest round, where its results wait for an answer."""
    k = len(history)
    while k and history[k - 1]["role"] == "tool":
        k -= 1
    return needed(history) + list(history[k - 1 :] if k < len(history) else [])
