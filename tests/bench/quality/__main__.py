"""How good summaries are, measured without a judge: `python -m tests.bench.quality --transcripts DIR`.

Real conversations are replayed turn by turn through the real engine, with sentences planted in them whose survival is
looked for after every compaction. The summariser is a script, the upstream takes notes. Prints tables; the exit code is
1 if a promised figure is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from functools import cache
from pathlib import Path

from proxy.adapters.encoding import O200k
from tests.bench.quality.canaries import Message, plant
from tests.bench.quality.figures import Figures, figures
from tests.bench.quality.model import Served, patient
from tests.bench.quality.names import Recall, recalls
from tests.bench.quality.replay import Exchange, replay
from tests.bench.quality.report import Run, forgotten, heading, missed, recall, row_of, totals
from tests.bench.quality.sources import conversations
from tests.bench.quality.summarisers import MANNERS, Scripted
from tests.bench.quality.survival import Survival, survival
from tests.bench.quality.wording import FAMILIES
from tests.bench.quality.world import Capturing
from tests.e2e.llama import Llama, llama_server
from tests.e2e.transcripts import folder

LLAMA = "llama"  # a real, small model; asked for by itself, since it takes its time


@cache
def tokeniser() -> O200k:
    """One a process: loading it takes a while."""
    return O200k()


def one(
    id: str, messages: Sequence[Message], window: int, manner: str, family: str, seed: int, server: Llama | None
) -> tuple[Figures, Survival]:
    """One conversation with one seed's canaries, to the end; summarised by the model that `server` has, if there is one."""
    count = tokeniser().count
    planted = plant(id, messages, FAMILIES[family], seed)
    summariser = Served(server.base_url) if server else Scripted(manner, planted.canaries)
    settings = {"summarizer": patient(server.context)} if server else {}

    async def play() -> list[Exchange]:
        try:
            return await replay(planted.messages, window, summariser, count, **settings)
        finally:
            await summariser.aclose()

    exchanges = asyncio.run(play())
    upstream = Capturing(window, count)
    row = figures(
        planted.id, planted.messages, exchanges, window, summariser.spent, upstream.tokens, count, planted.secrets
    )
    return row, survival(planted, exchanges)


def ledgers(id: str, messages: Sequence[Message]) -> tuple[str, list[Recall]]:
    return id, list(recalls(messages, tokeniser().count))


def main() -> int:
    args = _arguments()
    logging.getLogger("compaction_proxy").setLevel(logging.DEBUG if args.log else logging.CRITICAL)
    failures: list[str] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for window in args.window or (20_000, 40_000):
            found = conversations(args.transcripts, window, tokeniser().count)
            chosen = [(id, messages) for id, messages in found if args.only in id][: args.limit]
            if not chosen:
                _write([f"\n== window {window}: no conversation of 2.4 windows"])
                continue
            if not args.no_ledger:
                found_again = list(pool.map(ledgers, *zip(*chosen, strict=True)))
                _write(recall(found_again))
                failures += forgotten(window, found_again)
            for manner in args.summarizer or MANNERS:
                with llama_server(args.context, model=args.model) if manner == LLAMA else nullcontext() as server:
                    _write(heading(window, server.describe() if server else manner))
                    run = _run(pool, chosen, window, manner, args, server)
                _write(totals(run))
                failures += missed(run) if manner != LLAMA else ()
                if args.lost:
                    lost = Counter(run.survival.lost)
                    _write(f"lost {lost[each]}x {' '.join(each)}" for each in sorted(lost))
                    _write(f"stale {each}" for each in sorted(set(run.survival.stale)))
    _write(("", f"{len(failures)} promised figures missed", *failures))
    return 1 if failures else 0


def _run(
    pool: Executor,
    chosen: Sequence[tuple[str, Sequence[Message]]],
    window: int,
    manner: str,
    args: argparse.Namespace,
    server: Llama | None,
) -> Run:
    """Writes a row as soon as it is there: a real model takes its time."""
    jobs = [(*each, window, manner, args.family, seed, server) for each in chosen for seed in range(args.seeds)]
    rows: list[Figures] = []
    whole = Survival()
    for row, kept in pool.map(one, *zip(*jobs, strict=True)):
        _write([row_of(row, kept)])
        rows.append(row)
        whole.add(kept)
    return Run(window, manner, rows, whole)


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcripts", type=Path, default=folder(), metavar="DIR")
    parser.add_argument("--window", type=int, action="append", help="tokens; 20000 and 40000 unless given")
    parser.add_argument(
        "--summarizer", action="append", choices=[*sorted(MANNERS), LLAMA], help="all scripted ones unless given"
    )
    parser.add_argument("--model", type=Path, metavar="FILE", help="for llama, in GGUF; SmolLM2-135M unless given")
    parser.add_argument("--context", type=int, default=8_192, metavar="N", help="of that model; all that SmolLM2 has")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="plantings of each conversation")
    parser.add_argument("--family", choices=sorted(FAMILIES), default="c", help="of wordings; c is held out")
    parser.add_argument("--limit", type=int, metavar="N", help="so many conversations a window")
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name holds this")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--lost", action="store_true", help="list what did not survive")
    parser.add_argument("--log", action="store_true", help="let the proxy log")
    parser.add_argument("--no-ledger", action="store_true", help="leave the test of the ledger by itself out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
