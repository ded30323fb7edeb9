"""G: images, audio, files."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from proxy.demo.record import Recorded
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from tests.shapes.harness import (
    SMALL,
    SYSTEM,
    Message,
    calls,
    chat,
    early,
    fits,
    late,
    lenient,
    loop,
    post,
    result,
    said,
    squeezed,
    user,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage


def encoded(size: int, seed: int = 1) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def image(size: int, seed: int = 1) -> Message:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(size, seed)}"}}


def text(words: str) -> Message:
    return {"type": "text", "text": words}


OTHERS: list[Message] = [
    {"type": "input_audio", "input_audio": {"data": encoded(30_000), "format": "wav"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{encoded(30_000)}"}},
    {"type": "hologram", "hologram": {"rays": [1, 2, 3]}},
]


def test_G1_base64_image_counted_as_text() -> None:
    """A photo of some megabytes is one image, not a million tokens: no compaction, no refusal."""
    body = chat([SYSTEM, user([text("what is this?"), image(3_000_000)])])
    with stage(FakeUpstream(window=8_000), models={"*": {"window": 8_000}}) as s:
        reply = post(s.url, body)
    assert (reply.status, reply.decision) == (200, "pass; fits") and not s.fake.summaries
    squeezed(late(user([text("what is this?"), image(60_000)])))


def test_G2_the_opposite_base64_that_is_text() -> None:
    """Base64 inside a result's text is counted as what it costs: the first request goes out small enough."""
    blob = f"data:image/png;base64,{encoded(9_000)}"
    shape = [TASK, calls("a"), result("a", blob), said("ok"), *loop(3), user("next")]
    fake = FakeUpstream()
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        reply = post(s.url, chat([SYSTEM, *shape]))
    assert reply.status == 200 and reply.decision == "compact; over-limit"
    assert [r.refused for r in fake.chats] == [None] and blob.encode() not in fake.chats[0].body
    fits([SYSTEM, *shape])


def test_G3_a_gateway_that_bills_raw_base64() -> None:
    """A 413 makes the oldest images go, not the conversation."""
    fake = FakeUpstream(window=100_000)

    def gateway(record: Recorded) -> Worded | None:
        too_large = len(record.body) > 200_000 and not record.summary
        return Worded(413, {"error": {"message": "Request Entity Too Large"}}) if too_large else None

    fake.intercept = gateway
    messages = [
        SYSTEM,
        *(m for i in range(4) for m in (user([text(f"photo {i}"), image(60_000, i)]), said("nice"))),
        TASK,
    ]
    with stage(fake, models={"*": {"window": 100_000}}) as s:
        reply = post(s.url, chat(messages))
    assert reply.status == 200 and not fake.summaries
    assert encoded(60_000, 0) not in json.dumps(fake.chats[-1].data) and encoded(60_000, 3) in json.dumps(
        fake.chats[-1].data
    )


COMPLAINTS = [
    "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    "Invalid image data: the image could not be decoded",
    "Too many images in request: 21 > 20",
]


@pytest.mark.parametrize("complaint", COMPLAINTS)
@pytest.mark.parametrize("window", [SMALL, 100_000])
def test_G4_images_hit_a_byte_or_count_limit_not_the_window(complaint: str, window: int) -> None:
    """Such an error is no overflow: it comes back as it is, and nothing is summarised for it."""
    error = {"error": {"message": complaint, "type": "invalid_request_error", "param": None, "code": None}}
    fake = FakeUpstream(window=window, intercept=lambda record: Worded(400, error))
    with stage(fake, models={"*": {"window": window}}) as s:
        reply = post(s.url, chat([SYSTEM, user([text("look"), image(2_000)])]))
    assert reply.status == 400 and json.loads(reply.body) == error
    assert len(fake.requests) == 1


def test_G5_image_in_a_tool_message() -> None:
    """No part moves to another role: kept, it is the client's own; for the summariser it is a word."""
    shape = [TASK, calls("a"), result("a", [text("screenshot"), image(6_000)])]
    assert squeezed(late(*shape), lenient()).messages[-1] == shape[-1]
    gone = squeezed(early(*shape, said("ok")), lenient(), settings={"clearing": False})
    assert not any("image_url" in json.dumps(m) for m in gone.messages)
    told = "".join(json.dumps(r.data) for r in gone.fake.summaries)
    assert "[image]" in told and encoded(6_000) not in told
    fits([SYSTEM, *shape])


@pytest.mark.parametrize("part", OTHERS, ids=lambda part: part["type"])
@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_G5_audio_files_and_part_types_yet_to_come(role: str, part: Any) -> None:
    """In any role they are kept whole or go whole; nobody's count fails on them."""
    odd = {"role": role, "content": [text("see"), part]}
    shape = (
        [TASK, calls("a"), {**odd, "tool_call_id": "a"}] if role == "tool" else [said("ok"), odd, said("fine"), TASK]
    )
    kept = squeezed(late(*shape), lenient(20_000), window=20_000, settings={"models": {"*": {"window": SMALL}}})
    assert odd["content"][1] in [p for m in kept.messages if isinstance(m["content"], list) for p in m["content"]]
    assert squeezed(
        early(*shape, said("ok")), lenient(20_000), settings={"models": {"*": {"window": SMALL}}}
    ).replacement
    fits([SYSTEM, *shape], lenient(100_000))


def test_G5_an_answer_that_was_spoken() -> None:
    """An assistant message with audio for content goes through as it is."""
    spoken = {"role": "assistant", "content": None, "audio": {"id": "audio_abc123"}}
    assert spoken in squeezed(late(TASK, spoken, user("and?")), lenient()).messages
    fits([SYSTEM, TASK, spoken, user("and?")], lenient(100_000))
