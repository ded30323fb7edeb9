"""What a server refuses besides length: the shape of the request, in OpenAI's own words.

`check` is the whole of it. Tool results are paired by position, as every server does: an assistant message with
`tool_calls` is followed by exactly the messages that answer them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
# Limits of OpenAI's API reference (chat completions) and of its errors `string_above_max_length` and
# `array_above_max_length`.
MAX_ID = 40
MAX_CALLS = 128
MAX_TOOLS = 128
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS = ("text", "image_url", "input_audio", "file", "refusal")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request: `name` for assertions, the rest as OpenAI's error object states it."""

    name: str
    message: str
    param: str | None = None
    code: str | None = None


def check(data: Any, *, alternation: bool = False) -> Refusal | None:
    """The first rule a parsed request body breaks, or None. `alternation` adds the strict templates' two rules."""
    if not isinstance(data, Mapping):
        return Refusal("not an object", "We could not parse the JSON body of your request.")
    if not isinstance(data.get("model"), str):
        return Refusal("model", "you must provide a model parameter")
    messages = data.get("messages")
    return (
        _check_list(messages)
        or _first(_check_message(i, m) for i, m in enumerate(messages or ()))
        or _check_pairs(messages or ())
        or _check_tools(data.get("tools"))
        or _check_output(data)
        or (_check_alternation(messages or ()) if alternation else None)
    )


def _first(found: Any) -> Refusal | None:
    return next((refusal for refusal in found if refusal), None)


def _check_list(messages: Any) -> Refusal | None:
    if messages is None:
        text = "Missing required parameter: 'messages'."
        return Refusal("messages missing", text, "messages", "missing_required_parameter")
    if not isinstance(messages, list):
        text = "Invalid type for 'messages': expected an array of objects."
        return Refusal("messages type", text, "messages", "invalid_type")
    if not messages:
        return _empty("messages")
    return None


def _empty(param: str) -> Refusal:
    text = f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return Refusal("empty list", text, param, "empty_array")


def _too_long(param: str, limit: int, size: int) -> Refusal:
    text = (
        f"Invalid '{param}': array too long. Expected an array with maximum length {limit}, "
        f"but got an array with length {size} instead."
    )
    return Refusal("long list", text, param, "array_above_max_length")


def _check_message(index: int, message: Any) -> Refusal | None:
    at = f"messages[{index}]"
    if not isinstance(message, Mapping):
        return Refusal("message type", f"Invalid type for '{at}': expected an object.", at, "invalid_type")
    role = message.get("role")
    if role not in ROLES:
        known = ", ".join(f"'{r}'" for r in ROLES[:-1])
        text = f"Invalid value: '{role}'. Supported values are: {known}, and '{ROLES[-1]}'."
        return Refusal("role", text, f"{at}.role", "invalid_value")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        text = f"Missing required parameter: '{at}.tool_call_id'."
        return Refusal("tool id missing", text, f"{at}.tool_call_id", "missing_required_parameter")
    if role == "assistant" and "tool_calls" in message and (refusal := _check_calls(at, message["tool_calls"])):
        return refusal
    return _check_content(index, message)


def _check_content(index: int, message: Mapping[str, Any]) -> Refusal | None:
    content, role = message.get("content"), message["role"]
    spoken = any(message.get(name) for name in ("tool_calls", "function_call", "refusal"))
    if content is None:
        if role == "assistant" and spoken:
            return None
        text = "Invalid value for 'content': expected a string, got null."
        return Refusal("content null", text, f"messages.[{index}].content")
    if isinstance(content, str):
        return None
    at = f"messages[{index}].content"
    if not isinstance(content, list):
        text = f"Invalid type for '{at}': expected one of a string or array of objects."
        return Refusal("content type", text, at, "invalid_type")
    return _first(_check_part(at, n, part, role) for n, part in enumerate(content)) if content else _empty(at)


def _check_part(at: str, number: int, part: Any, role: str) -> Refusal | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in _PARTS or (kind == "text" and not isinstance(part.get("text"), str)):
        text = (
            f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal' and 'file'."
        )
        return Refusal("part", text, f"{at}[{number}].type", "invalid_value")
    if kind == "image_url" and role != "user":
        where = at.removesuffix(".content")
        text = (
            f"Invalid '{where}'. Image URLs are only allowed for messages with role 'user', "
            f"but this message with role '{role}' contains an image URL."
        )
        return Refusal("image role", text, where, "invalid_value")
    return None


def _check_calls(at: str, calls: Any) -> Refusal | None:
    at = f"{at}.tool_calls"
    if calls is None:
        return None
    if not isinstance(calls, list):
        return Refusal("calls type", f"Invalid type for '{at}': expected an array of objects.", at, "invalid_type")
    if not calls:
        return _empty(at)
    if len(calls) > MAX_CALLS:
        return _too_long(at, MAX_CALLS, len(calls))
    return _first(_check_call(f"{at}[{n}]", call) for n, call in enumerate(calls))


def _check_call(at: str, call: Any) -> Refusal | None:
    function = call.get("function") if isinstance(call, Mapping) else None
    identity = call.get("id") if isinstance(call, Mapping) else None
    if not isinstance(identity, str) or not isinstance(function, Mapping):
        return Refusal("call", f"Missing required parameter: '{at}.id'.", f"{at}.id", "missing_required_parameter")
    if len(identity) > MAX_ID:
        text = (
            f"Invalid '{at}.id': string too long. Expected a string with maximum length {MAX_ID}, "
            f"but got a string with length {len(identity)} instead."
        )
        return Refusal("call id", text, f"{at}.id", "string_above_max_length")
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        text = f"Invalid '{at}.function.name': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$'."
        return Refusal("call name", text, f"{at}.function.name", "invalid_value")
    try:
        json.loads(arguments or "")
    except (TypeError, ValueError):
        text = f"Failed to parse tool call arguments for tool '{name}': not valid JSON."
        return Refusal("arguments", text, f"{at}.function.arguments")
    return None


def _check_pairs(messages: Sequence[Mapping[str, Any]]) -> Refusal | None:
    """One walk; `open_ids` counts what the assistant message before the present tool block still waits for."""
    open_ids: Counter[str] = Counter()
    asked = False
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            identity = message["tool_call_id"]
            if not asked:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
                return Refusal("orphan tool", text, f"messages.[{index}].role")
            if not open_ids[identity]:
                text = (
                    f"Invalid parameter: 'tool_call_id' of '{identity}' not found in 'tool_calls' of previous message."
                )
                return Refusal("unknown tool id", text, f"messages.[{index}].tool_call_id")
            open_ids[identity] -= 1
            continue
        if refusal := _unanswered(open_ids, index):
            return refusal
        calls = message.get("tool_calls") if message["role"] == "assistant" else None
        asked = bool(calls)
        open_ids = Counter(call["id"] for call in calls or ())
    return _unanswered(open_ids, len(messages))


def _unanswered(open_ids: Counter[str], index: int) -> Refusal | None:
    missing = ", ".join(open_ids.elements())
    if not missing:
        return None
    text = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {missing}"
    )
    return Refusal("unanswered call", text, f"messages.[{index}].role")


def _check_tools(tools: Any) -> Refusal | None:
    if tools is None:
        return None
    if not isinstance(tools, list):
        return Refusal("tools type", "Invalid type for 'tools': expected an array of objects.", "tools", "invalid_type")
    if not tools:
        return _empty("tools")
    if len(tools) > MAX_TOOLS:
        return _too_long("tools", MAX_TOOLS, len(tools))
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            at = f"tools[{index}].function.name"
            return Refusal("tool", f"Missing required parameter: '{at}'.", at, "missing_required_parameter")
    return None


def _check_output(data: Mapping[str, Any]) -> Refusal | None:
    for name in ("max_tokens", "max_completion_tokens"):
        value = data.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            text = f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {value} instead."
            return Refusal("output", text, name, "integer_below_min_value")
    return None


def _check_alternation(messages: Sequence[Mapping[str, Any]]) -> Refusal | None:
    """Mistral's chat template: assistant messages with calls and tool results do not count, the rest must alternate."""
    if any(m["role"] in ("system", "developer") for m in messages[1:]):
        return Refusal("system place", "System message must be at the beginning.")
    talk = [m["role"] for m in messages if m["role"] in ("user", "assistant") and not m.get("tool_calls")]
    if any((role == "user") != (place % 2 == 0) for place, role in enumerate(talk)):
        text = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
        return Refusal("alternation", text)
    return None
