"""One conversation, turn by turn, through the real engine before an upstream that only takes notes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from proxy.core.checkpoint import Checkpoint
from proxy.engine.assembly import assemble
from proxy.forward import Incoming
from proxy.ports import Headers, Summariser
from proxy.settings import Settings
from tests.bench.quality.world import Capturing, Clock, Message, NoCatalogue, Shelf

BASE = "http://upstream.test/v1"
HEADERS: Headers = ((b"authorization", b"Bearer key-of-a-client"), (b"content-type", b"application/json"))
MINUTE = 60.0  # between two requests
PATIENCE = 900.0  # seconds that anything may take: a busy machine must not change the figures


@dataclass(frozen=True)
class Exchange:
    """One request: the client's first `history` messages, and what the upstream got instead.

    `before` and `after` are tokens of the two, `same` those of `after` that the upstream had seen in the same place at
    the request before, `same_before` those of `before`. `share` is the same share in characters: equal ones, those that
    could have been at this size (all but the messages that the client added), all.
    `checkpoint` is None where the request passed as it was; `refused` counts attempts that were too long.
    """

    history: int
    sent: tuple[Message, ...] = field(repr=False)
    before: int
    after: int
    same: int
    same_before: int
    share: tuple[int, int, int]
    status: int
    decision: str
    checkpoint: Checkpoint | None
    refused: int


def requests(messages: Sequence[Message]) -> Iterator[int]:
    """How many messages stood before each answer."""
    return (k for k, message in enumerate(messages) if message["role"] == "assistant" and k > 0)


async def replay(
    messages: Sequence[Message], window: int, summariser: Summariser, count: Callable[[str], int], **settings: Any
) -> list[Exchange]:
    """Every request of the conversation. `settings` as in the configuration."""
    clock, upstream, shelf = Clock(), Capturing(window, count), Shelf()
    usual = {"upstream": BASE, "store": "memory:", "models": {"*": {"window": window}}}
    summarizer = {
        "model": "s",
        "window": 200_000,
        "calls_per_hour": 10_000,
        "wait": PATIENCE,
        **settings.pop("summarizer", {}),
    }
    parts = assemble(
        Settings.model_validate({**usual, "summarizer": summarizer, **settings}),
        secret=b"the secret of this install",
        upstream=upstream,
        summariser=summariser,
        store=shelf,
        clock=clock,
        catalogue=NoCatalogue(),
        count=count,
    )
    raws = [json.dumps(message) for message in messages]
    sizes = list(accumulate((upstream.one(raw, m) for raw, m in zip(raws, messages, strict=True)), initial=3))
    found: list[Exchange] = []
    sent_before: list[str] = []
    try:
        for k in requests(messages):
            body = '{"model":"m","messages":[' + ",".join(raws[:k]) + "]}"
            answer = await parts.engine.chat(Incoming("POST", b"/chat/completions", b"", HEADERS, body.encode()))
            async for _ in answer.chunks():
                pass
            await answer.aclose()
            headers = {name.decode(): value.decode() for name, value in answer.headers}
            sent = upstream.sent[-1]
            written = [json.dumps(message) for message in sent]
            equal = common(sent_before, written)
            found.append(
                Exchange(
                    history=k,
                    sent=sent,
                    before=sizes[k],
                    after=upstream.tokens(sent),
                    same=sum(upstream.one(raw, m) for raw, m in zip(written[: equal[0]], sent, strict=False)),
                    same_before=sizes[found[-1].history] if found else 0,
                    share=(
                        equal[1],
                        old_ones(written, raws[found[-1].history if found else 0 : k]),
                        sum(map(len, written)),
                    ),
                    status=answer.status,
                    decision=headers.get("x-compaction", ""),
                    checkpoint=shelf.by_id.get(headers.get("x-compaction-checkpoint", "")),
                    refused=len(upstream.sent) - 1,
                )
            )
            sent_before = written
            upstream.sent.clear()
            await _settled()
            clock.seconds += MINUTE
    finally:
        await parts.aclose()
    return found


def common(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many messages, and how many characters of JSON, two lists have in common at their beginning."""
    equal = 0
    while equal < min(len(one), len(other)) and one[equal] == other[equal]:
        equal += 1
    characters = sum(map(len, other[:equal]))
    if equal < min(len(one), len(other)):
        pairs = zip(one[equal], other[equal], strict=False)
        characters += next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one[equal]), len(other[equal])))
    return equal, characters


def old_ones(written: Sequence[str], added: Sequence[str]) -> int:
    """Characters of a request without the messages that were added to it since the one before."""
    new = 0
    while new < min(len(written), len(added)) and written[-1 - new] == added[-1 - new]:
        new += 1
    return sum(map(len, written[: len(written) - new]))


async def _settled() -> None:
    """Until nothing goes on in the background any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=PATIENCE)
