"""P: fields and parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.demo.upstream import FakeUpstream
from tests.shapes.harness import (
    LONG,
    SMALL,
    SYSTEM,
    Peer,
    chat,
    fits,
    post,
    raw,
    said,
    squeezed,
    talk,
    user,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage

WINDOW = {"models": {"*": {"window": SMALL}}}
UNKNOWN: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False},
    "top_k": 40,
    "logprobs": True,
    "top_logprobs": 3,
    "provider": {"order": ["a", "b"], "allow_fallbacks": False},
    "extra_body": {"guided_json": {"type": "object"}},
    "seed": 2**64 + 1,
    "null_field": None,
}


@pytest.mark.parametrize(
    "options", [{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": False}}]
)
def test_P1_stream_options_injected(options: dict[str, Any]) -> None:
    """Nothing is added, and an explicit false stays."""
    assert set(squeezed(talk(LONG), **options).sent.data) == {"model", "messages", *options}
    assert fits([SYSTEM, TASK], **options).sent.data.get("stream_options") == options.get("stream_options")


USAGES = [
    b'{"choices":[{"index":0,"message":{"content":"a"},"usage":{"prompt_tokens":9}}]}',
    b'{"choices":[{"index":0,"message":{"content":"a"}}],"usage":null}',
    b'{"choices":[{"index":0,"message":{"content":"a"}}],"usage":{"prompt_tokens":"many"}}',
    b'{"choices":[{"index":0,"message":{"content":"a"}}],"usage":{"prompt_tokens":-1}}',
    b'{"choices":[{"index":0,"message":{"content":"a"}}],"usage":[]}',
    b'{"choices":[{"index":0,"message":{"content":"a"}}],"usage":{"prompt_tokens":99999999999999999999}}',
    b'{"choices":null,"usage":{"prompt_tokens":1e9}}',
]


@pytest.mark.parametrize("body", USAGES)
@pytest.mark.parametrize("stream", [False, True])
def test_P2_usage_elsewhere(body: bytes, stream: bool) -> None:
    """Wherever and whatever it is, the answer goes through unchanged and the next request as well."""
    sent = b"data: " + body + b"\n\n" if stream else body
    kind = b"text/event-stream" if stream else b"application/json"
    with raw(lambda peer: peer.answer(sent, headers=b"content-type: %s\r\n" % kind), **WINDOW) as (url, _):
        for _ in range(2):
            reply = post(url, chat([SYSTEM, TASK, user("x " * 300)]))
            assert (reply.status, reply.body, reply.decision) == (200, sent, "pass; fits")


def test_P3_unknown_fields_dropped() -> None:
    """Dict in, dict out: in the request, in its messages, in the answer."""
    message = user("hi") | {"custom": {"z": [1, {"y": None}]}, "annotations": [], "weight": 0}
    shown = squeezed([SYSTEM, *talk(LONG)[1:-1], said("ok", logprobs=None, extra=1), message], **UNKNOWN)
    assert {k: shown.sent.data[k] for k in UNKNOWN} == UNKNOWN
    kept = shown.messages[-1]
    assert {k: v for k, v in kept.items() if k != "content"} == {k: v for k, v in message.items() if k != "content"}
    assert fits([SYSTEM, message], **UNKNOWN).sent.data == chat([SYSTEM, message], **UNKNOWN)
    answer = (
        b'{"choices":[{"index":0,"message":{"content":"a","odd":1},"logprobs":{"content":[]}}],"x_groq":{"id":"r"}}'
    )
    with raw(lambda peer: peer.answer(answer, headers=b"content-type: application/json\r\n")) as (url, _):
        assert post(url, chat([user("hi")])).body == answer


def test_P3_big_integers_and_duplicate_keys() -> None:
    """Numbers no float holds, and keys that stand twice, are the client's own bytes also in a rewritten request."""
    parts = [json.dumps(m) for m in talk(LONG)]
    odd = '{"role":"user","role":"user","content":"old","content":"now 12345678901234567890123?","n":123456789012345678901234567890}'
    parts[-1] = odd
    body = (
        '{"temperature":0.10,"temperature":0.20,"model":"fake-model","seed":98765432109876543210987,"messages":['
        + ",".join(parts)
        + "]}"
    ).encode()
    with stage(FakeUpstream(), **WINDOW) as s:
        reply = post(s.url, body)
    out = s.fake.chats[-1].body
    assert reply.status == 200 and reply.decision == "compact; over-limit"
    assert out.startswith(
        b'{"temperature":0.10,"temperature":0.20,"model":"fake-model","seed":98765432109876543210987,'
    )
    assert b'"n":123456789012345678901234567890}' in out
    assert s.fake.chats[-1].messages[-1]["content"].endswith("now 12345678901234567890123?")
    fits(b'{"messages":[],"model":"fake-model","messages":[' + odd.encode() + b"]}")


def test_P4_own_fields_leaked_upstream() -> None:
    """What is said to the proxy travels in headers, and stays here."""
    with stage(FakeUpstream(), **WINDOW) as s:
        for value in ("observe", "off", "force", "nonsense"):
            assert post(s.url, chat(talk(3)), headers={"x-compaction": value, "x-compaction-note": "a"}).status == 200
    for record in s.fake.requests:
        assert not [name for name, _ in record.headers if name.lower().startswith(b"x-compaction")]
        assert set(record.data) <= {"model", "messages", "stream", "max_tokens", "temperature"}


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "eos", "abort", "tool_use", None])
@pytest.mark.parametrize("content", ["some text", ""])
def test_P6_finish_reason(reason: str | None, content: str) -> None:
    """Unknown ones pass through; nothing is done about an answer for its reason alone."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": reason}
    body = json.dumps({"choices": [choice]}).encode()
    with raw(lambda peer: peer.answer(body, headers=b"content-type: application/json\r\n")) as (url, upstream):
        assert post(url, chat([user("hi")])).body == body
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_P6_a_full_window_is_an_overflow_where_nothing_was_said(stream: bool) -> None:
    """`model_context_window_exceeded` without text makes the request shorter; with text it is an answer."""

    def handler(peer: Peer) -> None:
        full = len(peer.request.body) > 12_000 or b"keep this" in peer.request.body
        text = "half an answer" if b"keep this" in peer.request.body else "" if full else "fine"
        said = {"role": "assistant", "content": text}
        choice = {
            "index": 0,
            "delta" if stream else "message": said,
            "finish_reason": "model_context_window_exceeded" if full else "stop",
        }
        body = json.dumps({"choices": [choice]}).encode()
        kind = b"text/event-stream" if stream else b"application/json"
        peer.answer(b"data: " + body + b"\n\n" if stream else body, headers=b"content-type: %s\r\n" % kind)

    with raw(handler) as (url, upstream):
        long = post(url, chat(talk(LONG), stream=stream))
        before = len(upstream.requests)
        short = post(url, chat([user("keep this")], stream=stream))
        assert len(upstream.requests) == before + 1
    assert b"fine" in long.body and long.decision == "compact; refused"
    assert b"half an answer" in short.body


@pytest.mark.parametrize("stream", [False, True])
def test_P7_usage_shown_to_the_client_after_compaction(stream: bool) -> None:
    """It is the upstream's own; headers say what was done, with tokens before and after."""
    more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    shown = squeezed(talk(LONG), **more)
    assert b'"prompt_tokens": %d' % shown.sent.prompt_tokens in shown.reply.body.replace(b'":', b'": ').replace(
        b":  ", b": "
    )
    before, after = map(int, shown.reply.headers["x-compaction-tokens"].split("/"))
    assert shown.reply.decision == "compact; over-limit" and before > 3_200 >= after
