"""The summariser over real sockets, against a server that answers from a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from proxy.adapters.summariser import BODY_MOST, TEXT_MOST, TEXT_PER_TOKEN, HttpSummariser
from proxy.adapters.upstream import AiohttpUpstream
from proxy.errors import SummaryError
from proxy.ports import SummaryAnswer, SummaryCall
from tests.packed import gz
from tests.servers import run_app

STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"


@dataclass
class Page:
    """One scripted answer: its chunks are sent as they stand, numbers among them are seconds of silence."""

    status: int
    kind: str
    chunks: tuple[bytes | float, ...]
    headers: tuple[tuple[bytes, bytes], ...] = ()
    broken: bool = False  # the connection goes before the body ends


@dataclass
class Scripted:
    """An ASGI application that answers each request with the next page, the last one for ever."""

    pages: list[Page]
    requests: list[tuple[dict[bytes, bytes], Any]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._lifespan(receive, send)
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        page = self.pages[min(len(self.requests), len(self.pages) - 1)]
        self.requests.append((dict(scope["headers"]), json.loads(body)))
        if isinstance(page.chunks[0], float):
            await asyncio.sleep(page.chunks[0])
        kind = [(b"content-type", page.kind.encode())]
        await send({"type": "http.response.start", "status": page.status, "headers": [*kind, *page.headers]})
        for chunk in page.chunks:
            if isinstance(chunk, float):
                await asyncio.sleep(chunk)
            else:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if page.broken:
            raise ConnectionAbortedError
        await send({"type": "http.response.body", "body": b""})

    async def _lifespan(self, receive: Any, send: Any) -> None:
        for name in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{name}.complete"})


@contextmanager
def serving(*pages: Page) -> Iterator[tuple[Scripted, str]]:
    script = Scripted(list(pages))
    with run_app(script) as address:
        yield script, f"{address}/v1/chat/completions"


def call(url: str, **changes: Any) -> SummaryCall:
    values: dict[str, Any] = {
        "url": url,
        "headers": ((b"authorization", b"Bearer key"),),
        "model": "small",
        "system": "Summarise.",
        "user": "text \ud83d",
        "max_tokens": 700,
        "silence": 5.0,
        "total": 10.0,
    }
    return SummaryCall(**(values | changes))


def ask(*calls: SummaryCall) -> list[SummaryAnswer | str]:
    """Each call's answer, or the reason why there is none, from one summariser."""

    async def run() -> list[SummaryAnswer | str]:
        upstream = AiohttpUpstream()
        summariser = HttpSummariser(upstream)
        results: list[SummaryAnswer | str] = []
        try:
            for one in calls:
                try:
                    results.append(await summariser.ask(one))
                except SummaryError as error:
                    results.append(error.reason)
        finally:
            await upstream.aclose()
        return results

    return asyncio.run(run())


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def whole(finish: str | None = "stop", **said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}]}


def page(value: Any, status: int = 200) -> Page:
    return Page(status, JSON, (json.dumps(value).encode(),))


def stream(*chunks: bytes | float) -> Page:
    return Page(200, STREAM, chunks)


def error(message: str, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
DONE = b"data: [DONE]\n\n"
LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."
HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"

ANSWERS: list[tuple[str, Page, SummaryAnswer | str]] = [
    (
        "streamed",
        stream(
            b": hello\n\n",
            event(delta(role="assistant", content=None)),
            event(delta(content="It ")),
            event(delta(content="went.")),
            event(delta("stop")),
            event({"choices": [], "usage": USAGE}),
            DONE,
        ),
        SummaryAnswer("It went.", "stop", 30, 5),
    ),
    ("no end mark", stream(event(delta("stop", content="It went."))[:-2]), SummaryAnswer("It went.", "stop")),
    ("no reason", stream(event(delta(content="It went.")), DONE), SummaryAnswer("It went.", None)),
    ("neither", stream(event(delta(content="It we"))), "malformed"),
    ("length", stream(event(delta(content="It we")), event(delta("length")), DONE), SummaryAnswer("It we", "length")),
    ("whole", page({**whole(content="It went."), "usage": USAGE}), SummaryAnswer("It went.", "stop", 30, 5)),
    ("odd usage", page({**whole(content="x"), "usage": {"prompt_tokens": "30"}}), SummaryAnswer("x", "stop")),
    ("null", page(whole(content=None)), SummaryAnswer("", "stop")),
    (
        "parts",
        page(whole(content=[{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "It went."}, 7])),
        SummaryAnswer("It went.", "stop"),
    ),
    ("reasoning alone", page(whole(content="", reasoning_content="First I shall")), SummaryAnswer("", "stop")),
    (
        "reasoning",
        stream(event(delta(reasoning="I shall")), event(delta("stop", content="It went.")), DONE),
        SummaryAnswer("It went.", "stop"),
    ),
    ("tool", page(whole("tool_calls", content="x", tool_calls=[{"id": "a", "type": "function"}])), "tool_call"),
    ("tool streamed", stream(event(delta(tool_calls=[{"index": 0, "id": "a"}])), DONE), "tool_call"),
    ("function", page(whole("function_call", function_call={"name": "f", "arguments": "{}"})), "tool_call"),
    ("overflow", page(error(LONG, "context_length_exceeded"), 400), "overflow"),
    ("overflow streamed", stream(event(error(LONG, "context_length_exceeded")), DONE), "overflow"),
    ("overflow in a 200", page(error(LONG, "context_length_exceeded")), "overflow"),
    ("error streamed", stream(event(delta(content="x")), event(error("overloaded", 503)), DONE), "http_5xx"),
    ("limit streamed", stream(event(error("slow down", "429")), DONE), "rate_limited"),
    ("refused streamed", stream(event(error("no such model", 404)), DONE), "http_4xx"),
    ("error in a 200", page(error("something", "odd")), "http_5xx"),
    ("error text in a 200", page({"error": "something"}), "http_5xx"),
    ("401", page(error("no"), 401), "http_4xx"),
    ("redirect", page({}, 307), "http_4xx"),
    ("429", page(error("slow down"), 429), "rate_limited"),
    ("500", page(error("oh"), 500), "http_5xx"),
    ("502", Page(502, "text/html", (HTML,)), "http_5xx"),
    ("504", page(error("late"), 504), "timeout"),
    ("html", Page(200, "text/html", (HTML,)), "malformed"),
    ("html as json", Page(200, JSON, (HTML,)), "malformed"),
    ("list", page([1]), "malformed"),
    ("no choices", page({"id": "x"}), "malformed"),
    ("odd choices", page({"choices": [7]}), SummaryAnswer("", None)),
    ("odd message", page({"choices": [{"message": "x"}]}), "malformed"),
    ("bad event", stream(b"data: {bad\n\n"), "malformed"),
    ("empty", Page(200, JSON, (b"",)), "malformed"),
    ("deep", Page(200, JSON, (b"[" * 100_000,)), "malformed"),
    ("huge", Page(200, JSON, (b" " * (BODY_MOST + 1),)), "malformed"),
    (
        "zipped",
        Page(
            200,
            JSON,
            (gz(json.dumps(whole(content="It went.")).encode()),),
            ((b"content-encoding", b"gzip"),),
        ),
        SummaryAnswer("It went.", "stop"),
    ),
    ("unknown coding", Page(200, JSON, (b"{}",), ((b"content-encoding", b"rot13"),)), "malformed"),
    ("broken off", Page(200, STREAM, (event(delta(content="x")),), broken=True), "unreachable"),
    ("blank lines without end", stream(*[b"\n" * 2**20] * 9, DONE), "malformed"),
    ("comments without end", stream(*[(b":" + b"x" * 4_093 + b"\n\n") * 256] * 9, DONE), "malformed"),
    ("silent", stream(1.0, DONE), "silent"),
    ("falls silent", stream(event(delta(content="x")), 1.0, DONE), "silent"),
]


@pytest.mark.parametrize(("answer", "expected"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_answers(answer: Page, expected: SummaryAnswer | str) -> None:
    """Every kind of answer becomes text with its reason to end, or a named failure."""
    with serving(answer) as (_, url):
        assert ask(call(url, silence=0.4)) == [expected]


@pytest.mark.parametrize("stated", [True, -1, 10**10, 1.5, "7", None], ids=repr)
def test_a_usage_that_can_be_none_is_none(stated: Any) -> None:
    """One lie would spoil the sums of all tenants."""
    usage = {"prompt_tokens": stated, "completion_tokens": stated}
    with serving(page({**whole("stop", content="It went."), "usage": usage})) as (_, url):
        assert ask(call(url)) == [SummaryAnswer("It went.", "stop")]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (page(error("no such model as sk-1", "model_not_found"), 404), "status 404, model_not_found"),
        (page(error("no"), 401), "status 401, invalid_request_error"),
        (page(error("no", "sk-abcdef123456"), 401), "status 401, invalid_request_error"),
        (page(error("oh", 500), 500), "status 500, invalid_request_error"),
        (page({"error": "oh"}, 500), "status 500"),
        (Page(502, "text/html", (HTML,)), "status 502"),
    ],
)
def test_a_refused_call_says_with_which_status_and_code(answer: Page, detail: str) -> None:
    """A wrong key can be told from a wrong model, and nothing that somebody wrote is repeated."""

    async def failure(url: str) -> SummaryError:
        upstream = AiohttpUpstream()
        try:
            with pytest.raises(SummaryError) as caught:
                await HttpSummariser(upstream).ask(call(url))
        finally:
            await upstream.aclose()
        return caught.value

    with serving(answer) as (_, url):
        assert asyncio.run(failure(url)).detail == detail


def test_request() -> None:
    """The request holds model, two messages, a limit, a temperature and nothing else, and the credentials given."""
    with serving(page(whole(content="x"))) as (script, url):
        ask(call(url))
    headers, body = script.requests[0]
    assert body == {
        "model": "small",
        "messages": [{"role": "system", "content": "Summarise."}, {"role": "user", "content": "text ?"}],
        "stream": True,
        "max_tokens": 700,
        "temperature": 0.3,
    }
    assert headers[b"authorization"] == b"Bearer key"
    assert headers[b"content-type"] == b"application/json"
    assert set(headers) == {
        *(b"authorization", b"content-type", b"accept", b"accept-encoding", b"user-agent", b"host", b"content-length")
    }


NO_MAX = error("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "unsupported_parameter")
NO_TEMPERATURE = error(
    "Unsupported value: 'temperature' does not support 0.3.", "unsupported_value", param="temperature"
)
TOO_MUCH = error("max_tokens is too large: 700. This model supports at most 500 completion tokens.")


@pytest.mark.parametrize(
    ("refusals", "left"),
    [
        ([NO_MAX], {"max_completion_tokens": 700, "temperature": 0.3}),
        ([NO_TEMPERATURE], {"max_tokens": 700}),
        ([NO_MAX, NO_TEMPERATURE], {"max_completion_tokens": 700}),
        ([TOO_MUCH], {"temperature": 0.3}),
    ],
)
def test_parameters_refused(refusals: list[Any], left: dict[str, Any]) -> None:
    """A parameter that a 400 names is renamed or left out at once, and stays so for that endpoint and model."""
    with serving(*(page(refusal, 400) for refusal in refusals), page(whole(content="x"))) as (script, url):
        assert ask(call(url), call(url)) == [SummaryAnswer("x", "stop")] * 2
    assert len(script.requests) == len(refusals) + 2
    for _, body in script.requests[-2:]:
        assert {name: value for name, value in body.items() if name not in ("model", "messages", "stream")} == left


def test_every_error_names_everything() -> None:
    """A server that echoes the request in each of its errors is asked four times and no more."""
    echo = error("bad", detail="max_tokens max_completion_tokens temperature")
    with serving(page(echo, 400)) as (script, url):
        assert ask(call(url)) == ["http_4xx"]
    assert len(script.requests) == 4


def test_overflow_is_no_parameter() -> None:
    """An overflow that speaks of max_tokens is an overflow: the same prompt is not sent again."""
    text = f"{LONG} Reduce the length of the messages or max_tokens."
    with serving(page(error(text, "context_length_exceeded"), 400)) as (script, url):
        assert ask(call(url)) == ["overflow"]
    assert len(script.requests) == 1


def test_total() -> None:
    """A server that never falls silent and never ends is left when the time is up."""
    with serving(stream(*(event(delta(content="and so on ")), 0.05) * 200)) as (_, url):
        assert ask(call(url, total=0.5)) == ["timeout"]


def test_endless() -> None:
    """What goes on beyond any summary is cut there and called unfinished."""
    with serving(stream(*[event(delta(content="and so on " * 1000))] * 200)) as (_, url):
        [answer] = ask(call(url))
    assert isinstance(answer, SummaryAnswer)
    assert answer.finish_reason == "length"
    assert len(answer.text) == TEXT_MOST


@pytest.mark.parametrize("max_tokens", [100, 20_000])
def test_endless_in_one_piece(max_tokens: int) -> None:
    """An answer that is not streamed is cut as well; who was allowed more may write more."""
    long = {"choices": [{"message": {"content": "and so on " * 100_000}, "finish_reason": "stop"}]}
    with serving(page(long)) as (_, url):
        [answer] = ask(call(url, max_tokens=max_tokens))
    assert isinstance(answer, SummaryAnswer) and answer.finish_reason == "length"
    assert len(answer.text) == max(TEXT_MOST, TEXT_PER_TOKEN * max_tokens)


def test_split_anywhere() -> None:
    """Events cut at every byte, characters of several bytes among them, give the same text."""
    sent = event(delta(content="Größe: 漢字")) + event(delta("stop")) + DONE
    chunks = tuple(bytes((byte,)) for byte in sent.replace(b"\\u00f6", "ö".encode()))
    with serving(stream(*chunks)) as (_, url):
        assert ask(call(url)) == [SummaryAnswer("Größe: 漢字", "stop")]


def test_nobody_there() -> None:
    """A refused connection is a named failure."""
    with serving(page({})) as (_, url):
        pass
    assert ask(call(url)) == ["unreachable"]


def test_repr_has_no_text() -> None:
    """What may come into a log shows no text of a summary or an error."""
    from proxy.adapters.summariser import Draft, Refusal

    draft = Draft(100)
    draft.add(whole(content="secret"))
    assert "secret" not in repr(draft) + repr(Refusal(400, b"secret"))
