"""Text that is hard on patterns costs no more than its length: a megabyte of it, and two."""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from proxy.core import overflow, tokens
from proxy.core.identifiers import identifiers
from proxy.core.ledger import ledger
from proxy.core.pins import pins
from proxy.core.redact import redact
from proxy.core.rewrite import shorten

MOST = 3.0  # times the cost for twice the text; linear would be 2, and quadratic 4
NOISE = 0.004  # seconds of CPU below which nothing can be told
TRIES = 9

# fmt: off
RUNS = [
    "a", "A", "0", " ", "\n", "\t", "/", "\\", ".", "-", "_", "=", ":", "@", "#", "%", '"', "`", "(", "[", "{", "<", "é", "字", "🙂", "\u200b", "\r\n",
    "a ", "a/", "a.", "./", "../", "a-", "a_", "a:", "a@", "a=", "aA", "a1", "Aa1", "1.", "1,", "1-", "0x", "::", "//", "--", "%20", "{\"", "[[", "a\n", "A_",
    "http://", "https://a/", "C:\\", "a@b.", "a.b/", "/a/b.c ", "127.0.0.1", "12:34:", "1e9", "v1.", "AB-12", "deadbeef", "#12 ", "E_", "$A", "$ a ",
    "sk-", "Bearer ", "eyJ", "eyJa.", "AKIA", "ghp_", "password=", "api_key: ", "token=\"", "-----BEGIN ", "https://a:b@", "Authorization: ",
    "error: ", "Error ", "maximum ", "tokens ", "9 tokens ", "context length ", "limit 1 ", "exceeds ", "input is too long ", "{\"error\":", "\\\"", "'message': ", "上下文", "超过 1 ",
    "must not ", "never, ", "Do it. ", "a! ", "? ", "。", "- a\n", "1. a\n", "> ", "```\n", "| a ", "however ", "instead of ", "no, ",
]
# fmt: on


def _count(text: str) -> int:
    return len(text) // 4


def _message(role: str, text: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


MEGABYTES = ["a", " ", "a/", "/a/b.c ", "https://a:b@", 'token="', "9 tokens ", "🙂"]
"""Of each sort one of the costliest, but for sentences: those take seconds, and have no pattern of their own."""

WORK: dict[str, Callable[[str], object]] = {
    "ledger": lambda text: ledger(_message("user", text), 2_000, _count),
    "pins": lambda text: pins(_message("user", text), 2_000, _count),
    "redact": redact,
    "identifiers": lambda text: sum(1 for _ in identifiers(text, {})),
    "overflow": lambda text: overflow.from_answer(400, json.dumps({"error": {"message": text}}).encode()),
    "overflow, no JSON": lambda text: overflow.from_answer(400, text.encode()),
    "tokens": lambda text: tokens.message_tokens(_message("user", text)[0], _count),
    "shorten": lambda text: shorten(json.dumps({"role": "tool", "content": text}).encode(), 5_000),
}


def costs(work: Callable[[str], object], run: str, size: int, times: int, most: float) -> tuple[float, float]:
    """The least CPU time for `size` characters of `run` and for `times` as many; more tries where it looks bad."""
    short, long = (run * (size // len(run) + 1), run * (times * size // len(run) + 1))
    best = [float("inf"), float("inf")]
    for _ in range(TRIES):
        for i, text in enumerate((short[:size], long[: times * size])):
            begun = time.process_time()
            work(text)
            best[i] = min(best[i], time.process_time() - begun)
        if best[1] <= most * max(best[0], NOISE):
            break
    return best[0], best[1]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection, whose cost is that of everything else in the process (as `timeit` does it)."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def growing(
    work: Callable[[str], object], runs: Iterable[str], size: int, doublings: int = 1
) -> list[tuple[str, float, float]]:
    """The runs for which twice the text costs more than three times as much, so many times over."""
    times, most = 2**doublings, MOST**doublings
    with uncollected():
        measured = [(run, *costs(work, run, size, times, most)) for run in runs]
    return [(run, short, long) for run, short, long in measured if long > most * max(short, NOISE)]


@pytest.mark.parametrize("name", WORK)
def test_cost_grows_with_the_length_alone(name: str) -> None:
    """Every kind of run, on some kilobytes."""
    assert growing(WORK[name], RUNS, 8_000, doublings=2) == []


@pytest.mark.parametrize("name", WORK)
def test_two_megabytes_cost_no_more_than_thrice_of_one(name: str) -> None:
    """The costliest kinds, where what is hidden at kilobytes shows."""
    assert growing(WORK[name], MEGABYTES, 1_000_000) == []


def test_the_measure_finds_what_it_looks_for() -> None:
    """A pattern that begins anew at every place, and divides what it finds in every way, is found out."""
    assert growing(re.compile("a*a*b").findall, ["a"], 400)
