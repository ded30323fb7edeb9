"""Refusals as real servers word them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.rules import Refusal
from proxy.demo.tokenizer import Size
from proxy.demo.wording import Wording, advertised, overflow, refusal

LIMIT = "This model's maximum context length is 4096 tokens. However, "


@pytest.mark.parametrize(
    ("wording", "size", "output", "message"),
    [
        (
            "openai",
            Size(4339, 0),
            None,
            "your messages resulted in 4339 tokens. Please reduce the length of the messages.",
        ),
        (
            "openai",
            Size(112, 0),
            4000,
            "you requested 4112 tokens (112 in the messages, 4000 in the completion). "
            "Please reduce the length of the messages or completion.",
        ),
        (
            "openai",
            Size(6683, 730),
            800,
            "you requested 8213 tokens (6683 in the messages, 730 in the functions, and 800 in the completion). "
            "Please reduce the length of the messages, functions, or completion.",
        ),
        (
            "vllm",
            Size(7691, 0),
            512,
            "you requested 8203 tokens (7691 in the messages, 512 in the completion). "
            "Please reduce the length of the messages or completion.",
        ),
    ],
)
def test_sentences(wording: Wording, size: Size, output: int | None, message: str) -> None:
    """The sentence is the one seen on the wire, with the split where an output was asked for."""
    worded = overflow(wording, 4096, size, output)
    error = worded.body if wording == "vllm" else worded.body["error"]
    assert worded.status == 400
    assert error["message"] == LIMIT + message


def test_llamacpp_states_numbers() -> None:
    """llama.cpp adds both numbers as fields and has a type of its own."""
    error = overflow("llamacpp", 256, Size(300, 2), None).body["error"]
    assert error == {
        "code": 400,
        "message": "request (302 tokens) exceeds the available context size (256 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 302,
        "n_ctx": 256,
    }


@pytest.mark.parametrize(("wording", "status"), [("openai", 400), ("vllm", 400), ("llamacpp", 500)])
def test_a_failing_template(wording: Wording, status: int) -> None:
    """A template that fails is the client's error, but llama.cpp's server answers 500."""
    assert refusal(wording, Refusal("alternation", "must alternate")).status == status


@pytest.mark.parametrize(
    ("wording", "stated"),
    [
        ("openai", {"context_length": 99}),
        ("vllm", {"max_model_len": 99}),
        ("llamacpp", {"meta": {"n_ctx": 99, "n_ctx_train": 99}}),
    ],
)
def test_models(wording: Wording, stated: dict[str, Any]) -> None:
    """Each server states its window under its own name, or not at all."""
    silent = advertised(wording, "m", None)
    assert advertised(wording, "m", 99) == silent | stated
    assert not silent.keys() & stated.keys()
