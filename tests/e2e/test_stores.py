"""The store costs no request: locked, deleted, damaged, full, shared, or left behind by a process that was killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.core.checkpoint import Rung
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from proxy.engine import tolerant
from proxy.settings import Settings
from tests.e2e.processes import _address
from tests.e2e.test_promises import LONG, WINDOW, Reply, chat, post, sent, talk
from tests.stage import proxy, stage

PROMPT = 6.0
"""Seconds in which a request is answered whatever the store does; made without it in a fraction of one, and the
machine may be busy. Half of what one blocked write costs a caller that waits for it several times."""


def rungs(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [rung for (rung,) in db.execute("SELECT rung FROM checkpoints ORDER BY number")]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program writes, and does not come to an end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def at_once(*calls: Callable[[], Reply]) -> list[Reply]:
    replies: list[Reply] = []
    threads = [threading.Thread(target=lambda call=call: replies.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


@contextmanager
def process(folder: Path, upstream: str, **settings: Any) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The proxy as a process of its own, on `s.db` in `folder`; its base URL."""
    config = folder / "config.yaml"
    content = {"upstream": upstream, "store": f"sqlite:{folder}/s.db", **WINDOW, **settings}
    config.write_text(yaml.safe_dump(content), encoding="utf-8")
    command = (sys.executable, "-m", "proxy.cli", "serve", "--port", "0", "--config", str(config))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield f"{_address(running, output)}/v1", running
        finally:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


# -- shared --------------------------------------------------------------------------------------------------------


def test_two_proxies_on_one_file_make_one_summary(tmp_path: Path) -> None:
    """Whichever comes second takes what the first one made, and both send the same bytes."""
    fake = FakeUpstream(summarizer_delay=1.5)
    with ExitStack() as stack:
        address = stack.enter_context(serve_in_thread(fake))
        settings = Settings.model_validate({"upstream": f"{address}/v1", "store": f"sqlite:{tmp_path}/s.db", **WINDOW})
        one, other = (stack.enter_context(proxy(settings)) for _ in range(2))
        replies = at_once(*(lambda url=url: post(url, chat(talk(LONG))) for url in (one, other, one)))
        assert [r.status for r in replies] == [200] * 3
        assert len(fake.summaries) == 1
        assert len({r.body for r in sent(fake)}) == 1
        for url in (one, other):
            assert post(url, chat(talk(LONG + 1))).decision.startswith("reuse")
    assert len(fake.summaries) == 1
    assert rungs(tmp_path / "s.db") == [Rung.MODEL]


def test_after_a_kill_the_next_request_still_gets_its_summary(tmp_path: Path) -> None:
    """What the dead process held is free before the wait is over."""
    fake = FakeUpstream(summarizer_delay=3600)
    with serve_in_thread(fake) as address:
        with process(tmp_path, f"{address}/v1") as (url, running), pytest.raises(OSError), ExitStack() as stack:
            stack.callback(threading.Timer(3, running.send_signal, [signal.SIGKILL]).start)
            stack.close()
            post(url, chat(talk(LONG)))
        assert len(fake.summaries) == 1
        fake.summarizer_delay = 0
        with process(tmp_path, f"{address}/v1") as (url, _):
            reply = post(url, chat(talk(LONG)))
    assert reply.status == 200 and reply.decision.startswith("compact")
    assert len(fake.summaries) == 2
    assert rungs(tmp_path / "s.db") == [Rung.MODEL]


# -- away ----------------------------------------------------------------------------------------------------------


def test_a_locked_store_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several compactions at once and the first answers of new models; what was made is kept when the lock ends."""
    monkeypatch.setattr(tolerant, "LEFT_ALONE", 0.5)
    path = tmp_path / "s.db"
    with stage(FakeUpstream(), store=f"sqlite:{path}", **WINDOW) as s:
        assert post(s.url, chat(talk(LONG))).status == 200
        with locked(path):
            keys = [f"key-{number}" for number in range(4)]
            replies = at_once(*(lambda key=key: post(s.url, chat(talk(LONG)), key=key) for key in keys))
            replies += [post(s.url, chat(talk(5)) | {"model": name}) for name in ("new", "newer")]
            replies += [post(s.url, chat(talk(LONG + 1)), key=keys[0])]
        assert [r.status for r in replies] == [200] * 7
        assert max(r.seconds for r in replies) < PROMPT
        assert replies[-1].decision.startswith("reuse")
        assert len(s.fake.summaries) == 5
        eventually(lambda: rungs(path) == [Rung.MODEL] * 5)


def test_a_lock_that_outlives_the_proxy_does_not_hold_its_end(tmp_path: Path) -> None:
    """It stops within seconds, and what could not be written is made anew."""
    path = tmp_path / "s.db"
    with serve_in_thread(FakeUpstream()) as address:
        settings = Settings.model_validate({"upstream": f"{address}/v1", "store": f"sqlite:{path}", **WINDOW})
        with ExitStack() as stack:
            with proxy(settings) as url:
                stack.enter_context(locked(path))
                assert post(url, chat(talk(LONG))).status == 200
                begun = time.monotonic()
            assert time.monotonic() - begun < 2 * tolerant.FLUSHED_WITHIN
    assert rungs(path) == []


def deleted(path: Path) -> None:
    for file in path.parent.glob("s.db*"):
        if file.suffix != ".secret":
            file.unlink()


def deleted_alone(path: Path) -> None:
    path.unlink()


def damaged(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage" * 5_000)


def swapped(path: Path) -> None:
    notes = path.with_name("notes.txt")
    notes.write_text("my notes\n", encoding="utf-8")
    notes.replace(path)


@pytest.mark.parametrize("harm", [deleted, deleted_alone, damaged, swapped])
def test_a_store_that_goes_wrong_while_it_is_used_costs_no_request(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """What is known in the process stays in use, new compactions are made, and a restart goes on without trouble."""
    path = tmp_path / "s.db"
    with serve_in_thread(FakeUpstream()) as address:
        settings = Settings.model_validate({"upstream": f"{address}/v1", "store": f"sqlite:{path}", **WINDOW})
        with proxy(settings) as url:
            assert post(url, chat(talk(LONG))).decision.startswith("compact")
            harm(path)
            for request, key, decision in [
                (talk(LONG + 1), "k1", "reuse"),
                (talk(LONG), "k2", "compact"),
                (talk(LONG + 1), "k2", "reuse"),
                (talk(2), "k3", "pass"),
            ]:
                reply = post(url, chat(request), key=key)
                assert reply.status == 200 and reply.decision.startswith(decision)
                assert reply.seconds < PROMPT
        if harm is swapped:
            assert path.read_text(encoding="utf-8") == "my notes\n"
            return
        with proxy(settings) as url:
            reply = post(url, chat(talk(LONG)), key="k2")
            assert reply.status == 200 and reply.seconds < PROMPT
            if harm in (deleted, deleted_alone):
                assert reply.decision.startswith("reuse")  # it was kept in the file that was made again


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
def test_a_full_disk_costs_no_request(tmp_path: Path) -> None:
    """Compactions are made and used as before; they end with the process."""
    import resource

    fake = FakeUpstream()
    with serve_in_thread(fake) as address:
        with process(tmp_path, f"{address}/v1") as (url, running):
            assert post(url, chat(talk(LONG))).status == 200
            eventually(lambda: rungs(tmp_path / "s.db") == [Rung.MODEL])
            full = (tmp_path / "s.db").stat().st_size
            resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
            for number in range(6):
                replies = [post(url, chat(talk(LONG + more)), key=f"full-{number}") for more in (0, 1)]
                assert [r.status for r in replies] == [200, 200]
                assert [r.decision.split(";")[0] for r in replies] == ["compact", "reuse"]
                assert max(r.seconds for r in replies) < PROMPT
        with process(tmp_path, f"{address}/v1") as (url, _):
            assert post(url, chat(talk(LONG + 1))).decision.startswith("reuse")


# -- somebody else's -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", [False, True])
def test_a_mistyped_store_stops_the_start_and_changes_nothing(tmp_path: Path, database: bool) -> None:
    """The operator hears which file; its content, its mode and its folder are as they were."""
    path = tmp_path / "notes.txt"
    if database:
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE accounts (name TEXT)")
    else:
        path.write_text("my notes\n", encoding="utf-8")
    path.chmod(0o644)
    before = (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
    command = (sys.executable, "-m", "proxy.cli", "serve", "--port", "0", "--config", "/dev/stdin")
    done = subprocess.run(command, input=f"store: sqlite:{path}\n", capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "notes.txt" in done.stderr and "Traceback" not in done.stderr
    assert (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [path]
