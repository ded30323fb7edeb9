"""Play a scripted conversation over real sockets and report what happened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TextIO

import aiohttp

from proxy.demo.client import Client, Outcome
from proxy.demo.record import OVERFLOW, Recorded, common_prefix, prefix_share
from proxy.demo.report import Recalled, Report, Row, heading
from proxy.demo.script import Conversation, Turn
from proxy.demo.serving import serve_in_thread
from proxy.demo.tokenizer import Tokenizer
from proxy.demo.upstream import MODEL, FakeUpstream

WINDOW = 4000  # tokens: small enough that an hour's work fits a minute's demo
_PATIENCE = 600.0  # seconds for one answer of a real, slow server
_PACE = "(This client never pauses. Summaries are made in a client's pauses, and then hardly any request waits.)"
_RANK = ("", "pass", "reuse", "forward", "compact")  # a turn of several requests shows its most telling decision

Serve = Callable[[str, int], AbstractContextManager[str]]
"""Serve the proxy for an upstream's URL and a window in tokens; yields the proxy's base URL, ending in /v1."""


@dataclass
class _Watch:
    """Looks over the fake's shoulder: what each request became upstream. Without a fake, `usage` must do."""

    fake: FakeUpstream | None
    counter: Tokenizer = field(default_factory=Tokenizer)
    seen: int = 0
    before: bytes = b""

    def __post_init__(self) -> None:
        if self.fake is not None:
            self.counter = self.fake.tokenizer
            self.seen = len(self.fake.requests)

    def same(self, outcomes: Sequence[Outcome]) -> float | None:
        """Share of the prompt bytes of the chat requests since the last call that were unchanged prefix."""
        if self.fake is None:
            return _cached(outcomes)
        new = self.fake.requests[self.seen :]
        self.seen += len(new)
        same = total = 0
        for record in new:
            if record.accepted and not record.summary:
                same += common_prefix(self.before, record.prompt)
                total += len(record.prompt)
                self.before = record.prompt
        return same / total if total else None


async def play(
    base_url: str,
    *,
    model: str = MODEL,
    script: Conversation | None = None,
    out: TextIO | None = None,
    fake: FakeUpstream | None = None,
    headers: Mapping[str, str] | None = None,
    max_tokens: tuple[int | None, ...] = (None,),
    patience: float = _PATIENCE,
) -> Report:
    """Play the whole script against `base_url` (ends in /v1), writing a line per turn and the totals to `out`.

    `fake` is the upstream behind it, where it is one of ours; `headers` go with every request; `patience` (seconds)
    bounds each. A failing call is counted and its turn taken back; nothing is raised for it.
    """
    script = script or Conversation()
    watch = _Watch(fake)
    first = watch.seen
    report = Report()
    outcomes: list[Outcome] = []
    _write(out, *heading())
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=patience)) as http:
        client = Client(http, base_url.rstrip("/"), model, script, headers or {}, max_tokens)
        for number in range(1, script.turns + 1):
            turn = script.turn(number)
            played = await client.play(turn)
            outcomes += played
            report.rows.append(_row(turn, played, watch, script))
            if turn.asks is not None:
                said = str(client.messages[-1].get("content") or "") if played[-1].failure is None else ""
                report.recalled.append(Recalled(turn.asks, number, said))
            _write(out, report.rows[-1].line())
    _total(report, outcomes, fake.requests[first:] if fake is not None else None)
    _write(out, "", *report.totals())
    return report


def run_demo(*, upstream: str | None, model: str | None, serve: Serve, api_key: str | None = None) -> int:
    """The demo: the fake upstream (or a real one at `upstream`, ending in /v1), the proxy before it, the conversation.

    Writes to stdout. Returns the exit code: 0 only if the fact of the early turn came back and nothing failed.
    """
    out = sys.stdout
    fake = FakeUpstream(window=WINDOW) if upstream is None else None
    headers = {"authorization": f"Bearer {api_key or 'demo'}"}
    with serve_in_thread(fake) if fake is not None else nullcontext("") as address:
        target = upstream or f"{address}/v1"
        what = "the fake upstream" if fake is not None else target
        with serve(target, WINDOW) as base_url:
            _write(out, f"A conversation of 60 turns through the proxy; {what} with a window of {WINDOW:,} tokens.")
            _write(out, "A fifth of it is kept for the answer: above 3,200 tokens a request is shortened.")
            report = asyncio.run(play(base_url, model=model or MODEL, out=out, fake=fake, headers=headers))
    _write(out, _PACE, "", _verdict(report))
    return 0 if report.ok else 1


def _verdict(report: Report) -> str:
    if not report.ok:
        return "Not as it should be: " + ("a call failed." if report.failed else "the fact did not come back.")
    forgotten = [item.fact.turn for item in report.recalled if not item.right]
    lost = f"asked in vain for what was said in turn {forgotten[0]}" if forgotten else "lost nothing it asked for"
    return f"The client talked on past the end of the window, saw no error and {lost}."


def _row(turn: Turn, outcomes: Sequence[Outcome], watch: _Watch, script: Conversation) -> Row:
    last = outcomes[-1]
    sent = last.usage.get("prompt_tokens")
    return Row(
        turn=turn.number,
        requests=len(outcomes),
        client_tokens=watch.counter.prompt(last.history, script.tool_definitions()).total,
        sent_tokens=sent if isinstance(sent, int) else None,
        decision=max((o.decision for o in outcomes), key=_rank),
        same=watch.same(outcomes),
        note=_note(turn, outcomes),
    )


def _rank(decision: str) -> int:
    name = decision.partition(";")[0].strip()
    return _RANK.index(name) if name in _RANK else len(_RANK)


def _note(turn: Turn, outcomes: Sequence[Outcome]) -> str:
    if (failure := outcomes[-1].failure) is not None:
        return f"FAILED {failure}"
    notes = ["streamed"] if turn.stream else []
    results = [m for m in outcomes[-1].history[len(outcomes[0].history) :] if m.get("role") == "tool"]
    if results:
        longest = max(len(m["content"]) for m in results)
        notes.append(f"{len(results)} results" + (f" (one of {longest // 1000} KB)" if longest > 4000 else ""))
    if turn.plants is not None:
        notes.append("states a fact")
    if turn.asks is not None:
        notes.append(f"asks for turn {turn.asks.turn}")
    return ", ".join(notes)


def _cached(outcomes: Sequence[Outcome]) -> float | None:
    """What the upstream's own prompt cache says, where it says anything."""
    cached = total = 0
    for outcome in outcomes:
        details = outcome.usage.get("prompt_tokens_details")
        if not isinstance(details, Mapping) or not isinstance(details.get("cached_tokens"), int):
            return None
        cached += details["cached_tokens"]
        total += outcome.usage.get("prompt_tokens") or 0
    return cached / total if total else None


def _total(report: Report, outcomes: Sequence[Outcome], records: Sequence[Recorded] | None) -> None:
    report.requests = len(outcomes)
    report.failures = [o.failure for o in outcomes if o.failure is not None]
    report.failed = len(report.failures)
    report.prefix_share = _cached(outcomes)
    if records is None:
        return
    report.invalid = sum(r.invalid for r in records)
    report.overflows = sum(r.refused == OVERFLOW for r in records)
    report.summary_calls = sum(r.summary for r in records)
    before = ("", *(o.checkpoint for o in outcomes))
    report.waited = sum(o.checkpoint != b and _waited(o, records) for o, b in zip(outcomes, before, strict=False))
    report.prefix_share = prefix_share(records)


def _waited(outcome: Outcome, records: Sequence[Recorded]) -> bool:
    """Whether a summary call began or ended between the client's request and what it became upstream. One that ended
    just then, in the background, was waited for only if the request uses what came of it."""
    chats = [r.started for r in records if not r.summary and outcome.started <= r.started <= outcome.ended]
    until = chats[-1] if chats else outcome.ended
    times = [t for r in records if r.summary for t in (r.started, r.ended) if t is not None]
    return any(outcome.started <= t <= until for t in times)


def _write(out: TextIO | None, *lines: str) -> None:
    if out is not None:
        out.writelines(f"{line}\n" for line in lines)
        out.flush()
