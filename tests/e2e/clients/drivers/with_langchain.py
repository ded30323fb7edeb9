"""`langchain-openai`: a `ChatOpenAI` with bound tools, `invoke`, and `stream` for streamed turns."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from tests.e2e.clients.drivers.pipe import Answer, Call, Opening, answer, serve

# By name, so that the type checker need not read a library and all that it imports.
_MESSAGES: Any = import_module("langchain_core.messages")
_OPENAI: Any = import_module("langchain_openai")


class Chat:
    def __init__(self, opening: Opening, call: Call) -> None:
        model = _OPENAI.ChatOpenAI(
            model=opening.model, base_url=opening.base_url, api_key=opening.api_key, max_retries=0, stream_usage=True
        )
        self._model = model.bind_tools(opening.tools)
        self._call = call
        self._messages: list[Any] = [_MESSAGES.SystemMessage(opening.system)]

    def say(self, text: str, stream: bool) -> list[Answer]:
        messages = [*self._messages, _MESSAGES.HumanMessage(text)]
        seen: list[Answer] = []
        while not seen or seen[-1]["calls"]:
            message, pieces = self._ask(messages, stream)
            messages.append(message)
            for c in message.tool_calls:
                result = self._call(c["name"], json.dumps(c["args"]))
                messages.append(_MESSAGES.ToolMessage(result, tool_call_id=c["id"]))
            made = [(c["name"], c["args"]) for c in message.tool_calls]
            finish, usage = message.response_metadata.get("finish_reason"), message.usage_metadata or {}
            seen.append(answer(message.text, finish, made, usage.get("output_tokens"), pieces))
        self._messages = messages
        return seen

    def _ask(self, messages: list[Any], stream: bool) -> tuple[Any, int]:
        if not stream:
            return self._model.invoke(messages), 0
        chunks = list(self._model.stream(messages))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return whole, len(chunks)


if __name__ == "__main__":
    serve(Chat)
