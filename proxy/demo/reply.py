"""What a model says, before it is put on the wire."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Fault = Literal["", "status", "html", "hang", "stall"]
_WORDS_A_CHUNK = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """Text, calls, and how it ends. `fault` says that the server fails instead: a 500, an HTML page, silence before
    the first byte (`hang`) or after the first words (`stall`)."""

    text: str | None
    calls: tuple[dict[str, Any], ...] = ()
    finish: str = "stop"
    reasoning: str | None = None
    fault: Fault = ""

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = list(self.calls)
        return message

    def deltas(self) -> Iterator[dict[str, Any]]:
        """The same as the deltas of a stream: role, words, calls piece by piece."""
        yield {"role": "assistant", "content": ""}
        if self.reasoning is not None:
            yield {"reasoning_content": self.reasoning}
        for piece in _pieces(self.text or ""):
            yield {"content": piece}
        for index, call in enumerate(self.calls):
            function = call["function"]
            opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            yield {"tool_calls": [opening]}
            for piece in _pieces(function["arguments"]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def tool_call(name: str, arguments: dict[str, Any], identity: str) -> dict[str, Any]:
    return {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }


def number_of(text: str) -> int:
    """A number that depends on the text alone; any text, lone surrogates included."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _pieces(text: str) -> Iterator[str]:
    found = text.split(" ")
    for start in range(0, len(found), _WORDS_A_CHUNK):
        piece = " ".join(found[start : start + _WORDS_A_CHUNK])
        yield piece if start + _WORDS_A_CHUNK >= len(found) else piece + " "
