"""What is promised beyond "no failed call": bytes, reuse, restarts, concurrency, failing summarisers, hopeless cases."""

from __future__ import annotations

import json
import random
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from proxy.demo.record import Recorded
from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import SUMMARIZER, FakeUpstream
from proxy.demo.wording import Worded
from proxy.settings import Settings
from tests.stage import Stage, proxy, stage

SYSTEM = {"role": "system", "content": "You help. Never mention the weather."}
WORDS = "The harbour crane schedule was moved behind the berth plan because of the tide and the night shift. "
SUBJECTS = [
    "crane",
    "berth",
    "tariff",
    "ledger",
    "courier",
    "session",
    "permit",
    "invoice",
    "archive",
    "weather",
    "manifest",
    "pilot",
]
VERBS = [
    "waits for",
    "was moved behind",
    "depends on",
    "is checked against",
    "overtakes",
    "replaces",
    "reports to",
    "blocks",
]
REASONS = [
    "the tide",
    "the night shift",
    "a late vessel",
    "the audit",
    "an old contract",
    "the new gate",
    "a lost form",
    "the strike",
]
LONG = 14  # exchanges: just over the limit of a window of 4,000
WINDOW = {"models": {"*": {"window": 4_000}}}


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: bytes, seconds: float) -> None:
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds

    @property
    def decision(self) -> str:
        return self.headers.get("x-compaction", "")


def post(url: str, body: dict[str, Any] | bytes, *, key: str = "k1", headers: dict[str, str] | None = None) -> Reply:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    started = time.monotonic()
    try:
        connection.request(
            "POST",
            f"{parts.path}/chat/completions",
            raw,
            {"content-type": "application/json", "authorization": f"Bearer {key}", **(headers or {})},
        )
        answer = connection.getresponse()
        read = answer.read()
    finally:
        connection.close()
    named = {name.lower(): value for name, value in answer.getheaders()}
    return Reply(answer.status, named, read, time.monotonic() - started)


def prose(seed: str, sentences: int = 6) -> str:
    """Sentences of some 18 tokens that state nothing worth keeping, the same for the same seed."""
    chance = random.Random(seed)
    return " ".join(
        f"Maybe the {chance.choice(SUBJECTS)} near the {chance.choice(SUBJECTS)} {chance.choice(VERBS)} some "
        f"{chance.choice(SUBJECTS)} or other, and {chance.choice(REASONS)} with it."
        for _ in range(sentences)
    )


def question(number: int, opening: str = "") -> dict[str, Any]:
    return {"role": "user", "content": f"{opening} {prose(f'q{number}')}"}


def answer(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": prose(f"a{number}")}


def talk(turns: int) -> list[dict[str, Any]]:
    """System, `turns` exchanges of some 200 tokens, and one more user message."""
    messages: list[dict[str, Any]] = [SYSTEM]
    for number in range(turns):
        messages += [question(number), answer(number)]
    return [*messages, {"role": "user", "content": f"and now number {turns}?"}]


def chat(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"model": "fake-model", "messages": messages, **more}


def sent(fake: FakeUpstream) -> list[Recorded]:
    return [r for r in fake.chats if r.accepted]


# -- 4: byte for byte ----------------------------------------------------------------------------------------------


def test_a_request_that_fits_goes_out_byte_for_byte() -> None:
    """Unknown parameters, odd spacing, key order, escapes and big integers included."""
    body = (
        b'{ "top_k" : 40,"messages":[ {"content":"hi \\u00e9\\ud83d\\ude00","role":"user","x":{"b":1,"a":[ ]}} ],\r\n'
        b'  "model":"fake-model" ,"seed":123456789012345678901234567890, "chat_template_kwargs":{"t":true}  }'
    )
    with stage(FakeUpstream(), **WINDOW) as s:
        reply = post(s.url, body)
    assert reply.status == 200 and reply.decision == "pass; fits"
    assert s.fake.requests[0].body == body


def test_kept_messages_of_a_compacted_request_are_the_clients_own_bytes() -> None:
    """What stands behind the cut is not re-serialised; neither is any other field."""
    messages = talk(LONG)
    pieces = [json.dumps(m, indent=1 if i % 2 else None) for i, m in enumerate(messages)]
    body = ('{"user":"u1", "messages" : [' + " ,\n".join(pieces) + '], "model":"fake-model", "zz": 1.50 }').encode()
    with stage(FakeUpstream(), **WINDOW) as s:
        reply = post(s.url, body)
    assert reply.status == 200 and reply.decision.startswith("compact")
    out = sent(s.fake)[-1].body
    assert out.startswith(b'{"user":"u1", "messages" : [') and out.endswith(b'], "model":"fake-model", "zz": 1.50 }')
    assert pieces[0].encode() in out
    kept = len(sent(s.fake)[-1].messages) - 2
    assert kept >= 3
    for piece in pieces[-kept:]:
        assert piece.encode() in out


# -- 3: what is in every request -----------------------------------------------------------------------------------


def test_pending_results_stay_whole_while_they_fit() -> None:
    """The reserve gives way before a result the model has not seen does."""
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in range(2)]
    big, small = WORDS * 140, "the second result: 42 cranes"
    messages = [
        *talk(20),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c0", "content": big},
        {"role": "tool", "tool_call_id": "c1", "content": small},
    ]
    with stage(FakeUpstream(), **WINDOW) as s:
        assert post(s.url, chat(messages)).status == 200
    out = sent(s.fake)[-1].messages
    assert [m["role"] for m in out] == ["system", "user", "assistant", "tool", "tool"]
    assert out[3]["content"] == big and out[4]["content"] == small
    assert out[1]["content"].endswith(messages[41]["content"])


def test_a_result_that_cannot_fit_is_shortened_visibly_and_alone() -> None:
    """Head and tail with a note; its neighbour stays as it came."""
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in range(2)]
    big, small = "HEAD " + WORDS * 900 + " TAIL", "the second result: 42 cranes"
    messages: list[dict[str, Any]] = [
        SYSTEM,
        {"role": "user", "content": "read both"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c0", "content": big},
        {"role": "tool", "tool_call_id": "c1", "content": small},
    ]
    with stage(FakeUpstream(), **WINDOW) as s:
        assert post(s.url, chat(messages)).status == 200
        assert not s.fake.summaries
    out = sent(s.fake)[-1].messages
    assert out[:3] == messages[:3] and out[4] == messages[4]
    assert out[3]["content"].startswith("HEAD ") and out[3]["content"].endswith(" TAIL")
    assert "characters left out" in out[3]["content"]


@pytest.mark.parametrize("headings", [True, False])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_planted_fact_survives_every_compaction(role: str, headings: bool) -> None:
    """Whoever said it, when the summariser keeps what it reads, with headings or without."""
    fact = "We decided that the vault code of the north pier is 7719-KESTREL."
    messages = talk(3)
    place = 3 if role == "user" else 4
    messages[place] = {"role": role, "content": f"{messages[place]['content']} {fact}"}
    with stage(FakeUpstream(summarizer="perfect", headings=headings), **WINDOW) as s:
        for number in range(4, 60):
            assert post(s.url, chat(messages)).status == 200
            messages += [answer(number), question(number)]
        assert len(s.fake.summaries) >= 3
    assert "7719-KESTREL" in sent(s.fake)[-1].body.decode()


# -- 5: reuse ------------------------------------------------------------------------------------------------------


def test_after_a_restart_no_new_summary_and_the_same_bytes(tmp_path: Path) -> None:
    """The store keeps what was made; rendering is a pure function."""
    fake = FakeUpstream(ratio=1.6)
    bodies: list[list[bytes]] = []
    made = 0
    with serve_in_thread(fake) as address:
        settings = Settings.model_validate({"upstream": f"{address}/v1", "store": f"sqlite:{tmp_path}/s.db", **WINDOW})
        for _ in range(2):
            with proxy(settings) as url:
                assert post(url, chat(talk(LONG))).status == 200
                assert post(url, chat(talk(LONG + 1))).status == 200
            bodies.append([r.body for r in sent(fake)[-2:]])
            made = made or len(fake.summaries)
    assert len(fake.summaries) == made > 0
    assert bodies[0][1] == bodies[1][1]


def test_two_concurrent_identical_requests_make_one_summary() -> None:
    """The second waits for the first one's."""
    fake = FakeUpstream(summarizer_delay=1.0)
    with stage(fake, **WINDOW) as s:
        replies: list[Reply] = []
        threads = [threading.Thread(target=lambda: replies.append(post(s.url, chat(talk(LONG))))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [r.status for r in replies] == [200] * 5
    assert len(fake.summaries) == 1
    assert len({r.body for r in sent(fake)}) == 1


def test_alternating_conversations_share_nothing_but_their_opening() -> None:
    """No summary is made twice, and neither sees the other's text."""
    fake = FakeUpstream(summarizer="perfect")
    with stage(fake, **WINDOW) as s:
        ours = talk(3)
        talks = {name: list(ours) for name in ("KESTREL", "OSPREY")}
        for number in range(40):
            for name, messages in talks.items():
                messages.append(
                    {"role": "assistant", "content": f"{name} answer {number}: {prose(name + str(number))}"}
                )
                messages.append(
                    {"role": "user", "content": f"{name} question {number}, code {name}-{number}: {prose('edit')}"}
                )
                assert post(s.url, chat(messages)).status == 200
                other = "OSPREY" if name == "KESTREL" else "KESTREL"
                assert other not in sent(fake)[-1].body.decode()
    prompts = [json.dumps(r.messages[1]) for r in fake.summaries]
    transcripts = {p[p.index("question") :] if "question" in p else p for p in prompts}
    assert len(transcripts) == len(prompts)
    for prompt in prompts:
        assert not ("KESTREL" in prompt and "OSPREY" in prompt)


def test_tenants_share_nothing() -> None:
    """The same conversation under another key is another one."""
    with stage(FakeUpstream(), **WINDOW) as s:
        for key in ("k1", "k2", "k1"):
            assert post(s.url, chat(talk(LONG)), key=key).status == 200
    assert len(s.fake.summaries) == 2


def test_an_edited_early_message_meets_no_stale_summary() -> None:
    """What was summarised before the edit is not used after it."""
    fake = FakeUpstream(summarizer="perfect")
    with stage(fake, **WINDOW) as s:
        messages = talk(LONG)
        messages[1] = {"role": "user", "content": f"The code is KESTREL-1. {prose('edit')}"}
        assert post(s.url, chat(messages)).status == 200
        messages[1] = {"role": "user", "content": f"The code is OSPREY-2. {prose('edit')}"}
        assert post(s.url, chat(messages)).status == 200
    assert "OSPREY-2" in sent(fake)[-1].body.decode() and "KESTREL-1" not in sent(fake)[-1].body.decode()
    assert len(fake.summaries) == 2


def test_a_client_that_changes_its_second_message_on_every_turn_is_no_treadmill() -> None:
    """At most three summaries, then none; every call is answered."""
    with stage(FakeUpstream(), **WINDOW) as s:
        messages = talk(LONG)
        for number in range(20):
            messages[1] = {"role": "user", "content": f"It is now {number}:00. {prose('edit')}"}
            assert post(s.url, chat(messages)).status == 200
            messages += [answer(100 + number), question(100 + number)]
    assert len(s.fake.summaries) <= 3


# -- 6: summarisers that fail --------------------------------------------------------------------------------------


@pytest.mark.parametrize("manner", ["error", "hang", "empty", "loop", "refuse", "tool_call", "copy", "html", "useless"])
def test_a_failing_summariser_costs_no_call(manner: str) -> None:
    """At most `wait` later, and the second request does not wait again; what is sent is valid and fits."""
    fake = FakeUpstream(summarizer=manner)
    with stage(fake, **WINDOW, summarizer={"wait": 1.5, "model": SUMMARIZER}) as s:
        first = post(s.url, chat(talk(LONG)))
        second = post(s.url, chat(talk(LONG + 1)))
        assert first.status == second.status == 200
        assert first.seconds < 3.5 and second.seconds < 1.2
    assert not any(r.refused for r in fake.chats)
    text = sent(fake)[-1].messages[1]["content"]
    assert any(sentence in text for n in range(5) for sentence in prose(f"q{n}").split(". "))
    assert len(fake.summaries) <= 2


def test_a_slow_summariser_serves_the_next_turn() -> None:
    """The wait is bounded, not the work: one call in all."""
    fake = FakeUpstream(summarizer_delay=3.0)
    with stage(fake, **WINDOW, summarizer={"wait": 1.0}) as s:
        first = post(s.url, chat(talk(LONG)))
        assert first.status == 200 and 0.9 < first.seconds < 2.5
        between = post(s.url, chat(talk(LONG)))
        assert between.status == 200 and between.seconds < 0.9
        time.sleep(3.0)
        last = post(s.url, chat(talk(LONG + 1)))
        assert last.status == 200 and last.decision == "reuse; known"
        assert last.headers["x-compaction-checkpoint"] != first.headers["x-compaction-checkpoint"]
    assert len(fake.summaries) == 1


def test_a_client_that_leaves_does_not_cancel_the_summary() -> None:
    """Its work serves whoever comes next."""
    fake = FakeUpstream(summarizer_delay=1.5)
    with stage(fake, **WINDOW) as s:
        parts = urlsplit(s.url)
        connection = HTTPConnection(parts.hostname or "", parts.port)
        raw = json.dumps(chat(talk(LONG)))
        connection.request("POST", "/v1/chat/completions", raw, {"authorization": "Bearer k1"})
        time.sleep(0.5)
        connection.close()
        time.sleep(1.8)
        reply = post(s.url, chat(talk(LONG)))
        assert reply.decision == "reuse; known"
    assert len(fake.summaries) == 1 and not fake.summaries[0].went_away


# -- 7 and 8: far too long, and hopeless ---------------------------------------------------------------------------


@pytest.mark.parametrize("times", [3, 30])
def test_a_first_request_far_beyond_the_window_works(times: int) -> None:
    """Chunked; every summary call is within the summariser's own window."""
    fake = FakeUpstream(ratio=1.3, summarizer_window=2_500)
    messages = talk(LONG * times)
    with stage(fake, **WINDOW, summarizer={"model": SUMMARIZER, "window": 2_500}) as s:
        reply = post(s.url, chat(messages))
        assert reply.status == 200, reply.body
    assert fake.summaries and len(fake.summaries) <= 8
    assert not any(r.refused for r in fake.summaries)
    assert all(r.prompt_tokens <= 2_500 for r in fake.summaries)


@pytest.mark.parametrize("turns", [0, 20])
@pytest.mark.parametrize("settings", [WINDOW, {}])
def test_what_nothing_can_shrink_gets_the_upstreams_own_error(turns: int, settings: dict[str, Any]) -> None:
    """At once, and nobody pays for a summary; the conversation goes on afterwards."""
    fake = FakeUpstream()
    messages = talk(turns)
    messages[-1] = {"role": "user", "content": WORDS * 3_000}
    with stage(fake, **settings) as s:
        direct = post(s.direct, chat(messages))
        fake.requests.clear()
        reply = post(s.url, chat(messages))
        assert reply.status == direct.status == 400 and reply.body == direct.body
        assert not fake.summaries
        messages += [{"role": "user", "content": "then summarise the first page only"}]
        assert post(s.url, chat(messages)).status == 200


def test_a_rewritten_request_that_is_refused_is_followed_by_the_original() -> None:
    """Once; that compaction is not used there again, and the client gets what the original gets."""
    fake = FakeUpstream(window=100_000)

    def picky(record: Recorded) -> Any:
        if not record.summary and len(record.messages) < 2 * LONG:
            return Worded(422, {"error": {"message": "I want them all", "type": "invalid_request_error"}})
        return None

    fake.intercept = picky
    with stage(fake, **WINDOW) as s:
        reply = post(s.url, chat(talk(LONG)))
    assert reply.status == 200 and reply.decision == "forward; failed"


def test_per_request_override() -> None:
    """off, observe and force; the header never reaches the upstream."""
    with stage(FakeUpstream(window=100_000), **WINDOW) as s:
        off = post(s.url, chat(talk(LONG)), headers={"x-compaction": "off"})
        observe = post(s.url, chat(talk(LONG)), headers={"x-compaction": "observe"})
        force = post(s.url, chat(talk(8)), headers={"x-compaction": "force"})
    assert off.decision == "pass; off" and observe.decision == "pass; observe"
    assert force.decision == "compact; forced"
    assert len(s.fake.chats[0].messages) == len(s.fake.chats[1].messages) == 2 * LONG + 2
    for record in s.fake.requests:
        assert not any(name.lower().startswith(b"x-compaction") for name, _ in record.headers)


def test_headers_say_what_was_done() -> None:
    """Decision with reason, tokens before and after, the checkpoint's id; `usage` is the upstream's own."""
    with stage(FakeUpstream(), **WINDOW) as s:
        reply = post(s.url, chat(talk(LONG)))
    before, after = map(int, reply.headers["x-compaction-tokens"].split("/"))
    assert after < 3_200 < before
    assert len(reply.headers["x-compaction-checkpoint"]) == 24
    assert json.loads(reply.body)["usage"]["prompt_tokens"] == sent(s.fake)[-1].prompt_tokens


def test_only_the_requested_output_is_too_big() -> None:
    """It is lowered, nothing is compacted, and the next request is lowered at once."""
    fake = FakeUpstream(output_counts=True)
    with stage(fake, **WINDOW) as s:
        for turns in (10, 11):
            assert post(s.url, chat(talk(turns), max_tokens=3_500)).status == 200
    assert [r.refused for r in fake.chats] == ["overflow", None, None]
    assert not fake.summaries
    assert len(fake.chats[-1].messages) == 24


_ = Stage
