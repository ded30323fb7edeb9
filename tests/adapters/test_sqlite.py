"""The SQLite store keeps the contract, its file private, and every failure a `StoreError`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.adapters.sqlite import SCHEMA_VERSION, SqliteStore
from proxy.core.checkpoint import Checkpoint
from proxy.errors import ConfigError, StoreError
from proxy.ports import Store
from tests.contracts import store as contract

CHECKOUT = Path(__file__).parents[2]
USES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "find": lambda store: store.find("t", ["aa"]),
    "put": lambda store: store.put(contract.checkpoint()),
    "lease": lambda store: store.lease("name", "owner", 10),
    "release": lambda store: store.release("name", "owner"),
    "recall": lambda store: store.recall("kind"),
    "remember": lambda store: store.remember("kind", "key", "1", 10),
}


def closing(path: Path, use: Callable[[SqliteStore], Awaitable[object]], busy: float = 5.0) -> object:
    """What `use` of a store at `path` gives; the store is closed behind it."""

    async def story() -> object:
        store = SqliteStore(path, busy=busy)
        try:
            return await use(store)
        finally:
            await store.aclose()

    return asyncio.run(story())


@pytest.mark.parametrize("case", contract.CASES, ids=contract.case_name)
def test_contract(case: Callable[[contract.Make], Awaitable[None]], tmp_path: Path) -> None:
    """Every case of the contract holds."""
    stores: list[SqliteStore] = []

    def make(**options: object) -> SqliteStore:
        stores.append(SqliteStore(tmp_path / f"{len(stores)}.db", **options))  # type: ignore[arg-type]
        return stores[-1]

    async def story() -> None:
        try:
            await case(make)
        finally:
            for store in stores:
                await store.aclose()

    asyncio.run(story())


@given(st.lists(contract.checkpoints, max_size=6, unique_by=lambda checkpoint: checkpoint.id))
@settings(max_examples=40, deadline=None)
def test_any_checkpoint_round_trips(checkpoints: list[Checkpoint]) -> None:
    """Odd text, big numbers and empty fields come back as they went in, statistics included."""

    async def story(store: SqliteStore) -> None:
        for checkpoint in checkpoints:
            await store.put(checkpoint)
        for checkpoint in checkpoints:
            found = await store.find(checkpoint.tenant, [checkpoint.key])
            assert asdict(checkpoint) in [asdict(item) for item in found]

    with tempfile.TemporaryDirectory() as folder:
        closing(Path(folder, "c.db"), story)


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    """A new process finds checkpoints in the same order, leases and facts."""
    path = tmp_path / "c.db"

    async def before(store: SqliteStore) -> None:
        await store.put(contract.checkpoint(text="first"))
        await store.put(contract.checkpoint(text="second", created=1.0))
        await store.lease("prefix", "one", 1000)
        await store.remember("window", "m", "4096", 1000)

    async def after(store: SqliteStore) -> object:
        found = [item.text for item in await store.find("t", ["aa"])]
        return found, await store.lease("prefix", "two", 1), await store.recall("window")

    closing(path, before)
    assert closing(path, after) == (["first", "second"], False, {"m": "4096"})


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_files_are_private(tmp_path: Path) -> None:
    """The directory is made 0700; the file is 0600, whatever it was before, and so are its -wal and -shm."""
    lax = tmp_path / "lax.db"
    lax.touch()
    lax.chmod(0o664)
    fresh = tmp_path / "made" / "c.db"

    async def modes(store: SqliteStore, folder: Path) -> dict[str, int]:
        await store.put(contract.checkpoint())
        return modes_in(folder)

    assert closing(lax, functools.partial(modes, folder=tmp_path)) == {
        "lax.db": 0o600,
        "lax.db-wal": 0o600,
        "lax.db-shm": 0o600,
    }
    assert set(closing(fresh, functools.partial(modes, folder=fresh.parent)).values()) == {0o600}  # type: ignore[attr-defined]
    assert stat.S_IMODE(fresh.parent.stat().st_mode) == 0o700


def test_calls_run_on_one_other_thread(tmp_path: Path) -> None:
    """No call of a store touches the disk on the thread of the event loop."""
    threads: set[threading.Thread] = set()

    def now() -> float:
        threads.add(threading.current_thread())
        return 1.0

    async def story() -> None:
        store = SqliteStore(tmp_path / "c.db", now=now)
        await asyncio.gather(*(use(store) for use in USES.values()))
        await store.aclose()

    asyncio.run(story())
    assert len(threads) == 1
    assert threading.current_thread() not in threads


def modes_in(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def corrupt(path: Path) -> None:
    path.write_bytes(b"this is no database " * 500)


def truncated(path: Path) -> None:
    closing(path, USES["put"])
    with path.open("r+b") as file:
        file.truncate(4096 * 3 + 100)
        file.seek(4096)
        file.write(b"\xff" * 8192)


def not_a_file(path: Path) -> None:
    path.mkdir()


def no_directory(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("a file where the directory should be")


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("damage", [corrupt, truncated, not_a_file, no_directory])
def test_a_file_that_cannot_be_used_is_a_store_error(
    tmp_path: Path, damage: Callable[[Path], None], use: Callable[[Store], Awaitable[object]]
) -> None:
    """Whatever is wrong with the file, callers see a `StoreError` and nothing else."""
    path = tmp_path / "folder" / "c.db"
    path.parent.mkdir()
    damage(path)
    with pytest.raises(StoreError, match=r"c\.db"):
        closing(path, use)


@pytest.mark.parametrize(
    ("column", "value"),
    [("text", "no blob"), ("text", b"\xff"), ("trims", "[1]"), ("rung", 9), ("stats", "{"), ("stats", "[" * 99_999)],
)
def test_a_damaged_row_is_a_store_error(tmp_path: Path, column: str, value: object) -> None:
    """A row that was changed from outside cannot break a caller, and its text is not in the message."""
    path = tmp_path / "c.db"
    closing(path, USES["put"])
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE checkpoints SET {column} = ?", (value,))
    db.close()
    with pytest.raises(StoreError, match="unreadable") as caught:
        closing(path, USES["find"])
    assert str(value) not in str(caught.value)


def test_what_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    """Statistics that are no JSON are refused, not half written."""
    path = tmp_path / "c.db"
    with pytest.raises(StoreError):
        closing(path, lambda store: store.put(contract.checkpoint(stats={"odd": object()})))
    assert closing(path, USES["find"]) == []


def test_a_locked_file_is_a_store_error(tmp_path: Path) -> None:
    """A writer that never ends costs the others their writes after the busy time; reading goes on."""
    path = tmp_path / "c.db"
    closing(path, USES["put"])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        for name in ("put", "lease", "release", "remember"):
            with pytest.raises(StoreError, match="locked"):
                closing(path, USES[name], busy=0.05)
        assert closing(path, USES["find"], busy=0.05) == [contract.checkpoint()]
    finally:
        other.close()
    assert closing(path, USES["lease"]) is True


def test_a_store_recovers_when_the_file_does(tmp_path: Path) -> None:
    """An operator may take a damaged file away while the proxy runs."""
    path = tmp_path / "c.db"
    corrupt(path)

    async def story(store: SqliteStore) -> object:
        with pytest.raises(StoreError):
            await store.put(contract.checkpoint())
        path.unlink()
        await store.put(contract.checkpoint())
        return await store.find("t", ["aa"])

    assert closing(path, story) == [contract.checkpoint()]


def newer(path: Path) -> None:
    closing(path, USES["put"])
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE accounts (name TEXT)")
    db.close()


@pytest.mark.parametrize(("owner", "message"), [(newer, "newer version"), (foreign, "another program")])
def test_a_file_we_must_not_touch_is_refused_at_start(
    tmp_path: Path, owner: Callable[[Path], None], message: str
) -> None:
    """A newer schema and somebody else's database are the operator's to sort out: nothing in them is changed."""
    path = tmp_path / "c.db"
    owner(path)
    before = path.read_bytes()

    async def start(store: SqliteStore) -> None:
        with pytest.raises(ConfigError, match=message):
            store.prepare()
        with pytest.raises(StoreError, match=message):
            await store.put(contract.checkpoint())

    closing(path, start)
    assert path.read_bytes() == before


def test_prepare_makes_the_file_and_reports_a_broken_one(tmp_path: Path) -> None:
    """Before anything listens an unusable file is known; it is a `StoreError`, because requests can do without."""

    async def start(store: SqliteStore) -> None:
        store.prepare()

    closing(tmp_path / "c.db", start)
    assert (tmp_path / "c.db").stat().st_size > 0
    corrupt(tmp_path / "d.db")
    with pytest.raises(StoreError):
        closing(tmp_path / "d.db", start)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_store_says_so(tmp_path: Path, use: Callable[[Store], Awaitable[object]]) -> None:
    """A task that outlives the shutdown gets the one exception it expects."""

    async def story() -> None:
        store = SqliteStore(tmp_path / "c.db")
        await store.aclose()
        with pytest.raises(StoreError, match="closed"):
            await use(store)

    asyncio.run(story())


WORKER = """
import asyncio, json, sys
from pathlib import Path
from proxy.adapters.sqlite import SqliteStore
from tests.contracts.store import checkpoint

async def main(path, me):
    store = SqliteStore(Path(path), now=lambda: 1000.0)
    sys.stdin.readline()
    won = []
    for index in range(60):
        if await store.lease(f"prefix {index}", me, 1000):
            won.append(index)
            await store.put(checkpoint(f"{index:02x}", f"by {me}"))
    await store.aclose()
    print(json.dumps(won))

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_share_leases_and_checkpoints(tmp_path: Path) -> None:
    """Three workers that start on a fresh file at one moment: each prefix has one winner, and nothing is lost."""
    path = tmp_path / "c.db"
    command = [sys.executable, "-c", WORKER, str(path)]
    won: list[list[int]] = []
    with contextlib.ExitStack() as stack:
        start = functools.partial(subprocess.Popen[str], stdin=PIPE, stdout=PIPE, text=True, cwd=CHECKOUT)
        workers = [stack.enter_context(start([*command, name])) for name in ("one", "two", "three")]
        for worker in workers:  # all are told to start before any is waited for
            assert worker.stdin
            worker.stdin.write("go\n")
            worker.stdin.flush()
        won += [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
    assert sorted(itertools.chain(*won)) == list(range(60))
    keys = [f"{index:02x}" for index in range(60)]
    found = closing(path, lambda store: store.find("t", keys))
    assert isinstance(found, list)
    assert len(found) == 60
