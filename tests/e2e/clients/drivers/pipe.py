"""What a driver is told and what it says: one JSON object a line, on its standard input and output.

    {"begin": OPENING}                                     a new conversation; answered by {"ready": true}
    {"say": TEXT, "stream": BOOL}                          one turn; answered by any number of
        {"call": [NAME, ARGUMENTS]}                        each of which gets {"result": TEXT}, and then by one of
        {"seen": [ANSWER, ...]}                            the model's answers as the library shows them
        {"error": {"class", "status", "text"}}             what the library raised; the turn is taken back

An OPENING has the fields of `Opening`. An ANSWER is {"text", "finish", "calls", "output", "pieces"}: `calls` are pairs
of name and arguments (parsed), `output` is the usage's output tokens, `pieces` the number of pieces a streamed answer
came in (0: not streamed).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Answer = dict[str, Any]
Call = Callable[[str, str], str]
"""Runs a tool: its name and its arguments as JSON; returns the result's text."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Where to, and what every request of the conversation has: the system prompt, the tools as OpenAI declares them."""

    base_url: str
    model: str
    system: str
    tools: list[dict[str, Any]]
    api_key: str = "sk-test"


class Chat(Protocol):
    """A conversation, history included."""

    def say(self, text: str, stream: bool) -> list[Answer]:
        """One turn with all its tool rounds. Raises what the library raises, leaving the history as it was."""
        ...


def answer(text: str | None, finish: Any, calls: list[tuple[str, Any]], output: Any, pieces: int) -> Answer:
    return {"text": text or "", "finish": finish, "calls": calls, "output": output, "pieces": pieces}


def serve(begin: Callable[[Opening, Call], Chat]) -> None:
    """Drive conversations until the input ends."""
    # Some libraries print; what they print shall not be taken for an answer.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(value: Mapping[str, Any]) -> None:
        out.write(json.dumps(value) + "\n")
        out.flush()

    def call(name: str, arguments: str) -> str:
        tell({"call": [name, arguments]})
        return str(json.loads(sys.stdin.readline())["result"])

    chat: Chat | None = None
    while line := sys.stdin.readline():
        order = json.loads(line)
        if "begin" in order:
            chat = begin(Opening(**order["begin"]), call)
            tell({"ready": True})
        elif chat is not None:
            tell(_turn(chat, order["say"], order["stream"]))


def _turn(chat: Chat, text: str, stream: bool) -> dict[str, Any]:
    try:
        return {"seen": chat.say(text, stream)}
    except Exception as error:  # whatever it is, the test is told
        status = getattr(error, "status_code", None)
        return {"error": {"class": type(error).__name__, "status": status, "text": str(error)}}
