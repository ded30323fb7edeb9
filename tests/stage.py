"""The whole product on real sockets: a fake upstream, the proxy before it, and what a test needs of both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from proxy.demo.play import play
from proxy.demo.report import Report
from proxy.demo.script import Conversation
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from proxy.settings import Settings
from proxy.web.app import serve_options
from proxy.wiring import build


@dataclass
class Stage:
    """`url` is the proxy's base URL, `direct` the fake's own; both end in /v1."""

    url: str
    direct: str
    fake: FakeUpstream

    def play(self, script: Conversation | None = None, **options: Any) -> Report:
        options.setdefault("headers", {"authorization": "Bearer key-of-a-client"})
        return asyncio.run(play(self.url, script=script or Conversation(), fake=self.fake, **options))


@contextmanager
def proxy(settings: Settings) -> Iterator[str]:
    """Serve the proxy with `settings`; yields its base URL, ending in /v1."""
    with serve_in_thread(build(settings, {}), **serve_options() | {"timeout_graceful_shutdown": 1}) as address:
        yield f"{address}/v1"


@contextmanager
def stage(fake: FakeUpstream, **settings: Any) -> Iterator[Stage]:
    """The fake and a proxy before it. `settings` as in the configuration; the store is in memory unless it says so."""
    with serve_in_thread(fake) as address:
        direct = f"{address}/v1"
        with proxy(Settings.model_validate({"upstream": direct, "store": "memory:", **settings})) as url:
            yield Stage(url, direct, fake)
