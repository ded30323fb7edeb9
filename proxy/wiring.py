"""The composition root: settings in, ASGI application out. With `cli.py` the only place that names adapters."""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from proxy.access import Access
from proxy.adapters.catalogue import GenaiPrices
from proxy.adapters.clock import SystemClock
from proxy.adapters.codings import ALL_CODINGS
from proxy.adapters.encoding import O200k
from proxy.adapters.memory import MemoryStore
from proxy.adapters.plugin import load
from proxy.adapters.secret import install_secret
from proxy.adapters.sqlite import SqliteStore
from proxy.adapters.summariser import HttpSummariser
from proxy.adapters.upstream import AiohttpUpstream
from proxy.adapters.webhook import Webhook
from proxy.engine.assembly import assemble
from proxy.errors import ConfigError, StoreError
from proxy.ports import Clock, Hook, Upstream
from proxy.routing import Router
from proxy.settings import Settings
from proxy.web.app import App, create_app

log = logging.getLogger("compaction_proxy")


def build(settings: Settings, environ: Mapping[str, str]) -> App:
    """The application. `environ` is looked at for outbound proxies and CA files alone.

    Raises `ConfigError` for settings that cannot work. A store that cannot be used is logged: it costs summaries.
    """
    upstream = AiohttpUpstream(connect_timeout=settings.connect_timeout, environ=environ)
    store, secret = open_store(settings.store)
    clock = SystemClock()
    parts = assemble(
        settings,
        secret=secret,
        upstream=upstream,
        summariser=HttpSummariser(upstream),
        store=store,
        clock=clock,
        catalogue=GenaiPrices(),
        count=O200k().count,
        codings=ALL_CODINGS,
        hooks=make_hooks(settings, upstream, clock),
    )

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await parts.knowledge.load()
        async with contextlib.AsyncExitStack() as stack:  # closed in the reverse order, each whatever the others do
            stack.push_async_callback(store.aclose)
            stack.push_async_callback(upstream.aclose)
            stack.push_async_callback(parts.aclose)
            yield

    return create_app(
        parts.engine,
        Access(settings),
        keepalive_after=settings.keepalive_after,
        max_body=settings.max_body,
        codings=ALL_CODINGS,
        lifespan=lifespan,
    )


def open_store(name: str) -> tuple[MemoryStore | SqliteStore, bytes]:
    """The store that the settings name, and the install's secret.

    A file that must not be touched is a `ConfigError`, and nothing is written. One that cannot be used now is logged,
    and tried again at each use; it may be anybody's, so no secret is put beside it. A secret that cannot be kept is
    made for this process alone.
    """
    if name == "memory:":
        return MemoryStore(), secrets.token_bytes(32)
    if not name.startswith("sqlite:"):
        raise ConfigError(f"store: must be sqlite:PATH or memory:, not {name!r}")
    path = Path(name.removeprefix("sqlite:"))
    store = SqliteStore(path)
    usable = True
    try:
        store.prepare()
    except StoreError as error:
        usable = False
        log.warning("%s; until it can be used, compactions do not outlive this process", error)
    try:
        return store, install_secret(path, make=usable)
    except StoreError as error:
        log.warning("%s; compactions made now are of no use after a restart", error)
        return store, secrets.token_bytes(32)


def open_records(name: str) -> MemoryStore | SqliteStore:
    """The store that the settings name, for its operator to read. Raises `ConfigError` where there is none yet, and
    makes none."""
    if name == "memory:":
        raise ConfigError("store: memory: is known to the running proxy alone")
    path = Path(name.removeprefix("sqlite:"))
    if name.startswith("sqlite:") and not path.exists():
        raise ConfigError(f"store: there is no {path}: nothing was compacted yet, or another store is meant (--config)")
    store, _ = open_store(name)
    return store


def make_hooks(settings: Settings, upstream: Upstream, clock: Clock) -> tuple[Hook, ...]:
    """Raises `ConfigError` for a Python hook that cannot be loaded."""
    hooks: list[Hook] = []
    own = settings.hooks
    if own.python is not None:
        hooks.append(load(own.python, own.options))
    if own.webhook is not None and own.secret is not None:
        hooks.append(Webhook(upstream, own.webhook, own.secret.get_secret_value(), clock.now))
    return tuple(hooks)


async def check(settings: Settings) -> None:
    """Raises `ConfigError` where `build` would: for a process that leaves building to its workers."""
    Router(settings)
    if settings.hooks.python is not None:
        load(settings.hooks.python, settings.hooks.options)
    store, _ = open_store(settings.store)
    await store.aclose()


def configure_logging() -> None:
    """One line per event on stderr, from this proxy at INFO, from everything else at WARNING. May be called twice."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log.setLevel(logging.INFO)
    # What a line does not show need not be found out for each (logging HOWTO, "Optimization").
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
