"""Run an ASGI application on a free port, in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from proxy.errors import ProxyError

_PATIENCE = 10.0  # seconds to start or to stop; a healthy application needs milliseconds


@contextmanager
def serve_in_thread(app: Any, **options: Any) -> Iterator[str]:
    """Yield the address, `http://127.0.0.1:PORT` without a path. `options` are uvicorn's; lifespan events are sent.

    On leaving, running requests have half a second to end. Raises `ProxyError` if the server does not start.
    """
    settings = {"ws": "none", "log_config": None, "access_log": False, "timeout_graceful_shutdown": 0.5} | options
    server = uvicorn.Server(uvicorn.Config(app, **settings))
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        thread = threading.Thread(target=_run, args=(server, listener), name="demo-server", daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_PATIENCE)


def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    with suppress(SystemExit):  # uvicorn's way to say that the application failed to start; seen by `_await_start`
        server.run([listener])


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ProxyError("the server did not start")
        time.sleep(0.005)
