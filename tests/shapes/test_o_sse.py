"""O: streams."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from tests.shapes.harness import LONG, Peer, Reply, chat, post, raw, slow_summary, talk, user

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"
OVERFLOW = b'{"error":{"message":"This model\'s maximum context length is 4000 tokens. However, your messages resulted in 6000 tokens.","code":"context_length_exceeded"}}'


def chunk(content: str | None, *, index: int = 0, finish: str | None = None, **delta: object) -> bytes:
    said = {**({"content": content} if content is not None else {}), **delta}
    choice = {"index": index, "delta": said, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}, ensure_ascii=False).encode() + b"\n\n"


ROLE = chunk(None, role="assistant")
STREAM = ROLE + chunk("你好, café 🙂") + chunk("", finish="stop") + DONE


def streamed(
    pieces: Sequence[bytes], messages: object = None, *, pause: float = 0.0, **settings: object
) -> tuple[Reply, int]:
    """What a client gets of a stream that is written in such pieces, and how many requests it took."""

    def handler(peer: Peer) -> bool:
        peer.send(HEAD)
        for piece in pieces:
            peer.send(piece)
            time.sleep(pause)
        return False

    with raw(handler, **settings) as (url, upstream):
        reply = post(url, chat(messages or [user("hi")], stream=True))  # type: ignore[arg-type]  # a list of messages
        return reply, len(upstream.requests)


FORMS = {
    "lf": STREAM,
    "crlf": STREAM.replace(b"\n", b"\r\n"),
    "cr": STREAM.replace(b"\n", b"\r"),
    "bom": b"\xef\xbb\xbf" + STREAM,
    "named": STREAM.replace(b"data: {", b"event: message\nid: 7\ndata: {"),
    "no space": STREAM.replace(b"data: ", b"data:"),
}


@pytest.mark.parametrize("form", FORMS)
def test_O1_utf8_split_at_chunk_borders(form: str) -> None:
    """One byte at a time, with any line ends: the client gets the same bytes."""
    body = FORMS[form]
    reply, _ = streamed([body[i : i + 1] for i in range(len(body))], pause=0.0005)
    assert reply.body == body


def test_O3_comments() -> None:
    """They go through as comments, in their place, and are no answer yet: an error behind them is understood."""
    comments = b": OPENROUTER PROCESSING\n\n" * 3 + b":\n\n"
    reply, _ = streamed([comments, ROLE, b": still here\n\n", STREAM])
    assert reply.body == comments + ROLE + b": still here\n\n" + STREAM
    first = [b": OPENROUTER PROCESSING\n\n", b"data: " + OVERFLOW + b"\n\n"]
    _, asked = streamed(first, talk(LONG))
    assert asked > 1


def test_O4_keep_alives_that_break_clients() -> None:
    """Ours is one line before the first event and no blank line: nothing that any client dispatches."""

    def slow(peer: Peer) -> bool:
        if not slow_summary(peer, 0.7):
            peer.send(HEAD + STREAM)
        return False

    with raw(slow, keepalive_after=0.15, models={"*": {"window": 4_000}}) as (url, _):
        reply = post(url, chat(talk(LONG), stream=True))
    ours = reply.body.removesuffix(STREAM)
    assert ours and ours == b": keepalive\n" * ours.count(b"\n")


@pytest.mark.parametrize("end", [b"", DONE * 2, b"data: [DONE]", DONE + chunk("late"), b"data:[DONE]\r\n\r\n"])
def test_O5_done(end: bytes) -> None:
    """Missing, doubled, unfinished or followed by more: what comes is passed on."""
    body = STREAM.removesuffix(DONE) + end
    reply, asked = streamed([body])
    assert reply.body == body and asked == 1


ERRORS = [
    b"data: " + OVERFLOW + b"\n\n",
    b"event: error\ndata: " + OVERFLOW + b"\n\n",
    b'data: {"choices":[],"error":' + OVERFLOW[9:-1] + b"}\n\n",
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("before", [b"", ROLE, chunk(""), b": hello\n\n"])
def test_O6_error_inside_a_200_stream(before: bytes, error: bytes) -> None:
    """Before any content it is acted upon like a refusal; an error that is none of length is passed on."""

    def handler(peer: Peer) -> bool:
        peer.send(HEAD + (before + error if len(peer.request.body) > 12_000 else STREAM))
        return False

    with raw(handler) as (url, upstream):
        reply = post(url, chat(talk(LONG), stream=True))
        assert reply.body == STREAM and reply.decision == "compact; refused"
        asked = len(upstream.requests)
    assert asked >= 2
    other = before + b'data: {"error":{"message":"The server is overloaded","code":529}}\n\n' + DONE
    assert streamed([other])[0].body == other


def test_O6_error_in_mid_stream() -> None:
    """After content nothing is started again: even an overflow goes to the client as it is."""
    body = ROLE + chunk("half an") + b"data: " + OVERFLOW + b"\n\n" + DONE
    reply, asked = streamed([body], talk(LONG))
    assert reply.body == body and asked == 1


def test_O6_a_stream_that_breaks_off() -> None:
    """Cut off in the middle it is cut off for the client too: no end is invented."""
    body = ROLE + chunk("half an") + b'data: {"choi'
    assert streamed([body])[0].body == body


def test_O6_an_empty_stream() -> None:
    """Nothing at all is passed on as nothing."""
    reply, asked = streamed([])
    assert (reply.status, reply.body, asked) == (200, b"", 1)


@pytest.mark.parametrize("stream", [True, False])
def test_O7_answering_a_non_stream_client_with_a_stream_or_the_reverse(stream: bool) -> None:
    """The answer's own type decides how it is read, and it goes through as it is."""
    unary = b'{"choices":[{"index":0,"message":{"content":"hi"}}]}'
    kinds = [
        (b"text/event-stream", STREAM),
        (b"application/json", unary),
        (b"text/event-stream; charset=utf-8", STREAM),
    ]
    for kind, body in kinds:
        with raw(lambda peer, k=kind, b=body: peer.answer(b, headers=b"content-type: %s\r\n" % k)) as (url, _):  # type: ignore[misc]
            reply = post(url, chat([user("hi")], stream=stream))
        assert reply.body == body and reply.headers["content-type"] == kind.decode()
    refusal = b"data: " + OVERFLOW + b"\n\n"

    def handler(peer: Peer) -> None:
        long = len(peer.request.body) > 12_000
        peer.answer(
            refusal if long else unary,
            headers=b"content-type: %s\r\n" % (b"text/event-stream" if long else b"application/json"),
        )

    with raw(handler) as (url, _):
        assert post(url, chat(talk(LONG), stream=stream)).body == unary


@pytest.mark.parametrize("n", [2, 5])
def test_O8_n_greater_than_1(n: int) -> None:
    """Choices come interleaved, with empty ones for usage: not one byte of them changes."""
    body = b"".join(chunk(f"{word} {i}", index=i) for word in ("a", "b") for i in reversed(range(n)))
    body += b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":4}}\n\n' + DONE
    reply, asked = streamed([body])
    assert reply.body == body and asked == 1
    choices = [{"index": i, "message": {"role": "assistant", "content": f"c{i}"}} for i in range(n)]
    unary = json.dumps({"choices": choices, "usage": {"prompt_tokens": 9}}).encode()
    with raw(lambda peer: peer.answer(unary, headers=b"content-type: application/json\r\n")) as (url, upstream):
        assert post(url, chat([user("hi")], n=n)).body == unary
    assert json.loads(upstream.requests[0].body)["n"] == n
