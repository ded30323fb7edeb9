"""`python -m tests.e2e.agents [AGENT ...] [SETTING ...]`: what each agent went through, as a table. Exits with 1 if the proxy's rows
show an error at an agent, a request refused for its shape, or an unsolved task, or if nothing was compacted."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.demo.record import OVERFLOW
from proxy.demo.reply import Reply
from proxy.demo.serving import serve_in_thread
from proxy.settings import Settings
from tests.e2e.agents import coder
from tests.e2e.agents.programs import AGENTS, BELIEVED, Agent, Run, Setup, install, run
from tests.e2e.agents.task import git
from tests.e2e.agents.upstream import Upstream
from tests.e2e.clients.programs import Absent
from tests.stage import proxy

ENDLESS = 1_000_000  # tokens: a window nobody comes to the end of
WAYS = ("endless", "direct", "told", "known", "unknown")
_ROW = "{:<16} {:<8} {:>7} {:>5} {:>7} {:>11} {:>20} {:>5} {:>9} {:>8} {:>7} {:>6} {:>6}"
_HEADING = (
    "agent", "setting", "window", "turns", "largest", "compactions", "cleared/digest/model", "own", "overflows",
    "invalid", "errors", "fixed", "solved",
)  # fmt: skip


def main(names: list[str]) -> int:
    log = logging.getLogger("compaction_proxy")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    _write(*_HEADING)
    ways = [name for name in names if name in WAYS]
    named = [name for name in names if name not in WAYS]
    sound = True
    with tempfile.TemporaryDirectory() as folder:
        try:
            modules = install(Path(folder))
        except Absent as absent:
            _write("pi, opencode", str(absent), *[""] * 11)
            return 0
        for agent in (a for a in AGENTS if not named or any(name in a.name for name in named)):
            for way in ways or WAYS:
                sound &= _through(agent, modules, way)
    return 0 if sound else 1


def _through(agent: Agent, modules: Path, way: str) -> bool:
    """One agent in one setting, as a row; whether it is as it should be."""
    window = ENDLESS if way == "endless" else agent.window
    upstream = Upstream(window, _model)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as place:
        repository = Path(place)
        agent.task.write(repository)
        git(repository)
        with serve_in_thread(upstream) as address, _before(f"{address}/v1", way, window) as (url, made):
            told = window if way == "told" else BELIEVED
            ended = run(agent, repository, Setup(modules, Path(home), url, told, agent.task.prompt()))
        fixed, solved = agent.task.fixed(repository), agent.task.solved(repository)
    _report(agent, way, upstream, made, ended, fixed, solved)
    if way not in ("known", "unknown"):
        return way != "endless" or solved
    clean = not ended.errors and ended.code == 0 and not upstream.refused("invalid") and not upstream.own
    return clean and solved and made.total() > 0 and upstream.refused(OVERFLOW) <= (way == "unknown")


def _model(data: Mapping[str, Any], turns: int) -> Reply | None:
    return coder.act(data, turns) if data.get("tools") else None


@contextmanager
def _before(direct: str, way: str, window: int) -> Iterator[tuple[str, Counter[str]]]:
    """The address for the agent, and the compactions that the proxy at it makes."""
    made: Counter[str] = Counter()

    def count(record: logging.LogRecord) -> bool:
        line = record.getMessage()
        if line.startswith("compact;"):
            made[line.partition(" by=")[2].partition(" ")[0]] += 1
        return True

    if way not in ("known", "unknown"):
        yield direct, made
        return
    known: dict[str, Any] = {"models": {"*": {"window": window}}} if way == "known" else {}
    log = logging.getLogger("compaction_proxy")
    level = log.level
    log.setLevel(logging.INFO)
    log.addFilter(count)
    try:
        with proxy(Settings.model_validate({"upstream": direct, "store": "memory:", **known})) as url:
            yield url, made
    finally:
        log.removeFilter(count)
        log.setLevel(level)


def _report(
    agent: Agent, way: str, upstream: Upstream, made: Counter[str], ended: Run, fixed: int, solved: bool
) -> None:
    rungs = "/".join(str(made[rung]) for rung in ("cleared", "digest", "model"))
    largest = max((r.prompt_tokens for r in upstream.work if r.accepted), default=0)
    # A server cannot always tell whose summary calls it gets; where there is no proxy, all are the agent's.
    own = len(upstream.own) + (0 if way in ("known", "unknown") else len(upstream.proxys))
    figures = (upstream.turns, largest, made.total(), rungs, own, upstream.refused(OVERFLOW))
    window = "-" if way == "endless" else upstream.window
    end = (upstream.refused("invalid"), len(ended.errors), f"{fixed}/{agent.task.modules}", "yes" if solved else "no")
    _write(agent.name, way, window, *figures, *end)
    for error in ended.errors[:2]:
        _write("", f"  {error[:160]}", *[""] * 11)


def _write(*columns: object) -> None:
    sys.stdout.write(_ROW.format(*columns).rstrip() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
