"""Real client libraries talk on past the end of the window, and see what they would see if there were none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from proxy.demo.record import OVERFLOW
from proxy.demo.script import Conversation
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from tests.e2e.clients.programs import CLIENTS, Absent, Client, Driver, driver
from tests.e2e.clients.scene import (
    ENDLESS,
    HOPELESS,
    KNOWN,
    SCRIPT,
    STREAMED,
    WINDOW,
    Figures,
    Played,
    expected,
    opening,
    play,
)
from tests.stage import stage


@dataclass(frozen=True)
class Case:
    """How the fake behaves, what the proxy is told, and what is played."""

    fake: dict[str, Any]
    settings: dict[str, Any]
    script: Conversation = SCRIPT


CASES = {
    "window known": Case({}, KNOWN),
    "window unknown": Case({}, {}),
    "overflow in the stream": Case({"overflow_in_stream": True}, {}, STREAMED),
}
OVERFLOW_TEXT = "maximum context length is 4000 tokens"  # what the fake says, and every client hands on


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: client.name)
def program(request: pytest.FixtureRequest) -> Iterator[Driver]:
    client: Client = request.param
    try:
        with driver(client) as running:
            yield running
    except Absent as absent:
        pytest.skip(str(absent))


Without = Callable[[Conversation, int], Played]


@pytest.fixture(scope="module")
def without(program: Driver) -> Without:
    """What the client sees without the proxy of an upstream with so large a window, as far as the first error."""

    @cache
    def played(script: Conversation, window: int) -> Played:
        fake = FakeUpstream(window)
        with serve_in_thread(fake) as address:
            seen = play(program, f"{address}/v1", script, until_error=True)
        assert fake.chats[-1].prompt_tokens > (2 * WINDOW if window == ENDLESS else WINDOW)
        return seen

    return played


def test_without_the_proxy_it_ends(without: Without) -> None:
    """The window is real: without the proxy the client raises an error for the overflow in the midst of the talk."""
    (error,) = without(SCRIPT, WINDOW).errors
    assert error["status"] == 400
    assert OVERFLOW_TEXT in error["text"]
    assert without(SCRIPT, ENDLESS).errors == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_talks_on(case: Case, program: Driver, without: Without) -> None:
    """Every text, call, finish reason, output count and number of streamed pieces is that of an endless window."""
    fake = FakeUpstream(WINDOW, **case.fake)
    with stage(fake, **case.settings) as s:
        played = play(program, s.url, case.script)
    bounded, endless = without(case.script, WINDOW), without(case.script, ENDLESS)
    assert played.errors == []
    assert played.forgotten == []
    assert played.told == expected(bounded, endless, known=bool(case.settings))
    assert played.calls > SCRIPT.turns // SCRIPT.tools_every
    figures = Figures.of(fake)
    assert figures.invalid == 0
    assert figures.compactions > 0
    # An unknown window is learned from its first overflow.
    overflows = [bool(record.data.get("stream")) for record in fake.chats if record.refused == OVERFLOW]
    assert overflows == ([] if case.settings else [case.script is STREAMED])


def test_what_cannot_be_helped(program: Driver) -> None:
    """A message that no window holds is the same error as without the proxy, streamed or not."""
    saw = []
    with stage(FakeUpstream(WINDOW), **KNOWN) as s:
        for url in (s.direct, s.url):
            program.begin(opening(url))
            saw.append([program.say(HOPELESS, streaming, SCRIPT.result) for streaming in (False, True)])
    assert saw[1] == saw[0]
    assert all(OVERFLOW_TEXT in one["error"]["text"] for one in saw[0])
