"""An overflow is recognised through the LiteLLM proxy, whose wrapping of errors and streams is its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from proxy.demo.script import Conversation
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Wording
from proxy.settings import Settings
from tests.e2e.clients.hop import KEY, hop
from tests.e2e.clients.programs import CLIENTS, Absent, Driver, driver
from tests.e2e.clients.scene import ENDLESS, KNOWN, SCRIPT, STREAMED, WINDOW, Figures, Played, expected, play
from tests.stage import proxy


@dataclass
class Hop:
    """The client, the LiteLLM proxy's address, and the fake behind it."""

    client: Driver
    url: str
    fake: FakeUpstream

    def play(self, url: str, script: Conversation, window: int = WINDOW, *, until_error: bool = False) -> Played:
        self.fake.window = window
        self.fake.requests.clear()
        return play(self.client, url, script, until_error=until_error, api_key=KEY)


@pytest.fixture(scope="module")
def via() -> Iterator[Hop]:
    fake = FakeUpstream()
    try:
        with serve_in_thread(fake) as address, hop(f"{address}/v1") as url, driver(CLIENTS[0]) as client:
            yield Hop(client, url, fake)
    except Absent as absent:
        pytest.skip(str(absent))


@dataclass(frozen=True)
class Case:
    """How the fake words an overflow and where, what the proxy is told, and what is played."""

    wording: Wording = "openai"
    in_stream: bool = False
    known: bool = False
    script: Conversation = SCRIPT


CASES = {
    "window known": Case(known=True),
    "openai": Case(),
    "vllm": Case("vllm"),
    "llamacpp": Case("llamacpp"),
    "overflow in the stream": Case(in_stream=True, script=STREAMED),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_talks_on_through_a_hop(case: Case, via: Hop) -> None:
    """What the client sees through both is what it sees through the LiteLLM proxy of an endless window."""
    via.fake.wording, via.fake.overflow_in_stream = case.wording, case.in_stream
    bounded = via.play(via.url, case.script, until_error=True)
    endless = via.play(via.url, case.script, ENDLESS)
    settings: dict[str, Any] = KNOWN if case.known else {}
    with proxy(Settings.model_validate({"upstream": via.url, "store": "memory:", **settings})) as url:
        played = via.play(url, case.script)
    assert len(bounded.errors) == 1
    assert endless.errors == []
    assert played.errors == []
    assert played.forgotten == []
    assert played.told == expected(bounded, endless, known=case.known)
    figures = Figures.of(via.fake)
    assert figures.invalid == 0
    assert figures.compactions > 0
    assert figures.overflows == (0 if case.known else 1)  # an unknown window is learned from its first overflow


@pytest.mark.parametrize("known", [True, False], ids=["window known", "window unknown"])
def test_talks_on_behind_a_hop(known: bool) -> None:
    """The LiteLLM proxy before ours, as where a team's gateway is pointed at it: it sees no error either."""
    fake = FakeUpstream(WINDOW)
    try:
        with serve_in_thread(fake) as address:
            settings = {"upstream": f"{address}/v1", "store": "memory:", **(KNOWN if known else {})}
            with (
                proxy(Settings.model_validate(settings)) as ours,
                hop(ours) as url,
                driver(CLIENTS[0]) as client,
            ):
                played = play(client, url, SCRIPT, api_key=KEY)
    except Absent as absent:
        pytest.skip(str(absent))
    assert played.errors == [] and played.forgotten == []
    figures = Figures.of(fake)
    assert figures.invalid == 0 and figures.compactions > 0
    assert figures.overflows == (0 if known else 1)
