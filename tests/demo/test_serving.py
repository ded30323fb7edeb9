"""Serving an application in a thread."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import pytest

from proxy.demo.serving import serve_in_thread
from proxy.errors import ProxyError


async def teapot(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"tea"})


async def broken(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no"})


def test_it_serves_until_it_is_left() -> None:
    """Inside the block the address answers, afterwards nobody listens; two run side by side."""
    with serve_in_thread(teapot, lifespan="off") as one, serve_in_thread(teapot, lifespan="off") as other:
        assert one != other
        for address in (one, other):
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert answer.read() == b"tea"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(one, timeout=2)


def test_an_application_that_cannot_start() -> None:
    """Its failure is an error at once, not a hang."""
    with pytest.raises(ProxyError), serve_in_thread(broken, lifespan="on"):
        pass
