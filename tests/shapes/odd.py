"""Strategies for requests that no specification foresees, and for those that a strict server takes."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable
from typing import Any

import brotli  # type: ignore[import-untyped]  # it brings no types
from hypothesis import strategies as st

from tests.strategies import Message, conversations

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WORDS = "the crane near berth seven waits for the tide, and nobody knows why "

_scalar = st.sampled_from(
    [None, True, False, 0, -1, 7, 1.5, 1e300, 10**30, 2**70, "", " ", "x", "\ud800", "é🙂", "<|im_end|>"]
)
_value = st.recursive(
    _scalar,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "id", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_long = st.sampled_from([WORDS, WORDS * 10, WORDS * 60, "A" * 900, "🙂" * 500, "\udc00 lone " * 40, "漢字かな" * 200])


def _deep(depth: int) -> Any:
    value: Any = "deep"
    for level in range(depth):
        value = [value] if level % 2 else {"content": value}
    return value


_call = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["call_0", "call_0", "a" * 41, "", None, 7]),
        "type": st.sampled_from(["function", "custom", None]),
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["f", "", "a b", None]),
                "arguments": st.sampled_from(["{}", '{"a": 1', "", None, {"a": 1}, "\ud800"]),
            },
        ),
        "extra_content": st.just({"google": {"thought_signature": "abc"}}),
    },
)
_calls = st.one_of(
    st.lists(st.one_of(_call, _scalar), max_size=3),
    _value,
    st.just([{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(129)]),
)
_part = st.one_of(
    _value,
    st.builds(lambda t: {"type": "text", "text": t}, _long),
    st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0K" * 300}}),
    st.just({"type": "input_audio", "input_audio": {"data": "UklGR" * 200, "format": "wav"}}),
    st.just({"type": "file", "file": {"file_id": "f-1"}}),
    st.just({"type": "hologram", "payload": [1, {"z": None}]}),
    st.just({"type": "refusal", "refusal": "no"}),
)
_content = st.one_of(_long, st.lists(_part, max_size=3), _value, st.builds(_deep, st.integers(1, 90)))

odd_message: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(
                ["user", "assistant", "tool", "function", "system", "developer", "observer", "", None, 3, ["user"]]
            )
        },
        optional={
            "content": _content,
            "tool_calls": _calls,
            "tool_call_id": st.sampled_from(["call_0", "nobody", None, 5]),
            "function_call": st.one_of(_value, st.just({"name": "f", "arguments": None})),
            "name": _value,
            "refusal": st.sampled_from([None, "I will not", 4]),
            "audio": st.sampled_from([None, {"id": "audio_1"}, "x"]),
            "reasoning_content": st.sampled_from([None, "because", ["x"]]),
            "reasoning_details": st.just([{"type": "reasoning.encrypted", "data": "A" * 600}]),
        },
    ),
    st.dictionaries(st.sampled_from(["role", "content", "x"]), _value, max_size=2),
)


@st.composite
def message_lists(draw: st.DrawFn) -> list[Any]:
    """Conversations of known and of unknown shape, repeated until some of them are long."""
    known = draw(conversations())
    odd = draw(st.lists(odd_message, max_size=6))
    if draw(st.integers(0, 19)) == 17:  # not 0: simple choices are made more often
        odd.append(draw(_scalar))  # no object at all
    place = draw(st.integers(0, len(known)))
    filler: list[Any] = [{"role": "user", "content": WORDS * 12}, {"role": "assistant", "content": WORDS * 4}]
    front, back = draw(st.sampled_from([(0, 0), (8, 0), (0, 8), (4, 4)]))
    times = draw(st.sampled_from([1, 2, 8]))
    return filler * front + (known[:place] + odd + known[place:]) * times + filler * back


def _written(message: Any, style: int) -> str:
    text = json.dumps(message, ensure_ascii=style != 5, separators=(",", ":") if style % 3 else (", ", ": "))
    if style == 4 and text[:1] == "{" and len(text) > 2:  # keys that stand twice: the last one counts
        text = '{"role":"user","content":"earlier",' + text[1:]
    return text


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_fields = st.fixed_dictionaries(
    {},
    optional={
        "stream": st.sampled_from([True, False, None, "yes"]),
        "max_tokens": st.sampled_from([1, 100, 0, -5, 1.5, "many", 10**25, True, None]),
        "max_completion_tokens": st.sampled_from([16, None, []]),
        "tools": st.one_of(_value, st.just([{"type": "function", "function": {"name": "f", "parameters": {}}}])),
        "functions": _value,
        "response_format": _value,
        "n": st.sampled_from([1, 3, None]),
        "seed": st.just(12345678901234567890123),
        "temperature": st.sampled_from([0.1, float("inf"), float("nan")]),
        "messages ": st.just([]),
    },
)


@st.composite
def odd_bodies(draw: st.DrawFn) -> bytes:
    """A body: mostly a chat request of odd messages and fields, sometimes none at all."""
    style = draw(st.sampled_from([0, 1, 2, 3, 4, 4, 5]))  # 5: lone surrogates stand there raw, which is no UTF-8
    pieces = [_written(m, style if i % 2 or style == 5 else 0) for i, m in enumerate(draw(message_lists()))]
    messages = "[" + (" ,\n" if style == 2 else ",").join(pieces) + "]"
    model = draw(st.sampled_from(['"m"', '"m"', '"m"', "null", "7", '"\\ud800"', None]))
    pairs = [f'"messages": {messages}', *(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in draw(_fields).items())]
    pairs += [f'"model":{model}'] if model else []
    if draw(st.integers(0, 19)) == 17:
        pairs.insert(0, '"messages":[]')
    order = draw(st.permutations(pairs))
    body = _utf8("{" + ",".join(order) + "}")
    breakage: Callable[[bytes], bytes] = draw(
        st.sampled_from(
            [bytes] * 40
            + [
                lambda b: b[:-1],
                lambda b: b + b" \r\n",
                lambda b: b + b"x",
                lambda b: b"\xef\xbb\xbf" + b,
                lambda b: b"[" + b + b"]",
                lambda b: b.decode("utf-8", "replace").encode("utf-16"),
                lambda b: b.replace(b"a", b"\xff"),
                lambda b: b"",
                lambda b: b"null",
                lambda b: b'{"messages": "none"}',
                lambda b: b"[" * 5000,
            ]
        )
    )
    return breakage(body)


CODERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": lambda data: bytes(brotli.compress(data, quality=1)),
    b"zstd": zstd.compress,
    b"identity": bytes,
}


@st.composite
def codings(draw: st.DrawFn) -> tuple[bytes | None, Callable[[bytes], bytes]]:
    """A `Content-Encoding`, and what makes a body of it: mostly none, sometimes a false one."""
    kind = draw(st.integers(0, 9))
    if kind < 7:
        return None, bytes
    name = draw(st.sampled_from(sorted(CODERS)))
    if kind == 9:
        return draw(st.sampled_from([b"gzip", b"br", b"snappy", b"gzip, gzip"])), bytes
    return name, CODERS[name]


def _accepted(message: Message) -> Message:
    """The message with a content that a strict server takes."""
    content = message.get("content")
    if isinstance(content, list):
        user = message["role"] == "user"
        content = [p for p in content if p["type"] == "text" or (user and p["type"] == "image_url")] or "nothing"
    spoken = message.get("tool_calls") or message.get("function_call") or message.get("refusal")
    return {**message, "content": "nothing" if content is None and not spoken else content}


def _dialogue(words: str) -> list[Message]:
    return [{"role": "user", "content": words}, {"role": "assistant", "content": WORDS}]


def _loop(words: str) -> list[Message]:
    """Rounds of two calls each, with nothing between them."""
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": f"call_{i}", "type": "function", "function": function} for i in range(2)]
    results = [{"role": "tool", "tool_call_id": f"call_{i}", "content": words[: 900 * (i + 1)]} for i in range(2)]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results] * 6


@st.composite
def valid_lists(draw: st.DrawFn) -> list[Message]:
    """What a strict server takes: some short, some far beyond a window of some thousand tokens."""
    messages = [_accepted(m) for m in draw(conversations(valid=True))]
    head = int(messages[0]["role"] in ("system", "developer"))
    filler = draw(st.sampled_from([_dialogue, _loop]))(draw(_long))
    body = [*messages[head:], {"role": "assistant", "content": "done"}, {"role": "user", "content": "go on"}, *filler]
    end = draw(st.integers(1, len(messages) - head))
    while end < len(messages) - head and messages[head + end]["role"] == "tool":
        end += 1
    return messages[:head] + body * draw(st.sampled_from([0, 1, 3, 10])) + messages[head : head + end]
