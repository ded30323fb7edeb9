"""A proxy without an engine, on a real socket, before whatever upstream a test has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from proxy.access import Access
from proxy.adapters.upstream import AiohttpUpstream
from proxy.forward import Forwarder, Gateway
from proxy.ports import Upstream
from proxy.routing import Router
from proxy.settings import Settings
from proxy.web.app import create_app, serve_options
from tests.servers import run_app


@contextmanager
def proxy_before(
    upstream: str,
    *,
    gateway: Callable[[Upstream, Router], Gateway] = Forwarder,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[str]:
    """Yield the proxy's address (without /v1). `options` are those of `create_app`."""
    configured = Settings.model_validate({"upstream": f"{upstream}/v1"} | (settings or {}))
    router = Router(configured)
    client = AiohttpUpstream(connect_timeout=1)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        await client.aclose()

    app = create_app(gateway(client, router), Access(configured), lifespan=lifespan, **options)
    with run_app(app, **(serve_options() | {"timeout_graceful_shutdown": 0.5})) as url:
        yield url
