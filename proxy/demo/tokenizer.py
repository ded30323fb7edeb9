"""A tokeniser of the fake's own: word pieces by regular expression, no vocabulary.

It stands for the many servers whose tokeniser is not the one a proxy counts with. Its sizes are near o200k_base on
English, code, digits and CJK (within about a tenth on prose, a fifth on the rest); `ratio` makes it any multiple.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Every alternative is a single run, so matching is linear in the text. The group names say how a piece is counted.
_PIECE = re.compile(
    r"(?P<word>[^\r\na-zA-Z0-9]?[A-Z]?[a-z]+)"
    r"|(?P<capitals>[^\r\na-zA-Z0-9]?[A-Z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<cjk>[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+)"
    r"|(?P<letters>[^\W\d_a-zA-Z\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+)"
    r"|(?P<lines>[\r\n]+)"
    r"|(?P<blank>[^\S\r\n]+)"
    r"|(?P<emoji>[\U0001f000-\U0010ffff]+)"
    r"|(?P<marks>[^\w\s\uff00-\uffef\U0001f000-\U0010ffff]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)

# Characters a token holds, by kind: the mean of o200k_base on 40 conversations of coding agents and a few paragraphs
# of Chinese, Japanese and Russian.
_PER_TOKEN = {
    "word": 11.0,
    "capitals": 3.0,
    "digits": 3.0,
    "cjk": 1.5,
    "letters": 4.5,
    "lines": 8.0,
    "blank": 32.0,
    "emoji": 0.6,
    "marks": 2.6,
}

# The chat template (https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken): three tokens round every
# message and one for its role, three that open the answer. Tool declarations and calls add their own brackets.
MESSAGE_TOKENS = 4
ANSWER_TOKENS = 3
TOOL_TOKENS = 8
CALL_TOKENS = 6
# One 1024 x 1024 image at high detail in OpenAI's tile formula: 85 + 4 * 170.
IMAGE_TOKENS = 765
# Anything else that is not text (audio, files, part types yet to come): flat.
PART_TOKENS = 256

_CACHE_ENTRIES = 4096
_CACHED_FROM = 64  # characters; shorter texts are counted faster than looked up in a large cache


@dataclass(frozen=True, slots=True)
class Size:
    """Prompt tokens by origin, as OpenAI's error states them."""

    messages: int
    functions: int

    @property
    def total(self) -> int:
        return self.messages + self.functions


@dataclass(frozen=True)
class Tokenizer:
    """Counts text and whole prompts. `ratio` multiplies every text (1.6: what o200k undercounts Claude by)."""

    ratio: float = 1.0
    _known: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def count(self, text: str) -> int:
        """Tokens of a text; any `str` is fine, lone surrogates included."""
        if len(text) < _CACHED_FROM:
            return math.ceil(_pieces(text) * self.ratio)
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _CACHE_ENTRIES:
                self._known.clear()
            known = self._known[text] = math.ceil(_pieces(text) * self.ratio)
        return known

    def prompt(self, messages: Iterable[Any], tools: Iterable[Any] = ()) -> Size:
        """Tokens of a whole prompt: contents, tool calls, tool declarations and the template round each of them."""
        talk = sum(self._message(m) for m in messages if isinstance(m, Mapping))
        functions = sum(TOOL_TOKENS + self.count(json.dumps(t, ensure_ascii=False)) for t in tools)
        return Size(talk + ANSWER_TOKENS, functions)

    def cut(self, text: str, tokens: int) -> str:
        """The longest run of leading lines and words of `text` within `tokens`."""
        if tokens <= 0:
            return ""
        if self.count(text) <= tokens:
            return text
        used, end = 0.0, 0
        for match in _PIECE.finditer(text):
            used += _weight(match) * self.ratio
            if used > tokens:
                break
            end = match.end()
        return text[:end]

    def _message(self, message: Mapping[str, Any]) -> int:
        total = MESSAGE_TOKENS + self._content(message.get("content"))
        for name in ("name", "refusal", "reasoning_content"):
            if isinstance(value := message.get(name), str):
                total += self.count(value)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            total += CALL_TOKENS + self._function(call)
        if message.get("function_call"):
            total += CALL_TOKENS + self._function({"function": message["function_call"]})
        return total

    def _content(self, content: Any) -> int:
        if isinstance(content, str):
            return self.count(content)
        parts = content if isinstance(content, list) else ()
        return sum(self._part(part) for part in parts)

    def _part(self, part: Any) -> int:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(part, Mapping) and isinstance(text := part.get("text"), str):
            return self.count(text)
        return IMAGE_TOKENS if kind == "image_url" else PART_TOKENS

    def _function(self, call: Any) -> int:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            return 0
        values = (function.get("name"), function.get("arguments"))
        return sum(self.count(value) for value in values if isinstance(value, str))


def _weight(match: re.Match[str]) -> int:
    kind = match.lastgroup or "other"
    length = match.end() - match.start()
    if kind in ("word", "capitals") and not match.group()[0].isalpha():
        length -= 1  # the blank or mark before a word is part of its token
    return math.ceil(length / _PER_TOKEN.get(kind, 1.0))


def _pieces(text: str) -> int:
    return sum(map(_weight, _PIECE.finditer(text)))
