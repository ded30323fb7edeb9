"""What upstreams say when the context is full, and what only sounds like it.

`overflow_wordings.jsonl` was written before the rules (its later parts after they had been shaped by the first), so
that they are tried on words they were not made from.
"""

# Chinese wordings come with their own punctuation:
# ruff: noqa: RUF001

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.overflow import Overflow, from_answer, from_event, from_finish, is_answer, is_reasoning_complaint

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("COMPACTION_PROXY_SHARED", HERE.parents[2] / "shared"))
LONG = "prompt is too long: 219898 tokens > 200000 maximum"
CONTEXT = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


WORDINGS = lines(HERE / "overflow_wordings.jsonl")
REAL = [
    row
    for row in lines(SHARED / "cases" / "upstream_errors.jsonl")
    if not row.get("ambiguous") and row["body"] is not None and "finish_reason': 'length'" not in str(row["body"])
]
POSITIVE = [row for row in WORDINGS if row["expected"] is not None and row["status"] not in (200, 413)]


def read(status: int | None, body: str) -> tuple[int | None, int | None, int | None] | None:
    """An answer or, with 200 (or none), an event, as the numbers found in it."""
    found = from_event(body.encode()) if status in (200, None) else from_answer(status, body.encode())
    return None if found is None else (found.window, found.prompt, found.output)


@pytest.mark.parametrize("row", WORDINGS, ids=lambda row: row["name"])
def test_wordings(row: dict[str, Any]) -> None:
    """Every wording of the table is told from its look-alikes, numbers included."""
    expected = None if row["expected"] is None else tuple(row["expected"])
    assert read(row["status"], row["body"]) == expected


@pytest.mark.skipif(not REAL, reason="the folder `shared` with recorded answers is not beside the checkout")
@pytest.mark.parametrize("row", REAL, ids=lambda row: row["id"])
def test_recorded_answers(row: dict[str, Any]) -> None:
    """Every recorded answer that is not ambiguous is read right, numbers included."""
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"], ensure_ascii=False)
    output = row["requested_output_tokens"]
    stated = output if str(output) in body else None  # one row's figure comes from its request
    expected = (row["window"], row["prompt_tokens"], stated) if row["is_overflow"] else None
    assert read(row["http_status"], body) == expected


def templates() -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            "prompt is too long: {p} tokens > {w} maximum",
            "This model's maximum context length is {w} tokens. However, your messages resulted in {p} tokens.",
            "request ({p} tokens) exceeds the available context size ({w} tokens), try increasing it",
            "Input length {p} exceeds context length {w}",
            "length of prompt_tokens ({p}) must be less than max_seq_len ({w}).",
            "Prompt has {p} tokens, but the configured context size is {w} tokens",
            "maximum prompt length is {w} but the request contains {p} tokens.",
            "Current length is {p} while limit is {w}. Please reduce the length of the messages or completion.",
            "输入的 token 数量（{p}）超过了模型的最大上下文长度（{w}）",
        ]
    )


@given(
    template=templates(),
    window=st.integers(1000, 2_000_000),
    over=st.integers(1, 10**6),
    style=st.sampled_from(["", ","]),
)
def test_any_numbers(template: str, window: int, over: int, style: str) -> None:
    """The roles come from the words, not from the numbers: any window and any excess, with separators or without."""
    text = template.format(p=format(window + over, style), w=format(window, style))
    assert read(400, json.dumps({"error": {"message": text}})) == (window, window + over, None)


def wrap(body: str, how: str) -> str:
    """One more layer around a body, as gateways put it."""
    try:
        value = json.loads(body)
    except ValueError:
        value = body
    match how:
        case "object":
            return json.dumps({"error": {"message": "Provider returned error", "inner": value}})
        case "text in an object":
            return json.dumps({"error": {"message": body, "code": 400}})
        case "list":
            return json.dumps([value])
        case "raw":
            return json.dumps({"error": {"message": "upstream failed", "metadata": {"raw": body}}})
        case "python":
            return json.dumps({"detail": f"Error code: 400 - {value!r}"})
        case "bytes":
            return f"{body.encode()!r}"
    return json.dumps({"message": f"litellm.BadRequestError: SomeException - {body}\nReceived Model Group=m"})


LAYERS = ("object", "text in an object", "list", "raw", "python", "bytes", "prefixed")


@settings(max_examples=400)
@given(row=st.sampled_from(POSITIVE), layers=st.lists(st.sampled_from(LAYERS), max_size=4))
def test_wrapping_keeps_the_value(row: dict[str, Any], layers: list[str]) -> None:
    """However often an overflow is wrapped, it states the same numbers."""
    body = row["body"]
    if body.startswith("<"):
        layers = []  # markup is stripped only where it is the whole answer
    for layer in layers:
        body = wrap(body, layer)
    assert read(400, body) == tuple(row["expected"])


@given(
    row=st.sampled_from(POSITIVE),
    status=st.sampled_from([200, 400, 500]),
    key=st.sampled_from(["content", "reasoning_content", "refusal"]),
    part=st.sampled_from(["delta", "message"]),
)
def test_a_completion_that_quotes_is_none(row: dict[str, Any], status: int, key: str, part: str) -> None:
    """Text of a completion, of a chat message or of an echoed request is never taken for an error."""
    quote = row["body"]
    completion = {
        "object": "chat.completion",
        "choices": [{part: {"role": "assistant", key: quote}, "finish_reason": "stop"}],
    }
    tool = {"choices": [{part: {"tool_calls": [{"function": {"name": "f", "arguments": quote}}]}}], "error": None}
    legacy = {"choices": [{"index": 0, "text": quote, "finish_reason": None}], "usage": {"prompt_tokens": 3}}
    response = {"type": "response.completed", "response": {"error": None, "output": [{"content": [{"text": quote}]}]}}
    for body in (
        completion,
        tool,
        legacy,
        response,
        {"model": "m", "message": {"role": "assistant", "content": quote}},
    ):
        assert read(status, json.dumps(body)) is None
    echo = {"error": {"message": "bad", "request": {"x": quote}}, "messages": [{"role": "user", "content": quote}]}
    assert read(status, json.dumps(echo)) is None


@given(status=st.sampled_from([401, 402, 407, 429]), row=st.sampled_from(POSITIVE))
def test_other_statuses_say_other_things(status: int, row: dict[str, Any]) -> None:
    """A rate limit, a missing key or an unpaid bill is no overflow, whatever the text says."""
    assert from_answer(status, row["body"].encode()) is None


@settings(max_examples=300, deadline=None)
@given(status=st.integers(0, 999), body=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_never_raises(status: int, body: bytes) -> None:
    """Any bytes with any status give a value."""
    pieces = (
        b"",
        b'{"error":',
        b"{'error': ",
        b"b'",
        b'[{"a": "',
        b"max_tokens exceeds context 9000 > ",
        b"\\u12 \\x",
        b"<a",
    )
    for piece in pieces:
        data = piece + body
        for found in (from_answer(status, data), from_event(data), from_event(data, "error")):
            assert found is None or isinstance(found, Overflow)
        assert isinstance(is_answer(data), bool)
        assert isinstance(is_reasoning_complaint(status, data), bool)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from([LONG, CONTEXT]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "choices", "delta", "type", "role", "detail"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=json_values)
def test_never_raises_on_any_json(value: Any) -> None:
    """Any JSON in the places where errors stand gives a value, for every question asked of it."""
    data = json.dumps(value).encode()
    for found in (from_answer(500, data), from_event(data), from_event(data, "error")):
        assert found is None or isinstance(found, Overflow)
    assert isinstance(is_answer(data), bool)


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        "[",
        '{"a":',
        '{"a":[1,',
        '"',
        "\\",
        '\\"',
        "<",
        "b'",
        "a.A",
        "Error:",
        "1,000",
        "9 > 8 + ",
        "too long. ",
        "9000/8192 ",
    ],
)
def test_long_runs_come_to_an_end(unit: str) -> None:
    """Two megabytes of one thing are read in bounded work: the bodies looked at are bounded, the patterns linear."""
    data = (unit * (2_000_000 // len(unit))).encode()
    assert from_event(data) is None
    assert isinstance(is_reasoning_complaint(400, data), bool)
    assert from_answer(400, data) is None or unit in ("9000/8192 ", "9 > 8 + ")


def test_a_large_body_is_read_at_its_head() -> None:
    """An error that echoes a megabyte of request behind its message is still read."""
    body = json.dumps({"error": {"message": LONG, "echoed": "x" * 1_000_000}}).encode()
    assert from_answer(400, body) == Overflow(200000, 219898)


def test_a_lower_bound_is_told() -> None:
    """A server that stops counting says `at least`; the value says so too."""
    text = (
        "This model's maximum context length is 8192 tokens. However, you requested 1000 output tokens and your prompt "
        "contains at least 7193 input tokens, for a total of at least 8193 tokens."
    )
    assert from_answer(400, text.encode()) == Overflow(8192, 7193, 1000, at_least=True)
    assert from_answer(400, LONG.encode()) == Overflow(200000, 219898, None, at_least=False)


def test_a_derived_size_of_the_output_alone() -> None:
    """A negative room for output is an overflow without numbers; a client's own 0 or -1 is none."""
    text = "max_tokens must be at least 1, got {}."
    assert from_answer(400, text.format(-42).encode()) == Overflow()
    assert from_answer(400, text.format(-1).encode()) is None
    assert from_answer(400, text.format(0).encode()) is None


@pytest.mark.parametrize(
    ("data", "event", "expected"),
    [
        (b"", None, None),
        (b"[DONE]", None, None),
        (LONG.encode(), None, None),  # plain text that does not call itself an error
        (LONG.encode(), "error", Overflow(200000, 219898)),
        (b"Error: " + LONG.encode(), None, Overflow(200000, 219898)),
        (json.dumps({"message": LONG}).encode(), "error", Overflow(200000, 219898)),
        (json.dumps({"message": LONG}).encode(), None, None),
        (json.dumps({"choices": [], "error": {"message": LONG}}).encode(), None, Overflow(200000, 219898)),
        (b'{"choices":[{"delta":{"content":""},"finish_reason":"model_context_window_exceeded"}]}', None, Overflow()),
        (b'{"choices":[{"delta":{"content":"Hi"},"finish_reason":"model_context_window_exceeded"}]}', None, None),
        (b'{"choices":[{"message":{"content":null},"finish_reason":"length"}]}', None, None),
    ],
)
def test_events(data: bytes, event: str | None, expected: Overflow | None) -> None:
    """In a 200 only what presents itself as an error counts, and an end at the full window before any text."""
    assert from_event(data, event) == expected


@pytest.mark.parametrize(
    ("reason", "has_content", "prompt", "window", "expected"),
    [
        ("model_context_window_exceeded", False, None, None, Overflow()),
        ("model_context_window_exceeded", False, 0, 8192, Overflow()),
        ("model_context_window_exceeded", True, 8000, 8192, None),
        ("length", False, 8190, 8192, Overflow(prompt=8190)),
        ("length", False, 2664, 2560, Overflow(prompt=2664)),
        ("length", False, 4000, 8192, None),  # all of a small max_tokens went into reasoning
        ("length", False, None, 8192, None),
        ("length", False, 8190, None, None),
        ("length", True, 8190, 8192, None),
        ("stop", False, 8190, 8192, None),
        (None, False, None, None, None),
    ],
)
def test_finishes(reason: str | None, has_content: bool, prompt: int | None, window: int | None, expected: Any) -> None:
    """An empty answer at a full window is an overflow; one with text was cut off while it wrote."""
    assert from_finish(reason, has_content, prompt, window) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("", False),
        (": keep-alive", False),
        ("[DONE]", False),
        ({"choices": []}, False),
        ({"choices": [], "usage": {"prompt_tokens": 1}}, False),
        ({"choices": [{"delta": {"role": "assistant"}}]}, False),
        ({"choices": [{"delta": {"role": "assistant", "content": "", "tool_calls": []}}]}, False),
        ({"choices": [{"delta": {}, "finish_reason": "stop"}]}, False),
        ({"choices": [{"text": ""}]}, False),
        ({"type": "ping"}, False),
        ({"error": {"message": "x"}}, False),
        ({"type": "error", "message": "x"}, False),
        ({"choices": [{"delta": {"content": " "}}]}, True),
        ({"choices": [{"delta": {"reasoning_content": "hm"}}]}, True),
        ({"choices": [{"delta": {"reasoning_details": [{"text": "hm"}]}}]}, True),
        ({"choices": [{"delta": {"refusal": "No"}}]}, True),
        ({"choices": [{"delta": {"function_call": {"name": "f"}}}]}, True),
        ({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c"}]}}]}, True),
        ({"choices": [{"text": "a"}]}, True),
        ({"choices": [{"delta": {}}, {"delta": {"content": "b"}}]}, True),
        ({"type": "response.output_text.delta", "delta": "a"}, True),
        ("plain text", True),
        (f"Error: {LONG}", False),
    ],
)
def test_which_events_carry_content(event: Any, expected: bool) -> None:
    """Roles, empty deltas, comments and usage are no answer yet; whatever is not understood is one."""
    assert is_answer((event if isinstance(event, str) else json.dumps(event)).encode()) is expected


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "messages.1.content.0: Invalid `signature` in `thinking` block", True),
        (400, "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", True),
        (400, "Expected `thinking` or `redacted_thinking`, but found `tool_use`.", True),
        (400, "The reasoning_content in the thinking mode must be passed back to the API.", True),
        (400, "Function call is missing a thought_signature in functionCall parts.", True),
        (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item.", True),
        (400, "The encrypted content gAAA could not be verified.", True),
        (500, "thinking block signature mismatch", True),
        (401, "Invalid `signature` in `thinking` block", False),
        (200, "Invalid `signature` in `thinking` block", False),
        (403, "The request signature we calculated does not match the signature you provided.", False),
        (400, "This model does not support thinking blocks", False),
        (400, "`max_tokens` must be greater than `thinking.budget_tokens`", False),
        (400, "reasoning_effort must be one of low, medium, high", False),
        (400, "Invalid function signature: name is required", False),
        (400, LONG, False),
        (400, "", False),
    ],
)
def test_reasoning_complaints(status: int, message: str, expected: bool) -> None:
    """Complaints of lost or changed reasoning are told from missing support, budgets and other signatures."""
    plain = json.dumps({"error": {"message": message}})
    for body in (plain, message, json.dumps({"error": {"metadata": {"raw": plain}}})):
        assert is_reasoning_complaint(status, body.encode()) is expected


@pytest.mark.skipif(not REAL, reason="the folder `shared` with recorded answers is not beside the checkout")
def test_recorded_reasoning_complaints() -> None:
    """Of the recorded answers, those about signatures, thinking and passed-back reasoning are found, and no others."""
    found = {
        row["id"] for row in REAL if is_reasoning_complaint(row["http_status"] or 0, json.dumps(row["body"]).encode())
    }
    assert found == {
        row["id"]
        for row in REAL
        if any(word in row["id"] for word in ("signature", "thinking-modified", "passed-back"))
    }
