"""The real `openai` SDK, sync and async: behind the proxy everything is as it is without."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from proxy.demo.record import Recorded
from proxy.demo.upstream import MODEL, FakeUpstream
from proxy.demo.wording import Worded
from proxy.settings import Settings
from proxy.wiring import build
from tests.e2e.sdk import Step, perform, perform_async
from tests.servers import run_app

WINDOW = 4000


@dataclass
class Place:
    """Somewhere to talk to: a fake upstream of its own, with the proxy before it or not."""

    fake: FakeUpstream
    base_url: str

    def client(self, **options: Any) -> OpenAI:
        return OpenAI(api_key="sk-test", base_url=self.base_url, **{"max_retries": 0, **options})

    def async_client(self, **options: Any) -> AsyncOpenAI:
        return AsyncOpenAI(api_key="sk-test", base_url=self.base_url, **{"max_retries": 0, **options})


@contextmanager
def place(proxied: bool, **fake: Any) -> Iterator[Place]:
    upstream = FakeUpstream(window=WINDOW, **fake)
    with run_app(upstream) as address:
        if not proxied:
            yield Place(upstream, f"{address}/v1")
            return
        settings = Settings.model_validate(
            {"upstream": f"{address}/v1", "store": "memory:", "models": {"*": {"window": WINDOW}}}
        )
        with run_app(build(settings, {})) as proxy:
            yield Place(upstream, f"{proxy}/v1")


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": list(messages), **more}


HELLO = chat({"role": "system", "content": "Be brief."}, user("Tell me about the harbour."))
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks something up.",
            "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
        },
    }
]
CALLING = chat(user("Please use `look_up` on `alpha` and `beta`."), tools=TOOLS)
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"key": "alpha"}'}}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "alpha is 17"}
ANSWERING = chat(
    user("Please use `look_up` on `alpha`."), {"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT
)
PARTS = chat({"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]})
LONG = chat(user("The harbour is wide and the water is deep. " * 800))

STEPS: dict[str, Step] = {
    "unary": Step("create", HELLO),
    "unknown parameters": Step("create", {**HELLO, "extra_body": {"reasoning_budget": 7}, "user": "u-1"}),
    "own headers": Step("create", {**HELLO, "extra_headers": {"x-trace": "t-1"}, "extra_query": {"v": "2"}}),
    "parts": Step("create", PARTS),
    "cut short": Step("create", {**HELLO, "max_completion_tokens": 5}),
    "tool calls": Step("create", CALLING),
    "tool results": Step("create", ANSWERING),
    "stream": Step("stream", HELLO),
    "stream with usage": Step("stream", {**HELLO, "stream_options": {"include_usage": True}}),
    "stream of tool calls": Step("stream", CALLING),
    "stream helper": Step("helper", HELLO),
    "stream helper, tools": Step("helper", {**CALLING, "tools": [{**TOOLS[0], "function": TOOLS[0]["function"]}]}),
    "raw": Step("raw", HELLO),
    "raw, tools": Step("raw", CALLING),
    "raw stream": Step("raw stream", HELLO),
    "streamed response": Step("streamed response", HELLO),
    "models": Step("models"),
    "another path": Step("embeddings"),
    "bad role": Step("create", chat({"role": "nobody", "content": "x"})),
    "bad role, stream": Step("stream", chat({"role": "nobody", "content": "x"})),
    "orphan result": Step("create", chat(user("x"), RESULT)),
    "too long for anything": Step("create", LONG),
    "too long for anything, stream": Step("stream", LONG),
}


def both(steps: list[Step], run: Callable[[Place, list[Step]], list[Any]], **fake: Any) -> tuple[list[Any], list[Any]]:
    """The outcomes of the same steps without the proxy and with it."""
    outcomes = []
    for proxied in (False, True):
        with place(proxied, **fake) as here:
            outcomes.append(run(here, steps))
    return outcomes[0], outcomes[1]


def sync(here: Place, steps: list[Step]) -> list[Any]:
    with here.client() as client:
        return [perform(client, step) for step in steps]


def asynchronous(here: Place, steps: list[Step]) -> list[Any]:
    async def run() -> list[Any]:
        async with here.async_client() as client:
            return [await perform_async(client, step) for step in steps]

    return asyncio.run(run())


CLIENTS = pytest.mark.parametrize("run", [sync, asynchronous], ids=["sync", "async"])


@CLIENTS
@pytest.mark.parametrize("overflow_in_stream", [False, True], ids=["", "overflow in streams"])
def test_everything_as_without(run: Callable[[Place, list[Step]], list[Any]], overflow_in_stream: bool) -> None:
    """Each call returns, yields or raises exactly what it does without the proxy, one after the other."""
    without, through = both(list(STEPS.values()), run, overflow_in_stream=overflow_in_stream)
    for name, one, other in zip(STEPS, without, through, strict=True):
        assert other == one, name


STATUSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    418: "APIStatusError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
}


def refusing(status: int) -> Callable[[Recorded], Worded]:
    error = {"message": f"refused with {status}", "type": "some_error", "param": "model", "code": "some_code"}
    return lambda record: Worded(status, {"error": error})


@CLIENTS
@pytest.mark.parametrize("status", STATUSES)
def test_errors_are_typed(run: Callable[[Place, list[Step]], list[Any]], status: int) -> None:
    """An error is of the class that its status has, with the upstream's own body, headers and code."""
    steps = [Step("create", HELLO), Step("stream", HELLO), Step("raw", HELLO)]
    without, through = both(steps, run, intercept=refusing(status))
    assert through == without
    assert {outcome["class"] for outcome in through} == {STATUSES[status]}
    assert {outcome["code"] for outcome in through} == {"some_code"}


@CLIENTS
def test_errors_that_are_no_json(run: Callable[[Place, list[Step]], list[Any]]) -> None:
    """A page of HTML from a load balancer arrives as the page that it is."""
    steps = [Step("create", HELLO), Step("stream", HELLO)]
    page = b"<html><body>Bad Gateway</body></html>"
    without, through = both(steps, run, intercept=lambda record: Worded(502, page))
    assert through == without
    assert through[0]["class"] == "InternalServerError"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_retries_are_the_clients(status: int) -> None:
    """The SDK retries what it retries without the proxy, as often, and the proxy adds none of its own."""

    def once(record: Recorded) -> Worded | None:
        seen.append(record)
        return refusing(status)(record) if len(seen) <= 1 else None

    counts = []
    for proxied in (False, True):
        seen: list[Recorded] = []
        with place(proxied, intercept=once) as here, here.client(max_retries=2) as client:
            assert client.chat.completions.create(**HELLO).choices[0].finish_reason == "stop"
        counts.append(len(seen))
    assert counts == [2, 2]


@CLIENTS
def test_timeouts(run: Callable[[Place, list[Step]], list[Any]]) -> None:
    """A client's own timeout is its own: the same exception, before an answer and in a stream that is slow to start."""
    steps = [Step(way, HELLO, {"timeout": 0.3}) for way in ("create", "stream")]
    without, through = both(steps, run, delay=1.5)
    assert through == without
    assert {outcome["class"] for outcome in through} == {"APITimeoutError"}


def soon(condition: Callable[[], bool], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def arrived(here: Place) -> bool:
    """Whether a request reaches the upstream."""
    return soon(lambda: bool(here.fake.requests))


def gone(here: Place) -> bool:
    """Whether the upstream notices that the client of its newest request left."""
    return soon(lambda: here.fake.requests[-1].went_away)


@pytest.mark.parametrize("proxied", [False, True])
def test_leaving_a_stream(proxied: bool) -> None:
    """A client that leaves in the middle of a stream ends it upstream too."""
    with place(proxied, pace=0.2) as here, here.client() as client:
        with client.chat.completions.create(stream=True, **HELLO) as stream:
            next(iter(stream))
        assert gone(here)


@pytest.mark.parametrize("proxied", [False, True])
def test_leaving_a_call(proxied: bool) -> None:
    """A cancelled call without a stream ends upstream too."""

    async def run(here: Place) -> None:
        async with here.async_client() as client:
            task = asyncio.create_task(client.chat.completions.create(**HELLO))
            await asyncio.to_thread(arrived, here)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with place(proxied, delay=20.0) as here:
        asyncio.run(run(here))
        assert gone(here)


def test_nobody_upstream() -> None:
    """An upstream that cannot be reached is a 502 with an error that the SDK can read."""
    settings = Settings.model_validate({"upstream": "http://127.0.0.1:9/v1", "store": "memory:"})
    with (
        run_app(build(settings, {})) as proxy,
        OpenAI(api_key="sk-test", base_url=f"{proxy}/v1", max_retries=0) as client,
        pytest.raises(openai.InternalServerError) as raised,
    ):
        client.chat.completions.create(**HELLO)
    assert raised.value.status_code == 502
    assert raised.value.type == "upstream_error"


@pytest.mark.parametrize("streaming", [False, True], ids=["unary", "stream"])
def test_past_the_window(streaming: bool) -> None:
    """A conversation of twice the window ends in an error without the proxy, and goes on behind it."""
    failures = []
    for proxied in (False, True):
        messages: list[Any] = [{"role": "system", "content": "Be brief."}]
        failed = 0
        with place(proxied) as here, here.client() as client:
            for turn in range(16):
                messages.append(user(f"Turn {turn}. " + "The harbour is wide and the water is deep. " * 40))
                try:
                    text = _say(client, messages, streaming)
                except openai.BadRequestError:
                    failed += 1
                    text = "(refused)"
                messages.append({"role": "assistant", "content": text})
            assert all(not record.invalid for record in here.fake.requests)
        failures.append(failed)
    assert failures[0] > 0
    assert failures[1] == 0


def _say(client: OpenAI, messages: list[Any], streaming: bool) -> str:
    if not streaming:
        return client.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content or ""
    with client.chat.completions.stream(model=MODEL, messages=messages) as stream:
        return stream.get_final_completion().choices[0].message.content or ""
