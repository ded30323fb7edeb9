"""What messages, tools and media are taken to cost; a word counts as a token here."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core import tokens
from proxy.core.tokens import (
    AUDIO,
    CALL,
    FILE,
    IMAGE,
    IMAGE_LOW,
    IMAGE_SMALL,
    MESSAGE,
    NAME,
    REPLY,
    RESULT,
    TOOLS,
    VIDEO,
    head_tokens,
    media,
    message_tokens,
    text_tokens,
)

RANDOM = random.Random(7)
BASE64 = base64.b64encode(RANDOM.randbytes(3_000_000)).decode()
URL = "data:image/png;base64," + BASE64


def words(text: str) -> int:
    """A tokeniser simple enough to reckon with."""
    return len(text.split())


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def call(**inner: Any) -> dict[str, Any]:
    return {"id": "call_0", "type": "function", "function": inner}


MESSAGES: list[tuple[str, dict[str, Any], int]] = [
    ("string", {"role": "user", "content": "one two"}, 2),
    ("null", {"role": "assistant", "content": None}, 0),
    ("absent", {"role": "assistant"}, 0),
    ("empty list", user(), 0),
    ("text parts", user({"type": "text", "text": "one two"}, {"type": "text", "text": "three"}), 3),
    ("bare strings", user("one two", "three"), 3),
    ("a part without its list", {"role": "user", "content": {"type": "text", "text": "one"}}, 1),
    ("a number", {"role": "user", "content": 7}, 1),
    ("null text", user({"type": "text", "text": None}), words('{"text": null}')),
    ("named", {"role": "user", "name": "ann", "content": "one"}, 1 + NAME + 1),
    ("result", {"role": "tool", "tool_call_id": "a b c", "content": "one"}, RESULT + 1),
    ("legacy result", {"role": "function", "name": "f", "content": "one"}, RESULT + NAME + 2),
    ("call", {"role": "assistant", "tool_calls": [call(name="f", arguments='{"a": 1}')]}, CALL + 1 + 2),
    ("two calls", {"role": "assistant", "tool_calls": [call(name="f", arguments="{}")] * 2}, 2 * (CALL + 2)),
    ("null arguments", {"role": "assistant", "tool_calls": [call(name="f", arguments=None)]}, CALL + 1),
    ("object arguments", {"role": "assistant", "tool_calls": [call(name="f", arguments={"a": 1})]}, CALL + 1 + 2),
    (
        "custom tool",
        {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "a b"}}]},
        CALL + 3,
    ),
    (
        "legacy call",
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        CALL + 2,
    ),
    ("null calls", {"role": "assistant", "content": "one", "tool_calls": None, "function_call": None}, 1),
    ("refusal", {"role": "assistant", "content": None, "refusal": "no no"}, 2),
    (
        "refusal part",
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        words('{"refusal": "no"}'),
    ),
    ("reasoning", {"role": "assistant", "content": "one", "reasoning_content": "two three"}, 3),
    (
        "copies of reasoning",
        {
            "role": "assistant",
            "reasoning": "two three",
            "reasoning_content": "two three",
            "reasoning_details": [{"type": "reasoning.text", "text": "two three", "format": "x"}],
        },
        2,
    ),
    (
        "thinking blocks",
        {"role": "assistant", "thinking_blocks": [{"type": "thinking", "thinking": "a b", "signature": BASE64[:800]}]},
        2 + 200,
    ),
    (
        "unrendered fields",
        {
            "role": "assistant",
            "content": "one",
            "id": "a b",
            "annotations": [{"a": "b c"}],
            "cache_control": {"t": "e"},
        },
        1,
    ),
    ("spoken answer", {"role": "assistant", "audio": {"id": "audio_1"}}, AUDIO[1]),
    ("low detail", user({"type": "image_url", "image_url": {"url": URL, "detail": "low"}}), IMAGE_LOW),
    ("high detail", user({"type": "image_url", "image_url": {"url": URL, "detail": "high"}}), IMAGE),
    ("remote", user({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}), IMAGE),
    ("string for object", user({"type": "image_url", "image_url": "https://a.example/b.png"}), IMAGE),
    ("thumbnail", user({"type": "image_url", "image_url": {"url": URL[:4000]}}), IMAGE_SMALL),
    ("responses", user({"type": "input_image", "image_url": URL, "detail": "low"}), IMAGE_LOW),
    (
        "anthropic",
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}}),
        IMAGE,
    ),
    ("in a result", {"role": "tool", "content": [{"type": "image_url", "image_url": {"url": URL}}]}, RESULT + IMAGE),
    ("sound", user({"type": "input_audio", "input_audio": {"data": BASE64[:200_000], "format": "wav"}}), 100),
    ("long sound", user({"type": "input_audio", "input_audio": {"data": BASE64 * 20, "format": "wav"}}), AUDIO[2]),
    ("film", user({"type": "video_url", "video_url": {"url": "https://a.example/b.mp4"}}), VIDEO),
    ("file by id", user({"type": "file", "file": {"file_id": "file-1"}}), FILE[1]),
    ("file", user({"type": "file", "file": {"file_data": "data:application/pdf;base64," + BASE64}}), FILE[2]),
    ("text file", user({"type": "file", "file": {"file_data": "data:text/csv;base64," + BASE64[:4979]}}), 1000),
    ("unknown part", user({"type": "poem", "lines": ["one two", "three"]}), words('{"lines": ["one two", "three"]}')),
    ("unknown blob", user({"type": "scan", "scan": {"bytes": BASE64}}), IMAGE + words('{"scan": {"bytes": ""}}')),
]


@pytest.mark.parametrize(("message", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_messages(message: dict[str, Any], expected: int) -> None:
    """A message costs its template and what a template renders of it."""
    assert message_tokens(message, words) == MESSAGE + expected


TOOL = {"type": "function", "function": {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0),
        ({"model": "m", "messages": [], "tools": [], "functions": None, "response_format": {"type": "text"}}, 0),
        ({"tools": [TOOL]}, TOOLS + words(json.dumps(TOOL))),
        ({"tools": [TOOL, TOOL]}, TOOLS + 2 * words(json.dumps(TOOL))),
        ({"functions": [TOOL["function"]]}, TOOLS + words(json.dumps(TOOL["function"]))),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}}, words('{"name": "a b"}')),
        ({"tools": "none", "response_format": "text"}, 0),
        ({"tools": [None, 1, "x"]}, TOOLS + 3),
    ],
)
def test_head(fields: dict[str, Any], expected: int) -> None:
    """What stands before the messages costs the JSON of its schemas and the opening of the answer."""
    assert head_tokens(fields, words) == REPLY + expected


def test_base64_in_text() -> None:
    """Base64 inside text is a token a character, what stands around it is text."""
    blob = BASE64[:20_000]
    assert text_tokens(f"see {blob} and {blob}, done", words) == 40_000 + 4
    assert text_tokens(f"data:image/png;base64,{blob}", words) == 20_000 + 1
    assert text_tokens(base64.urlsafe_b64encode(RANDOM.randbytes(3001)).decode(), words) == 4004


@pytest.mark.parametrize(
    "text",
    [
        BASE64[:511],
        "a" * 9000,
        "-" * 9000,
        RANDOM.randbytes(4000).hex(),
        "/usr/lib/python" * 100,
        "SomeVeryLongIdentifier" * 100,
        "AAAA" * 3000,
    ],
)
def test_other_runs_are_text(text: str) -> None:
    """Short base64, and long runs of its alphabet that are no base64, are counted as the text they are."""
    assert text_tokens(text, words) == 1


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([{"id": n, "name": f"row {n}"} for n in range(500)]).encode(),
        b"".join(bytes((n % 256, n // 3 % 256, 255 - n % 256, 255)) for n in range(4000)),
        ("漢字かな交じり文" * 300).encode(),
    ],
    ids=["json", "pixels", "utf-8"],
)
def test_encoded_data_is_base64(data: bytes) -> None:
    """Base64 of data with structure is recognised as well as that of noise."""
    blob = base64.b64encode(data).decode().rstrip("=")
    assert text_tokens(blob, words) == len(blob)


@pytest.mark.parametrize("run", ["a", "aA1", "x" * 511 + " ", "Zm9v\n", " ", "=", "漢", "\ud800"])
def test_long_input(run: str) -> None:
    """Two megabytes of any run are looked through once: the text that is counted is the text that came."""
    text = (run * 2_000_000)[:2_000_000]
    assert text_tokens(text, len) == len(text)


def test_media() -> None:
    """Images that travel as base64 are counted, those behind an address are not."""
    inline = {"type": "image_url", "image_url": {"url": URL[:1000]}}
    remote = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
    anthropic = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    assert media(user(inline, remote, anthropic, {"type": "text", "text": URL[:1000]}, "x", None)) == 2
    assert [media({"content": odd}) for odd in (None, "x", 1, inline)] == [0, 0, 0, 1]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.just(URL[:700]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("role", "content", "name", "tool_calls", "function_call", "reasoning_details", "refusal", "audio", "odd")
KINDS = ("text", "image_url", "image", "input_audio", "file", "document", "video_url", "tool_use", "thinking", 7)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), json_values),
    st.lists(
        st.dictionaries(st.sampled_from(("type", "text", "image_url", "source", "file", "data")), json_values)
        | st.fixed_dictionaries({"type": st.sampled_from(KINDS), "source": json_values, "image_url": json_values})
    ),
)
def test_anything_is_counted(fields: dict[str, Any], parts: list[Any]) -> None:
    """Whatever JSON stands in a message or among the fields, a number comes back, and the same one again."""
    message = {**fields, "content": [*parts, fields.get("content")]}
    for odd in (fields, message):
        assert message_tokens(odd, words) >= MESSAGE
        assert message_tokens(odd, words) == message_tokens(odd, words)
        assert media(odd) >= 0
    assert head_tokens({"tools": parts, "response_format": {"json_schema": fields}}, words) >= REPLY


def test_depth_and_size() -> None:
    """Nesting beyond what JSON readers accept, and integers beyond what Python prints, do no harm."""
    deep: Any = "x"
    for _ in range(5000):
        deep = [{"a": deep}]
    odd = {"content": [{"type": "odd", "a": deep, "b": 10**5000}], "reasoning_details": deep}
    assert message_tokens(odd, words) >= MESSAGE
    assert head_tokens({"tools": [deep]}, words) > TOOLS


def test_figures_are_of_the_templates() -> None:
    """The template figures lie between what OpenAI bills and what the ChatML templates of open models print."""
    from proxy.adapters.encoding import O200k

    count = O200k().count
    chatml = 2 + count("user\n") + count("\n")  # two markers of one token each
    hermes_call = count('\n<tool_call>\n{"name": "", "arguments": }\n</tool_call>')
    hermes_result = count("<tool_response>\n") + count("\n</tool_response>")
    assert chatml == tokens.MESSAGE
    assert 8 <= tokens.CALL <= hermes_call
    assert 0 <= tokens.RESULT <= hermes_result
    pair: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [call(name="calculator", arguments='{"a":2, "b":2}')]},
        {"role": "tool", "tool_call_id": "a", "content": "4"},
    ]
    printed = 2 * chatml + hermes_call + hermes_result + 12
    assert 25 <= sum(message_tokens(message, count) for message in pair) <= printed
