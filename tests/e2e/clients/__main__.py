"""`python -m tests.e2e.clients`: what each client went through, as a table."""

from __future__ import annotations

import sys
from typing import Any

from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from proxy.settings import Settings
from tests.e2e.clients.hop import KEY, hop
from tests.e2e.clients.programs import CLIENTS, Absent, Driver, driver
from tests.e2e.clients.scene import KNOWN, WINDOW, Figures, Played, play
from tests.stage import proxy, stage

_ROW = "{:<32} {:<8} {:>5} {:>8} {:>5} {:>11} {:>9} {:>6} {:>5}"
_HEADING = ("client", "window", "turns", "answers", "calls", "compactions", "overflows", "errors", "facts")


def main() -> None:
    _write(*_HEADING)
    for client in CLIENTS:
        try:
            with driver(client) as running:
                for settings in (KNOWN, {}):
                    _through(client.name, running, settings)
        except Absent as absent:
            _write(client.name, str(absent), *[""] * 7)
    try:
        with driver(CLIENTS[0]) as running:
            for settings in (KNOWN, {}):
                _through_hop(running, settings)
    except Absent as absent:
        _write("the LiteLLM proxy as a hop", str(absent), *[""] * 7)


def _through(name: str, client: Driver, settings: dict[str, Any]) -> None:
    fake = FakeUpstream(WINDOW)
    with stage(fake, **settings) as s:
        _report(name, play(client, s.url), fake, settings)


def _through_hop(client: Driver, settings: dict[str, Any]) -> None:
    fake = FakeUpstream(WINDOW)
    with serve_in_thread(fake) as address, hop(f"{address}/v1") as upstream:
        everything = {"upstream": upstream, "store": "memory:", **settings}
        with proxy(Settings.model_validate(everything)) as url:
            _report("openai, LiteLLM proxy upstream", play(client, url, api_key=KEY), fake, settings)


def _report(name: str, played: Played, fake: FakeUpstream, settings: dict[str, Any]) -> None:
    figures, asked = Figures.of(fake), sum(turn.asks is not None for turn, _ in played.turns)
    facts = f"{asked - len(played.forgotten)}/{asked}"
    counts = (played.answers, played.calls, figures.compactions, figures.overflows, len(played.errors), facts)
    _write(name, "known" if settings else "unknown", len(played.turns), *counts)


def _write(*columns: object) -> None:
    sys.stdout.write(_ROW.format(*columns).rstrip() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
