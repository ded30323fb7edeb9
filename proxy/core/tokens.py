"""How many tokens a chat message, or what stands before the messages, will cost: an estimate, of any input at all.

Text is counted by the encode callable that is passed in; everything a count of text cannot know (templates, images,
sound, files) has a figure of its own below. What the upstream states in `usage` overrules all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Count = Callable[[str], int]
"""Tokens of a text: never raises, takes any `str` (lone surrogates included)."""

# -- Templates. Figures are counts of the literal template text with o200k.

MESSAGE = 5
"""Around every message: ChatML's two markers, role and newlines. OpenAI's cookbook has 3 and the role: 4."""

NAME = 1
"""A `name` costs its text and this (OpenAI cookbook, "How to count tokens with tiktoken")."""

CALL = 12
"""Around one tool call's name and arguments: Hermes/Qwen 17; OpenAI about 8 (a call and its result of 12 tokens of text
were billed 25: community.openai.com/t/538914)."""

RESULT = 4
"""Around a tool's result, beyond MESSAGE: Hermes/Qwen 9, OpenAI 0."""

TOOLS = 48
"""Once, if there are tools: the preamble is 86 in Hermes/Qwen; OpenAI's is about 12, and it renders each schema shorter
than its JSON."""

REPLY = 3
"""The opening of the answer, once a request (OpenAI cookbook)."""

# -- Media. Vendors' documents; what cannot be known from outside (pixels, seconds, pages) is guessed within bounds.

IMAGE_LOW = 85
"""`detail: low` (OpenAI, images and vision)."""

IMAGE_SMALL = 255
"""One tile of 512 pixels: 85 + 170 (OpenAI). Such an image has a payload of up to SMALL characters."""

SMALL = 8_192
"""Characters of base64: 6 kB, an icon or a thumbnail."""

IMAGE = 1_600
"""Any other: Claude 3 and 4 scale down to this; OpenAI's own examples go to 1,105 (tiles) and 1,536 (patches)."""

AUDIO = (2_000, 50, 20_000)
"""Characters of base64 a token, least, most. OpenAI bills 10 tokens a second, Gemini 32; a second of 24 kHz PCM is
64,000 characters, of 64 kbit MP3 10,700."""

FILE = (64, 1_500, 48_000)
"""The same for documents: a page of PDF costs 560 (Gemini) to 2,400 tokens (Claude) and has some 100 kB."""

TEXT_FILE = (5, 16, 200_000)
"""The same for `data:text/...`: four characters a token, of which base64 makes 5.3."""

VIDEO = 8_000
"""Half a minute at Gemini's 263 tokens a second."""

# -- Text that looks like base64: about a token a character in many vocabularies. A 1 MB data URL inside a tool's result
#    was billed 1,030 k tokens (code-yeongyu/senpi#233).

_RUN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{512,}={0,2}")
_SAMPLE = 512

_DEPTH = 64  # of JSON: what lies deeper is not counted

_THOUGHT = ("reasoning", "reasoning_content", "reasoning_text", "reasoning_details", "thinking", "thinking_blocks")
_SPOKEN = ("refusal",)
_HEAD = ("tools", "functions")


def message_tokens(message: Mapping[str, Any], count: Count) -> int:
    """Tokens of one parsed chat message, its template included. Any JSON is a message: never raises.

    Reasoning fields are copies of one another where a client keeps several: the largest counts. Fields that no template
    renders (ids, annotations, signatures of calls, cache marks) cost nothing.
    """
    total = MESSAGE + _content(message.get("content"), count)
    total += sum(_content(message.get(field), count) for field in _SPOKEN)
    total += max(_thought(message.get(field), count) for field in _THOUGHT)
    if name := message.get("name"):
        total += NAME + _content(name, count)
    if message.get("role") in ("tool", "function"):
        total += RESULT
    calls = message.get("tool_calls")
    total += sum(_call(call, count) for call in (calls if isinstance(calls, list) else [calls]) if call)
    if legacy := message.get("function_call"):
        total += _call({"function": legacy}, count)
    if message.get("audio"):  # an earlier spoken answer, by its id
        total += _clamp(0, AUDIO)
    return total


def head_tokens(fields: Mapping[str, Any], count: Count) -> int:
    """Tokens of a request's other fields: the schemas of tools, functions and the answer, and the answer's opening.

    `fields` is the parsed body, messages or not. Schemas count as their JSON, as most templates have it.
    """
    total = REPLY
    for field in _HEAD:
        schemas = fields.get(field)
        if isinstance(schemas, list) and schemas:
            total += TOOLS + sum(_json(schema, count) for schema in schemas)
    answer = fields.get("response_format")
    if isinstance(answer, Mapping) and "json_schema" in answer:
        total += _json(answer["json_schema"], count)
    return total


def text_tokens(text: str, count: Count) -> int:
    """Tokens of a text, long base64 inside it at one a character."""
    if len(text) < _SAMPLE:
        return count(text)
    total = start = 0
    for run in _RUN.finditer(text):
        if _is_base64(run.group()):
            total += count(text[start : run.start()]) + run.end() - run.start()
            start = run.end()
    return total + count(text[start:])


def media(message: Mapping[str, Any]) -> int:
    """How many images a message carries as base64, the results of tools included."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    images = (part for part in parts if isinstance(part, Mapping) and _is_image(part))
    return sum(_payload(image) is not None for image in images)


def _is_base64(run: str) -> bool:
    """Whether a run of base64's alphabet is base64: not one word repeated, not hex, not camelCase."""
    sample = run[:: max(1, len(run) // _SAMPLE)]
    shares = (sum(map(str.isupper, sample)), sum(map(str.islower, sample)), sum(map(str.isdigit, sample)))
    # Of random base64 41 %, 41 % and 16 %; encoded text and pictures stay well above these.
    return all(share * least >= len(sample) for share, least in zip(shares, (8, 8, 32), strict=True))


def _content(value: Any, count: Count) -> int:
    """Text, a list of parts, one part without its list, null, or anything else."""
    if value is None:
        return 0
    if isinstance(value, str):
        return text_tokens(value, count)
    if isinstance(value, list):
        return sum(_part(part, count) for part in value)
    return _part(value, count)


def _part(part: Any, count: Count) -> int:
    if isinstance(part, str):
        return text_tokens(part, count)
    if not isinstance(part, Mapping):
        return _json(part, count)
    kind = part.get("type")
    text = part.get("text")
    if kind in ("text", "input_text", "output_text") and isinstance(text, str):
        return text_tokens(text, count)
    if _is_image(part):
        return _image(part)
    if kind in ("input_audio", "audio", "audio_url"):
        return _clamp(len(_payload(part) or ""), AUDIO)
    if kind in ("video", "video_url", "input_video"):
        return VIDEO
    if kind in ("file", "input_file", "document"):
        return _file(part, count)
    return _json({key: value for key, value in part.items() if key not in ("type", "cache_control")}, count)


def _is_image(part: Mapping[str, Any]) -> bool:
    return part.get("type") in ("image_url", "image", "input_image")


def _image(part: Mapping[str, Any]) -> int:
    """By `detail` and size class; the payload itself is never tokenised."""
    inner = part.get("image_url")
    details = (part.get("detail"), inner.get("detail") if isinstance(inner, Mapping) else None)
    if "low" in details:
        return IMAGE_LOW
    payload = _payload(part)
    return IMAGE_SMALL if payload is not None and len(payload) <= SMALL else IMAGE


def _file(part: Mapping[str, Any], count: Count) -> int:
    payload = _payload(part)
    if payload is None and isinstance(part.get("source"), Mapping):  # Anthropic's documents made of text
        return max(FILE[1], _json(part["source"], count))
    is_text = payload is not None and payload.startswith("data:text/")
    return _clamp(len(payload or ""), TEXT_FILE if is_text else FILE)


def _payload(part: Mapping[str, Any]) -> str | None:
    """The longest inline encoding of a media part, at whatever place its API has it; None: it is but referred to."""
    inner = [part, *(value for value in part.values() if isinstance(value, Mapping))]
    found = [
        value
        for place in inner
        for key, value in place.items()
        if isinstance(value, str)
        and (key in ("data", "file_data", "image_data", "b64_json") or _is_data_url(value))
        and not (key == "data" and place.get("type") == "text")
    ]
    return max(found, key=len, default=None)


def _is_data_url(text: str) -> bool:
    return text[:5].lower() == "data:" and ";base64," in text[:200].lower()


def _clamp(characters: int, figures: tuple[int, int, int]) -> int:
    per_token, least, most = figures
    return min(max(characters // per_token, least), most)


def _call(call: Any, count: Count) -> int:
    """A tool call: name and arguments, or the input of a custom tool; its id and extra fields are not rendered."""
    if not isinstance(call, Mapping):
        return CALL + _json(call, count)
    inner = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), Mapping)), None)
    if inner is None:
        return CALL + _json(call, count)
    return CALL + sum(_content(inner.get(key), count) for key in ("name", "arguments", "input"))


def _thought(value: Any, count: Count, depth: int = _DEPTH) -> int:
    """Reasoning as text or blocks. An encrypted block stands for as many tokens as it has characters over four."""
    if isinstance(value, Mapping):
        value = [inner for key, inner in value.items() if key not in ("type", "id", "format")]
    if isinstance(value, list):
        return sum(_thought(inner, count, depth - 1) for inner in value) if depth else 0
    if not isinstance(value, str):
        return 0
    return len(value) // 4 if _RUN.fullmatch(value) else count(value)


def _json(value: Any, count: Count) -> int:
    """Tokens of a value's JSON; an inline encoding inside it costs what an image does."""
    blobs: list[str] = []
    text = json.dumps(_lean(value, blobs, _DEPTH), ensure_ascii=False)
    return text_tokens(text, count) + IMAGE * len(blobs)


def _lean(value: Any, blobs: list[str], depth: int) -> Any:
    """The value without inline encodings (they go to `blobs`), and without what `json` cannot write."""
    if isinstance(value, str):
        if _is_data_url(value) or (len(value) >= _SAMPLE and _RUN.fullmatch(value) and _is_base64(value)):
            blobs.append(value)
            return ""
        return value
    if isinstance(value, (list, Mapping)) and depth == 0:
        return None
    if isinstance(value, list):
        return [_lean(item, blobs, depth - 1) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _lean(item, blobs, depth - 1) for key, item in value.items()}
    if isinstance(value, int) and value.bit_length() > 1024:  # Python does not print the longest ones
        return "0" * (value.bit_length() * 3 // 10)
    return value if isinstance(value, (int, float)) or value is None else str(value)
