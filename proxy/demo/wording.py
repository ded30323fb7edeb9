"""How three kinds of server word a refusal: status, envelope and sentence, as they were seen on the wire.

openai: the API itself and Azure. vllm: its OpenAI server, which names the split when an output is asked for.
llamacpp: `llama-server` since 2025-10; a failing template is a 500 there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from proxy.demo.rules import Refusal
from proxy.demo.tokenizer import Size

Wording = Literal["openai", "vllm", "llamacpp"]
_TEMPLATE = ("alternation", "system place")  # refusals that come from the chat template, not from the API


@dataclass(frozen=True, slots=True)
class Worded:
    """A status and the JSON value of its body."""

    status: int
    body: Any


def overflow(wording: Wording, window: int, size: Size, output: int | None) -> Worded:
    """The answer to a prompt of `size` tokens. `output` is set where the server counts the requested output too."""
    return _OVERFLOW[wording](window, size, output)


def refusal(wording: Wording, why: Refusal) -> Worded:
    """The answer to a request that breaks a rule."""
    if wording == "vllm":
        return Worded(400, _vllm_error(why.message))
    if wording == "llamacpp" and why.name in _TEMPLATE:
        text = f"\n------------\nWhile executing CallExpression in source:\n...\nError: Jinja Exception: {why.message}"
        return Worded(500, {"error": {"code": 500, "message": text, "type": "server_error"}})
    if wording == "llamacpp":
        return Worded(400, {"error": {"code": 400, "message": why.message, "type": "invalid_request_error"}})
    return Worded(400, _openai_error(why.message, why.param, why.code))


def advertised(wording: Wording, name: str, window: int | None) -> dict[str, Any]:
    """One entry of `/v1/models`. `window` None: the server does not say (OpenAI never does; OpenRouter does)."""
    entry: dict[str, Any] = {"id": name, "object": "model", "created": 1700000000, "owned_by": "compaction-proxy"}
    if window is None:
        return entry
    stated: dict[Wording, dict[str, Any]] = {
        "openai": {"context_length": window},
        "vllm": {"max_model_len": window},
        "llamacpp": {"meta": {"n_ctx": window, "n_ctx_train": window}},
    }
    return entry | stated[wording]


def _openai_error(message: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _openai(window: int, size: Size, output: int | None) -> Worded:
    parts = [f"{size.messages} in the messages"]
    nouns = ["messages"]
    if size.functions:
        parts.append(f"{size.functions} in the functions")
        nouns.append("functions")
    if output is not None:
        parts.append(f"{output} in the completion")
        nouns.append("completion")
    total = size.total + (output or 0)
    split = f" ({_series(parts, 'and')})" if len(parts) > 1 else ""
    text = f"This model's maximum context length is {window} tokens. However, "
    text += f"you requested {total}" if output is not None else f"your messages resulted in {total}"
    text += f" tokens{split}. Please reduce the length of the {_series(nouns, 'or')}."
    return Worded(400, _openai_error(text, "messages", "context_length_exceeded"))


def _series(words: list[str], last: str) -> str:
    """`a`, `a or b`, `a, b, or c`; but OpenAI writes a pair in brackets with a comma: `(112 in …, 4000 in …)`."""
    if len(words) == 2 and last == "and":
        return ", ".join(words)
    if len(words) < 3:
        return f" {last} ".join(words)
    return f"{', '.join(words[:-1])}, {last} {words[-1]}"


def _vllm(window: int, size: Size, output: int | None) -> Worded:
    if output is None:
        asked = f"you requested {size.total} tokens in the messages, Please reduce the length of the messages."
    else:
        asked = (
            f"you requested {size.total + output} tokens ({size.total} in the messages, {output} in the completion). "
            "Please reduce the length of the messages or completion."
        )
    text = f"This model's maximum context length is {window} tokens. However, {asked}"
    return Worded(400, _vllm_error(text))


def _vllm_error(message: str) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def _llamacpp(window: int, size: Size, output: int | None) -> Worded:
    text = f"request ({size.total} tokens) exceeds the available context size ({window} tokens), try increasing it"
    error = {
        "code": 400,
        "message": text,
        "type": "exceed_context_size_error",
        "n_prompt_tokens": size.total,
        "n_ctx": window,
    }
    return Worded(400, {"error": error})


_OVERFLOW: dict[Wording, Callable[[int, Size, int | None], Worded]] = {
    "openai": _openai,
    "vllm": _vllm,
    "llamacpp": _llamacpp,
}
