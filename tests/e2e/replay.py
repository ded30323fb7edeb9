"""Replays conversations turn by turn through the proxy, before a real llama.cpp server.

    python -m tests.e2e.replay --window 2048 --transcripts 3 --turns 30

Every answer of a transcript is a request: the history before it goes out, the answer that comes back is thrown away,
and the transcript's own takes its place. So every run sends the same requests.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.llama import Llama, llama_server, missing
from tests.e2e.processes import compaction_proxy
from tests.e2e.transcripts import Transcript, folder, load, needed, pending, shortest

ANSWER = 8  # tokens asked for: the transcript has the answer already
STREAMED = 3  # every so many turns


@dataclass(frozen=True)
class Turn:
    """One request and what became of it.

    `full`, `needed` and `pending` are the server's counts of the whole history, of its head with the last user message,
    and of these with the newest round. `overflow`: the client was told that the context is too small. `decision` is the
    proxy's.
    """

    number: int
    status: int
    overflow: bool
    full: int
    needed: int
    pending: int
    decision: str
    streamed: bool
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 200 and not self.overflow


def replay(base_url: str, server: Llama, transcript: Transcript, turns: int, pause: float = 0.0) -> Iterator[Turn]:
    """`pause`: seconds before each request in which its user thinks."""
    for number, history in enumerate(transcript.histories(turns)):
        streamed = number % STREAMED == STREAMED - 1
        full, least, more = (server.tokens(messages) for messages in (history, needed(history), pending(history)))
        time.sleep(pause if number else 0.0)
        started = time.monotonic()
        status, headers, body = ask(base_url, history, streamed)
        seconds = time.monotonic() - started
        decision = headers.get("x-compaction", "none")
        overflow = b'"exceed_context_size_error"' in body
        yield Turn(number, status, overflow, full, least, more, decision, streamed, seconds)


def ask(base_url: str, messages: Sequence[Any], stream: bool) -> tuple[int, Any, bytes]:
    """Status, headers and body of the answer to a chat request."""
    body = {"model": "smollm2", "messages": messages, "max_tokens": ANSWER, "temperature": 0, "stream": stream}
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    request = urllib.request.Request(f"{base_url}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def main() -> int:
    args = _arguments()
    if reason := missing():
        sys.stderr.write(f"no llama.cpp: {reason}\n")
        return 2
    transcripts = load(args.folder)
    chosen = (
        [t for t in transcripts if t.id in args.id] if args.id else shortest(transcripts, args.turns, args.transcripts)
    )
    failed = 0
    with ExitStack() as stack:
        server = stack.enter_context(llama_server(args.window))
        base_url = server.base_url
        if not args.direct:
            settings: dict[str, Any] = {"models": {"*": {"window": args.window}}} if args.configured else {}
            if args.summary:
                settings["summarizer"] = {"max_tokens": args.summary}
            if args.no_background:
                settings["background"] = False
            base_url = stack.enter_context(compaction_proxy(server.base_url, **settings))
        for transcript in chosen:
            played = []
            for turn in replay(base_url, server, transcript, args.turns, args.pause):
                played.append(turn)
                if args.verbose:
                    sys.stdout.write(f"{turn}\n")
                    sys.stdout.flush()
            sys.stdout.write(report(transcript, server, played) + "\n")
            sys.stdout.flush()
            failed += sum(turn.overflow and server.fits(turn.needed) for turn in played)
    return 1 if failed else 0


def report(transcript: Transcript, server: Llama, played: Sequence[Turn]) -> str:
    """One line of figures."""
    fits = [turn for turn in played if server.fits(turn.needed)]
    seconds = [turn.seconds for turn in played]
    figures = {
        "turns": len(played),
        "too long": sum(not server.fits(turn.full) for turn in played),
        "status": dict(sorted(Counter(turn.status for turn in played).items())),
        "needed fits": len(fits),
        "context errors there": sum(turn.overflow for turn in fits),
        "pending too fits": sum(server.fits(turn.pending) for turn in played),
        "context errors elsewhere": sum(turn.overflow for turn in played) - sum(turn.overflow for turn in fits),
        "decisions": dict(Counter(turn.decision.split(";")[0].split()[0] for turn in played)),
        "seconds": f"{sum(seconds):.0f}, longest {max(seconds, default=0):.1f}",
    }
    return f"{transcript.id} at {server.context}: " + ", ".join(f"{name} {value}" for name, value in figures.items())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--window", type=int, default=2048, help="the server's context, in tokens")
    parser.add_argument("--transcripts", type=int, default=3, metavar="N", help="the shortest ones of N sources")
    parser.add_argument("--turns", type=int, default=30, metavar="M")
    parser.add_argument("--id", action="append", metavar="ID", help="this transcript, whatever its length")
    parser.add_argument("--folder", type=Path, default=folder())
    parser.add_argument("--configured", action="store_true", help="tell the proxy the window")
    parser.add_argument("--summary", type=int, metavar="TOKENS", help="the summarizer's max_tokens")
    parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help="before each request")
    parser.add_argument("--no-background", action="store_true", help="make nothing before it is needed")
    parser.add_argument("--direct", action="store_true", help="without the proxy")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
