"""A real llama.cpp server behind the proxy: recorded conversations grow past its context, and nobody notices."""

from __future__ import annotations

import json
import sys
import urllib.request

import pytest

from proxy.core import overflow
from tests.e2e.llama import Llama, llama_server, missing
from tests.e2e.processes import compaction_proxy
from tests.e2e.replay import ask, replay, report
from tests.e2e.transcripts import Transcript, head, shortest

CONTEXT = 2048  # tokens; `test_llama_4096.py` has the same tests for a larger one
TURNS = 30
# A small model on two cores: short summaries, and few of them, so that this is over in minutes. When the allowance is
# used up, compactions are made without a model, so both kinds are put to the test.
FRUGAL = {"max_tokens": 64, "calls_per_hour": 2}


def test_context_errors_are_recognised(llama: Llama) -> None:
    """The server says no in words, numbers and a status that are recognised, to a stream's request too."""
    messages = [{"role": "user", "content": "The harbour is wide. " * 2000}]
    stated = llama.tokens(messages)
    for stream in (False, True):
        status, _, body = ask(llama.base_url, messages, stream)
        said = overflow.from_answer(status, body)
        assert said is not None
        assert (said.window, said.prompt) == (llama.context, stated)


@pytest.mark.parametrize(("slots", "shift"), [(1, True), (2, False), (2, True)])
def test_context_errors_of_other_servers_are_recognised(slots: int, shift: bool) -> None:
    """Several slots share the server's memory, and the window is one slot's; a context that shifts refuses no less."""
    if reason := missing():
        pytest.skip(reason)
    messages = [{"role": "user", "content": "The harbour is wide. " * 2000}]
    with llama_server(2048, slots, shift) as server:
        status, _, body = ask(server.base_url, messages, False)
        said = overflow.from_answer(status, body)
        assert said is not None
        assert (said.window, said.prompt) == (2048, server.tokens(messages))


def test_too_long_for_anything(llama: Llama) -> None:
    """One message that no context could hold: the client gets the server's own error, byte for byte."""
    messages = [{"role": "user", "content": "The harbour is wide. " * 2000}]
    with compaction_proxy(llama.base_url) as base_url:
        for stream in (False, True):
            assert ask(base_url, messages, stream)[::2] == ask(llama.base_url, messages, stream)[::2]


def test_streams_and_calls_in_turn(llama: Llama) -> None:
    """The server closes a connection after a stream without a word; the request that follows at once is answered."""
    with compaction_proxy(llama.base_url) as base_url:
        statuses = [ask(base_url, [{"role": "user", "content": "Hi."}], k % 2 == 0)[0] for k in range(20)]
    assert statuses == [200] * 20


def test_replayed(llama: Llama, transcripts: list[Transcript]) -> None:
    """Thirty turns each of recorded conversations: no context error where head and last user message fit."""
    chosen = shortest(transcripts, TURNS, 3)
    if len(chosen) < 3:
        pytest.skip(f"fewer than three sources with conversations of {TURNS} turns")
    with compaction_proxy(llama.base_url, summarizer=FRUGAL) as base_url:
        # Instructions of some length leave a context of 2,048 little to compact; the others need no more than that.
        for transcript in (each for each in chosen if bool(head(each.messages)) == (llama.context > 2048)):
            played = list(replay(base_url, llama, transcript, TURNS))
            sys.stdout.write(report(transcript, llama, played) + "\n")
            assert len(played) == TURNS
            assert sum(not llama.fits(turn.full) for turn in played) >= 3  # or nothing was put to the test
            for turn in played:
                assert turn.ok or not llama.fits(turn.needed), turn
                assert turn.status == 200 or turn.overflow, turn


def test_window_is_advertised(llama: Llama) -> None:
    """The proxy passes on what the server tells about its context, so that both know it."""
    with compaction_proxy(llama.base_url) as base_url, urllib.request.urlopen(f"{base_url}/models") as answer:
        assert json.load(answer)["data"][0]["meta"]["n_ctx"] == llama.context
