from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from proxy.errors import BadRequest, LoopDetected
from proxy.forward import Addressed, Forwarder, Incoming, Relayed, call
from proxy.ports import Answer, Call, Headers
from proxy.routing import Router
from proxy.settings import Settings


@dataclass
class OneAnswer:
    """An answer that was recorded."""

    status: int = 200
    headers: Headers = ()
    parts: tuple[bytes, ...] = (b"one", b"two")
    closed: int = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part

    async def aclose(self) -> None:
        self.closed += 1


@dataclass
class Recorder:
    """An upstream that notes what it is sent."""

    answer: OneAnswer = field(default_factory=OneAnswer)
    calls: list[Call] = field(default_factory=list)

    async def send(self, call: Call) -> OneAnswer:
        self.calls.append(call)
        return self.answer

    async def aclose(self) -> None: ...


def router(**values: Any) -> Router:
    return Router(Settings.model_validate({"upstream": "http://up.example/base/v1"} | values))


async def stream(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_call_is_the_request() -> None:
    """Method, target and bytes stay; the address is the upstream's; there is no read timeout."""
    headers: Headers = ((b"host", b"us"), (b"content-length", b"3"), (b"authorization", b"Bearer k"))
    incoming = Incoming("PATCH", b"/files/a%2Fb", b"x=%20", headers, b"abc")
    assert call(router().route(None, headers), incoming) == Call(
        "PATCH",
        "http://up.example/base/v1/files/a%2Fb?x=%20",
        ((b"authorization", b"Bearer k"), (b"via", b"1.1 compaction-proxy")),
        b"abc",
    )


def test_a_streamed_body_keeps_its_stated_length() -> None:
    """A stream with a length stays one with a length; without one it has none."""
    for length in ((), ((b"Content-Length", b"3"),)):
        body = stream(b"abc")
        incoming = Incoming("POST", b"/files", b"", length, body)
        sent = call(router().route(None, length), incoming)
        assert sent.body is body
        assert [value for name, value in sent.headers if name == b"content-length"] == [b"3"] * len(length)


@pytest.mark.parametrize("path", [b"/../x", b"//evil.example", b"@evil.example"])
def test_a_target_that_leads_elsewhere_is_not_sent(path: bytes) -> None:
    """The refusal comes before anything reaches the upstream."""
    upstream = Recorder()
    with pytest.raises(BadRequest):
        asyncio.run(Forwarder(upstream, router()).forward(Incoming("GET", path, b"", ())))
    assert upstream.calls == []


def test_a_loop_is_not_sent() -> None:
    """Neither is a request that was here before."""
    upstream = Recorder()
    with pytest.raises(LoopDetected):
        asyncio.run(
            Forwarder(upstream, router()).chat(Incoming("GET", b"/", b"", ((b"via", b"1.1 compaction-proxy"),)))
        )
    assert upstream.calls == []


def test_an_answer_is_the_upstreams() -> None:
    """Status, fields and chunks pass through; closing it closes the upstream's."""
    upstream = Recorder(OneAnswer(429, ((b"retry-after", b"7"), (b"connection", b"close"))))

    async def main() -> list[bytes]:
        answer = await Forwarder(upstream, router()).forward(Incoming("GET", b"/models", b"", ()))
        assert answer.status == 429
        assert answer.headers == ((b"retry-after", b"7"), (b"via", b"1.1 compaction-proxy"))
        chunks = [chunk async for chunk in answer.chunks()]
        await answer.aclose()
        return chunks

    assert asyncio.run(main()) == [b"one", b"two"]
    assert upstream.answer.closed == 1


@dataclass
class Watched:
    """A gateway that notes what it is asked."""

    inner: Forwarder
    seen: list[Incoming] = field(default_factory=list)

    async def chat(self, incoming: Incoming) -> Answer:
        self.seen.append(incoming)
        return await self.inner.chat(incoming)

    async def forward(self, incoming: Incoming) -> Answer:
        self.seen.append(incoming)
        return await self.inner.forward(incoming)


@pytest.mark.parametrize(
    ("upstream", "url", "keys"),
    [
        (None, "http://up.example/base/v1/x?api-version=preview", [b"Bearer common"]),
        ("far", "http://far.example/v1/x?api-version=preview", [b"Bearer own"]),
    ],
)
def test_an_addressed_gateway_names_the_upstream(upstream: str | None, url: str, keys: list[bytes]) -> None:
    """Whatever is asked through it goes there, chats and everything else, as one caller's."""
    recorder = Recorder()
    settings = {"api_key": "common", "upstreams": {"far": {"url": "http://far.example/v1"}}}
    watched = Watched(Forwarder(recorder, router(**settings)))

    async def main() -> None:
        gateway = Addressed(watched, upstream, b"me")
        incoming = Incoming("POST", b"/x", b"api-version=preview", ((b"authorization", b"Bearer own"),), b"{}")
        await gateway.chat(incoming)
        await gateway.forward(incoming)

    asyncio.run(main())
    assert [sent.url for sent in recorder.calls] == [url] * 2
    assert [value for sent in recorder.calls for name, value in sent.headers if name == b"authorization"] == keys * 2
    assert [(incoming.upstream, incoming.caller) for incoming in watched.seen] == [(upstream, b"me")] * 2


FAR = {"models": {"far*": {"upstream": "http://far.example/v1"}, "new": {"upstream_model": "old-1"}}}
DIGEST: Headers = ((b"content-md5", b"x"),)


@pytest.mark.parametrize(
    ("incoming", "url", "body"),
    [
        (Incoming("POST", b"/responses", b"", (), b'{"model": "far-1"}'), "http://far.example/v1/responses", None),
        (Incoming("POST", b"/responses", b"", (), b'{"model": "far-1",}'), "http://far.example/v1/responses", None),
        (Incoming("PUT", b"/x", b"", (), b'{"model": "far-1"}'), "http://up.example/base/v1/x", None),
        (Incoming("POST", b"/x", b"", (), b'{"model": "near"}'), "http://up.example/base/v1/x", None),
        (
            Incoming("POST", b"/x", b"", DIGEST, b'{"model" : "new", "n":1.0}'),
            "http://up.example/base/v1/x",
            b'{"model" : "old-1", "n":1.0}',
        ),
        (Incoming("POST", b"/x", b"", DIGEST, b'{"model": "new", x}'), "http://up.example/base/v1/x", None),
    ],
)
def test_a_model_leads_where_it_is_served(incoming: Incoming, url: str, body: bytes | None) -> None:
    """Whatever is asked of it, and however little of the request can be read; its name there goes into what can."""
    recorder = Recorder()
    asyncio.run(Forwarder(recorder, router(**FAR)).forward(incoming))
    [sent] = recorder.calls
    assert (sent.url, sent.body) == (url, body or incoming.body)
    assert (DIGEST[0] in sent.headers) == (DIGEST[0] in incoming.headers and body is None)


def test_the_beginning_of_a_stream_leads_it() -> None:
    """It is not read any further for that."""
    recorder = Recorder()
    body = stream(b'{"model": "far-1", ', b'"x": 1}')
    incoming = Incoming("POST", b"/x", b"", (), body, beginning=b'{"model": "far-1", ')
    asyncio.run(Forwarder(recorder, router(**FAR)).forward(incoming))
    assert (recorder.calls[0].url, recorder.calls[0].body) == ("http://far.example/v1/x", body)


def test_reprs_show_no_text() -> None:
    """Requests and answers can be logged."""
    incoming = Incoming("POST", b"/chat/completions", b"key=secret", ((b"authorization", b"secret"),), b"secret")
    assert repr(incoming) == "Incoming(POST b'/chat/completions', 6 bytes)"
    assert repr(Relayed(OneAnswer(204))) == "Relayed(204)"
