"""The whole play, directly against the fake: what a client without a proxy goes through."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from proxy.demo.play import WINDOW, play, run_demo
from proxy.demo.report import WIDTH, Report
from proxy.demo.script import Conversation
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import SUMMARIZER, FakeUpstream


def direct(script: Conversation | None = None, out: io.StringIO | None = None, **options: Any) -> Report:
    fake = FakeUpstream(**options)
    with serve_in_thread(fake) as address:
        return asyncio.run(play(f"{address}/v1", script=script, out=out, fake=fake, patience=30))


def test_a_large_window_needs_no_proxy() -> None:
    """72 requests, none fails, every fact is answered, and the prefix never breaks."""
    out = io.StringIO()
    report = direct(window=200_000, out=out)
    assert report.ok and report.requests == 72
    assert all(item.right for item in report.recalled) and len(report.recalled) == 4
    assert (report.failed, report.invalid, report.overflows, report.summary_calls, report.waited) == (0, 0, 0, 0, 0)
    assert report.prefix_share is not None and report.prefix_share > 0.95
    new = (report.rows[-1].client_tokens - report.rows[0].client_tokens) / report.requests
    assert 110 <= new <= 200  # tokens a request, the huge result included
    lines = out.getvalue().splitlines()
    assert len([line for line in lines if line[:4].strip().isdigit()]) == 60
    assert max(len(line) for line in lines if "the model" not in line) <= WIDTH


@pytest.mark.parametrize("wording", ["openai", "vllm", "llamacpp"])
def test_a_small_window_ends_the_conversation(wording: str) -> None:
    """Without a proxy the client sees overflows from the turn on that no longer fits, and the fact is never asked."""
    report = direct(window=WINDOW, wording=wording)
    assert not report.ok and not report.fact_kept
    assert report.failed == report.overflows and report.failed > 30
    assert report.invalid == 0
    assert all("FAILED" in row.note for row in report.rows[29:])
    assert not any("FAILED" in row.note for row in report.rows[:15])


def test_strict_servers_take_the_script() -> None:
    """The script itself is valid under strict alternation, with ids that start anew in every message."""
    report = direct(Conversation(turns=20), window=200_000, alternation=True, turn_ids=True, output_counts=True)
    assert report.ok and report.invalid == 0


def test_a_plain_chat() -> None:
    """Without tools there is one request a turn."""
    report = direct(Conversation(tools=False), window=200_000)
    assert report.ok and report.requests == 60


@contextmanager
def no_proxy(upstream: str, window: int) -> Iterator[str]:
    yield upstream


def test_the_demo_fails_where_the_proxy_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """With nothing in between, the exit code says that it did not work."""
    assert run_demo(upstream=None, model=None, serve=no_proxy) == 1
    assert "a call failed" in capsys.readouterr().out


def test_the_demo_against_a_server_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Where only the upstream knows, the totals say n/a; the rest is measured the same."""
    fake = FakeUpstream(200_000)
    with serve_in_thread(fake) as address:
        assert run_demo(upstream=f"{address}/v1", model="some-model", serve=no_proxy, api_key="k") == 0
    assert {r.data["model"] for r in fake.requests} == {"some-model"}
    assert (b"authorization", b"Bearer k") in fake.requests[0].headers
    out = capsys.readouterr().out
    assert "overflows upstream n/a" in out and "BLUE-HERON-4172" in out


class Between:
    """A stand-in for a proxy: has a summary made before every fourth chat request, then forwards the client's bytes."""

    def __init__(self, upstream: str) -> None:
        self.upstream, self.asked = upstream, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.asked += 1
        waits = self.asked % 4 == 0
        async with aiohttp.ClientSession() as http:
            if waits:
                summary = {"model": SUMMARIZER, "messages": [{"role": "user", "content": "Keep port 8080."}]}
                async with http.post(f"{self.upstream}/chat/completions", json=summary) as made:
                    assert made.status == 200
            async with http.post(f"{self.upstream}/chat/completions", data=body) as answer:
                headers = [
                    (b"content-type", answer.content_type.encode()),
                    (b"x-compaction", b"compact; over-limit" if waits else b"pass"),
                    (b"x-compaction-checkpoint", b"%d" % (self.asked // 4)),
                ]
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                await send({"type": "http.response.body", "body": await answer.read()})


def test_decisions_and_waits_are_seen() -> None:
    """A row names the proxy's decision, and a request counts as waiting only if its summary came before it."""
    fake = FakeUpstream(200_000)
    with serve_in_thread(fake) as upstream, serve_in_thread(Between(f"{upstream}/v1"), lifespan="off") as address:
        report = asyncio.run(play(address, script=Conversation(turns=12, tools=False), fake=fake, patience=30))
    assert report.ok
    assert [row.turn for row in report.rows if row.decision == "compact; over-limit"] == [4, 8, 12]
    assert {row.decision for row in report.rows} == {"pass", "compact; over-limit"}
    assert report.summary_calls == report.waited == 3
    assert report.prefix_share is not None and report.prefix_share > 0.7
