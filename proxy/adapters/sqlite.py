"""The embedded store: one SQLite file for all workers of a machine.

All calls run on one thread of the store's own, so a slow disk never blocks the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from proxy.adapters.retention import LONGEST_LEASE, MOST_FACTS, ON_DISK, Retention, size
from proxy.adapters.rows import COLUMNS, pack, readable, row, unpack
from proxy.adapters.secret import beside
from proxy.core.checkpoint import Checkpoint
from proxy.errors import ConfigError, StoreError

T = TypeVar("T")

SCHEMA_VERSION = 1
APPLICATION_ID = 0x63707278  # "cprx": tells our files from those of other programs
MAGIC = b"SQLite format 3\0"  # and where the header has both numbers: https://sqlite.org/fileformat2.html#the_database_header
VERSION_AT, APPLICATION_AT = slice(60, 64), slice(68, 72)
BUSY_SECONDS = 0.4  # a call waits for another process' write; a write takes milliseconds, and may be tried again
OPEN_SECONDS = 5.0  # the same while the file is made, which several workers may want at once
KEYS_PER_QUERY = 500  # SQLite before 3.32 takes 999 parameters (https://sqlite.org/limits.html)

SCHEMA = """
CREATE TABLE checkpoints (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant BLOB NOT NULL,
    key BLOB NOT NULL,
    first_kept INTEGER NOT NULL,
    boundary INTEGER NOT NULL,
    text BLOB NOT NULL,
    text_tokens INTEGER NOT NULL,
    carry INTEGER,
    trims TEXT NOT NULL,
    rung INTEGER NOT NULL,
    created REAL NOT NULL,
    prose BLOB NOT NULL,
    stats TEXT NOT NULL,
    size INTEGER NOT NULL,
    used REAL NOT NULL
);
CREATE INDEX checkpoints_by_key ON checkpoints (tenant, key);
CREATE INDEX checkpoints_by_use ON checkpoints (used, number, size);
CREATE TABLE leases (name BLOB PRIMARY KEY, owner BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (
    kind BLOB NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    expires REAL NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
"""


class SqliteStore:
    """`Store` and `Records` in the file `path`, made (0600, its directory 0700) when it is first needed. `now`: seconds
    since the epoch."""

    def __init__(
        self,
        path: Path,
        retention: Retention = ON_DISK,
        now: Callable[[], float] = time.time,
        busy: float = BUSY_SECONDS,
    ) -> None:
        self._path = path
        self._retention = retention
        self._now = now
        self._busy = busy
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None  # touched on that thread alone
        self._file: tuple[int, int] | None = None  # which file that is a connection to

    def __repr__(self) -> str:
        return f"SqliteStore({self._path})"

    def prepare(self) -> None:
        """Open the file before anything listens. Raises `ConfigError` for a file that is not ours or from a newer
        version, `StoreError` for one that cannot be used (each later call tries again)."""
        try:
            with _translated(self._path):
                self._thread.submit(self._current).result()
        except StoreError as error:
            if isinstance(error.__cause__, ConfigError):
                raise ConfigError(str(error)) from error
            raise

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        return await self._run(lambda db: self._find(db, pack(tenant), [pack(key) for key in dict.fromkeys(keys)]))

    async def put(self, checkpoint: Checkpoint) -> None:
        await self._run(lambda db: self._put(db, checkpoint))

    async def checkpoint(self, id: str) -> Checkpoint | None:
        statement = f"SELECT {COLUMNS} FROM checkpoints WHERE id = ?"
        rows = await self._run(lambda db: readable(db.execute(statement, (id,))))
        return rows[0] if rows else None

    async def latest(self, number: int) -> list[Checkpoint]:
        statement = f"SELECT {COLUMNS} FROM checkpoints ORDER BY number DESC LIMIT ?"
        return await self._run(lambda db: readable(db.execute(statement, (max(0, number),))))

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        return await self._run(lambda db: self._lease(db, pack(name), pack(owner), seconds))

    async def release(self, name: str, owner: str) -> None:
        statement = "DELETE FROM leases WHERE name = ? AND owner = ?"
        await self._run(lambda db: db.execute(statement, (pack(name), pack(owner))))

    async def recall(self, kind: str) -> dict[str, str]:
        statement = "SELECT key, value FROM facts WHERE kind = ? AND expires > ? ORDER BY key"
        rows = await self._run(lambda db: db.execute(statement, (pack(kind), self._now())).fetchall())
        return {unpack(key): unpack(value) for key, value in rows}

    async def remember(self, kind: str, key: str, value: str, seconds: float) -> None:
        await self._run(lambda db: self._remember(db, (pack(kind), pack(key), pack(value)), seconds))

    async def aclose(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed already: may be called twice
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def call() -> T:
            with _translated(self._path):
                try:
                    return work(self._current())
                except sqlite3.Error:
                    self._close()  # ends an open transaction; the next call starts from a fresh look at the file
                    raise

        try:
            future = asyncio.get_running_loop().run_in_executor(self._thread, call)
        except RuntimeError as error:
            raise StoreError(f"store {self._path} is closed") from error
        return await future

    def _current(self) -> sqlite3.Connection:
        """A connection to the file that is there now: what is written to one that was deleted is lost."""
        if self._connection and self._file != _identity(self._path):
            self._close()
        return self._connection or self._open()

    def _open(self) -> sqlite3.Connection:
        _refuse_foreign(self._path)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(self._path)
        file = _identity(self._path)
        db = sqlite3.connect(self._path, timeout=OPEN_SECONDS, isolation_level=None)
        try:
            if _check_version(db) == 0:
                with _transaction(db):
                    if _check_version(db) == 0:  # no other worker was faster
                        _create_schema(db)
            _write_ahead(db)  # only now: whose file it is has to stand in the file itself, not beside it
            db.execute(f"PRAGMA busy_timeout = {int(self._busy * 1000)}")
        except BaseException:
            db.close()
            raise
        self._connection, self._file = db, file
        return db

    def _close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _find(self, db: sqlite3.Connection, tenant: bytes, keys: list[bytes]) -> list[Checkpoint]:
        now, rows = self._now(), []
        for start in range(0, len(keys), KEYS_PER_QUERY):
            some = keys[start : start + KEYS_PER_QUERY]
            places = ",".join("?" * len(some))
            statement = f"SELECT {COLUMNS}, number, used FROM checkpoints WHERE tenant = ? AND key IN ({places})"
            rows += db.execute(statement, (tenant, *some)).fetchall()
        found = [(checkpoint, *row[-2:]) for row in rows for checkpoint in readable([row])]
        found.sort(key=lambda item: (-item[0].end, -item[0].rung, item[1]))
        stale = [(now, number) for _, number, used in found if used <= now - self._retention.grain]
        if stale:
            with contextlib.suppress(sqlite3.OperationalError):  # locked or full: what was read is good all the same
                db.executemany("UPDATE checkpoints SET used = ? WHERE number = ?", stale)
        return [checkpoint for checkpoint, _, _ in found]

    def _put(self, db: sqlite3.Connection, checkpoint: Checkpoint) -> None:
        values = row(checkpoint)
        places = ",".join("?" * (len(values) + 3))
        statement = f"INSERT OR IGNORE INTO checkpoints ({COLUMNS}, id, size, used) VALUES ({places})"
        with _transaction(db):
            cursor = db.execute(statement, (*values, checkpoint.id, size(checkpoint), self._now()))
            if cursor.rowcount:
                self._prune(db, cursor.lastrowid)

    def _prune(self, db: sqlite3.Connection, newest: int | None) -> None:
        oldest_use = self._now() - self._retention.idle
        db.execute("DELETE FROM checkpoints WHERE used < ? AND number <> ?", (oldest_use, newest))
        (total,) = db.execute("SELECT total(size) FROM checkpoints").fetchone()
        excess, victims = total - self._retention.characters, []
        if excess > 0:
            statement = "SELECT number, size FROM checkpoints WHERE number <> ? ORDER BY used, number"
            for number, characters in db.execute(statement, (newest,)):
                if excess <= 0:
                    break
                victims.append((number,))
                excess -= characters
        db.executemany("DELETE FROM checkpoints WHERE number = ?", victims)

    def _lease(self, db: sqlite3.Connection, name: bytes, owner: bytes, seconds: float) -> bool:
        now = self._now()
        statement = """INSERT INTO leases (name, owner, expires) VALUES (?, ?, ?)
            ON CONFLICT (name) DO UPDATE SET expires = excluded.expires WHERE owner = excluded.owner"""
        with _transaction(db):
            db.execute("DELETE FROM leases WHERE expires <= ? OR expires > ?", (now, now + LONGEST_LEASE))
            return db.execute(statement, (name, owner, now + min(seconds, LONGEST_LEASE))).rowcount > 0

    def _remember(self, db: sqlite3.Connection, fact: tuple[bytes, bytes, bytes], seconds: float) -> None:
        now = self._now()
        with _transaction(db):
            db.execute("DELETE FROM facts WHERE expires <= ?", (now,))
            statement = "INSERT OR REPLACE INTO facts (kind, key, value, expires) VALUES (?, ?, ?, ?)"
            db.execute(statement, (*fact, now + seconds))
            (number,) = db.execute("SELECT count(*) FROM facts WHERE kind = ?", fact[:1]).fetchone()
            if number > MOST_FACTS:
                statement = "SELECT key FROM facts WHERE kind = ? AND key <> ? ORDER BY expires LIMIT ?"
                excess = db.execute(statement, (*fact[:2], number - MOST_FACTS)).fetchall()
                db.executemany("DELETE FROM facts WHERE kind = ? AND key = ?", [(fact[0], key) for (key,) in excess])


# --- the file


def _refuse_foreign(path: Path) -> None:
    """Raises `ConfigError` for a file that we must not write to; nothing but its first bytes is looked at.

    An empty one is free to take. One that was ours and is damaged is no mistake of the operator's: SQLite's own error.
    SQLite does not get to see it, for it would write into it what a log of ours beside it still holds.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise ConfigError("this is no file")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return
    if header.startswith(MAGIC):
        _check_owner(*(int.from_bytes(header[place], "big") for place in (APPLICATION_AT, VERSION_AT)))
    elif beside(path).exists():
        raise sqlite3.DatabaseError("file is not a database")
    else:
        raise ConfigError("this file is no database, and not of this program")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make_private(path: Path) -> None:
    """SQLite gives -wal and -shm the mode of the file itself, so that has to be right before it opens it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _check_version(db: sqlite3.Connection) -> int:
    """The file's schema version, 0 for an empty one. Raises `ConfigError` for a file that we must not write to."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        _check_owner(application, version)
    return int(version)


def _check_owner(application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise ConfigError("this database belongs to another program")
    if version > SCHEMA_VERSION:
        raise ConfigError(f"written by a newer version (schema {version}; this one knows {SCHEMA_VERSION})")


def _create_schema(db: sqlite3.Connection) -> None:
    for statement in SCHEMA.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _write_ahead(db: sqlite3.Connection) -> None:
    """Readers and one writer side by side. Several workers may start at once, and this one switch does not wait for
    locks by itself (https://sqlite.org/wal.html, "Sometimes queries return SQLITE_BUSY in WAL mode")."""
    deadline = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    db.execute("PRAGMA synchronous = NORMAL")  # a power failure may cost the last checkpoints, never the file


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is the store's fault. Messages of SQLite and the system hold no text of ours."""
    try:
        yield
    except (sqlite3.Error, OSError, ConfigError) as error:
        raise StoreError(f"store {path}: {error}") from error
    except Exception as error:  # a value that cannot be read or written: whatever it is, callers know how to go on
        raise StoreError(f"store {path}: unreadable ({type(error).__name__})") from error
