"""What a program does with the `openai` SDK, as plain data, and everything it sees of the outcome, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import openai
from openai import AsyncOpenAI, OpenAI

Way = Literal["create", "stream", "helper", "raw", "raw stream", "streamed response", "models", "embeddings"]

OURS = ("via", "x-compaction")  # beginnings of the header fields that the proxy adds
FRAMING = ("content-length", "transfer-encoding", "connection", "date", "server", "keep-alive")


@dataclass(frozen=True)
class Step:
    """One thing to do. `options` are the client's (`timeout`, `max_retries`), `arguments` those of the call."""

    way: Way
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


def perform(client: OpenAI, step: Step) -> Any:
    """Do it, and return what came of it; an exception is an outcome too."""
    client = client.with_options(**step.options)
    completions, arguments = client.chat.completions, dict(step.arguments)
    try:
        match step.way:
            case "create":
                return completions.create(**arguments).model_dump()
            case "stream":
                with completions.create(stream=True, **arguments) as stream:
                    return [chunk.model_dump() for chunk in stream]
            case "helper":
                with completions.stream(**arguments) as events:
                    seen = [event.type for event in events]
                    return seen, events.get_final_completion().model_dump()
            case "raw":
                raw = completions.with_raw_response.create(**arguments)
                return raw.status_code, raw.request_id, _fields(raw.headers), raw.content, raw.parse().model_dump()
            case "raw stream":
                raw = completions.with_raw_response.create(stream=True, **arguments)
                return raw.status_code, _fields(raw.headers), [chunk.model_dump() for chunk in raw.parse()]
            case "streamed response":
                with completions.with_streaming_response.create(stream=True, **arguments) as response:
                    return response.status_code, _fields(response.headers), list(response.iter_lines())
            case "models":
                return [model.model_dump() for model in client.models.list()]
            case "embeddings":
                return client.embeddings.create(model="e", input="x").model_dump()
    except openai.OpenAIError as error:
        return failure(error)


async def perform_async(client: AsyncOpenAI, step: Step) -> Any:
    """The same with the asynchronous client."""
    client = client.with_options(**step.options)
    completions, arguments = client.chat.completions, dict(step.arguments)
    try:
        match step.way:
            case "create":
                return (await completions.create(**arguments)).model_dump()
            case "stream":
                async with await completions.create(stream=True, **arguments) as stream:
                    return [chunk.model_dump() async for chunk in stream]
            case "helper":
                async with completions.stream(**arguments) as events:
                    seen = [event.type async for event in events]
                    return seen, (await events.get_final_completion()).model_dump()
            case "raw":
                raw = await completions.with_raw_response.create(**arguments)
                return raw.status_code, raw.request_id, _fields(raw.headers), raw.content, raw.parse().model_dump()
            case "raw stream":
                raw = await completions.with_raw_response.create(stream=True, **arguments)
                return raw.status_code, _fields(raw.headers), [chunk.model_dump() async for chunk in raw.parse()]
            case "streamed response":
                async with completions.with_streaming_response.create(stream=True, **arguments) as response:
                    return (
                        response.status_code,
                        _fields(response.headers),
                        [line async for line in response.iter_lines()],
                    )
            case "models":
                return [model.model_dump() async for model in client.models.list()]
            case "embeddings":
                return (await client.embeddings.create(model="e", input="x")).model_dump()
    except openai.OpenAIError as error:
        return failure(error)


def failure(error: openai.OpenAIError) -> dict[str, Any]:
    """All that a program can tell by: the class, and what hangs on it."""
    seen: dict[str, Any] = {"class": type(error).__name__, "text": str(error)}
    for name in ("status_code", "request_id", "code", "param", "type", "body"):
        seen[name] = getattr(error, name, None)
    if isinstance(error, openai.APIStatusError):
        seen["headers"] = _fields(error.response.headers)
    return seen


def _fields(headers: Any) -> list[tuple[str, str]]:
    """The header fields that are the upstream's, in order of name."""
    return sorted((name, value) for name, value in headers.items() if not name.startswith(OURS) and name not in FRAMING)
