"""LiteLLM's SDK: `completion` for the provider `openai`, streams put together by its `stream_chunk_builder`."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from tests.e2e.clients.drivers.pipe import Answer, Call, Opening, answer, serve

# By name, so that the type checker need not read a library and all that it imports.
_LITELLM: Any = import_module("litellm")
_LITELLM.suppress_debug_info = True


class Chat:
    def __init__(self, opening: Opening, call: Call) -> None:
        self._call = call
        self._with: dict[str, Any] = {
            "model": f"openai/{opening.model}",
            "api_base": opening.base_url,
            "api_key": opening.api_key,
            "tools": opening.tools,
            "max_retries": 0,
        }
        self._messages: list[Any] = [{"role": "system", "content": opening.system}]

    def say(self, text: str, stream: bool) -> list[Answer]:
        messages = [*self._messages, {"role": "user", "content": text}]
        seen: list[Answer] = []
        while not seen or seen[-1]["calls"]:
            completion, pieces = self._ask(messages, stream)
            choice = completion.choices[0]
            calls = choice.message.tool_calls or []
            messages.append(choice.message)  # the library's own object, as its documentation does
            for c in calls:
                result = self._call(c.function.name, c.function.arguments)
                messages.append({"role": "tool", "tool_call_id": c.id, "content": result})
            made = [(c.function.name, json.loads(c.function.arguments)) for c in calls]
            output = completion.usage.completion_tokens
            seen.append(answer(choice.message.content, choice.finish_reason, made, output, pieces))
        self._messages = messages
        return seen

    def _ask(self, messages: list[Any], stream: bool) -> tuple[Any, int]:
        if not stream:
            return _LITELLM.completion(messages=messages, **self._with), 0
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(_LITELLM.completion(messages=messages, **options, **self._with))
        return _LITELLM.stream_chunk_builder(chunks, messages=messages), len(chunks)


if __name__ == "__main__":
    serve(Chat)
