from __future__ import annotations

import http.client
import json
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from proxy.access import Access
from proxy.forward import Forwarder
from proxy.settings import Settings
from proxy.web.app import create_app, serve_options
from tests.servers import Peer, RawUpstream, exchange, run_app, run_raw
from tests.test_forward import Recorder, router
from tests.web.serving import proxy_before

OPEN = Access(Settings())


def get(url: str, path: str, method: str = "GET", *fields: tuple[str, str], body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in fields:
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    return answer.status, said


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
        ("GET", "/other/v1/models", 404),
        ("POST", "/other/v1/chat/completions", 404),
        ("GET", "/healthz/v1/models", 404),
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
    ("path", "words"),
    [
        ("/nosuch/v1/chat/completions", "no upstream is named 'nosuch' here"),
        ("/nosuch/v1", "no upstream is named 'nosuch' here"),
        ("/h%C3%B6/v1/", "no upstream is named 'h%C3%B6' here"),
        ("/nosuch/v1x", "the base URL of this proxy ends in /v1"),
        ("//v1/models", "the base URL of this proxy ends in /v1"),
        ("/chat/completions", "the base URL of this proxy ends in /v1"),
        (f"/{'x' * 5_000}/v1", "no upstream is named "),
    ],
)
def test_an_address_that_is_none_says_why(path: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """To the client, and in a line of the log, which nobody makes long."""
    caplog.set_level(logging.INFO)
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        status, body = get(url, path)
    said = json.loads(body)["error"]["message"]
    assert status == 404 and words in said and len(said) < 200
    (line,) = [line for line in lines(caplog) if line.startswith("refused: ")]
    assert (
        line.startswith(f"refused: no such address '{path[:40]}") and line.endswith(" status=404") and len(line) < 200
    )


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "compaction_proxy"]


def test_the_log_has_no_key_of_an_address(caplog: pytest.LogCaptureFixture) -> None:
    """Some clients have theirs in the path."""
    caplog.set_level(logging.INFO)
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        get(url, "/sk-proj-Zb3dEfGh1jKlMn0pQrStUv/chat?key=secret-in-a-query")
    assert "refused: " in caplog.text and "Zb3d" not in caplog.text and "secret" not in caplog.text


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

    with run_app(create_app(Forwarder(Recorder(), router()), OPEN, lifespan=lifespan), **serve_options()) as url:
        events.append(str(get(url, "/healthz")[0]))
    assert events == ["start", "200", "stop"]

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise ValueError("no")
        yield

    with (
        pytest.raises(RuntimeError),
        run_app(create_app(Forwarder(Recorder(), router()), OPEN, lifespan=broken), **serve_options()),
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


# --- several providers, and keys of this proxy's own

CHAT = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
SECRETS = (("Authorization", "Bearer secret-1"), ("api-key", "secret-2"), ("Cookie", "a=secret-3"))
TEAM = ("Authorization", "Bearer key-of-team-a")
HANDSHAKE = (("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"))


class Origins:
    """A proxy before three providers, which record all they are sent."""

    def __init__(self, stack: ExitStack, **settings: Any) -> None:
        self.common, self.free, self.keyed = (stack.enter_context(run_raw()) for _ in range(3))
        names = {
            "free": {"url": f"{self.free.url}/api/v1"},
            "keyed": {"url": f"{self.keyed.url}/v1", "api_key": "key-of-the-operator"},
        }
        self.url = stack.enter_context(proxy_before(self.common.url, settings={"upstreams": names, **settings}))

    def ask(self, path: str, *fields: tuple[str, str]) -> list[int]:
        """A chat, a request like any other, and a WebSocket's handshake (which no upstream here agrees to)."""
        return [
            get(self.url, f"{path}/chat/completions?api-version=preview", "POST", *fields, body=CHAT)[0],
            get(self.url, f"{path}/models", "DELETE", *fields)[0],
            get(self.url, f"{path}/realtime?model=m", "GET", *HANDSHAKE, *fields)[0],
        ]

    @property
    def lines(self) -> list[list[bytes]]:
        return [[request.line for request in origin.requests] for origin in (self.common, self.free, self.keyed)]

    @staticmethod
    def seen(origin: RawUpstream) -> bytes:
        return b"\n".join(name + b": " + value for request in origin.requests for name, value in request.headers)


def asked(prefix: bytes) -> list[bytes]:
    return [
        b"POST %s/chat/completions?api-version=preview HTTP/1.1" % prefix,
        b"DELETE %s/models HTTP/1.1" % prefix,
        b"GET %s/realtime?model=m HTTP/1.1" % prefix,
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/v1", 0), ("/openai/v1", 0), ("/free/v1", 1), ("/keyed/v1", 2)],
)
def test_each_client_reaches_the_provider_that_it_names(path: str, expected: int) -> None:
    """And its keys reach that one alone; where the configuration has a key they reach none."""
    with ExitStack() as stack:
        origins = Origins(stack)
        assert origins.ask(path, *SECRETS) == [200, 200, 200]
    prefix = b"/api/v1" if expected == 1 else b"/v1"
    assert origins.lines == [asked(prefix) if number == expected else [] for number in range(3)]
    reached = (origins.common, origins.free, origins.keyed)[expected]
    if expected == 2:
        assert b"secret" not in origins.seen(reached)
        assert origins.seen(reached).count(b"authorization: Bearer key-of-the-operator") == 3
    else:
        assert all(origins.seen(reached).count(secret) == 3 for secret in (b"secret-1", b"secret-2", b"secret-3"))


@pytest.mark.parametrize(
    "fields",
    [
        (TEAM,),
        (("api-key", "key-of-team-a"),),
        (("X-API-Key", "key-of-team-a"), ("Authorization", "Bearer secret-1")),
        (("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.key-of-team-a"), ("Cookie", "secret-2")),
        (TEAM, ("Cookie", "session=key-of-team-a"), ("x-debug", "Bearer key-of-team-a")),
    ],
)
def test_accepted_keys_reach_no_upstream(fields: tuple[tuple[str, str], ...]) -> None:
    """Wherever they stand: upstreams get the key of the configuration or none, and none of the client's."""
    with ExitStack() as stack:
        origins = Origins(stack, clients=[{"key": "key-of-team-a", "tenant": "team-a"}])
        for path in ("/v1", "/openai/v1", "/free/v1", "/keyed/v1"):
            assert origins.ask(path, *fields) == [200, 200, 200]
    assert [len(lines) for lines in origins.lines] == [6, 3, 3]
    everything = b"".join(map(origins.seen, (origins.common, origins.free, origins.keyed)))
    assert b"key-of-team-a" not in everything
    assert b"secret" not in everything
    assert everything.count(b"uthorization") == origins.seen(origins.keyed).count(b"Bearer key-of-the-operator") == 3


@pytest.mark.parametrize(
    "fields",
    [
        (),
        SECRETS,
        (("Authorization", "Bearer key-of-team-b"),),
        (("Authorization", "Bearer key-of-the-operator"),),
        (("x-compaction", "key-of-team-a"),),
    ],
)
def test_without_an_accepted_key_nothing_is_reached(
    fields: tuple[tuple[str, str], ...], caplog: pytest.LogCaptureFixture
) -> None:
    """A 401 as OpenAI words it, by every address, and a line in the log without a key; only the health of the proxy is
    for everybody."""
    caplog.set_level(logging.INFO)
    with ExitStack() as stack:
        origins = Origins(stack, clients=[{"key": "key-of-team-a", "tenant": "team-a"}])
        for path in ("/v1", "/openai/v1", "/free/v1", "/keyed/v1"):
            assert origins.ask(path, *fields) == [401, 401, 401]
        status, said = get(origins.url, "/v1/chat/completions", "POST", *fields, body=CHAT)
        assert get(origins.url, "/healthz") == (200, b'{"status":"ok"}')
    error = json.loads(said)["error"]
    assert (status, error["type"], error["code"], error["param"]) == (
        401,
        "invalid_request_error",
        "invalid_api_key",
        None,
    )
    assert b"key-of" not in said
    assert origins.lines == [[], [], []]
    assert lines(caplog) == ["refused: no key of `clients` status=401"] * 13


def test_a_refused_request_leaves_its_connection_in_order() -> None:
    """Its body is read past, and the next request on the same connection is judged by itself."""
    refused = b"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nGET /v1/x HTTP/1.1\r\n"
    good = b"POST /v1/echo HTTP/1.1\r\nHost: x\r\napi-key: k\r\nConnection: close\r\nContent-Length: 1\r\n\r\n9"
    settings = {"clients": [{"key": "k", "tenant": "t"}]}
    with run_raw(echo) as upstream, proxy_before(upstream.url, settings=settings) as url:
        answer = exchange(url, refused + good)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"www-authenticate: Bearer" in answer
    assert answer.count(b"HTTP/1.1") == 2
    assert answer.endswith(b"\r\n\r\n9")
    assert [request.body for request in upstream.requests] == [b"9"]


@pytest.mark.parametrize(("origin", "expected"), [("https://evil.example", 403), ("http://localhost:3000", 200)])
def test_a_page_of_another_host_reaches_nothing(origin: str, expected: int, caplog: pytest.LogCaptureFixture) -> None:
    """Neither by a chat, nor by anything else, nor by a WebSocket, where the configuration has a key to spend."""
    caplog.set_level(logging.INFO)
    with ExitStack() as stack:
        origins = Origins(stack)
        for path in ("/v1", "/openai/v1", "/free/v1", "/keyed/v1"):
            assert origins.ask(path, ("Origin", origin), ("Content-Type", "text/plain")) == [expected] * 3
        status, said = get(origins.url, "/v1/models", "OPTIONS", ("Origin", origin))
        assert status == expected
        if expected == 403:
            assert json.loads(said)["error"]["code"] == "foreign_origin"
            assert origins.lines == [[], [], []]
    refused = [line for line in lines(caplog) if line.startswith("refused: a page of another host")]
    assert len(refused) == (13 if expected == 403 else 0)
