from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from proxy.errors import UpstreamTimeout
from proxy.forward import Forwarder, Incoming
from proxy.ports import Answer, Upstream
from proxy.routing import Router
from tests.packed import gz
from tests.servers import DEADLINE, Peer, connect, exchange, run_raw
from tests.web.serving import proxy_before

STREAM = b'{"model": "m", "stream": true, "messages": []}'
UNARY = b'{"model": "m", "stream": false, "messages": []}'
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chat_request(body: bytes, headers: bytes = b"", path: bytes = b"/v1/chat/completions") -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + headers
    return head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def unchunk(answer: bytes) -> bytes:
    """The body of a chunked answer; fails if it is not whole."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower(), head
    body = b""
    while True:
        size, end, rest = rest.partition(b"\r\n")
        assert end, "the answer was broken off"
        if int(size, 16) == 0:
            assert rest == b"\r\n"
            return body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


@dataclass
class Scripted:
    """A gateway that waits, perhaps fails, and else forwards; it notes what was asked of it and what was cancelled.

    It waits for a compaction if it `compacts`; `before` and `behind` that it waits for something else.
    """

    wait: float = 0.0
    before: float = 0.0
    behind: float = 0.0
    compacts: bool = True
    error: Exception | None = None
    chats: list[Incoming] = field(default_factory=list)
    forwards: list[Incoming] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    inner: Forwarder | None = None

    def __call__(self, upstream: Upstream, router: Router) -> Scripted:
        self.inner = Forwarder(upstream, router)
        return self

    async def chat(self, incoming: Incoming) -> Answer:
        assert self.inner is not None
        self.chats.append(incoming)
        try:
            await asyncio.sleep(self.before)
            incoming.waiting(self.compacts)
            await asyncio.sleep(self.wait)
            incoming.waiting(False)
            await asyncio.sleep(self.behind)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.error is not None:
            raise self.error
        return await self.inner.forward(incoming)

    async def forward(self, incoming: Incoming) -> Answer:
        assert self.inner is not None
        self.forwards.append(incoming)
        return await self.inner.forward(incoming)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_a_stream_passes_chunk_by_chunk(end: bytes) -> None:
    """Every piece is at the client before the upstream sends the next, bytes cut inside a character included."""
    parts = [b": comment" + end, b'data: {"x":"\xe4\xbd', b'\xa0"}' + end, b"data: [DONE]" + end]
    seen = threading.Semaphore(0)

    def handler(peer: Peer) -> None:
        peer.send(SSE)
        for part in parts:
            peer.send(chunk(part))
            assert seen.acquire(timeout=DEADLINE)
        peer.send(b"0\r\n\r\n")

    with run_raw(handler) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(chat_request(STREAM))
        data = b""
        for part in parts:
            while part not in data:
                data += sock.recv(65536)
            seen.release()
        while more := sock.recv(65536):
            data += more
    assert unchunk(data) == b"".join(parts)
    assert upstream.requests[0].body == STREAM


def test_a_body_within_the_bound_is_the_gateways() -> None:
    """The gateway gets bytes for whatever fits, however it is framed; what does not fit passes through unread."""
    gateway = Scripted()
    body = b'{"messages": "' + b"x" * 3000 + b'"}'
    chunked = chat_request(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with run_raw() as upstream, proxy_before(upstream.url, gateway=gateway, max_body=len(body)) as url:
        exchange(url, chat_request(body))
        exchange(url, chunked + chunk(body[:1000]) + chunk(body[1000:]) + b"0\r\n\r\n")
        assert [incoming.body for incoming in gateway.chats] == [body, body]
        exchange(url, chat_request(body + b" "))
        exchange(url, chunked + chunk(body) + chunk(b" ") + b"0\r\n\r\n")
        assert len(gateway.chats) == 2
        assert [incoming.path for incoming in gateway.forwards] == [b"/chat/completions"] * 2
    assert [request.body for request in upstream.requests[:3]] == [body, body, body + b" "]
    assert upstream.requests[2].values(b"content-length") == [b"%d" % (len(body) + 1)]
    assert upstream.requests[3].values(b"transfer-encoding") == [b"chunked"]
    assert upstream.requests[3].body.count(b"x") == 3000


@pytest.mark.parametrize(
    ("error", "status", "type"),
    [(UpstreamTimeout("late"), 504, "upstream_error"), (ValueError("the client's secret"), 500, "proxy_error")],
)
def test_an_error_is_answered_in_openais_shape(
    error: Exception, status: int, type: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Known errors carry their status; unknown ones are a 500 whose words neither the client nor the log sees."""
    with run_raw() as upstream, proxy_before(upstream.url, gateway=Scripted(error=error)) as url:
        answer = exchange(url, chat_request(UNARY))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    said = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert said["type"] == type
    assert "secret" not in said["message"] + caplog.text
    assert ("ValueError" in caplog.text) == (status == 500)


def test_nobody_upstream() -> None:
    """An unreachable upstream is a 502 in OpenAI's shape."""
    with proxy_before("http://127.0.0.1:1") as url:
        answer = exchange(url, chat_request(UNARY))
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "upstream_error"


# -- a client that leaves ------------------------------------------------------------------------------------------


def silent(peer: Peer) -> None:
    """Never answers."""


def after_the_head(peer: Peer) -> None:
    peer.send(SSE + chunk(b"data: 1\n\n"))


def in_a_unary_body(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def flooding(peer: Peer) -> None:
    """Sends more than all buffers between it and the client hold."""
    peer.send(SSE)
    while True:
        peer.send(chunk(bytes(65536)))


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/responses"])
@pytest.mark.parametrize("body", [STREAM, UNARY])
@pytest.mark.parametrize("then", [silent, after_the_head, in_a_unary_body, flooding])
def test_a_client_that_leaves_closes_the_upstream(then: Callable[[Peer], None], body: bytes, path: bytes) -> None:
    """While the head is awaited, in mid-stream, in a unary body, and while the client reads nothing."""
    asked, closed = threading.Event(), threading.Event()

    def handler(peer: Peer) -> bool:
        asked.set()
        try:
            then(peer)
            gone = peer.wait_closed()
        except OSError:
            gone = True
        if gone:
            closed.set()
        return False

    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        with connect(url) as sock:
            sock.sendall(chat_request(body, path=path))
            assert asked.wait(DEADLINE)
            time.sleep(0.1)
            assert not closed.is_set()
        assert closed.wait(DEADLINE)


@pytest.mark.parametrize("sent", [0, 10])
def test_a_client_that_leaves_in_its_own_body(sent: int) -> None:
    """Nothing of a chat is asked for; a stream that has begun upstream is broken off there."""
    broken = threading.Event()

    def handler(peer: Peer) -> bool:
        if peer.wait_closed():
            broken.set()
        return False

    gateway = Scripted()
    with run_raw(handler, read_body=False) as upstream, proxy_before(upstream.url, gateway=gateway) as url:
        for path in (b"/v1/chat/completions", b"/v1/files"):
            with connect(url) as sock:
                sock.sendall(chat_request(b"x" * 1000, path=path)[: -1000 + sent])
                time.sleep(0.1)
        assert not sent or broken.wait(DEADLINE)
        time.sleep(0.1)
    assert gateway.chats == []
    assert len(upstream.requests) == (1 if sent else 0)


def test_a_client_that_leaves_cancels_the_gateway() -> None:
    """Whatever the gateway waits for, a summary say, it learns that nobody waits for it."""
    for wait in (None, 0.05):  # without and with comments being sent
        gateway = Scripted(wait=DEADLINE)
        with run_raw() as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=wait) as url:
            with connect(url) as sock:
                sock.sendall(chat_request(STREAM))
                time.sleep(0.2)
                assert not gateway.cancelled.is_set()
            assert gateway.cancelled.wait(DEADLINE)
        assert upstream.requests == []


def test_a_server_that_stops_cancels_what_runs() -> None:
    """A shutdown is no client's leaving: the request ends, and the server with it."""
    gateway = Scripted(wait=DEADLINE)
    with run_raw() as upstream, proxy_before(upstream.url, gateway=gateway) as url:
        sock = connect(url)
        sock.sendall(chat_request(UNARY))
        time.sleep(0.2)
    assert gateway.cancelled.wait(DEADLINE)
    sock.close()


# -- an upstream that breaks off -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 100\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"half")],
)
@pytest.mark.parametrize("wait", [0.0, 0.1])
def test_a_broken_answer_is_broken_for_the_client(head: bytes, wait: float) -> None:
    """What stops in the middle does not look like an end: bytes or the last chunk are missing."""

    def handler(peer: Peer) -> bool:
        peer.send(b"HTTP/1.1 200 OK\r\n" + head)
        time.sleep(wait)
        return False

    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, chat_request(STREAM))
    assert b"half" in answer
    assert not answer.endswith(b"0\r\n\r\n")
    if b"Content-Length" in head:
        assert b"content-length: 100" in answer.lower()


# -- keep-alive ----------------------------------------------------------------------------------------------------


def sse_ok(peer: Peer) -> None:
    peer.send(SSE + chunk(b"data: 1\n\n") + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


def upstream_error(peer: Peer) -> None:
    peer.answer(b'{"error": {"message": "full", "code": "x", "own": 1}}', b"400 Bad Request")


def html_error(peer: Peer) -> None:
    peer.answer(b"<html>", b"503 Service Unavailable", b"Content-Type: text/html\r\n")


def gzip_error(peer: Peer) -> None:
    peer.answer(gz(b'{"error": {"message": "full"}}'), b"400 Bad Request", b"Content-Encoding: gzip\r\n")


def json_ok(peer: Peer) -> None:
    peer.answer(b'{\n"choices": []}', headers=b"Content-Type: application/json\r\n")


def gzip_sse(peer: Peer) -> None:
    engine = zlib.compressobj(wbits=31)
    data = engine.compress(b"data: 1\n\n") + engine.flush(zlib.Z_SYNC_FLUSH)
    rest = engine.compress(b"data: [DONE]\n\n") + engine.flush()
    peer.send(
        SSE.replace(b"Transfer", b"Content-Encoding: gzip\r\nTransfer") + chunk(data) + chunk(rest) + b"0\r\n\r\n"
    )


def odd_sse(peer: Peer) -> None:
    peer.answer(b"?", headers=b"Content-Type: text/event-stream\r\nContent-Encoding: br\r\n")


DONE = b"data: [DONE]\n\n"
LATE = [
    (sse_ok, b"data: 1\n\n" + DONE),
    (gzip_sse, b"data: 1\n\n" + DONE),
    (upstream_error, b'data: {"error": {"message": "full", "code": "x", "own": 1}}\n\n' + DONE),
    (gzip_error, b'data: {"error": {"message": "full"}}\n\n' + DONE),
    (
        html_error,
        b'data: {"error": {"message": "<html>", "type": "upstream_error", "param": null, "code": "503"}}\n\n' + DONE,
    ),
    (json_ok, b'data: {\ndata: "choices": []}\n\n' + DONE),
    (odd_sse, None),
]


@pytest.mark.parametrize(("handler", "expected"), LATE)
def test_a_streaming_client_that_waits_hears_comments(handler: Callable[[Peer], None], expected: bytes | None) -> None:
    """After a while status 200 and comments of one newline; then the stream, or the error as its last events."""
    with (
        run_raw(handler) as upstream,
        proxy_before(upstream.url, gateway=Scripted(wait=0.5), keepalive_after=0.1) as url,
    ):
        answer = exchange(url, chat_request(STREAM))
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 200 ")
    for line in (
        b"content-type: text/event-stream",
        b"x-accel-buffering: no",
        b"cache-control: no-cache, no-transform",
    ):
        assert line in head
    body = unchunk(answer)
    rest = body.replace(b": keepalive\n", b"")
    count = body.count(b": keepalive\n")
    assert 2 <= count <= 5
    assert body == b": keepalive\n" * count + rest
    if expected is None:
        assert b'"upstream_error"' in rest
        assert rest.endswith(b"\n\n" + DONE)
    else:
        assert rest == expected


@pytest.mark.parametrize("error", [UpstreamTimeout("late"), KeyError("secret")])
def test_a_late_error_of_our_own_ends_the_stream(error: Exception) -> None:
    """With the status gone an error is the stream's last event."""
    gateway = Scripted(wait=0.3, error=error)
    with run_raw() as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=0.1) as url:
        body = unchunk(exchange(url, chat_request(STREAM)))
    event = body.replace(b": keepalive\n", b"").removesuffix(b"\n\n" + DONE).removeprefix(b"data: ")
    assert set(json.loads(event)["error"]) == {"message", "type", "param", "code"}
    assert b"secret" not in body


def test_a_late_stream_that_breaks_off_is_broken() -> None:
    """Also after comments a stream that stops in the middle has no clean end."""

    def handler(peer: Peer) -> bool:
        peer.send(SSE + chunk(b"data: 1\n\n"))
        time.sleep(0.1)
        return False

    gateway = Scripted(wait=0.3)
    with run_raw(handler) as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=0.1) as url:
        answer = exchange(url, chat_request(STREAM))
    assert b"data: 1" in answer
    assert not answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("body", "headers", "after", "comments"),
    [
        (UNARY, b"", 0.1, False),
        (b"not json, stream", b"", 0.1, False),
        (STREAM, b"", None, False),
        (STREAM, b"", 5.0, False),
        (gz(STREAM), b"Content-Encoding: gzip\r\n", 0.1, True),
        (gz(UNARY), b"Content-Encoding: gzip\r\n", 0.1, False),
        (STREAM, b"Content-Encoding: br\r\n", 0.1, False),
    ],
)
def test_who_hears_comments(body: bytes, headers: bytes, after: float | None, comments: bool) -> None:
    """Only a client that asked for a stream and waits longer; everybody else gets the upstream's status."""
    gateway = Scripted(wait=0.3)
    with run_raw(upstream_error) as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=after) as url:
        answer = exchange(url, chat_request(body, headers))
    assert answer.startswith(b"HTTP/1.1 200 " if comments else b"HTTP/1.1 400 ")
    assert (b": keepalive\n" in answer) == comments


def test_comments_come_while_the_client_waits() -> None:
    """The first comment is there before the answer is."""
    gateway = Scripted(wait=DEADLINE)
    with run_raw() as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=0.1) as url:
        with connect(url) as sock:
            sock.sendall(chat_request(STREAM))
            data = b""
            while data.count(b": keepalive\n") < 3:
                data += sock.recv(65536)
            assert b"\n\n" not in data
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # leave with a reset
        assert gateway.cancelled.wait(DEADLINE)


@pytest.mark.parametrize(
    ("gateway", "comments"),
    [
        (Scripted(compacts=False, wait=0.5), False),
        (Scripted(before=0.5), False),
        (Scripted(before=0.4, wait=0.2), True),
        (Scripted(wait=0.1, behind=0.5), False),
        (Scripted(wait=0.5, behind=0.5), True),
    ],
)
def test_only_a_compaction_is_worth_a_promise(gateway: Scripted, comments: bool) -> None:
    """Whoever waits for the upstream alone gets its status and fields; time spent before the compaction counts."""

    def handler(peer: Peer) -> None:
        peer.answer(b"{}", b"429 Too Many Requests", b"Retry-After: 7\r\nx-request-id: abc\r\n")

    with run_raw(handler) as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=0.3) as url:
        answer = exchange(url, chat_request(STREAM))
    assert (b": keepalive\n" in answer) == comments
    if not comments:
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"Retry-After: 7\r\n" in answer or b"retry-after: 7\r\n" in answer


def test_comments_go_on_behind_the_compaction() -> None:
    """What has been promised is kept up while the upstream is asked."""
    gateway = Scripted(wait=0.2, behind=DEADLINE)
    with run_raw() as upstream, proxy_before(upstream.url, gateway=gateway, keepalive_after=0.1) as url:
        with connect(url) as sock:
            sock.sendall(chat_request(STREAM))
            data = b""
            while data.count(b": keepalive\n") < 6:
                data += sock.recv(65536)
        assert gateway.cancelled.wait(DEADLINE)
