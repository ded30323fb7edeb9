"""Looking at an answer's beginning: what is found, and that the client gets every byte as it came."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

import brotli  # type: ignore[import-untyped]  # it brings no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.adapters.codings import ALL_CODINGS
from proxy.core.overflow import Overflow
from proxy.engine.verdict import HELD_MOST, TAIL, UNPACKED_MOST, WHOLE_MOST, Observed, examine
from proxy.errors import Unreachable
from proxy.ports import Headers
from tests.engine.fakes import JSON, SSE, FakeAnswer, openai_wording, until
from tests.packed import gz

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REFUSAL = json.dumps({"error": openai_wording(4000, 5000, 0)}).encode()
TOO_LONG = Overflow(window=4000, prompt=5000)
RATE = b'{"error":{"message":"Rate limit reached for m","type":"requests","code":"rate_limit_exceeded"}}'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
SAID = b'data: {"choices":[{"index":0,"delta":{"content":"prompt is too long: 5 > 4 tokens"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b"data: " + REFUSAL + b"\n\n"
CALL = b'{"choices":[{"message":{"role":"assistant","content":"an \\"error\\": This model\'s maximum context length is 9"}}]}'
GZIP: Headers = ((b"content-encoding", b"gzip"),)


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[i : i + size] for i in range(0, len(body), size)]


async def read(answer: FakeAnswer) -> tuple[Overflow | None, bytes]:
    verdict = await examine(answer)
    assert (verdict.answer.status, verdict.answer.headers) == (answer.status, answer.headers)
    body = b"".join([chunk async for chunk in verdict.answer.chunks()])
    await verdict.answer.aclose()
    return verdict.overflow, body


CASES: list[tuple[str, int, Headers, bytes, Overflow | None]] = [
    ("a refusal", 400, JSON, REFUSAL, TOO_LONG),
    ("a refusal in gzip", 400, (*JSON, *GZIP), gz(REFUSAL), TOO_LONG),
    ("a refusal without a type", 500, (), REFUSAL, TOO_LONG),
    ("a long refusal, read off the loop", 400, JSON, REFUSAL[:-1] + b',"pad":"' + b"x" * 9_000 + b'"}', TOO_LONG),
    ("another error", 400, JSON, b'{"error":{"message":"no such model"}}', None),
    ("a rate limit that names tokens", 429, JSON, REFUSAL, None),
    ("an error in an unknown coding", 400, (*JSON, (b"content-encoding", b"br")), REFUSAL, None),
    ("an error that is no gzip after all", 400, (*JSON, *GZIP), REFUSAL, None),
    ("an empty error", 502, (), b"", None),
    ("a completion", 200, JSON, CALL, None),
    ("a 200 with an error in it", 200, JSON, REFUSAL, TOO_LONG),
    ("a 200 with an error, in gzip", 200, (*JSON, *GZIP), gz(REFUSAL), TOO_LONG),
    ("a 200 with another error", 200, JSON, RATE, None),
    ("something else", 200, ((b"content-type", b"audio/mpeg"),), REFUSAL, None),
    ("no type at all", 200, (), REFUSAL, None),
    ("a stream", 200, SSE, ROLE + SAID + DONE, None),
    ("an error at once", 200, SSE, ERROR, TOO_LONG),
    (
        "an error behind comments and a role",
        200,
        SSE,
        b": hello\n\n" + ROLE + b": still here\n\n" + ERROR + DONE,
        TOO_LONG,
    ),
    ("an error behind CR LF", 200, SSE, (b": hi\n\n" + ERROR).replace(b"\n", b"\r\n"), TOO_LONG),
    ("an error without a last blank line", 200, SSE, ROLE + ERROR.rstrip(), TOO_LONG),
    ("an error event by name", 200, SSE, b"event: error\ndata: " + REFUSAL + b"\n\n", TOO_LONG),
    ("an error behind an answer", 200, SSE, SAID + ERROR, None),
    ("another error in a stream, then ours", 200, SSE, b"data: " + RATE + b"\n\n" + ERROR, None),
    ("an empty stream", 200, SSE, b"", None),
    ("a stream that says nothing", 200, SSE, ROLE + DONE, None),
    ("a stream in gzip", 200, (*SSE, *GZIP), gz(ROLE + SAID + DONE), None),
    ("an error in a stream in gzip", 200, (*SSE, *GZIP), gz(ROLE + ERROR), TOO_LONG),
    ("a stream in an unknown coding", 200, (*SSE, (b"content-encoding", b"zstd")), ERROR, None),
    ("a stream that is no gzip after all", 200, (*SSE, *GZIP), ERROR, None),
]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(("status", "headers", "body", "said"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_an_answer_says_however_it_arrives(
    status: int, headers: Headers, body: bytes, said: Overflow | None, size: int
) -> None:
    """One verdict for any chunks, one byte at a time included, and the same bytes behind it."""
    assert asyncio.run(read(FakeAnswer(status, cut(body, size), headers))) == (said, body)


@given(st.sampled_from(CASES), st.lists(st.integers(0, 400), max_size=8))
def test_any_split_is_replayed_byte_for_byte(
    case: tuple[str, int, Headers, bytes, Overflow | None], at: Sequence[int]
) -> None:
    """Empty chunks too."""
    _, status, headers, body, said = case
    marks = [0, *sorted(min(a, len(body)) for a in at), len(body)]
    pieces = [body[a:b] for a, b in itertools.pairwise(marks)]
    assert asyncio.run(read(FakeAnswer(status, pieces, headers))) == (said, body)


def test_a_stream_is_held_back_no_longer_than_to_its_first_word() -> None:
    """What comes behind it is not waited for."""

    async def story() -> None:
        answer = FakeAnswer(200, [b": hi\n\n", ROLE, SAID, asyncio.Event(), DONE], SSE)
        verdict = await asyncio.wait_for(examine(answer), 5)
        assert verdict.overflow is None and answer.given == 3
        chunks = verdict.answer.chunks()
        assert [await anext(chunks) for _ in range(3)] == [b": hi\n\n", ROLE, SAID]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("status", "headers", "piece", "most"),
    [
        (400, JSON, b"x" * 40_000, HELD_MOST),
        (200, JSON, b'{"error":' * 4_000, WHOLE_MOST),
        (200, SSE, b": nothing yet\n\n" * 3_000, HELD_MOST),
    ],
)
def test_what_is_larger_than_the_bounds_is_passed_on(status: int, headers: Headers, piece: bytes, most: int) -> None:
    """No more than the bound and one chunk is held, and nothing is lost of an answer that goes on."""
    number = most // len(piece) + 5

    async def story() -> None:
        answer = FakeAnswer(status, [piece] * number, headers)
        verdict = await examine(answer)
        assert verdict.overflow is None
        assert answer.given == most // len(piece) + 1 < number
        assert b"".join([chunk async for chunk in verdict.answer.chunks()]) == piece * number

    asyncio.run(story())


def test_a_dense_error_is_passed_on_unread() -> None:
    """A megabyte of zeros in a kilobyte of gzip is not unpacked, and not lost."""
    body = gz(REFUSAL[:-1] + b" " * 3_000_000 + b"}")
    assert asyncio.run(read(FakeAnswer(400, body, (*JSON, *GZIP)))) == (None, body)


@pytest.mark.parametrize(("status", "headers"), [(400, JSON), (200, JSON), (200, SSE)])
def test_an_answer_that_breaks_off_is_closed(status: int, headers: Headers) -> None:
    """Whoever raises has cleaned up."""

    async def story() -> None:
        answer = FakeAnswer(status, [b": hi\n\n", Unreachable("reset")], headers)
        with pytest.raises(Unreachable):
            await examine(answer)
        assert answer.closed == 1

    asyncio.run(story())


@pytest.mark.parametrize(("status", "headers"), [(400, JSON), (200, JSON), (200, SSE)])
@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_client_that_leaves_while_we_look_closes_the_answer(
    status: int, headers: Headers, seconds: float | None
) -> None:
    """Cancellation is no exception to that."""

    async def story() -> None:
        answer = FakeAnswer(status, [b": hi\n\n", asyncio.Event()], headers)
        task = asyncio.create_task(examine(answer, seconds=seconds))
        await until(lambda: answer.given == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert answer.closed == 1

    asyncio.run(story())


# --- for how long


COMMENTS = [b": wait\n\n"] * 3
BLANKS = [b"\n"] * 3


@pytest.mark.parametrize(
    ("headers", "first", "last"), [(SSE, COMMENTS, ERROR), (SSE, [ROLE], SAID + DONE), (JSON, BLANKS, CALL)]
)
@pytest.mark.parametrize("chunks", [1, 2])
def test_a_200_that_says_nothing_is_let_go(headers: Headers, first: list[bytes], last: bytes, chunks: int) -> None:
    """Signs of life reach the client before there is an answer, and not a byte is lost of what comes then."""

    async def story() -> None:
        gate = asyncio.Event()
        answer = FakeAnswer(200, [*first, gate, *cut(last, len(last) // chunks + 1)], headers)
        verdict = await examine(answer, seconds=0.02)
        assert verdict.overflow is None
        given = verdict.answer.chunks()
        assert [await anext(given) for _ in first] == first
        gate.set()
        assert b"".join([chunk async for chunk in given]) == last
        await verdict.answer.aclose()
        assert answer.closed == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("headers", "body", "said"), [(SSE, ERROR, TOO_LONG), (JSON, CALL, None), (JSON, REFUSAL, TOO_LONG)]
)
@pytest.mark.parametrize("size", [1, 100_000])
def test_what_comes_in_time_is_looked_at(headers: Headers, body: bytes, said: Overflow | None, size: int) -> None:
    """A bound on the time changes nothing for it."""

    async def story() -> None:
        verdict = await examine(FakeAnswer(200, cut(body, size), headers), seconds=60.0)
        assert verdict.overflow == said
        assert b"".join([chunk async for chunk in verdict.answer.chunks()]) == body

    asyncio.run(story())


def test_an_error_is_read_to_its_end() -> None:
    """It is no sign of life."""

    async def story() -> None:
        gate = asyncio.Event()
        task = asyncio.create_task(examine(FakeAnswer(400, [REFUSAL[:10], gate, REFUSAL[10:]]), seconds=0.01))
        await asyncio.sleep(0.05)
        assert not task.done()
        gate.set()
        assert (await task).overflow == TOO_LONG

    asyncio.run(story())


@pytest.mark.parametrize("read", [0, 1, 2])
@pytest.mark.parametrize("end", [asyncio.Event, lambda: Unreachable("reset")])
def test_an_answer_that_was_let_go_can_be_closed_at_any_time(read: int, end: Callable[[], object]) -> None:
    """Whether the chunk that had not come is awaited, or nobody asked for it; nothing is left running."""

    async def story() -> None:
        gate = asyncio.Event()
        answer = FakeAnswer(200, [b": hi\n\n", gate, end()], SSE)  # type: ignore[list-item]
        verdict = await examine(answer, seconds=0.01)
        reader = asyncio.create_task(collect(verdict.answer.chunks(), read))
        await asyncio.sleep(0.01)
        gate.set()
        await asyncio.sleep(0.01)
        reader.cancel()
        await asyncio.wait([reader])
        if not reader.cancelled():
            reader.exception()
        await verdict.answer.aclose()
        await verdict.answer.aclose()
        assert answer.closed == 2
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


async def collect(chunks: AsyncIterator[bytes], number: int) -> list[bytes]:
    return [await anext(chunks) for _ in range(number)]


def test_an_answer_that_breaks_off_later_raises_where_it_is_read() -> None:
    """Behind the held bytes, as it would have without us."""

    async def story() -> None:
        verdict = await examine(FakeAnswer(200, [SAID, Unreachable("reset")], SSE))
        chunks = verdict.answer.chunks()
        assert await anext(chunks) == SAID
        with pytest.raises(Unreachable):
            await anext(chunks)

    asyncio.run(story())


# --- usage

USAGE = b'{"choices":[{"message":{"content":"\\"prompt_tokens\\": 7"}}],"usage":{"prompt_tokens" : 41,"prompt_tokens_details":{}}}'


@pytest.mark.parametrize(
    ("body", "prompts"),
    [
        (USAGE, [41]),
        (b"data: " + USAGE + b"\n\n" + DONE, [41]),
        (USAGE + b" " * (TAIL - 60), [41]),
        (USAGE + b" " * TAIL, []),
        (CALL, []),
        (b'{"usage":{"prompt_tokens":3}}' + USAGE, [41]),
        (b'{"usage":{"prompt_tokens":12345678901}}', []),
        (gz(USAGE), []),
    ],
)
@pytest.mark.parametrize("size", [1, 30_000])
def test_the_usage_is_reported_once_behind_the_last_byte(body: bytes, prompts: list[int | None], size: int) -> None:
    """The last one at the answer's end; none from the text of a completion."""
    found: list[int | None] = []

    async def report(prompt: int | None, cached: bool) -> None:
        found.append(prompt)

    async def story() -> bytes:
        observed = Observed(FakeAnswer(200, cut(body, size)), JSON, report)
        return b"".join([chunk async for chunk in observed.chunks()])

    assert asyncio.run(story()) == body
    assert found == (prompts or [None])


def packed(coding: bytes, body: bytes) -> bytes:
    return bytes({b"br": brotli.compress, b"zstd": zstd.compress, b"deflate": zlib.compress}.get(coding, gz)(body))


STREAM = ROLE + SAID * 300 + b"data: " + USAGE + b"\n\n" + DONE
BOMB = b" " * UNPACKED_MOST + USAGE


@pytest.mark.parametrize("size", [1, 50, 30_000])
@pytest.mark.parametrize(
    ("coding", "body", "prompts"),
    [
        *((coding, packed(coding, STREAM), [41]) for coding in (b"gzip", b"x-gzip", b"deflate", b"br", b"zstd")),
        (b"br, gzip", gz(packed(b"br", STREAM)), [41]),
        (b"identity", STREAM, [41]),
        (b"gzip", gz(BOMB), []),
        (b"gzip", gz(STREAM)[:-200] + b"no gzip" * 30, []),
        (b"gzip", STREAM, []),
        (b"compress", STREAM, []),
    ],
    ids=["gzip", "x-gzip", "deflate", "br", "zstd", "two", "identity", "dense", "damaged", "none", "unknown"],
)
def test_the_usage_of_a_compressed_answer(coding: bytes, body: bytes, prompts: list[int | None], size: int) -> None:
    """Unpacked on the side, within bounds; the client gets the bytes as they came, whatever they are."""
    found: list[int | None] = []

    async def report(prompt: int | None, cached: bool) -> None:
        found.append(prompt)

    async def story() -> bytes:
        answer = FakeAnswer(200, cut(body, size), (*SSE, (b"content-encoding", coding)))
        observed = Observed(answer, SSE, report, ALL_CODINGS)
        return b"".join([chunk async for chunk in observed.chunks()])

    assert asyncio.run(story()) == body
    assert found == (prompts or [None])


def test_an_answer_that_breaks_off_reports_nothing() -> None:
    """Its usage may be half a number."""

    async def report(prompt: int | None, cached: bool) -> None:
        raise AssertionError("not to be called")

    async def story() -> None:
        answer = FakeAnswer(200, [USAGE, Unreachable("reset")])
        observed = Observed(answer, ((b"x", b"y"),), report)
        with pytest.raises(Unreachable):
            [chunk async for chunk in observed.chunks()]
        await observed.aclose()
        assert answer.closed and observed.headers == ((b"x", b"y"),)

    asyncio.run(story())
