"""`pydantic-ai`: an `Agent` that runs its tools itself, `run`, and `run_stream` for streamed turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from openai import AsyncOpenAI

from tests.e2e.clients.drivers.pipe import Answer, Call, Opening, answer, serve

# By name, so that the type checker need not read a library and all that it imports.
_AI: Any = import_module("pydantic_ai")
_MODELS: Any = import_module("pydantic_ai.models.openai")
_PROVIDERS: Any = import_module("pydantic_ai.providers.openai")


class Chat:
    def __init__(self, opening: Opening, call: Call, runner: asyncio.Runner) -> None:
        client = AsyncOpenAI(api_key=opening.api_key, base_url=opening.base_url, max_retries=0)
        provider = _PROVIDERS.OpenAIProvider(openai_client=client)
        tools = [_tool(definition["function"], call) for definition in opening.tools]
        model = _MODELS.OpenAIChatModel(opening.model, provider=provider)
        self._agent = _AI.Agent(model, instructions=opening.system, tools=tools)
        self._runner = runner
        self._history: list[Any] = []

    def say(self, text: str, stream: bool) -> list[Answer]:
        result, pieces = self._runner.run(self._run(text, stream))
        self._history = result.all_messages()
        answers = [_answer(message) for message in result.new_messages() if message.kind == "response"]
        answers[-1]["pieces"] = pieces  # those of the rounds before it are not shown
        return answers

    async def _run(self, text: str, stream: bool) -> tuple[Any, int]:
        if not stream:
            return await self._agent.run(text, message_history=self._history), 0
        async with self._agent.run_stream(text, message_history=self._history) as result:
            pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
            return result, len(pieces)


def _tool(function: dict[str, Any], call: Call) -> Any:
    async def run(**arguments: Any) -> str:
        return call(function["name"], json.dumps(arguments))  # blocks, so that parallel calls are asked one by one

    return _AI.Tool.from_schema(run, function["name"], function["description"], function["parameters"])


def _answer(message: Any) -> Answer:
    text = "".join(part.content for part in message.parts if part.part_kind == "text")
    calls = [(part.tool_name, part.args_as_dict()) for part in message.parts if part.part_kind == "tool-call"]
    return answer(text, message.finish_reason, calls, message.usage.output_tokens, 0)


def _begin(runner: asyncio.Runner) -> Callable[[Opening, Call], Chat]:
    return lambda opening, call: Chat(opening, call, runner)


if __name__ == "__main__":
    with asyncio.Runner() as one:
        serve(_begin(one))
