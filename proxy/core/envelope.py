"""The request as it came: raw JSON of every field and message, found but never re-typed.

Reading is lossless and writing is splicing: what is not replaced goes out byte for byte. msgspec finds the slices at
25 times the speed of the standard library but refuses what `json` accepts (lone surrogates, NaN); then it is shown a
copy without these, of the same length. What it cannot read even so is left to a walk with `json`'s own scanner, if it
is short. What neither can read is no chat request to us and passes untouched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Span = tuple[int, int]

MAX_DEPTH = 64
"""Deeper JSON passes through unread (design: decoding is bounded); real requests stay below 20."""

SLOW_MOST = 4 * 1024 * 1024
"""Bytes that `json`'s scanner may walk, some 10 ms a MB: a longer body with a key that comes twice passes unread."""

HEAD_FIELDS = ("tools", "functions", "response_format")
"""Fields beside the messages that cost prompt tokens."""

OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens")
"""What a client may ask for as output, the newer name first (OpenAI's API reference: it replaces the older one)."""

_KEY = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_GAP = re.compile(rb"[ \t\r\n]*,?")
_END = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*\Z")
_OPEN = re.compile(rb"[ \t\r\n]*\{")
_BEFORE = re.compile(rb"[ \t\r\n,]*")
_BLANKS = re.compile(r"[ \t\r\n]*")


class _Body(msgspec.Struct):
    """The fields we look at; msgspec skips the others. Duplicate keys: the last one wins, as in `json`."""

    messages: list[msgspec.Raw]
    model: str | None = None
    stream: msgspec.Raw = msgspec.Raw(b"false")
    tools: msgspec.Raw = msgspec.Raw(b"")
    functions: msgspec.Raw = msgspec.Raw(b"")
    response_format: msgspec.Raw = msgspec.Raw(b"")
    max_completion_tokens: msgspec.Raw = msgspec.Raw(b"")
    max_tokens: msgspec.Raw = msgspec.Raw(b"")


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_scan = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Envelope:
    """A chat request. `messages` are raw JSON objects; `head` holds the raw values of `HEAD_FIELDS` that are there."""

    body: bytes
    model: str | None
    stream: bool
    messages: tuple[bytes, ...]
    head: tuple[tuple[str, bytes], ...]
    output: tuple[str, int] | None  # which field asks for how many output tokens

    def __repr__(self) -> str:
        return f"Envelope({self.model}, {len(self.messages)} messages, {len(self.body)} bytes)"


def parse(body: bytes) -> Envelope | None:
    """A chat request, or None for anything else (no JSON object, no non-empty list of message objects)."""
    try:
        found = _decode_body(body)
        raw = {name: bytes(getattr(found, name)) for name in (*HEAD_FIELDS, *OUTPUT_FIELDS, "stream")}
        messages, model = tuple(map(bytes, found.messages)), found.model
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        slow = _parse_slowly(body)
        if slow is None:
            return None
        messages, model, raw = slow
    if not messages or not all(m[:1] == b"{" for m in messages):
        return None
    head = tuple((name, raw[name]) for name in HEAD_FIELDS if raw[name] and raw[name] != b"null")
    return Envelope(body, model, raw["stream"] == b"true", messages, head, _output(raw))


def _output(raw: Mapping[str, bytes]) -> tuple[str, int] | None:
    for name in OUTPUT_FIELDS:
        if raw[name].isdigit() and len(raw[name]) < 16:
            return name, int(raw[name])
    return None


def _parse_slowly(body: bytes) -> tuple[tuple[bytes, ...], str | None, dict[str, bytes]] | None:
    spans, readable = _read(body)
    if spans is None or "messages" not in spans:
        return None
    items = _items(body, readable, spans["messages"])
    if items is None:
        return None
    raw = {name: body[slice(*spans[name])] if name in spans else b"" for name in (*HEAD_FIELDS, *OUTPUT_FIELDS)}
    raw["stream"] = body[slice(*spans["stream"])] if "stream" in spans else b"false"
    try:
        model = value(body[slice(*spans["model"])]) if "model" in spans else None
    except ValueError:  # a number like 1e-Infinity
        return None
    return items, model if isinstance(model, str) else None, raw


def fields(raw: bytes) -> dict[str, Span] | None:
    """Where the value of each key of a JSON object lies in it; None if it is no object we can walk.

    Duplicate keys: the span of the last one, which is the one that parsers use.
    """
    return _read(raw)[0]


def _read(raw: bytes) -> tuple[dict[str, Span] | None, bytes]:
    """The spans of the values, and what msgspec can read in the place of `raw`."""
    try:
        readable, values = raw, _decode_fields(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        readable = _tamed(raw)
        try:
            values = _decode_fields(readable)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None, readable
    spans = _walk(raw, [len(item) for item in values.values()])
    if spans is None and len(raw) <= SLOW_MOST:
        spans = _fields_slowly(raw)
    return spans, readable


def _tamed(raw: bytes) -> bytes:
    """JSON of the same length, all values at the same places, without what `json` reads and msgspec does not: halves of
    surrogate pairs, and numbers that are none."""
    raw = raw.replace(b"\\ud", b"\\uf").replace(b"\\uD", b"\\uF")
    # Signed, so that none can become the end of a number before it.
    raw = raw.replace(b"NaN", b"-10").replace(b"-Infinity", b"-10000000")
    return raw.replace(b"Infinity", b"-1000000")


def _walk(raw: bytes, lengths: Sequence[int]) -> dict[str, Span] | None:
    """The spans of values of such lengths, one behind the other; None if that is not the whole: a key that comes twice
    was counted once."""
    spans: dict[str, Span] = {}
    opening = _OPEN.match(raw)
    position = opening.end() if opening else 0
    for length in lengths:
        found = _KEY.match(raw, position)
        if found is None:
            return None
        spans[value(found[1])] = (found.end(), found.end() + length)
        gap = _GAP.match(raw, found.end() + length)
        position = gap.end() if gap else found.end() + length
    return spans if _END.match(raw, position) else None


def _fields_slowly(raw: bytes) -> dict[str, Span] | None:
    try:
        text = raw.decode("utf-8")
        position = _skip(text, 0)
        if text[position : position + 1] != "{":
            return None
        at: dict[str, Span] = {}
        position = _skip(text, position + 1)
        while text[position] != "}":
            key, position = _scan(text, position)
            position = _skip(text, position)
            if not isinstance(key, str) or text[position] != ":":
                return None
            start = _skip(text, position + 1)
            _, end = _scan(text, start)
            at[key] = (start, end)
            position = _skip(text, end)
            if text[position] == ",":
                position = _skip(text, position + 1)
        if _skip(text, position + 1) != len(text):
            return None
    except (ValueError, IndexError, RecursionError):
        return None
    if text.isascii():
        return at
    return {key: (len(text[:a].encode()), len(text[:b].encode())) for key, (a, b) in at.items()}


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position


def _items(raw: bytes, readable: bytes, span: Span) -> tuple[bytes, ...] | None:
    """The elements of the list at `span`, as slices of `raw`."""
    try:
        lengths = [len(item) for item in _decode_list(readable[slice(*span)])]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    items: list[bytes] = []
    position = span[0] + 1
    for length in lengths:
        gap = _BEFORE.match(raw, position)
        start = gap.end() if gap else position
        position = start + length
        items.append(raw[start:position])
    return tuple(items)


def value(raw: bytes) -> Any:
    """The parsed JSON value; raises ValueError where neither parser can read it."""
    try:
        return _decode_any(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def depth(item: Any, bound: int = MAX_DEPTH) -> int:
    """How deeply a parsed value is nested, counting no further than `bound + 1`."""
    level = [item]
    deep = 0
    while level and deep <= bound:
        nested = [x for x in level if isinstance(x, (dict, list))]
        if not nested:
            return deep
        deep += 1
        level = [y for x in nested for y in (x.values() if isinstance(x, dict) else x)]
    return deep


def dumps(item: Any) -> bytes:
    """JSON bytes of our own making: UTF-8 where it can be, ASCII escapes where a lone surrogate stands."""
    try:
        return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(item, separators=(",", ":")).encode("ascii")


def splice(raw: bytes, spans: Mapping[str, Span], replacements: Mapping[str, bytes]) -> bytes:
    """`raw` with the values of some keys replaced; every other byte stays."""
    out: list[bytes] = []
    position = 0
    for key in sorted(replacements, key=lambda k: spans[k]):
        start, end = spans[key]
        out += (raw[position:start], replacements[key])
        position = end
    return b"".join((*out, raw[position:]))


def write(
    envelope: Envelope,
    *,
    messages: Sequence[bytes] | None = None,
    output: int | None = None,
    model: str | None = None,
) -> bytes:
    """The body with other messages, a smaller requested output, another model's name, or several of these."""
    spans = fields(envelope.body)
    if spans is None:  # cannot be: it was read by the same rules
        return envelope.body
    replacements: dict[str, bytes] = {}
    if messages is not None:
        replacements["messages"] = b"[" + b",".join(messages) + b"]"
    if output is not None and envelope.output is not None:
        replacements[envelope.output[0]] = str(output).encode()
    if model is not None and "model" in spans:
        replacements["model"] = dumps(model)
    return splice(envelope.body, spans, replacements)
