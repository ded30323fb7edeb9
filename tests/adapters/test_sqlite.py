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

from proxy.adapters.secret import install_secret
from proxy.adapters.sqlite import APPLICATION_ID, SCHEMA_VERSION, SqliteStore
from proxy.core.checkpoint import Checkpoint
from proxy.errors import ConfigError, StoreError
from tests.contracts import records
from tests.contracts import store as contract

CHECKOUT = Path(__file__).parents[2]
USES: dict[str, Callable[[records.Both], Awaitable[object]]] = {
    "find": lambda store: store.find("t", ["aa"]),
    "checkpoint": lambda store: store.checkpoint("aa"),
    "latest": lambda store: store.latest(1),
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
    each_closed(tmp_path, case)


@pytest.mark.parametrize("case", records.CASES, ids=records.case_name)
def test_records(case: Callable[[records.Make], Awaitable[None]], tmp_path: Path) -> None:
    """Its operator can read it."""
    each_closed(tmp_path, case)


def each_closed(tmp_path: Path, case: Callable[..., Awaitable[None]]) -> None:
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
    tmp_path: Path, damage: Callable[[Path], None], use: Callable[[records.Both], Awaitable[object]]
) -> None:
    """Whatever is wrong with the file, callers see a `StoreError` and nothing else."""
    path = tmp_path / "folder" / "c.db"
    path.parent.mkdir()
    damage(path)
    with pytest.raises(StoreError, match=r"c\.db"):
        closing(path, use)


DAMAGE: list[tuple[str, object]] = [
    *(("text", "no blob"), ("text", b"\xff"), ("text_tokens", "many"), ("text_tokens", -1), ("rung", 9)),
    *(("first_kept", b"said"), ("first_kept", -1), ("first_kept", 7), ("boundary", "all"), ("boundary", 3)),
    *(("carry", 0.5), ("carry", 500), ("carry", 4), ("trims", "[1]"), ("trims", "[[900, 0, 0]]")),
    *(("trims", "[[5, -1, 0]]"), ("trims", "[[5, null, 0]]"), ("trims", "{}7"), ("created", 1e300), ("created", "now")),
    *(("stats", "{"), ("stats", "[" * 99_999), ("stats", "[1]")),
]


@pytest.mark.parametrize(("column", "value"), DAMAGE)
def test_a_damaged_row_is_left_out(
    tmp_path: Path, column: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that was changed from outside breaks no caller and hides no other, and the log does not repeat it."""
    path = tmp_path / "c.db"
    closing(path, lambda store: store.put(contract.checkpoint(text="secret")))
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE checkpoints SET {column} = ?", (value,))
    db.close()
    whole = contract.checkpoint(text="another")
    closing(path, lambda store: store.put(whole))
    assert closing(path, USES["find"]) == [whole] == closing(path, lambda store: store.latest(9))
    assert {record.getMessage().split(" (")[0] for record in caplog.records} == {"a row of the store cannot be read"}
    assert "secret" not in caplog.text


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
    install_secret(path)
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


def foreign_with_a_name(path: Path) -> None:
    foreign(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id = 1")
    db.close()


def notes(path: Path) -> None:
    path.write_text("my notes\n", encoding="utf-8")


def pipe(path: Path) -> None:
    os.mkfifo(path)


REFUSED = [
    (newer, "newer version"),
    (foreign, "another program"),
    (foreign_with_a_name, "another program"),
    (notes, "no database"),
    (corrupt, "no database"),
    (not_a_file, "no file"),
    pytest.param(pipe, "no file", marks=pytest.mark.skipif(os.name != "posix", reason="POSIX has pipes")),
]


def look_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about the files in `folder` that a program could change."""
    found: dict[str, tuple[object, ...]] = {}
    for file in folder.iterdir():
        status = file.stat()
        content = file.read_bytes() if file.is_file() else None
        found[file.name] = (status.st_mode, status.st_ino, status.st_mtime_ns, content)
    return found


@pytest.mark.parametrize(("owner", "message"), REFUSED)
def test_a_file_we_must_not_touch_is_refused_at_start(
    tmp_path: Path, owner: Callable[[Path], None], message: str
) -> None:
    """A newer schema and somebody else's file are the operator's to sort out: nothing of them changes, their mode
    included, and nothing appears beside them."""
    path = tmp_path / "c.db"
    owner(path)
    path.chmod(0o755 if path.is_dir() else 0o644)
    before = look_of(tmp_path)

    async def start(store: SqliteStore) -> None:
        with pytest.raises(ConfigError, match=message):
            store.prepare()
        with pytest.raises(StoreError, match=message):
            await store.put(contract.checkpoint())

    closing(path, start)
    assert look_of(tmp_path) == before


def test_prepare_makes_the_file_and_reports_a_broken_one(tmp_path: Path) -> None:
    """Before anything listens an unusable file is known; it is a `StoreError`, because requests can do without."""

    async def start(store: SqliteStore) -> None:
        store.prepare()

    closing(tmp_path / "c.db", start)
    assert (tmp_path / "c.db").stat().st_size > 0
    corrupt(tmp_path / "c.db")
    install_secret(tmp_path / "c.db")  # so it was ours
    with pytest.raises(StoreError, match="not a database"):
        closing(tmp_path / "c.db", start)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_store_says_so(tmp_path: Path, use: Callable[[records.Both], Awaitable[object]]) -> None:
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
    store = SqliteStore(Path(path), now=lambda: 1000.0, busy=30)
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


def test_a_killed_process_leaves_a_file_that_is_known_as_ours(tmp_path: Path) -> None:
    """Whose it is stands in the file itself from the first moment, not in a log beside it that was not merged yet."""
    path = tmp_path / "c.db"
    dying = "import os; os.kill(os.getpid(), 9)"
    script = WORKER.replace("await store.aclose()", dying)
    done = subprocess.run([sys.executable, "-c", script, str(path), "one"], input="go\n", text=True, cwd=CHECKOUT)
    assert done.returncode == -9
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID
    found = closing(path, lambda store: store.find("t", [f"{index:02x}" for index in range(60)]))
    assert isinstance(found, list)
    assert len(found) == 60


def take_away(folder: Path) -> None:
    for file in folder.glob("c.db*"):
        file.unlink()


@pytest.mark.parametrize("replace", [False, True])
def test_a_deleted_file_is_made_again(tmp_path: Path, replace: bool) -> None:
    """What was in it is gone, or what another put in its place is there; what comes next is kept."""
    path, spare = tmp_path / "c.db", tmp_path / "spare.db"
    old, new, other = (contract.checkpoint(text=text) for text in ("old", "new", "other"))
    closing(spare, lambda store: store.put(other))

    async def story(store: SqliteStore) -> None:
        await store.put(old)
        take_away(tmp_path)
        if replace:
            spare.rename(path)
        there = [other] if replace else []
        assert await store.find("t", ["aa"]) == there
        await store.put(new)
        assert await store.find("t", ["aa"]) == [*there, new]

    closing(path, story)
    found = closing(path, USES["find"])
    assert isinstance(found, list)
    assert contract.checkpoint(text="new") in found


@pytest.mark.parametrize("was_ours", [False, True])
def test_a_foreign_file_put_in_its_place_is_let_alone(tmp_path: Path, was_ours: bool) -> None:
    """While it runs the proxy is as careful as at its start, and what stands in the log of the old file stays there."""
    path, other = tmp_path / "c.db", tmp_path / "notes.txt"
    if was_ours:
        install_secret(path)

    async def story(store: SqliteStore) -> None:
        await store.put(contract.checkpoint())
        notes(other)
        other.replace(path)
        before = look_of(tmp_path)["c.db"]
        for use in (*USES.values(), *USES.values()):
            with pytest.raises(StoreError, match=r"(no|not a) database"):
                await use(store)
        assert look_of(tmp_path)["c.db"] == before

    closing(path, story)
    assert path.read_text(encoding="utf-8") == "my notes\n"


FULL = """
import asyncio, resource, sys
from pathlib import Path
from proxy.adapters.sqlite import SqliteStore
from proxy.errors import StoreError
from tests.contracts.store import checkpoint

async def main(path):
    store = SqliteStore(path)
    await store.put(checkpoint())
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, unlimited[1]))
    kept = 0
    try:
        while kept < 100:
            await store.put(checkpoint(f"{kept:02x}", "x" * 50_000))
            kept += 1
    except StoreError as error:
        print(type(error.__cause__).__name__)
    assert await store.find("t", ["aa"]) == [checkpoint()]
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    await store.put(checkpoint("bb"))
    assert await store.find("t", ["bb"]) == [checkpoint("bb")]
    await store.aclose()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
def test_a_full_disk_is_a_store_error(tmp_path: Path) -> None:
    """What is there can still be read, and when there is room again, writing goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "c.db")], capture_output=True, text=True, cwd=CHECKOUT
    )
    assert (done.returncode, done.stdout) == (0, "OperationalError\n"), done.stderr
    closing(tmp_path / "c.db", USES["put"])


READ_ONLY = """
import asyncio, os, sys
from pathlib import Path
from proxy.adapters.sqlite import SqliteStore
from proxy.errors import StoreError
from tests.contracts.store import checkpoint

async def main(path):
    store = SqliteStore(path)
    for use in (store.prepare, lambda: store.find("t", ["aa"]), lambda: store.put(checkpoint())):
        try:
            done = use()
            await done
        except StoreError as error:
            print("StoreError")
    await store.aclose()

os.setuid(65534) if os.getuid() == 0 else None
asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
@pytest.mark.parametrize("of", ["file", "directory"])
def test_what_may_only_be_read_is_a_store_error(of: str) -> None:
    """A file, or a directory, that this user may not write to."""
    with tempfile.TemporaryDirectory() as folder:  # where any user may look
        path = Path(folder, "c.db")
        closing(path, USES["put"])
        path.chmod(0o444 if of == "file" else 0o666)
        Path(folder).chmod(0o777 if of == "file" else 0o555)
        before = look_of(Path(folder))
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, cwd=CHECKOUT
        )
        Path(folder).chmod(0o777)
        assert (done.returncode, done.stdout) == (0, "StoreError\n" * 3), done.stderr
        assert look_of(Path(folder)) == before
