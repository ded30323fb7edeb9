from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
import uvicorn

from proxy.forward import Forwarder
from proxy.web.app import create_app, serve_options
from tests.servers import Peer, exchange, run_app, run_raw
from tests.test_forward import Recorder, router
from tests.web.serving import proxy_before


def get(url: str, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.putrequest(method, path, skip_accept_encoding=True)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/", 404),
        ("GET", "/chat/completions", 404),
        ("POST", "/chat/completions", 404),
        ("GET", "/v1x/models", 404),
        ("GET", "/v2/models", 404),
        ("GET", "/V1/models", 404),
        ("GET", "/%76%31/models", 404),
        ("GET", "//v1/models", 404),
        ("GET", "/x/../v1/models", 404),
    ],
)
def test_what_is_answered_here(method: str, path: str, status: int) -> None:
    """Health and unknown paths never reach the upstream; an unknown path says what the base URL is."""
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        got, body = get(url, path, method)
        assert got == status
        if status == 404:
            error = json.loads(body)["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert "/v1" in error["message"]
        elif method == "GET":
            assert json.loads(body) == {"status": "ok"}
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1", b"/v1"),
        ("/v1/", b"/v1/"),
        ("/v1/models", b"/v1/models"),
        ("/v1/chat/completions", b"/v1/chat/completions"),
        ("/v1/chat/completions/", b"/v1/chat/completions/"),
        ("/v1/v1/models", b"/v1/v1/models"),
        ("/v1/models/org%2Fname?a=%20&&b", b"/v1/models/org%2Fname?a=%20&&b"),
        ("/v1/a//b", b"/v1/a//b"),
        ("/v1/a?b=/../c", b"/v1/a?b=/../c"),
    ],
)
def test_all_below_v1_reaches_the_upstream(path: str, target: bytes) -> None:
    """Any path and any method, with the raw target."""
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        for method in methods:
            assert get(url, path, method) == (200, b"{}")
    assert [request.line for request in upstream.requests] == [
        b"%s %s HTTP/1.1" % (method.encode(), target) for method in methods
    ]


def test_the_lifespan_surrounds_the_requests() -> None:
    """The hook is entered before the first request and left after the last; a failing one stops the server."""
    events = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        events.append("start")
        yield
        events.append("stop")

    with run_app(create_app(Forwarder(Recorder(), router()), lifespan=lifespan), **serve_options()) as url:
        events.append(str(get(url, "/healthz")[0]))
    assert events == ["start", "200", "stop"]

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise ValueError("no")
        yield

    with (
        pytest.raises(RuntimeError),
        run_app(create_app(Forwarder(Recorder(), router()), lifespan=broken), **serve_options()),
    ):
        pass


def test_serve_options_are_uvicorns() -> None:
    """Every option is one that the server knows; it adds no header of its own."""
    config = uvicorn.Config(lambda: None, **serve_options())
    config.load()
    assert config.encoded_headers == []

    def handler(peer: Peer) -> None:
        peer.answer(headers=b"Date: then\r\nServer: theirs\r\n")

    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head = answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert b"date: then" in head
    assert b"server: theirs" in head
    assert len([line for line in head if line.startswith((b"date", b"server"))]) == 2


def echo(peer: Peer) -> None:
    peer.answer(peer.request.body)


def test_other_servers_connections() -> None:
    """Requests in a row, also pipelined ones, are answered in order on one connection."""
    request = b"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n%d"
    last = b"POST /v1/echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n9"
    with run_raw(echo) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, b"".join(request % number for number in range(3)) + last)
    bodies = [part[:1] for part in answer.split(b"\r\n\r\n")[1:]]
    assert bodies == [b"0", b"1", b"2", b"9"]
