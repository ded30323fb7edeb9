"""The `openai` package: `create`, and the helper `stream` for streamed turns."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

from tests.e2e.clients.drivers.pipe import Answer, Call, Opening, answer, serve


class Chat:
    def __init__(self, opening: Opening, call: Call) -> None:
        self._client = OpenAI(api_key=opening.api_key, base_url=opening.base_url, max_retries=0)
        self._call = call
        self._with: dict[str, Any] = {"model": opening.model, "tools": opening.tools}
        self._messages: list[Any] = [{"role": "system", "content": opening.system}]

    def say(self, text: str, stream: bool) -> list[Answer]:
        messages = [*self._messages, {"role": "user", "content": text}]
        seen: list[Answer] = []
        while not seen or seen[-1]["calls"]:
            completion, pieces = self._ask(messages, stream)
            choice = completion.choices[0]
            calls = choice.message.tool_calls or []
            messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
            for c in calls:
                result = self._call(c.function.name, c.function.arguments)
                messages.append({"role": "tool", "tool_call_id": c.id, "content": result})
            made = [(c.function.name, json.loads(c.function.arguments)) for c in calls]
            output = completion.usage.completion_tokens
            seen.append(answer(choice.message.content, choice.finish_reason, made, output, pieces))
        self._messages = messages
        return seen

    def _ask(self, messages: list[Any], stream: bool) -> tuple[Any, int]:
        completions = self._client.chat.completions
        if not stream:
            return completions.create(messages=messages, **self._with), 0
        with completions.stream(messages=messages, stream_options={"include_usage": True}, **self._with) as events:
            pieces = sum(event.type == "chunk" for event in events)
            return events.get_final_completion(), pieces


if __name__ == "__main__":
    serve(Chat)
