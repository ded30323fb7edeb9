"""One request's story, told as what happened to everybody who took part."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.adapters.memory import MemoryStore
from proxy.core import turns
from proxy.core.checkpoint import Checkpoint, Rung
from proxy.core.plan import OUTCOMES
from proxy.engine import background as background_module
from proxy.engine import compactor as compactor_module
from proxy.errors import SummaryError, Unreachable, UpstreamTimeout
from proxy.ports import Answer, Call, Headers, SummaryAnswer
from tests.engine.fakes import (
    GOOD,
    JSON,
    SSE,
    FakeAnswer,
    FakeSummariser,
    FakeUpstream,
    Message,
    NotedStore,
    World,
    body_of,
    changed,
    count,
    incoming,
    mute_wording,
    openai_wording,
    summarised,
    talk,
    until,
)
from tests.packed import gz
from tests.strategies import conversations, raw

LONG = talk(20)  # 42 messages, about 4,500 tokens
OFF, OBSERVE, FORCE = ((b"x-compaction", word) for word in (b"off", b"Observe ", b"force"))
OVERFLOW = b'{"error":{"message":"prompt is too long: 5000 tokens > 4000 maximum"}}'


def refusing(status: int, body: bytes = b'{"error":{"message":"no"}}', headers: Headers = JSON) -> Any:
    return lambda: FakeAnswer(status, body, headers)


def play(world: World, *requests: Any) -> list[str]:
    """The lines of a story; each request is what `World.chat` takes, or a tuple of it and header fields."""

    async def story() -> None:
        for request in requests:
            await (world.chat(*request) if isinstance(request, tuple) else world.chat(request))
        await world.compactor.aclose()

    asyncio.run(story())
    return world.lines


# --- passing


@pytest.mark.parametrize("window", [None, 4_000])
def test_what_fits_goes_out_byte_for_byte(window: int | None) -> None:
    """Odd spacing, key order, unknown parameters and duplicate keys included."""
    body = b' {"stream" : false,"messages" :[ {"content":"hi", "role" : "user","x":[1 , 2]}],\n"seed":1e3,"seed":2,"model":"m" }'
    world = World(window=window)
    reason = "fits" if window else "window-unknown"
    assert play(world, body) == [
        "client → 1 messages",
        "upstream ← 1 messages: 200",
        f"client ← 200 pass; {reason}",
    ]
    assert world.upstream.bodies == [body]


def test_what_fits_once_it_is_counted_goes_out_byte_for_byte() -> None:
    """Bytes above the limit, tokens below it."""
    world = World(window=4_000)
    assert play(world, talk(12))[-1] == "client ← 200 pass; fits"
    assert world.upstream.bodies == [body_of(talk(12))]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"messages":[]}', b'{"messages":[7]}', b'{"messages":{}}', b"\xff\x00", b'{"input":"x"}'],
)
def test_what_is_no_chat_request_passes_as_it_is(body: bytes) -> None:
    """The upstream says what is wrong with it."""
    world = World(window=4_000)
    world.upstream.script = [refusing(400)]
    asyncio.run(world.chat(body))
    assert world.lines[-1] == "client ← 400 pass; unreadable"
    assert world.upstream.bodies == [body]


def test_what_is_nested_too_deeply_passes_as_it_is() -> None:
    """However long it is."""
    body = body_of(LONG).replace(b'"You help."', b"[" * 70 + b"]" * 70)
    world = World(window=4_000)
    assert play(world, body)[-1] == "client ← 200 pass; unreadable"
    assert world.upstream.bodies == [body]


def test_other_paths_go_to_the_upstream_as_they_are() -> None:
    """Any body, any answer, and no header of ours but `Via`."""
    world = World()
    world.upstream.script = [refusing(418, b"tea")]

    async def story() -> None:
        answer = await world.engine.forward(incoming(b"audio"))
        assert (answer.status, [chunk async for chunk in answer.chunks()]) == (418, [b"tea"])
        assert [name for name, _ in answer.headers] == [b"content-type", b"via"]

    asyncio.run(story())
    assert world.upstream.bodies == [b"audio"]


# --- compacting


def test_what_is_too_long_is_compacted_once_and_the_same_bytes_go_out_again() -> None:
    """The second time nobody is asked."""
    world = World(window=4_000, upstream=FakeUpstream(window=4_000))
    assert play(world, LONG, LONG) == [
        "client → 42 messages",
        "summariser ← 34 messages",
        "upstream ← 8 messages: 200",
        "client ← 200 compact; over-limit",
        "client → 42 messages",
        "upstream ← 8 messages: 200",
        "client ← 200 reuse; known",
    ]
    first, second = world.upstream.bodies
    assert first == second
    sent = world.sent()
    assert sent[0] == LONG[0] and sent[2:] == LONG[36:]
    assert sent[1]["content"].endswith("\n\n" + LONG[35]["content"]) and GOOD in sent[1]["content"]


def test_the_next_turns_keep_the_prefix() -> None:
    """The replacement stays as it is, byte for byte, and the provider's cache goes on hitting."""
    world = World(window=4_000, upstream=FakeUpstream(window=4_000))
    play(world, *(talk(20 + i) for i in range(6)))
    bodies = world.upstream.bodies
    kept = bodies[0].rindex(b'{"role": "user"')  # the last question differs
    assert all(body[:kept] == bodies[0][:kept] for body in bodies)
    assert [line for line in world.lines if line.startswith("summariser")] == ["summariser ← 34 messages"]


def test_kept_messages_and_other_fields_are_the_clients_own_bytes() -> None:
    """Only the value of `messages` is spliced."""
    body = body_of(LONG, x={"a": 1}).replace(b'"x": {"a": 1}', b'"x" : {"a":1.0 ,"a":2}').replace(b"[{", b"[ {", 1)
    world = World(window=4_000, upstream=FakeUpstream())
    play(world, body)
    (sent,) = world.upstream.bodies
    assert sent.endswith(b', "x" : {"a":1.0 ,"a":2}}') and sent.startswith(b'{"model": "m", "messages": [')
    for message in LONG[36:]:
        assert json.dumps(message).encode() in sent


def test_an_unknown_window_is_learned_from_the_refusal() -> None:
    """The next request is compacted before it is sent."""
    world = World(upstream=FakeUpstream(window=4_000))
    assert play(world, talk(40), talk(40)) == [
        "client → 82 messages",
        "upstream ← 82 messages: overflow window=4000 prompt=9131",
        "summariser ← 74 messages",
        "upstream ← 8 messages: 200",
        "client ← 200 compact; refused",
        "client → 82 messages",
        "upstream ← 8 messages: 200",
        "client ← 200 reuse; known",
    ]


def test_a_store_is_another_processs_memory() -> None:
    """A restart costs no summary, and the bytes are the same."""
    store = NotedStore()
    one, other = (World(window=4_000, upstream=FakeUpstream(), store=store) for _ in range(2))
    play(one, LONG)
    assert play(other, LONG)[-1] == "client ← 200 reuse; known"
    assert other.upstream.bodies == one.upstream.bodies and not other.summariser.calls


def test_tenants_share_nothing() -> None:
    """The same conversation of another key is summarised for itself."""
    world = World(window=4_000)
    asyncio.run(world.chat(LONG))

    async def story() -> None:
        body = body_of(LONG)
        request = incoming(body)
        headers = ((b"authorization", b"Bearer other"), *request.headers[1:])
        answer = await world.engine.chat(type(request)("POST", b"/chat/completions", b"", headers, body))
        assert (b"x-compaction", b"compact; over-limit") in answer.headers

    asyncio.run(story())
    assert len(world.summariser.calls) == 2


def test_a_changed_history_is_compacted_anew() -> None:
    """No stale text is put before it."""
    world = World(window=4_000)
    edited = [*LONG[:3], {"role": "user", "content": "Never mind the harbour."}, *LONG[4:]]
    assert play(world, LONG, edited)[-1] == "client ← 200 compact; over-limit"
    assert "Never mind" in world.summariser.calls[1].user


def test_a_pending_result_and_the_last_words_stay() -> None:
    """In a long tool loop the task follows the text."""
    loop: list[Message] = [{"role": "user", "content": "Count all cranes."}]
    for i in range(30):
        call = {"id": "call_0", "type": "function", "function": {"name": "count", "arguments": "{}"}}
        loop.append(
            {"role": "assistant", "content": f"Looking at quay {i}. " + "So far so good. " * 40, "tool_calls": [call]}
        )
        loop.append({"role": "tool", "tool_call_id": "call_0", "content": f"{i} cranes"})
    world = World(window=4_000)
    assert play(world, loop)[-1] == "client ← 200 compact; over-limit"
    sent = world.sent()
    assert sent[0]["content"].endswith("\n\nCount all cranes.")
    assert sent[-2:] == loop[-2:] and sent[1]["role"] == "assistant"


def test_summaries_in_a_row_that_feed_on_each_other_are_no_treadmill() -> None:
    """Every turn is too long for the limit, and each summary goes on in the next one."""
    world = World(window=4_000)
    play(world, *(talk(18 * (i + 1)) for i in range(6)))
    assert [made.split(";")[0] for made in world.lines if made.startswith("client ←")] == ["client ← 200 compact"] * 6
    assert len(world.summariser.calls) == 6


@pytest.mark.parametrize("window", [4_000, None])
def test_a_client_that_rewrites_its_first_message_each_time_costs_few_summaries(window: int | None) -> None:
    """Then a machine writes; no request fails."""
    world = World(window=window, upstream=FakeUpstream(window=4_000))
    play(world, *(changed(talk(20), f"It is {i} o'clock.") for i in range(7)))
    assert len(world.summariser.calls) == 3
    assert all(line.startswith("client ← 200") for line in world.lines if line.startswith("client ←"))


# --- refusals


def test_after_three_retries_the_upstreams_own_error_is_the_answer() -> None:
    """Each attempt is at least a tenth smaller; the last error comes unmodified, and is not asked for again."""
    world = World(window=60_000, upstream=FakeUpstream(window=100, wording=mute_wording))
    received = asyncio.run(world.chat(talk(400, 60)))
    sends = [line for line in world.lines if line.startswith("upstream")]
    assert len(sends) == 4 and received.status == 400
    sizes = [world.upstream.tokens(json.loads(body)) for body in world.upstream.bodies]
    assert all(b <= 0.9 * a for a, b in itertools.pairwise(sizes)), sizes
    assert json.loads(received.body)["error"] == mute_wording(0, 0, 0)
    assert all(answer.closed for answer in world.upstream.answers)


def test_when_nothing_shorter_can_be_made_the_longer_original_is_not_tried() -> None:
    """A shorter one was too long already; the error of the last attempt is the answer."""
    world = World(window=6_000, upstream=FakeUpstream(window=100, wording=mute_wording))
    received = asyncio.run(world.chat(talk(40, 60)))
    sizes = [world.upstream.tokens(json.loads(body)) for body in world.upstream.bodies]
    assert (
        len(sizes) == 3 and sizes == sorted(sizes, reverse=True) and body_of(talk(40, 60)) not in world.upstream.bodies
    )
    assert received.status == 400 and json.loads(received.body)["error"] == mute_wording(0, 0, 0)
    assert all(answer.closed for answer in world.upstream.answers)


def test_what_nothing_can_shrink_is_the_upstreams_to_refuse_and_costs_no_summary() -> None:
    """Sent once, answered at once."""
    world = World(window=4_000, upstream=FakeUpstream(window=4_000))
    huge: Sequence[Message] = [{"role": "user", "content": "word " * 8_000}]
    assert play(world, huge, [*LONG[:-1], *huge]) == [
        "client → 1 messages",
        "upstream ← 1 messages: overflow window=4000 prompt=10007",
        "client ← 400 forward; irreducible",
        "client → 42 messages",
        "upstream ← 42 messages: overflow window=4000 prompt=14566",
        "client ← 400 forward; irreducible",
    ]
    assert world.upstream.bodies == [body_of(huge), body_of([*LONG[:-1], *huge])]


def test_a_hopeless_request_to_an_unknown_window() -> None:
    """The window is learned on the way, and the error is still the upstream's; the sizes are told, for they are known."""
    world = World(upstream=FakeUpstream(window=4_000))
    received = asyncio.run(world.chat([{"role": "user", "content": "word " * 8_000}]))
    assert world.lines == [
        "client → 1 messages",
        "upstream ← 1 messages: overflow window=4000 prompt=10007",
        "client ← 400 forward; irreducible",
    ]
    assert received.header("x-compaction-tokens") == "10007/10007"


def test_only_the_output_is_too_big() -> None:
    """It is lowered, nothing is summarised, and the next time it is lowered before it is sent."""
    world = World(window=4_000, upstream=FakeUpstream(window=4_000, counts_output=True))

    async def story() -> None:
        for _ in range(2):
            await world.chat(talk(12), max_tokens=3_000)

    asyncio.run(story())
    assert world.lines == [
        "client → 26 messages",
        "upstream ← 26 messages: overflow window=4000 prompt=2747 output=3000",
        "upstream ← 26 messages: 200",
        "client ← 200 pass; fits",
        "client → 26 messages",
        "upstream ← 26 messages: 200",
        "client ← 200 pass; fits",
    ]
    outputs = [json.loads(body)["max_tokens"] for body in world.upstream.bodies]
    assert outputs[0] == 3_000 and outputs[1] == outputs[2] < 4_000 - 2_747
    assert world.upstream.bodies[1] == world.upstream.bodies[0].replace(b": 3000", f": {outputs[1]}".encode())


def test_first_the_prompt_is_too_large_and_then_the_output() -> None:
    """Each is dealt with by itself."""
    answers = [refusing(400, json.dumps({"error": mute_wording(0, 0, 0)}).encode()), None]
    world = World(upstream=FakeUpstream(window=4_000, counts_output=True, script=answers))
    asyncio.run(world.chat(talk(40, 60), max_tokens=3_500))
    sizes = [(len(json.loads(body)["messages"]), json.loads(body)["max_tokens"]) for body in world.upstream.bodies]
    assert sizes[0] == (82, 3_500)
    assert sizes[1][0] < 82 and sizes[1][1] == 3_500
    assert sizes[2][0] == sizes[1][0] and sizes[2][1] < 3_500
    assert world.lines[-1] == "client ← 200 compact; refused" or world.lines[-1] == "client ← 200 reuse; known"


@pytest.mark.parametrize("status", [400, 404, 415, 422, 500])
def test_a_rewritten_request_refused_for_another_reason_is_followed_by_the_original(status: int) -> None:
    """Once; and what was refused is not sent there again."""
    world = World(window=4_000, upstream=FakeUpstream(script=[refusing(status, b'{"error":{"message":"alternate!"}}')]))
    lines = play(world, LONG)
    assert lines == [
        "client → 42 messages",
        "summariser ← 34 messages",
        f"upstream ← 8 messages: {status}",
        "upstream ← 42 messages: 200",
        "client ← 200 forward; failed",
    ]
    assert world.upstream.bodies[1] == body_of(LONG) and world.upstream.answers[0].closed
    lines.clear()
    play(world, LONG)
    assert "upstream ← 8 messages: 200" not in lines


@pytest.mark.parametrize("status", [401, 403, 408, 429, 502, 503])
def test_what_is_not_our_writings_fault_is_passed_on(status: int) -> None:
    """With the upstream's own headers and body."""
    headers: Headers = (*JSON, (b"retry-after", b"7"), (b"connection", b"x-hop"), (b"x-hop", b"1"))
    world = World(window=4_000, upstream=FakeUpstream(script=[refusing(status, b"its own words", headers)]))

    async def story() -> None:
        received = await world.chat(LONG)
        assert (received.status, received.body) == (status, b"its own words")
        assert received.header("retry-after") == "7" and received.header("x-hop") is None
        assert received.outcome == "compact; over-limit"

    asyncio.run(story())
    assert len(world.upstream.calls) == 1


def test_an_original_that_is_refused_is_not_sent_twice() -> None:
    """There is nothing else to send."""
    world = World(window=4_000, upstream=FakeUpstream(script=[refusing(400)]))
    assert play(world, talk(3)) == ["client → 8 messages", "upstream ← 8 messages: 400", "client ← 400 pass; fits"]


def test_an_overflow_in_a_stream_is_one() -> None:
    """A 200 whose first event is an error, behind a comment; the second answer streams through."""
    stream = [b": ok\n\n", b"data: " + OVERFLOW + b"\n\n"]
    good = [b'data: {"choices":[{"delta":{"content":"fi', b'ne"}}]}\n\n', b"data: [DONE]\n\n"]
    script = [lambda: FakeAnswer(200, stream, SSE), lambda: FakeAnswer(200, good, SSE)]
    world = World(upstream=FakeUpstream(script=script))

    async def story() -> None:
        received = await world.chat(LONG, stream=True)
        assert received.body == b"".join(good) and received.outcome == "compact; refused"

    asyncio.run(story())
    assert [answer.closed > 0 for answer in world.upstream.answers] == [True, True]


# --- modes and overrides


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"mode": "passthrough"}, None),
        ({"models": {"m": {"window": 4_000, "mode": "passthrough"}}}, None),
        ({}, OFF),
        ({"mode": "observe"}, OFF),
    ],
)
def test_passing_through_touches_nothing_not_even_after_an_overflow(
    settings: dict[str, Any], header: tuple[bytes, bytes] | None
) -> None:
    """Configured or asked for."""
    world = World(settings, window=4_000, upstream=FakeUpstream(window=4_000))
    assert play(world, (LONG, *([header] if header else []))) == [
        "client → 42 messages",
        "upstream ← 42 messages: overflow window=4000 prompt=4571",
        "client ← 400 pass; off",
    ]
    assert world.upstream.bodies == [body_of(LONG)]


def test_a_wish_that_means_nothing_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The request is served as one without a wish."""
    world = World(window=4_000)
    assert play(world, (talk(1), (b"x-compaction", b"of\xff")))[-1] == "client ← 200 pass; fits"
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        "x-compaction: 'of\\xff' means nothing (off, observe and force do)"
    ]


@pytest.mark.parametrize(("mode", "header"), [("observe", None), ("compact", OBSERVE)])
def test_observing_counts_and_changes_nothing(
    mode: str, header: tuple[bytes, bytes] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Counts are in the headers, of what would have been sent as well; no summariser is asked."""
    world = World({"mode": mode}, window=4_000, upstream=FakeUpstream(window=4_000))

    async def story() -> None:
        received = await world.chat(LONG, *([header] if header else []))
        assert (received.status, received.outcome) == (400, "pass; observe")
        assert received.header("x-compaction-tokens") == "4522/4522"
        would, size = (received.header("x-compaction-would") or "").split("; tokens=")
        assert would == "compact; over-limit" and 500 < int(size) < 3_200
        assert f' would="{would}; tokens={size}" ' in caplog.text
        short = await world.chat(talk(1), *([header] if header else []))
        assert short.header("x-compaction-would") == "pass; fits"

    caplog.set_level(logging.INFO)
    asyncio.run(story())
    assert world.upstream.bodies == [body_of(LONG), body_of(talk(1))] and not world.summariser.calls


def test_forcing_compacts_what_fits() -> None:
    """Asked for by the request; the header does not reach the upstream."""
    world = World(window=100_000)
    assert play(world, (LONG, FORCE))[-1] == "client ← 200 compact; forced"
    assert not [name for name, _ in world.upstream.calls[0].headers if name.startswith(b"x-compaction")]


def test_another_name_upstream_is_put_in_whatever_happens() -> None:
    """Nothing else is changed of what passes."""
    settings = {"models": {"m": {"window": 4_000, "upstream_model": "real"}}, "summarizer": {"model": None}}
    world = World(settings)
    play(world, talk(1), LONG, (talk(1), OFF))
    assert [json.loads(body)["model"] for body in world.upstream.bodies] == ["real"] * 3
    assert world.upstream.bodies[0] == body_of(talk(1), model="real") == world.upstream.bodies[2]
    assert world.summariser.calls[0].model == "real"


# --- request bodies in gzip


def test_a_compressed_request_passes_in_its_own_bytes() -> None:
    """With the header that says so."""
    packed = gz(body_of(talk(2)))
    world = World(window=4_000)
    asyncio.run(world.chat(packed, (b"Content-Encoding", b"gzip")))
    (call,) = world.upstream.calls
    assert call.body == packed and (b"Content-Encoding", b"gzip") in call.headers
    assert world.lines[-1] == "client ← 200 pass; fits"


def test_a_compressed_request_is_rewritten_in_plain() -> None:
    """Without the headers that described the old bytes."""
    packed = gz(body_of(LONG))
    described = ((b"Content-Encoding", b"gzip"), (b"Content-MD5", b"x"), (b"Digest", b"x"), (b"X-Kept", b"1"))
    world = World(window=4_000)
    asyncio.run(world.chat(packed, *described))
    (call,) = world.upstream.calls
    assert isinstance(call.body, bytes) and len(json.loads(call.body)["messages"]) == 8
    names = {name.lower() for name, _ in call.headers}
    assert b"x-kept" in names and not names & {b"content-encoding", b"content-md5", b"digest"}


@pytest.mark.parametrize(("body", "coding"), [(b"no gzip", b"gzip"), (gz(b"x")[:-3], b"gzip"), (b"x", b"rot13")])
def test_what_cannot_be_unpacked_passes(body: bytes, coding: bytes) -> None:
    """The upstream may know how."""
    world = World(window=4_000)
    asyncio.run(world.chat(body, (b"content-encoding", coding)))
    assert world.upstream.bodies == [body] and world.lines[-1] == "client ← 200 pass; unreadable"


# --- what breaks inside


class Broken:
    """Stands in for any part: whatever it is asked, it raises."""

    def __getattr__(self, name: str) -> Any:
        def fail(*args: Any, **options: Any) -> Any:
            raise ZeroDivisionError("the client's own words")

        return fail


@pytest.mark.parametrize("part", ["_reader", "_checkpoints", "_knowledge"])
def test_whatever_breaks_before_sending_the_original_goes_out(part: str, caplog: pytest.LogCaptureFixture) -> None:
    """And the log says where, without the words of the exception."""
    world = World(window=4_000)
    setattr(world.decider, part, Broken())
    received = asyncio.run(world.chat(LONG))
    assert (received.status, received.outcome) == (200, "forward; failed")
    assert world.upstream.bodies == [body_of(LONG)]
    assert "ZeroDivisionError at test_engine.py" in caplog.text and "own words" not in caplog.text


@pytest.mark.parametrize("part", ["_compactor", "_prudence"])
def test_a_part_of_the_engine_that_breaks_costs_the_compaction_alone(part: str) -> None:
    """The same, further on."""
    world = World(window=4_000)
    setattr(world.engine._preparer, part, Broken())
    play(world, LONG, LONG)
    assert world.upstream.bodies[0] == body_of(LONG) or part == "_prudence"
    assert all(line.startswith("client ← 200") for line in world.lines if line.startswith("client ←"))


def test_a_refusal_that_nothing_can_be_learned_from_is_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    """Learning fails open too, and the answer is the upstream's own."""
    world = World(upstream=FakeUpstream(window=4_000))
    world.decider.learn = Broken().learn  # type: ignore[method-assign]
    received = asyncio.run(world.chat(LONG))
    assert received.status == 400 and b"maximum context length" in received.body
    assert len(world.upstream.calls) == 1
    assert "ZeroDivisionError" in caplog.text and "own words" not in caplog.text


def test_a_usage_that_cannot_be_taken_in_breaks_no_answer() -> None:
    """The client has read it to the end by then."""
    world = World(window=4_000)
    world.knowledge.saw_usage = Broken().saw  # type: ignore[method-assign]
    received = asyncio.run(world.chat(LONG))
    assert received.status == 200 and json.loads(received.body)["usage"]


@pytest.mark.parametrize("reply", [SummaryError("timeout"), "", "<html>busy</html>", SummaryAnswer("", "tool_calls")])
def test_a_summariser_that_fails_costs_no_request(reply: Any) -> None:
    """A machine writes, now and while it rests; what goes out is within the window."""
    world = World(window=4_000, upstream=FakeUpstream(window=4_000), summariser=FakeSummariser(script=[reply] * 9))
    play(world, LONG, talk(21), talk(60))
    assert all(line.startswith("client ← 200") for line in world.lines if line.startswith("client ←"))
    assert len(world.summariser.calls) <= 2
    found = asyncio.run(world.store.find(*_keys(world, LONG)))
    assert {made.rung for made in found} == {Rung.DIGEST}


def _keys(world: World, messages: Sequence[Message]) -> tuple[str, list[str]]:
    async def story() -> tuple[str, list[str]]:
        opened = world.engine._open(incoming(body_of(messages)))
        assert opened is not None
        await world.decider.decide(opened, None, "over-limit")
        return opened.tenant, opened.keys

    return asyncio.run(story())


@pytest.mark.parametrize("broken", [["find"], ["put"], ["remember"], ["lease"], ["find", "put", "remember", "lease"]])
def test_a_store_that_fails_costs_no_request(broken: list[str]) -> None:
    """Nor a summary more, in this process."""
    world = World(upstream=FakeUpstream(window=4_000), store=NotedStore(broken=broken))
    play(world, LONG, LONG)
    assert [line for line in world.lines if line.startswith("client ←")] == [
        "client ← 200 compact; refused",
        "client ← 200 reuse; known",
    ]


@pytest.mark.parametrize("error", [Unreachable("refused"), UpstreamTimeout("late")])
def test_no_answer_at_all_is_raised(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What `Upstream.send` raises reaches the web, which has words for it; each is a line in the log."""
    world = World(window=4_000, upstream=FakeUpstream(script=[lambda: error, lambda: error]))
    for body in (LONG, b"no chat"):
        with pytest.raises(type(error)):
            asyncio.run(world.chat(body))
    one, *_, other = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert f"{error} status=50" in one and other.startswith(f"pass; unreadable: {error} status=50")


# --- clients that leave


class Waiting(FakeUpstream):
    """Answers the first request with `script`, and never the second."""

    async def send(self, call: Call) -> Answer:
        if self.calls:
            self.calls.append(call)
            await asyncio.Event().wait()
        return await super().send(call)


def test_a_refused_answer_is_closed_when_the_client_leaves_during_the_summary() -> None:
    """Nothing is left open; the summary goes on, and serves the next turn."""
    world = World(upstream=FakeUpstream(window=4_000))

    async def story() -> None:
        gate = world.summariser.gate = asyncio.Event()
        task = asyncio.create_task(world.chat(LONG))
        await until(lambda: bool(world.summariser.calls))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [answer.closed for answer in world.upstream.answers] == [1]
        gate.set()
        await until(lambda: not world.compactor._flights)
        await world.chat(LONG)

    asyncio.run(story())
    assert world.lines[-2:] == ["upstream ← 8 messages: 200", "client ← 200 reuse; known"]


def test_a_refused_answer_is_closed_when_the_retry_gets_none() -> None:
    """The client gets the upstream's own error, not ours; no connection is kept."""
    script = [refusing(400, OVERFLOW), lambda: Unreachable("gone")]
    world = World(upstream=FakeUpstream(script=script))
    assert asyncio.run(world.chat(LONG)).status == 400
    assert all(answer.closed for answer in world.upstream.answers) and world.upstream.answers


@pytest.mark.parametrize("first", [refusing(400, OVERFLOW), refusing(422)])
def test_a_refused_answer_is_closed_when_the_client_leaves_during_the_retry(first: Any) -> None:
    """An overflow before it is made shorter, and another refusal before the original follows."""
    upstream = Waiting(script=[first])
    world = World(window=4_000, upstream=upstream)

    async def story() -> None:
        task = asyncio.create_task(world.chat(LONG))
        await until(lambda: len(upstream.calls) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert all(answer.closed for answer in upstream.answers) and upstream.answers


# --- waiting


def test_a_slow_summariser_delays_one_request_by_its_wait_and_no_other() -> None:
    """Its result serves the turn after that."""
    world = World({"summarizer": {"wait": 0.05}}, window=4_000)

    async def story() -> None:
        gate = world.summariser.gate = asyncio.Event()
        await world.chat(LONG)
        world.clock.advance(1)
        await world.chat(LONG)
        gate.set()
        await until(lambda: not world.compactor._flights)
        await world.chat(LONG)

    asyncio.run(story())
    assert world.lines == [
        "client → 42 messages",
        "summariser ← 34 messages: silence",
        "upstream ← 8 messages: 200",
        "client ← 200 compact; over-limit",
        "client → 42 messages",
        "upstream ← 8 messages: 200",
        "client ← 200 reuse; known",
        "summariser ← 34 messages",
        "client → 42 messages",
        "upstream ← 8 messages: 200",
        "client ← 200 reuse; known",
    ]
    assert GOOD in world.sent()[1]["content"] and GOOD not in world.sent(0)[1]["content"]


class SlowStore(NotedStore):
    """Each question takes it a second of the fake clock."""

    world: World

    async def find(self, tenant: str, keys: Sequence[str]) -> list[Checkpoint]:
        self.world.clock.advance(1)
        return await super().find(tenant, keys)


def test_what_the_rest_took_is_no_more_to_be_waited() -> None:
    """The wait is that of the request, not of its last step."""
    store = SlowStore()
    store.world = world = World({"summarizer": {"wait": 1}}, window=4_000, store=store)

    async def story() -> None:
        world.summariser.gate = asyncio.Event()
        await asyncio.wait_for(world.chat(LONG), 0.9)
        await world.compactor.aclose()

    asyncio.run(story())
    assert world.lines[-1] == "client ← 200 compact; over-limit"


def test_two_at_once_are_one_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process or in two."""
    monkeypatch.setattr(compactor_module, "POLL", 0.005)
    store = NotedStore()
    one, other = (World(window=4_000, store=store) for _ in range(2))

    async def story() -> None:
        await asyncio.gather(one.chat(LONG), one.chat(LONG), other.chat(LONG))

    asyncio.run(story())
    assert len(one.summariser.calls) + len(other.summariser.calls) == 1
    assert len({*one.upstream.bodies, *other.upstream.bodies}) == 1


# --- what is told


def test_headers_and_log_tell_numbers_and_names_alone(caplog: pytest.LogCaptureFixture) -> None:
    """One line a request: what was done and why, status, model, sizes, time; and one a compaction. No text, no key."""
    caplog.set_level(logging.INFO)
    world = World(upstream=FakeUpstream(window=4_000))
    secret: Message = {"role": "user", "content": "My password is swordfish."}

    async def story() -> None:
        first = await world.chat([*LONG, secret])
        assert first.outcome == "compact; refused"
        before, after = map(int, (first.header("x-compaction-tokens") or "").split("/"))
        assert before > 4_000 > after
        made = first.header("x-compaction-checkpoint")
        second = await world.chat([*LONG, secret])
        assert (second.outcome, second.header("x-compaction-checkpoint")) == ("reuse; known", made)
        third = await world.chat(talk(1))
        assert third.header("x-compaction-tokens") is third.header("x-compaction-checkpoint") is None
        await world.chat(b"swordfish")

    asyncio.run(story())
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    compactions = [line.split(" tokens=")[0] for line in told if line.startswith("compaction ")]
    told = [line for line in told if not line.startswith("compaction ")]
    assert len(compactions) == 1 and compactions[0].endswith(" turns=0-33 of 42 reason=refused by=model")
    made = compactions[0].split()[1].removesuffix(":")
    assert [line.split(" tokens=")[0] for line in told] == [
        f"compact; refused by=model checkpoint={made} status=200 model='m' messages=43",
        f"reuse; known by=model checkpoint={made} status=200 model='m' messages=43",
        "pass; fits status=200 model='m' messages=4",
        "pass; unreadable status=200",
    ]
    assert told[2].endswith(" tokens=- ms=0")
    for word in ("swordfish", "key-of-a-client", "Question", "harbour"):
        assert word not in caplog.text


def test_a_models_name_cannot_write_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """It is the client's to choose."""
    caplog.set_level(logging.INFO)
    world = World(upstream=FakeUpstream(window=4_000))
    asyncio.run(world.chat(LONG, model="m\n2026 INFO all is well \ud800"))
    assert caplog.records and all("\n" not in record.getMessage() for record in caplog.records)


def test_a_models_name_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Nor what is learned of it, nor what fails."""
    caplog.set_level(logging.INFO)
    script = [None, None, lambda: Unreachable("reset")]
    world = World({"summarizer": {"model": None}}, upstream=FakeUpstream(window=4_000, script=script))
    world.summariser.script = [SummaryError("silent")]
    asyncio.run(world.chat(LONG, model="m" * 300_000))
    with pytest.raises(Unreachable):
        asyncio.run(world.chat(talk(1), model="m" * 300_000))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) >= 4 and max(map(len, said)) < 400


@pytest.mark.parametrize(
    ("window", "size", "patient"),
    [(6_000, 1, False), (6_000, 20, True), (32_000, 20, False), (None, 1, False), (None, 100, True)],
)
def test_only_where_a_refusal_may_come_is_it_waited_for(window: int | None, size: int, patient: bool) -> None:
    """A stream that begins with comments goes on to the client at once unless the request may well be too long."""
    gate = asyncio.Event()
    late: list[bytes | BaseException | asyncio.Event] = [
        b": wait\n\n",
        gate,
        b'data: {"choices":[{"delta":{"content":"fine"}}]}\n\n',
    ]
    world = World(window=window, upstream=FakeUpstream(script=[lambda: FakeAnswer(200, late, SSE)]))

    async def story() -> None:
        task = asyncio.create_task(world.engine.chat(incoming(body_of(talk(size)))))
        done, _ = await asyncio.wait({task}, timeout=1.5)
        assert bool(done) != patient
        gate.set()
        await (await task).aclose()

    asyncio.run(story())


def test_every_outcome_is_in_the_table() -> None:
    """Whatever the stories of this file come to."""
    worlds = [World(window=4_000), World(), World({"mode": "observe"}, window=4_000), World(window=300)]
    for world in worlds:
        play(
            world,
            LONG,
            LONG,
            talk(1),
            b"x",
            (LONG, OFF),
            (talk(30), FORCE),
            [{"role": "system", "content": "x " * 9_000}],
        )
        for line in world.lines:
            if line.startswith("client ←"):
                decision, reason = line.removeprefix("client ← 200 ").split("; ")
                assert (decision, reason) in OUTCOMES


def test_the_usage_of_one_turn_corrects_the_count_of_the_next() -> None:
    """A tokeniser that makes 1.6 times as many: after the first answers no overflow reaches the upstream."""
    world = World(window=4_000, upstream=FakeUpstream(window=4_000, factor=1.6))
    play(world, *(talk(i) for i in range(1, 40)))
    refusals = [i for i, line in enumerate(world.lines) if "overflow" in line]
    assert all(line.startswith("client ← 200") for line in world.lines if line.startswith("client ←"))
    assert len(refusals) <= 1
    assert count("x" * 4) == 1


@pytest.mark.parametrize("window", [None, 4_000])
def test_a_usage_that_cannot_be_taken_in_costs_the_client_nothing(
    window: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All bytes are out by then: the answer ends as it should, and the log says what kind of failure it was."""
    world = World(window=window)

    async def broken(*_: object, **__: object) -> None:
        raise ValueError("the client's own words")

    monkeypatch.setattr(world.knowledge, "saw_usage", broken)

    async def story() -> None:
        assert (await world.chat(talk(12))).status == 200
        await until(lambda: "ValueError" in caplog.text)

    asyncio.run(story())
    assert "own words" not in caplog.text


def test_the_end_of_an_answer_does_not_wait_for_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no window is known nothing is counted before: a long conversation takes a second."""
    world = World()
    gate = asyncio.Event()

    async def counted(_: object) -> int:
        await gate.wait()
        return 7

    monkeypatch.setattr(world.decider, "count", counted)

    async def story() -> None:
        assert (await world.chat(talk(12))).outcome == "pass; window-unknown"
        await world.engine.aclose()

    asyncio.run(story())


# --- processes that share a store


def test_a_late_summary_is_used_by_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the same request would go out in other bytes each time another one takes it."""
    shared = MemoryStore()
    monkeypatch.setattr(background_module, "QUIET", 0.0)
    one = World({"summarizer": {"wait": 0.05}}, window=4_000, store=shared)
    other = World(window=4_000, store=shared)

    async def story() -> None:
        one.summariser.gate = asyncio.Event()
        await one.chat(LONG)
        assert (await other.chat(LONG)).outcome == "reuse; known"
        assert one.upstream.bodies[-1] == other.upstream.bodies[-1]
        one.summariser.gate.set()
        await summarised(shared)
        for world in (other, one, other):
            assert (await world.chat(LONG)).outcome == "reuse; known"
            assert GOOD in str(world.sent())
        assert one.upstream.bodies[-1] == other.upstream.bodies[-1]
        for world in (one, other):
            await world.background.aclose()
            await world.compactor.aclose()

    asyncio.run(story())
    assert len(one.summariser.calls) == 1 and not other.summariser.calls


# --- any conversation


def kept(messages: Sequence[Message], sent: bytes) -> bool:
    """Whether head, last real user message and what is pending stand verbatim in what was sent.

    Compared in one spelling of JSON: where two user messages become one, the first one's escapes may change.
    """
    text = json.dumps(json.loads(sent))
    head = turns.head_length([str(m.get("role")) for m in messages])
    facts = [turns.read(m, 10) for m in messages[head:]]
    user, pending = turns.last_real_user(facts), turns.pending(facts)
    shortened = "characters left out" in text
    for index, (message, fact) in enumerate(zip(messages[head:], facts, strict=True)):
        content = message.get("content")
        words = json.dumps(content)[1:-1] if isinstance(content, str | list) else ""
        if (index == user or index >= pending) and words not in text and not (shortened and fact.role == "tool"):
            return False
    return all(json.dumps(message) in text for message in messages[:head])


@settings(max_examples=150, deadline=None)
@given(
    conversations(most=25),
    st.sampled_from([1_100, 1_500, 4_000]),
    st.sampled_from([None, 1.0, 3.0]),
    st.sampled_from([openai_wording, mute_wording]),
    st.sampled_from([1.0, 1.6]),
    st.sampled_from([{}, {"max_tokens": 300}, {"max_tokens": None, "stream": True, "tools": []}]),
)
def test_any_request_is_answered(
    messages: list[Message], window: int, known: float | None, wording: Any, factor: float, fields: Message
) -> None:
    """However odd: never an exception, never an empty list, a bounded number of attempts, nothing lost that must stay."""
    upstream = FakeUpstream(window=window, wording=wording, factor=factor, counts_output=True)
    world = World(window=int(window * known) if known else None, upstream=upstream)
    request = raw(messages)
    would_do = upstream.tokens({"messages": messages}) + (fields.get("max_tokens") or 0) <= window
    body = json.dumps({"model": "m", **fields})[:-1].encode() + b',"messages":[' + b", ".join(request) + b"]}"

    async def story() -> None:
        for _ in range(2):
            upstream.calls.clear()
            upstream.accepted.clear()
            received = await world.chat(body)
            assert received.status in (200, 400)
            assert (received.status == 200) == (len(upstream.accepted) == 1)
            assert 1 <= len(upstream.calls) <= 5 and len(set(upstream.bodies)) == len(upstream.bodies)
            for sent in upstream.bodies:
                assert json.loads(sent)["messages"]
                assert kept(messages, sent)
            assert received.status == 200 or not would_do  # never worse than without us

    asyncio.run(story())
