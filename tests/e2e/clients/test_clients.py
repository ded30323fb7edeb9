"""Real client libraries talk on past the end of the window, and see what they would see if there were none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from tests.e2e.clients.programs import CLIENTS, Absent, Client, Driver, driver
from tests.e2e.clients.scene import ENDLESS, HOPELESS, SCRIPT, WINDOW, Figures, Played, opening, play
from tests.stage import stage

KNOWN = {"models": {"*": {"window": WINDOW}}}
UPSTREAMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "window known": ({}, KNOWN),
    "window unknown": ({}, {}),
    "overflow in the stream": ({"overflow_in_stream": True}, {}),
}
ERRORS = {  # the class that the client raises for an overflow
    "openai": "BadRequestError",
    "openai for Node": "BadRequestError",
    "langchain_openai": "OpenAIContextOverflowError",
    "pydantic_ai": "ModelHTTPError",
    "litellm": "ContextWindowExceededError",
}


@pytest.fixture(scope="module", params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture(scope="module")
def program(client: Client) -> Iterator[Driver]:
    try:
        with driver(client) as running:
            yield running
    except Absent as absent:
        pytest.skip(str(absent))


@pytest.fixture(scope="module")
def endless(program: Driver) -> Played:
    """What the client sees without the proxy of an upstream whose window does not end."""
    fake = FakeUpstream(ENDLESS)
    with serve_in_thread(fake) as address:
        played = play(program, f"{address}/v1")
    assert fake.chats[-1].prompt_tokens > 2 * WINDOW
    return played


def test_without_the_proxy_it_ends(client: Client, program: Driver) -> None:
    """The window is real: without the proxy the client raises its error for an overflow in the midst of the talk."""
    with serve_in_thread(FakeUpstream(WINDOW)) as address:
        played = play(program, f"{address}/v1", until_error=True)
    assert [(error["class"], error["status"]) for error in played.errors] == [(ERRORS[client.name], 400)]


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_talks_on(upstream: str, program: Driver, endless: Played) -> None:
    """Every text, call, finish reason, output count and number of streamed pieces is that of an endless window."""
    behaviour, settings = UPSTREAMS[upstream]
    fake = FakeUpstream(WINDOW, **behaviour)
    with stage(fake, **settings) as s:
        played = play(program, s.url)
    assert played.errors == []
    assert played.forgotten == []
    assert played.told == endless.told
    assert played.calls > SCRIPT.turns // SCRIPT.tools_every
    figures = Figures.of(fake)
    assert figures.invalid == 0
    assert figures.compactions > 0
    assert figures.overflows == (0 if settings else 1)  # an unknown window is learned from its first overflow


@pytest.mark.parametrize("streaming", [False, True], ids=["unary", "stream"])
def test_what_cannot_be_helped(streaming: bool, client: Client, program: Driver) -> None:
    """A message that no window holds is the same error as without the proxy."""
    saw = []
    with stage(FakeUpstream(WINDOW), **KNOWN) as s:
        for url in (s.direct, s.url):
            program.begin(opening(url))
            saw.append(program.say(HOPELESS, streaming, SCRIPT.result))
    assert saw[1] == saw[0]
    assert saw[0]["error"]["class"] == ERRORS[client.name]
