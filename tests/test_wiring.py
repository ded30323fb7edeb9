"""The composition root: which store a name means, and that a broken one costs no more than it must."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.adapters.clock import SystemClock
from proxy.adapters.memory import MemoryStore
from proxy.adapters.sqlite import SCHEMA_VERSION, SqliteStore
from proxy.adapters.upstream import AiohttpUpstream
from proxy.errors import ConfigError
from proxy.settings import ModelSettings, Settings
from proxy.web.app import App
from proxy.wiring import build, check, make_hooks, open_records, open_store


def opened(name: str) -> tuple[type, bytes]:
    store, secret = open_store(name)
    asyncio.run(store.aclose())
    return type(store), secret


def test_a_store_by_its_name(tmp_path: Path) -> None:
    """Memory has a secret for each process, a file keeps its own beside it."""
    file = f"sqlite:{tmp_path / 'c.db'}"
    kind, secret = opened("memory:")
    assert (kind, len(secret)) == (MemoryStore, 32)
    assert opened("memory:")[1] != secret
    assert opened(file) == opened(file)
    assert opened(file)[0] is SqliteStore


@pytest.mark.parametrize("name", ["", "postgres://host/db", "compaction.db"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """Settings that did not come through `load` are no excuse for a guess."""
    with pytest.raises(ConfigError, match="store: must be"):
        open_store(name)


def test_a_broken_store_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The proxy runs without; the secret is the same as before, so that what can be saved is of use."""
    path = tmp_path / "c.db"
    _, secret = opened(f"sqlite:{path}")
    path.write_bytes(b"no database at all" * 100)
    with caplog.at_level(logging.WARNING, "compaction_proxy"):
        assert opened(f"sqlite:{path}") == (SqliteStore, secret)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        f"store {path}: file is not a database"
    ]


def database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE accounts (name TEXT)")
    db.close()


@pytest.mark.parametrize("make", [lambda path: path.write_text("my notes\n"), database])
def test_a_mistyped_name_changes_no_file(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Somebody else's file stops the start, and neither it nor its neighbourhood is any different afterwards."""
    path = tmp_path / "notes.txt"
    make(path)
    path.chmod(0o644)
    before = (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
    for start in (open_store, lambda name: build(Settings(store=name), {})):
        with pytest.raises(ConfigError, match=r"notes\.txt"):
            start(f"sqlite:{path}")
    assert (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [path]


def test_no_secret_beside_a_file_that_cannot_be_looked_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be anybody's."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "c.db"
    with caplog.at_level(logging.WARNING, "compaction_proxy"):
        assert opened(f"sqlite:{path}")[0] is SqliteStore
    assert len(caplog.records) == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_secret_that_cannot_be_kept_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The process makes one for itself."""
    (tmp_path / "c.db.secret").write_text("damaged")
    with caplog.at_level(logging.WARNING, "compaction_proxy"):
        first, second = opened(f"sqlite:{tmp_path / 'c.db'}"), opened(f"sqlite:{tmp_path / 'c.db'}")
    assert len(first[1]) == 32
    assert first[1] != second[1]
    assert all("damaged" in record.getMessage() for record in caplog.records)


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    """Before anything listens, in the process that leaves building to its workers as well."""
    path = tmp_path / "c.db"
    settings = Settings(store=f"sqlite:{path}")
    asyncio.run(check(settings))
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(ConfigError, match="newer version"):
        asyncio.run(check(settings))
    with pytest.raises(ConfigError, match="newer version"):
        build(settings, {})


def test_hooks_as_the_settings_name_them() -> None:
    """Both kinds, or none; one that cannot be loaded stops the start, in whichever process builds."""

    def named(**hooks: object) -> list[str]:
        settings = Settings.model_validate({"hooks": hooks})
        return [repr(hook) for hook in make_hooks(settings, AiohttpUpstream(connect_timeout=1), SystemClock())]

    python = {"python": "proxy.hooks.reflection:Reflection", "options": {"directory": "/nowhere"}}
    assert named() == []
    assert named(**python, webhook="http://h/x", secret="s") == [
        "Plugin(proxy.hooks.reflection:Reflection)",
        "Webhook(h)",
    ]
    wrong = Settings.model_validate({"store": "memory:", "hooks": {"python": "proxy.nowhere:f"}})
    for start in (lambda: build(wrong, {}), lambda: asyncio.run(check(wrong))):
        with pytest.raises(ConfigError, match=r"hooks\.python: proxy\.nowhere:f cannot be imported"):
            start()


def test_records_are_those_of_a_store_that_is_there(tmp_path: Path) -> None:
    """To look at it makes none."""
    path = tmp_path / "c.db"
    for name, reason in [("memory:", "running proxy alone"), (f"sqlite:{path}", "nothing was compacted yet")]:
        with pytest.raises(ConfigError, match=reason):
            open_records(name)
    assert not list(tmp_path.iterdir())
    opened(f"sqlite:{path}")
    store = open_records(f"sqlite:{path}")
    assert asyncio.run(store.latest(5)) == []
    asyncio.run(store.aclose())


def test_the_application_starts_and_stops(tmp_path: Path) -> None:
    """Its lifespan opens what it needs and gives everything back."""
    settings = Settings(store=f"sqlite:{tmp_path / 'c.db'}", models={"*": ModelSettings(window=4000)})
    app = build(settings, {})
    assert isinstance(app, App)
    said: list[str] = []

    async def story() -> None:
        told = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> dict[str, str]:
            return {"type": next(told)}

        async def send(message: dict[str, str]) -> None:
            said.append(message["type"])

        await app({"type": "lifespan"}, receive, send)  # type: ignore[arg-type]

    asyncio.run(story())
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert not (tmp_path / "c.db-wal").exists()  # the last connection is closed
