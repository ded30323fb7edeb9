"""What is done when the upstream says no, over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.demo.record import Recorded
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from proxy.settings import Settings
from tests.e2e.test_promises import LONG, WINDOW, chat, post, sent, talk
from tests.stage import proxy, stage


def error(status: int, message: str, **more: Any) -> Worded:
    return Worded(status, {"error": {"message": message, "type": "invalid_request_error", **more}})


def test_an_overflow_that_says_no_number_is_followed_by_something_much_smaller() -> None:
    """0.6 of the last size; nothing is learned from it."""
    fake = FakeUpstream(window=100_000)
    fake.intercept = lambda r: (
        error(400, "the input length exceeds the context length") if len(r.messages) > 20 else None
    )
    with stage(fake) as s:
        reply = post(s.url, chat(talk(LONG)))
        assert reply.status == 200 and reply.decision == "compact; refused"
    before, after = (len(r.body) for r in fake.chats[:2])
    assert after < 0.7 * before


@pytest.mark.parametrize("status", [408, 504, 524])
def test_a_timeout_with_a_nearly_full_window_is_treated_like_an_overflow(status: int) -> None:
    """Twice at most; with an empty window it is passed on."""
    fake = FakeUpstream()
    fake.intercept = lambda r: error(status, "timed out") if not r.summary and len(r.messages) > 20 else None
    with stage(fake, **WINDOW) as s:
        full = post(s.url, chat(talk(LONG - 3)))
        assert full.status == 200 and full.decision == "compact; timeout"
    fake = FakeUpstream()
    fake.intercept = lambda r: error(status, "timed out")
    with stage(fake, **WINDOW) as s:
        assert post(s.url, chat(talk(3))).status == status
        assert len(fake.chats) == 1
        assert post(s.url, chat(talk(LONG - 3))).status == status
        assert len(fake.chats) <= 1 + 3


def test_no_answer_in_time_is_a_timeout_too() -> None:
    """The model's configured one, before the first byte."""
    fake = FakeUpstream(delay=30.0)
    with stage(fake, models={"*": {"window": 4_000, "timeout": 0.6}}, summarizer={"wait": 0.2}) as s:
        reply = post(s.url, chat(talk(LONG - 3)))
    assert reply.status == 504 and reply.seconds < 5
    assert 2 <= len(fake.chats) <= 3 and len(fake.chats[1].messages) < len(fake.chats[0].messages)


def test_the_larger_model_gets_the_original_when_compaction_cannot_help() -> None:
    """With the credentials meant for its place, under its own name; if it fails too, that is the answer."""
    here, there = FakeUpstream(), FakeUpstream(window=100_000)
    messages = [*talk(3)[:-1], {"role": "user", "content": "word " * 6_000}]
    with serve_in_thread(here) as one, serve_in_thread(there) as other:
        models = {
            "big-*": {"upstream": f"{other}/v1", "api_key": "key-of-the-other", "upstream_model": "fake-model"},
            "*": {"window": 4_000, "failover": "big-one"},
        }
        settings = Settings.model_validate({"upstream": f"{one}/v1", "store": "memory:", "models": models})
        with proxy(settings) as url:
            reply = post(url, chat(messages, top_k=7))
    assert reply.status == 200 and reply.decision == "forward; failover"
    assert not here.summaries and not there.summaries
    body = json.loads(there.chats[0].body)
    assert (body["messages"], body["top_k"], body["model"]) == (messages, 7, "fake-model")
    assert dict(there.chats[0].headers)[b"authorization"] == b"Bearer key-of-the-other"


def test_a_complaint_about_reasoning_behind_a_compaction() -> None:
    """Once more without the older rounds' reasoning; the newest round keeps its own."""
    fake = FakeUpstream()
    messages = talk(LONG)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            message["reasoning_content"] = f"because {number}"
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages += [
        {"role": "assistant", "content": None, "reasoning_content": "newest", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]

    def picky(record: Recorded) -> Worded | None:
        compacted = not record.summary and len(record.messages) < len(messages)
        if compacted and record.body.count(b"reasoning_content") > 1:
            return error(400, "messages.5.content.0: Invalid `signature` in `thinking` block")
        return None

    fake.intercept = picky
    with stage(fake, **WINDOW) as s:
        reply = post(s.url, chat(messages))
    assert reply.status == 200 and reply.decision == "compact; reasoning"
    assert [m["reasoning_content"] for m in sent(fake)[-1].messages if "reasoning_content" in m] == ["newest"]


def test_a_body_too_large_for_its_images_loses_the_oldest() -> None:
    """Bytes, not tokens: no summary; the newest image stays."""
    fake = FakeUpstream(window=100_000)
    most = 150_000
    fake.intercept = lambda r: (
        Worded(413, {"error": {"type": "request_too_large", "message": "Request too large"}})
        if len(r.body) > most
        else None
    )

    def picture(letter: str) -> dict[str, Any]:
        return {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{letter * 40_000}"}}],
        }

    messages = []
    for letter in "ABCDE":
        messages += [picture(letter), {"role": "assistant", "content": "seen"}]
    with stage(fake) as s:
        reply = post(s.url, chat([*messages[:-1]]))
    assert reply.status == 200 and reply.decision == "compact; images"
    assert not fake.summaries
    out = sent(fake)[-1].body.decode()
    assert "EEEE" in out and "AAAA" not in out and "image left out" in out


def test_a_learned_window_is_not_taken_from_a_clients_text() -> None:
    """A completion or a tool result that quotes an error teaches nothing."""
    quoted = "This model's maximum context length is 1200 tokens. However, your messages resulted in 9000 tokens."
    fake = FakeUpstream(window=100_000)
    with stage(fake) as s:
        for number in range(3):
            messages = [
                *talk(LONG),
                {"role": "assistant", "content": quoted},
                {"role": "user", "content": f"{quoted} {number}"},
            ]
            assert post(s.url, chat(messages)).decision == "pass; window-unknown"


@pytest.mark.parametrize("wording", ["vllm", "llamacpp", "openai"])
def test_an_advertised_window_is_used(wording: Any) -> None:
    """From `/v1/models`, asked in the background: no refusal is needed to learn it."""
    fake = FakeUpstream(wording=wording, advertise=True)
    with stage(fake) as s:
        report = s.play()
    assert report.failed == 0 and report.overflows == 0 and report.fact_kept


def test_silent_truncation_is_found_out_from_the_usage(caplog: pytest.LogCaptureFixture) -> None:
    """A server that drops the beginning without a word: its count sticks at its context. Said in the log."""
    fake = FakeUpstream(window=100_000)
    counted = fake.tokenizer.prompt

    class Truncating:
        """Ollama's way: whole messages go until the rest fits."""

        def __getattr__(self, name: str) -> Any:
            return getattr(fake_tokenizer, name)

        def prompt(self, messages: Any, tools: Any = ()) -> Any:
            while len(messages) > 1 and counted(messages, tools).total > 1_500:
                messages = messages[1:]
            return counted(messages, tools)

    fake_tokenizer, fake.tokenizer = fake.tokenizer, Truncating()  # type: ignore[assignment]
    with stage(fake) as s:
        for number in range(4):
            assert post(s.url, chat(talk(LONG + 4 + number))).status == 200
    assert "seems to cut off" in caplog.text
    assert len(sent(fake)[-1].messages) < 2 * LONG


@pytest.mark.parametrize("status", [500, 400])
def test_a_failure_that_is_not_our_writings_is_the_clients_own(status: int) -> None:
    """A rewritten request fails, the original would overflow: the client sees the failure, and the summary stays."""
    fake = FakeUpstream()
    with stage(fake, **WINDOW) as s:
        assert post(s.url, chat(talk(LONG + 5))).status == 200
        made = len(fake.summaries)
        fake.intercept = lambda r: error(status, "The server had an error") if len(r.messages) < 2 * LONG else None
        failed = post(s.url, chat(talk(LONG + 6)))
        assert failed.status == status and b"server had an error" in failed.body
        fake.intercept = None
        again = post(s.url, chat(talk(LONG + 6)))
        assert again.status == 200 and again.decision == "reuse; known"
    assert len(fake.summaries) == made


def test_what_an_error_echoes_of_one_client_does_not_count_for_another() -> None:
    """An upstream that quotes the client's text in an error about something else."""
    fake = FakeUpstream(window=16_000)
    echo = "maximum context length is 2000 tokens. However, your messages resulted in 50000 tokens"
    fake.intercept = lambda r: error(400, f"Invalid value: '{echo}'") if b"50000" in r.body else None
    with stage(fake, models={"*": {"window": 16_000}}) as s:
        post(s.url, chat(talk(LONG), tool_choice=echo), key="mallory")
        fake.intercept = None
        reply = post(s.url, chat(talk(LONG)), key="alice")
    assert reply.status == 200 and reply.decision == "pass; fits"


def test_many_conversations_of_one_client_are_no_treadmill() -> None:
    """One key, one system prompt, eight different conversations: each gets its summary."""
    fake = FakeUpstream()
    with stage(fake, **WINDOW) as s:
        for number in range(8):
            messages = talk(LONG)
            for message in messages[1:]:
                message["content"] = f"{message['content']} ({number})"
            assert post(s.url, chat(messages)).status == 200
    assert len(fake.summaries) >= 8


def test_a_key_that_the_summariser_refuses_closes_the_door_to_nobody_else() -> None:
    """Back-off is by credentials."""
    fake = FakeUpstream()

    def door(record: Recorded) -> Worded | None:
        junk = (b"authorization", b"Bearer junk") in record.headers
        return error(401, "Incorrect API key provided", code="invalid_api_key") if junk else None

    fake.intercept = door
    with stage(fake, **WINDOW) as s:
        assert post(s.url, chat(talk(LONG)), key="junk").status == 401
        assert post(s.url, chat(talk(LONG)), key="good").status == 200
    assert sum(r.accepted for r in fake.summaries) == 1


def test_no_second_summary_for_what_the_upstream_does_not_take() -> None:
    """It refuses every rewritten request, and takes the original: for minutes that goes out at once, and is free."""
    fake = FakeUpstream(window=100_000)
    fake.intercept = lambda r: error(422, "I want them all") if not r.summary and len(r.messages) < 2 * LONG else None
    with stage(fake, models={"*": {"window": 4_200}}) as s:
        assert post(s.url, chat(talk(LONG))).decision == "forward; failed"
        made, tried = len(fake.summaries), len(fake.chats)
        for number in range(1, 4):
            reply = post(s.url, chat(talk(LONG + number)))
            assert reply.status == 200 and reply.decision == "forward; failed"
    assert made == 1 and len(fake.summaries) == made
    assert len(fake.chats) <= tried + 3 + 2  # where it is above the window, what a digest makes of it is tried first


def test_no_summaries_for_what_is_too_long_however_short_it_is_made() -> None:
    """An upstream that calls everything too long gets three attempts; the next turns pay for no summary."""
    fake = FakeUpstream()
    fake.intercept = lambda r: error(400, "the input length exceeds the context length") if not r.summary else None
    with stage(fake, **WINDOW) as s:
        first = post(s.url, chat(talk(LONG)))
        made = len(fake.summaries)
        again = [post(s.url, chat(talk(LONG + number))) for number in range(4)]
    assert {r.status for r in (first, *again)} == {400}
    assert 1 <= made <= 3 and len(fake.summaries) == made
