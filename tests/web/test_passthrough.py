from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.packed import gz
from tests.servers import DEADLINE, Peer, RawUpstream, connect, exchange, run_raw
from tests.web.serving import proxy_before

END = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[RawUpstream, str]]:
    """One proxy for the tables of requests that never reach an upstream, or reach it as they are."""
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        yield upstream, url


def fields(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]


TARGETS = [
    # target, answered by the proxy itself with
    (b"/v1/../admin", 400),
    (b"/v1/a/../../b", 400),
    (b"/v1/./a", 400),
    (b"/v1/%2e%2e/admin", 400),
    (b"/v1/.%2E/admin", 400),
    (b"/v1/%252e%252e/admin", 400),
    (b"/v1/a%5c..%5cb", 400),
    (b"/v1/a\\..\\b", 400),
    (b"/v1/..;/b", 400),
    (b"/v1//evil.example/x", 400),
    (b"/v1/%2fevil.example/x", 400),
    (b"/v1/a%0d%0aX-Injected:%201", 400),
    (b"/v1/a%00", 400),
    (b"/v1@evil.example/", 404),
    (b"/v1.evil.example/", 404),
    (b"/v1:80/x", 404),
    (b"/v1\\x", 404),
    (b"http://evil.example/other", 404),
    (b"*", 404),
    (b"evil.example:443", 400),
    (b"/v1/caf\xc3\xa9", 400),
]


@pytest.mark.parametrize(("target", "status"), TARGETS)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_nasty_target_goes_nowhere(
    served: tuple[RawUpstream, str], method: bytes, target: bytes, status: int
) -> None:
    """Nothing that could mean another place than below the base address reaches the upstream."""
    upstream, url = served
    answer = exchange(url, method + b" " + target + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + END)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert upstream.requests == []


def test_an_absolute_target_does_not_choose_the_upstream() -> None:
    """In absolute form the authority is ignored, as `Host` is: only the path counts."""
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        exchange(url, b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\n" + END)
    assert upstream.requests[0].line == b"GET /v1/models HTTP/1.1"
    assert upstream.requests[0].values(b"host") == [upstream.url.removeprefix("http://").encode()]


SMUGGLING = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: x\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: x\r\n",
    b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"Content-Length: +3\r\n\r\nabc",
    b"Content-Length: -1\r\n\r\n",
    b"Content-Length: 3, 3\r\n\r\nabc",
    b"Transfer-Encoding: chunked, identity\r\n\r\nabc",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: x\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc",
    b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc",
    b"Transfer-Encoding: chunked\r\n\r\n3 ;x\r\nabcd\r\n0\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n",
    b"X: a\rTransfer-Encoding: chunked\r\n\r\n",
    b"X: a\x00b\r\n\r\n",
    b"X\x01: a\r\n\r\n",
    b" X: folded\r\n\r\n",
]


@pytest.mark.parametrize("rest", SMUGGLING)
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/files"])
def test_ambiguous_framing_is_not_passed_on(served: tuple[RawUpstream, str], path: bytes, rest: bytes) -> None:
    """A request that two servers could cut differently never arrives as two, nor as a whole with another's framing."""
    upstream, url = served
    with connect(url) as sock:
        sock.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + rest + b"\r\n")
        answer = sock.recv(65536)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 5"))
    assert not [request for request in upstream.requests if b"smuggled" in request.line or b"abcd" in request.body]


def test_framing_is_always_ours() -> None:
    """Chunk extensions and trailers end here, also a trailer that would be a credential; the body arrives whole."""
    body = b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\nAuthorization: Bearer late\r\n\r\n"
    head = b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Trailer\r\n"
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        exchange(url, b"POST /v1/files" + head + END + body)
        exchange(url, b"POST /v1/chat/completions" + head + END + body)
    streamed, whole = upstream.requests
    assert streamed.values(b"transfer-encoding") == [b"chunked"]
    assert b"".join(streamed.body.split(b"\r\n")[1::2]) == b"abcde"
    assert whole.values(b"content-length") == [b"5"]
    assert whole.body == b"abcde"
    for request in upstream.requests:
        assert not [name for name in (b"trailer", b"x-trailer", b"authorization") if request.values(name)]


def test_every_field_both_ways() -> None:
    """Fields of the message pass in both directions with order, repetition and odd bytes; those of a hop do not."""
    sent = (
        b"GET /v1/models?a=%2F&&b HTTP/1.1\r\nHost: proxy\r\nX-Title: caf\xe9\r\nx-two: 1\r\nX-Two: 2\r\n"
        b"Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Authorization: Basic eA==\r\n"
        b"X-Compaction: off\r\nX-Compaction-Other: 1\r\nAuthorization: Bearer k\r\nAccept-Encoding: br\r\n\r\n"
    )
    back = (
        b"Date: then\r\nServer: theirs\r\nRetry-After: 7\r\nx-ratelimit-remaining-tokens: 0\r\nx-request-id: req_1\r\n"
        b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Odd: \xff\r\nConnection: keep-alive, X-Upstream-Hop\r\n"
        b"X-Upstream-Hop: 1\r\nKeep-Alive: timeout=5\r\nVia: 1.1 theirs\r\n"
    )
    handler: Callable[[Peer], None] = lambda peer: peer.answer(b"{}", b"429 Too Many Requests", back)  # noqa: E731
    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, sent)
    assert upstream.requests[0].headers == [
        (b"Host", upstream.url.removeprefix("http://").encode()),
        (b"x-title", b"caf\xe9"),
        (b"x-two", b"1"),
        (b"x-two", b"2"),
        (b"authorization", b"Bearer k"),
        (b"accept-encoding", b"br"),
        (b"via", b"1.1 compaction-proxy"),
    ]
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert fields(answer) == [
        (b"date", b"then"),
        (b"server", b"theirs"),
        (b"retry-after", b"7"),
        (b"x-ratelimit-remaining-tokens", b"0"),
        (b"x-request-id", b"req_1"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"x-odd", b"\xff"),
        (b"via", b"1.1 theirs"),
        (b"content-length", b"2"),
        (b"via", b"1.1 compaction-proxy"),
        (b"connection", b"close"),
    ]


def test_a_loop_ends() -> None:
    """A proxy whose upstream is itself answers 508 instead of calling itself for ever."""
    with run_raw() as upstream, proxy_before(upstream.url) as inner, proxy_before(inner) as outer:
        answer = exchange(outer, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + END)
    assert answer.startswith(b"HTTP/1.1 508 ")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("method", "status", "answer", "expected"),
    [
        (b"HEAD", b"200 OK", b"Content-Length: 5\r\n\r\n", (b"5", b"")),
        (b"HEAD", b"200 OK", b"Transfer-Encoding: chunked\r\n\r\n", (None, b"")),
        (b"GET", b"204 No Content", b"\r\n", (None, b"")),
        (b"DELETE", b"204 No Content", b"\r\n", (None, b"")),
        (b"GET", b"304 Not Modified", b"ETag: x\r\nContent-Length: 5\r\n\r\n", (None, b"")),
        (b"GET", b"200 OK", b"Content-Length: 0\r\n\r\n", (b"0", b"")),
        (b"GET", b"200 OK", b"Content-Length: 5\r\n\r\nhello", (b"5", b"hello")),
        (b"GET", b"520 Odd", b"Content-Length: 5\r\n\r\nhello", (b"5", b"hello")),
        (b"OPTIONS", b"200 OK", b"Allow: GET\r\nContent-Length: 0\r\n\r\n", (b"0", b"")),
        (b"GET", b"301 Moved", b"Location: http://evil.example/\r\nContent-Length: 5\r\n\r\nmoved", (b"5", b"moved")),
        (b"POST", b"307 Moved", b"Location: http://evil.example/\r\nContent-Length: 0\r\n\r\n", (b"0", b"")),
    ],
)
def test_answers_end_where_they_should(
    method: bytes, status: bytes, answer: bytes, expected: tuple[bytes | None, bytes]
) -> None:
    """Answers without a body, with one, and redirects (never followed) keep their framing on a kept connection."""
    handler: Callable[[Peer], None] = lambda peer: peer.send(b"HTTP/1.1 " + status + b"\r\n" + answer)  # noqa: E731
    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE)
        for _ in range(2):
            connection.request(method.decode(), "/v1/x")
            got = connection.getresponse()
            length = got.headers.get("content-length")
            assert (got.status, got.read()) == (int(status[:3]), expected[1])
            assert length == (expected[0].decode() if expected[0] else None)
        connection.close()
    assert len(upstream.requests) == 2


def test_an_impossible_status_is_the_upstreams_fault() -> None:
    """A status that no server can write becomes a 502 in OpenAI's shape."""
    with run_raw(lambda peer: peer.answer(status=b"999 Denied")) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, b"GET /v1/x HTTP/1.1\r\nHost: x\r\n" + END)
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "upstream_error"


def test_compressed_bodies_are_unharmed() -> None:
    """Compressed bytes pass in both directions with the field that names the coding."""
    body, back = gz(b"question" * 100), gz(b"answer" * 100)
    request = b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n" % len(body)
    handler: Callable[[Peer], None] = lambda peer: peer.answer(back, headers=b"Content-Encoding: gzip\r\n")  # noqa: E731
    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        answer = exchange(url, request + END + body)
    assert upstream.requests[0].body == body
    assert upstream.requests[0].values(b"content-encoding") == [b"gzip"]
    assert (b"content-encoding", b"gzip") in fields(answer)
    assert answer.endswith(b"\r\n\r\n" + back)


def test_a_large_upload_is_streamed() -> None:
    """The upstream has the first part before the client has sent the last; a multipart body arrives byte for byte."""
    head_seen = threading.Event()

    def handler(peer: Peer) -> None:
        head_seen.set()
        peer.read_body()
        peer.answer()

    part = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + bytes(range(256)) * 4000
    body = part + b"\r\n--x--\r\n"
    head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    with run_raw(handler, read_body=False) as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(head + b"Content-Length: %d\r\n" % len(body) + END + body[:1000])
        assert head_seen.wait(DEADLINE)
        sock.sendall(body[1000:])
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert upstream.requests[0].body == body
    assert upstream.requests[0].values(b"content-length") == [b"%d" % len(body)]


def test_expect_continue_is_answered_here() -> None:
    """A client that waits to be asked for its body is asked, and the upstream is not made to."""
    with run_raw() as upstream, proxy_before(upstream.url) as url, connect(url) as sock:
        sock.sendall(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n" + END)
        assert sock.recv(65536).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        sock.sendall(b"abc")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert upstream.requests[0].body == b"abc"
    assert upstream.requests[0].values(b"expect") == []


@pytest.mark.parametrize("size", [10_000, 200_000])
def test_huge_fields(size: int) -> None:
    """Long fields pass as they are in requests; whether they are too long is the upstream's to say."""
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        exchange(url, b"GET /v1/x HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * size + b"\r\n" + END)
    assert upstream.requests[0].values(b"x-long") == [b"x" * size]


def test_cookies_are_of_one_client() -> None:
    """What one client's answer sets is never sent for another, nor for the same one unasked."""
    handler: Callable[[Peer], None] = lambda peer: peer.answer(headers=b"Set-Cookie: session=1; Path=/\r\n")  # noqa: E731
    with run_raw(handler) as upstream, proxy_before(upstream.url) as url:
        for cookie in (b"", b"", b"Cookie: own=1\r\n"):
            exchange(url, b"GET /v1/x HTTP/1.1\r\nHost: x\r\n" + cookie + END)
    assert [request.values(b"cookie") for request in upstream.requests] == [[], [], [b"own=1"]]


def test_two_origins() -> None:
    """The other origin sees neither a byte nor a key of what is the default upstream's, redirects included."""
    with run_raw() as other:
        location = b"Location: %s/v1/x\r\n" % other.url.encode()
        with run_raw(lambda peer: peer.answer(status=b"307 Temporary Redirect", headers=location)) as default:
            models = {"other": {"upstream": other.url + "/v1", "api_key": "theirs"}}
            with proxy_before(default.url, settings={"models": models}) as url:
                body = b'{"model": "unrelated", "messages": []}'
                for path in (b"/v1/chat/completions", b"/v1/embeddings"):
                    head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mine\r\nCookie: a=b\r\n"
                    answer = exchange(url, head + b"Content-Length: %d\r\n" % len(body) + END + body)
                    assert answer.startswith(b"HTTP/1.1 307 ")
                    assert location.lower().strip() in answer.lower()
    assert other.requests == []
    assert other.connections == 0
    assert [request.values(b"authorization") for request in default.requests] == [[b"Bearer mine"]] * 2


FAR = b'{"model": "far-1", "messages": [{"role": "user", "content": "x"}]'
PADDING = b', "pad": "' + b"x" * 100_000 + b'"}'
LAST = b'{"messages": ["' + b"x" * 20_000 + b'"], "model": "far-1"}'
JSON = b"Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        (b"chat/completions", b"", FAR + b"}"),
        (b"chat/completions", b"", FAR + b",}"),
        (b"chat/completions", b"", FAR + PADDING),
        (b"chat/completions", b"", LAST),
        (b"chat/completions", b"Content-Encoding: gzip\r\n", gz(FAR + PADDING)),
        (b"chat/completions/", b"", LAST),
        (b"chat%2Fcompletions", JSON, LAST),
        (b"responses", JSON, LAST),
        (b"embeddings", JSON, FAR + PADDING),
        (b"embeddings", b"", FAR + b"}"),
        (b"embeddings", b"Content-Encoding: gzip\r\n", gz(FAR + b"}")),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_nothing_for_a_model_elsewhere_reaches_the_common_upstream(
    path: bytes, headers: bytes, body: bytes, chunked: bool
) -> None:
    """Not for its size, its state or its path: neither its text nor the client's key."""
    if chunked and path not in (b"chat/completions", b"chat/completions/") and body is LAST:
        pytest.skip("the name comes behind what has gone out by then")
    framed = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    length = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % len(body)
    head = b"POST /v1/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mine\r\n" % path
    with run_raw() as common, run_raw() as far:
        models = {"far*": {"upstream": f"{far.url}/v1"}}
        with proxy_before(common.url, settings={"models": models}, max_body=50_000) as url:
            assert exchange(url, head + headers + length + END + framed).startswith(b"HTTP/1.1 200 ")
    assert common.requests == []
    [request] = far.requests
    assert request.line == b"POST /v1/%s HTTP/1.1" % path
    assert request.values(b"authorization") == []
    assert request.body == body or chunked


def test_a_little_json_arrives_as_a_whole() -> None:
    """Sent in pieces, it is one body with its length; whoever leaves in the middle of it has asked for nothing."""
    body = b'{"input": "x", "model": "m"}'
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body) + JSON + END
    with run_raw() as upstream, proxy_before(upstream.url) as url:
        with connect(url) as sock:
            sock.sendall(head + body[:10])
        with connect(url) as sock:
            sock.sendall(head + body[:10])
            time.sleep(0.1)
            assert upstream.requests == []
            sock.sendall(body[10:])
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert [request.body for request in upstream.requests] == [body]
    assert upstream.requests[0].values(b"content-length") == [b"%d" % len(body)]
