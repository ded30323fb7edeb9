"""The fake upstream over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from proxy.demo.record import OVERFLOW, Recorded
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import MODEL, SUMMARIZER, FakeUpstream
from proxy.demo.wording import Worded, Wording

HELLO = [{"role": "user", "content": "About the crane scheduler: nobody knows which queue is blocked."}]
LONG = [{"role": "user", "content": "berth allocator " * 300}]
SUMMARY_CALL = [
    {"role": "system", "content": "Summarise."},
    {
        "role": "user",
        "content": "<data 5f3a9c>\n[1 user]\nThe port of the gateway is 8443.\n</data 5f3a9c>\nSummarise.",
    },
]
Response = tuple[int, bytes]


@contextmanager
def running(window: int = 500, **options: Any) -> Iterator[tuple[FakeUpstream, str]]:
    fake = FakeUpstream(window, **options)
    with serve_in_thread(fake) as address:
        yield fake, f"{address}/v1"


async def _fetch(url: str, body: bytes | None, patience: float) -> Response:
    timeout = aiohttp.ClientTimeout(total=patience)
    async with (
        aiohttp.ClientSession(timeout=timeout) as http,
        http.request("POST" if body else "GET", url, data=body) as r,
    ):
        return r.status, await r.read()


def fetch(url: str, body: bytes | None = None, patience: float = 20) -> Response:
    return asyncio.run(_fetch(url, body, patience))


def chat(base: str, messages: Any, patience: float = 20, **fields: Any) -> tuple[int, Any]:
    body = json.dumps({"model": MODEL, "messages": messages, **fields}).encode()
    status, raw = fetch(f"{base}/chat/completions", body, patience)
    return status, raw if fields.get("stream") else json.loads(raw)


def events(raw: bytes) -> list[Any]:
    found = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(data) if data != "[DONE]" else data for data in found]


def test_a_unary_answer_is_openais_shape() -> None:
    """Id, model, one choice, usage; and the record has the body as it was sent."""
    with running() as (fake, base):
        status, value = chat(base, HELLO, temperature=0.5)
    assert status == 200
    assert value["object"] == "chat.completion" and value["model"] == MODEL
    assert value["choices"][0]["finish_reason"] == "stop" and value["choices"][0]["message"]["content"]
    usage = value["usage"]
    assert usage["prompt_tokens"] == fake.requests[0].prompt_tokens == fake.tokenizer.prompt(HELLO).total
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert fake.requests[0].accepted and b'"temperature": 0.5' in fake.requests[0].body


def test_a_stream_says_the_same() -> None:
    """The deltas make the unary text; usage comes only where it was asked for; [DONE] ends it."""
    with running() as (_, base):
        _, whole = chat(base, HELLO)
        _, bare = chat(base, HELLO, stream=True)
        _, counted = chat(base, HELLO, stream=True, stream_options={"include_usage": True})
    chunks = events(counted)
    assert chunks[-1] == "[DONE]"
    deltas = [c["choices"][0]["delta"] for c in chunks[:-1] if c["choices"]]
    assert "".join(d.get("content") or "" for d in deltas) == whole["choices"][0]["message"]["content"]
    assert chunks[-2]["choices"] == [] and chunks[-2]["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    assert len(events(bare)) == len(chunks) - 1 and "usage" not in events(bare)[-2]


def test_cached_tokens_follow_the_prefix() -> None:
    """The second turn of a conversation finds the first in the cache, and no more than that."""
    with running() as (_, base):
        _, first = chat(base, HELLO)
        told = [*HELLO, first["choices"][0]["message"], {"role": "user", "content": "Thank you, go on."}]
        _, second = chat(base, told)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert 0 < second["usage"]["prompt_tokens_details"]["cached_tokens"] <= first["usage"]["prompt_tokens"]


@pytest.mark.parametrize("wording", ["openai", "vllm", "llamacpp"])
@pytest.mark.parametrize("stream", [False, True])
def test_overflow_is_refused(wording: Wording, stream: bool) -> None:
    """A prompt over the window gets the server's refusal, as a status or as the first event of a stream."""
    with running(wording=wording, overflow_in_stream=True) as (fake, base):
        status, value = chat(base, LONG, stream=stream)
    record = fake.requests[0]
    assert record.refused == OVERFLOW and not record.invalid and record.prompt_tokens > 500
    assert status == record.status == (200 if stream else 400)
    assert "500" in json.dumps(events(value)[0] if stream else value)


def test_the_window_is_exact() -> None:
    """A prompt that fills the window is taken and one token less refuses it; llama.cpp wants a free cell."""
    size = FakeUpstream().tokenizer.prompt(HELLO).total
    for wording, least in (("openai", size), ("vllm", size), ("llamacpp", size + 1)):
        for window, fits in ((least, True), (least - 1, False)):
            with running(window, wording=wording) as (fake, base):
                status, _ = chat(base, HELLO)
            assert fake.requests[0].accepted is fits and (status == 200) is fits


def test_the_requested_output_counts_where_it_does() -> None:
    """In that mode prompt and output together must fit, and the refusal states the split."""
    for wording, status in (("openai", 400), ("vllm", 400), ("llamacpp", 200)):
        with running(output_counts=True, wording=wording) as (fake, base):
            found, value = chat(base, HELLO, max_tokens=499)
        assert found == status
        assert ("499 in the completion" in json.dumps(value)) is (status == 400)
        assert fake.requests[0].prompt_tokens < 100
    with running() as (_, base):
        assert chat(base, HELLO, max_tokens=499)[0] == 200


def test_the_ratio_shrinks_the_window() -> None:
    """A tokeniser with 1.6 times the tokens refuses what the plain one takes."""
    messages = [{"role": "user", "content": "berth allocator " * 200}]
    for ratio, status in ((1.0, 200), (1.6, 400)):
        with running(ratio=ratio) as (_, base):
            assert chat(base, messages)[0] == status


def test_answers_end_at_their_bounds() -> None:
    """max_tokens and what the window has left cut an answer, and the finish reason says so."""
    with running() as (_, base):
        _, short = chat(base, HELLO, max_tokens=5)
    size = FakeUpstream().tokenizer.prompt(HELLO).total
    with running(size + 3) as (_, base):
        _, cramped = chat(base, HELLO)
    for value, limit in ((short, 5), (cramped, 3)):
        choice = value["choices"][0]
        assert choice["finish_reason"] == "length"
        assert 0 < FakeUpstream().tokenizer.count(choice["message"]["content"]) <= limit


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b"{", "not JSON"),
        (b"[]", "not an object"),
        (b'{"model": "m", "messages": []}', "empty list"),
        (b'{"model": "m", "messages": [{"role": "tool", "tool_call_id": "a", "content": ""}]}', "orphan tool"),
    ],
)
def test_broken_requests_are_refused_and_remembered(body: bytes, refused: str) -> None:
    """The record names the rule."""
    with running() as (fake, base):
        status, raw = fetch(f"{base}/chat/completions", body)
    assert status == 400 and "error" in json.loads(raw)
    assert fake.requests[0].refused == refused and fake.requests[0].invalid


def test_strict_alternation_is_an_option() -> None:
    """Two user messages in a row are refused by a strict template only."""
    for strict, status in ((False, 200), (True, 400)):
        with running(alternation=strict) as (_, base):
            assert chat(base, HELLO * 2)[0] == status


def test_summary_calls_are_recognised() -> None:
    """By the summariser's name, or by their shape when the conversation's own model is asked."""
    with running() as (fake, base):
        _, by_shape = chat(base, SUMMARY_CALL)
        chat(base, HELLO, model=SUMMARIZER)
        chat(base, HELLO)
    assert [r.summary for r in fake.requests] == [True, True, False]
    assert len(fake.summaries) == 2 and len(fake.chats) == 1
    assert by_shape["choices"][0]["message"]["content"] == "- The port of the gateway is 8443."


def test_the_summariser_has_a_window_of_its_own() -> None:
    """A summary call over it is refused although the conversation's model would take it."""
    with running(summarizer_window=20) as (fake, base):
        assert chat(base, SUMMARY_CALL, model=SUMMARIZER)[0] == 400
        assert chat(base, SUMMARY_CALL)[0] == 200
    assert fake.requests[0].refused == OVERFLOW


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("manner", ["hang", "stall"])
def test_silence_is_cut_short_by_the_client(manner: str, stream: bool) -> None:
    """A hanging summariser says nothing (or stops speaking) until the client leaves, and that is recorded."""
    with running(summarizer=manner) as (fake, base):
        with pytest.raises(TimeoutError):
            chat(base, SUMMARY_CALL, patience=0.3, stream=stream)
        assert _eventually(lambda: fake.requests[0].ended is not None)
        assert fake.requests[0].went_away
        assert chat(base, HELLO)[0] == 200


def test_failures_of_the_server() -> None:
    """A failing summariser is a 500 or an HTML page; chats go on."""
    with running(summarizer="error") as (fake, base):
        assert chat(base, SUMMARY_CALL)[0] == 500
        fake.summarizer = "html"
        body = json.dumps({"model": MODEL, "messages": SUMMARY_CALL}).encode()
        status, raw = fetch(f"{base}/chat/completions", body)
        assert status == 200 and raw.startswith(b"<!DOCTYPE html>")
        assert chat(base, HELLO)[0] == 200


def test_delays() -> None:
    """Summaries and chats wait as long as they are told to, each its own."""
    with running(summarizer_delay=0.3) as (fake, base):
        chat(base, HELLO)
        chat(base, SUMMARY_CALL)
    quick, slow = [(r.ended or 0) - r.started for r in fake.requests]
    assert quick < 0.3 <= slow


def test_planned_failures() -> None:
    """An intercepting function answers instead, and the record says so."""

    def limited(record: Recorded) -> Worded | None:
        return Worded(429, {"error": {"message": "slow down"}}) if len(record.messages) > 1 else None

    with running(intercept=limited) as (fake, base):
        assert chat(base, HELLO)[0] == 200
        assert chat(base, HELLO * 2) == (429, {"error": {"message": "slow down"}})
    assert [r.refused for r in fake.requests] == [None, "intercepted"]


@pytest.mark.parametrize(("advertise", "stated"), [(True, 777), (False, None)])
def test_models(advertise: bool, stated: int | None) -> None:
    """Both models are listed; the window is stated where it is asked for."""
    with running(777, advertise=advertise, wording="vllm") as (_, base):
        status, raw = fetch(f"{base}/models")
    listed = {m["id"]: m.get("max_model_len") for m in json.loads(raw)["data"]}
    assert status == 200 and listed == {MODEL: stated, SUMMARIZER: stated}


def test_other_paths_do_not_exist() -> None:
    """Anything else is OpenAI's 404."""
    with running() as (_, base):
        status, raw = fetch(f"{base}/embeddings", b"{}")
    assert status == 404 and json.loads(raw)["error"]["message"] == "Invalid URL (POST /v1/embeddings)"


def test_lone_surrogates_are_no_problem() -> None:
    """Half a character in the prompt is counted and answered."""
    with running() as (_, base):
        status, raw = fetch(
            f"{base}/chat/completions", b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}'
        )
    assert status == 200 and json.loads(raw)["usage"]["prompt_tokens"] > 3


def _eventually(done: Any, patience: float = 5.0) -> bool:
    deadline = time.monotonic() + patience
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(done())
