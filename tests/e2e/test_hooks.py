"""Hooks over sockets: asked before a compaction, told after it, and never the reason why a request fails."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.demo.upstream import FakeUpstream
from tests.e2e.test_promises import LONG, WINDOW, answer, chat, post, prose, sent, talk
from tests.servers import Peer, RawUpstream, Request, run_raw
from tests.stage import stage

SECRET = "whsec_" + base64.b64encode(b"of this test").decode()
RULE = "From now on every report must go to the harbour office in Lisbon, never to Porto."


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


@contextmanager
def receiver(
    reply: bytes = b"", status: bytes = b"200 OK", silence: threading.Event | None = None
) -> Iterator[RawUpstream]:
    """A webhook's other end."""

    def handle(peer: Peer) -> None:
        if silence is not None:
            silence.wait(30)
        before = b'"event": "before_compaction"' in peer.request.body
        peer.answer(reply if before else b"", status)

    with run_raw(handle) as server:
        yield server


def hooks(server: RawUpstream, **more: Any) -> dict[str, Any]:
    return {"hooks": {"webhook": f"{server.url}/hook", "secret": SECRET, **more}}


def verified(request: Request) -> bool:
    name, at, given = (request.values(f"webhook-{part}".encode())[0] for part in ("id", "timestamp", "signature"))
    digest = hmac.digest(b"of this test", b".".join((name, at, request.body)), hashlib.sha256)
    return given == b"v1," + base64.b64encode(digest) and abs(time.time() - int(at)) < 60


def test_a_webhook_is_asked_and_told() -> None:
    """Signed, with the client's own messages and none of its keys; its instructions reach the summariser."""
    messages = talk(LONG)
    with (
        receiver(b'{"instructions": "Mention every lighthouse."}') as server,
        stage(FakeUpstream(), **WINDOW, **hooks(server)) as s,
    ):
        reply = post(s.url, chat(messages), key="key-of-a-client")
        until(lambda: len(server.requests) == 2)
    assert reply.status == 200 and reply.decision == "compact; over-limit"
    assert "Mention every lighthouse." in s.fake.summaries[0].messages[0]["content"]
    before, after = (json.loads(request.body) for request in server.requests)
    assert (before["event"], after["event"]) == ("before_compaction", "after_compaction")
    first, last = before["range"]
    assert before["messages"] == after["messages"] == messages[1:][first:last]
    assert after["checkpoint"] == reply.headers["x-compaction-checkpoint"]
    assert after["replacement"] in sent(s.fake)[-1].messages[1]["content"] and after["rung"] == "model"
    for request in server.requests:
        assert verified(request)
        assert b"key-of-a-client" not in repr(request).encode()


def test_a_webhooks_own_summary_takes_the_place_of_one() -> None:
    """Nobody else is asked."""
    own = "The user asked about the harbour several times over, and each time was told what there was to know."
    with (
        receiver(json.dumps({"summary": own}).encode()) as server,
        stage(FakeUpstream(), **WINDOW, **hooks(server)) as s,
    ):
        assert post(s.url, chat(talk(LONG))).decision == "compact; over-limit"
    assert not s.fake.summaries and own in sent(s.fake)[-1].messages[1]["content"]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (b"{}", b"500 Oops"),
        (b"thanks", b"200 OK"),
        (b'{"summary": "<html><body>502</body></html>"}', b"200 OK"),
        (b"", b"302 Found\r\nLocation: http://127.0.0.1:9/"),
    ],
)
def test_a_webhook_that_fails_costs_nothing(reply: bytes, status: bytes) -> None:
    """The summary is made as without it."""
    with receiver(reply, status) as server, stage(FakeUpstream(), **WINDOW, **hooks(server)) as s:
        got = post(s.url, chat(talk(LONG)))
        until(lambda: len(server.requests) == 2)
    assert got.status == 200 and len(s.fake.summaries) == 1


def test_a_silent_webhook_costs_its_time_alone() -> None:
    """And where nothing listens, not even that."""
    silence = threading.Event()
    with receiver(silence=silence) as server, stage(FakeUpstream(), **WINDOW, **hooks(server, timeout=0.3)) as s:
        try:
            got = post(s.url, chat(talk(LONG)))
        finally:
            silence.set()
    assert got.status == 200 and len(s.fake.summaries) == 1
    nowhere = {"webhook": "http://127.0.0.1:9/hook", "secret": SECRET}
    with stage(FakeUpstream(), **WINDOW, hooks=nowhere) as s:
        assert post(s.url, chat(talk(LONG))).status == 200
    assert len(s.fake.summaries) == 1


def conversation(name: str, turns: int, first: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help."}, {"role": "user", "content": first}]
    for number in range(turns):
        messages += [answer(number), {"role": "user", "content": f"{name} {prose(f'{name}{number}')}"}]
    return messages


@pytest.mark.parametrize("summarizer", ["extractive", "error"])
def test_reflection(tmp_path: Path, summarizer: str) -> None:
    """What the user of one conversation laid down is in the next one's compaction, whoever writes that; of the same
    tenant, and from then on unchanged from turn to turn."""
    notes = {"python": "proxy.hooks.reflection:Reflection", "options": {"directory": str(tmp_path / "notes")}}
    with stage(FakeUpstream(summarizer=summarizer), **WINDOW, hooks=notes, background=False) as s:
        first = conversation("one", LONG, f"Good morning. {RULE}")
        assert post(s.url, chat(first), key="k1").decision == "compact; over-limit"
        until(lambda: list(tmp_path.rglob("*.txt")))
        assert RULE in next(tmp_path.rglob("*.txt")).read_text()

        opening = "Good evening, let us look at something else altogether."
        for key, known in (("k1", True), ("k2", False)):
            assert post(s.url, chat(conversation("two", LONG, opening)), key=key).decision == "compact; over-limit"
            replaced = sent(s.fake)[-1].messages[1]["content"]
            assert ("Lisbon" in replaced) is known, key
            later = conversation("two", LONG + 1, opening)
            assert post(s.url, chat(later), key=key).decision == "reuse; known"
            assert sent(s.fake)[-1].messages[1]["content"] == replaced


def test_a_prompt_of_the_configuration_is_used() -> None:
    """For the models it is meant for; what a transcript demands is data all the same."""
    models = {"fake-model": {"window": 4_000, "summarizer": {"prompt": "Summarize as a ship's log of {words} words."}}}
    with stage(FakeUpstream(), models=models) as s:
        assert post(s.url, chat(talk(LONG))).decision == "compact; over-limit"
    system, user = (message["content"] for message in s.fake.summaries[0].messages)
    assert "ship's log of " in system and "{words}" not in system and "[GOALS]" not in system
    assert "BEGIN TRANSCRIPT" in user and "Do not continue" in user
