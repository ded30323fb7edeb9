"""Gets the prose of a summary out of a model: chunks what is too long, judges what comes, tries the next one.

Knows nothing of checkpoints; `compactor.py` knows nothing of prompts.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from cachetools import LRUCache

from proxy.core import summary, transcript
from proxy.core.fit import cut, fit
from proxy.core.judge import judge, mend
from proxy.core.outline import outline
from proxy.core.redact import redact
from proxy.core.replacement import condense
from proxy.engine.aside import Aside
from proxy.engine.bill import Charge, Effort
from proxy.engine.knowledge import Target
from proxy.engine.prudence import Prudence
from proxy.errors import NO_SUMMARY, SummaryError
from proxy.ports import Headers, Summariser, SummaryAnswer, SummaryCall
from proxy.routing import origin

log = logging.getLogger("compaction_proxy")

CALLS_MOST = 8
"""Calls of one compaction; what is older than they reach goes through the model-free rung (design, section 4)."""

FIT = 0.94
"""One call while the whole fits this share of the summariser's window less its output; the rest covers its template and
what our count of it misses."""

SQUEEZES = (4 / 6, 4 / 12)
"""Characters a block may have for each token of room (a sixth, then a twelfth of the room, at four characters a token)
where that saves a second call: a cut in the middle of the longest results costs less than a summary of a summary."""

SHRINK = 1.15
"""The least by which a refused call is made smaller."""

UNKNOWN_SCALE = 1.3
"""Tokens for one of ours at a summariser that has not answered yet (Letta's margin on an estimate)."""

MOST_SCALE = 4.0
"""A usage that states more than so many tokens for one of ours is not believed."""

WIDE = 6
"""Characters a token has at most in a long text: what lies further back than that many calls could hold is not counted,
and not asked about."""

LEAST_ROOM = 64
"""Tokens of transcript in a call, however small the summariser's window."""

OUTPUT_SHARE = 0.25
OUTPUT_SPARE = 1.3
OUTPUT_LEAST = 400
"""An answer may take 1.3 times the budget and at least 400 tokens, but no more than a quarter of the window."""

ASSUMED_WINDOW = 16_384
"""Tokens, where nothing is known of a summariser's window: most served models have at least that."""

LONGEST = 4
"""Times its budget that a summary may have. Of a longer one the sentences that say most are kept, for it goes along
with every later call."""

WORDS_PER_TOKEN = 0.7
"""English prose in o200k_base; only a wish to the model, the budget is kept mechanically."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A summariser that may be asked, and how. `scale`: its tokens for one of ours, None if unknown. `instructions` and
    `prompt` are the operator's (see `core.summary.prompt`)."""

    url: str
    headers: Headers
    model: str
    window: int | None
    max_tokens: int | None
    calls_per_hour: int
    scale: float | None
    silence: float
    total: float
    instructions: str | None = None
    prompt: str | None = None

    @property
    def target(self) -> Target:
        """Whose prices hold."""
        return Target(self.url.partition("?")[0].removesuffix("/chat/completions"), self.model)

    @property
    def name(self) -> str:
        """Who is asked with whose credentials: a key that is refused must not close the door to the others."""
        return f"{self.url} {self.model} {hash(self.headers):x}"


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be told. `messages` are parsed and start at turn `first`; `starts` are the starts of their rounds.
    `budget`: our tokens that the prose may take. `instructions`: those that hold for this one alone."""

    messages: Sequence[dict[str, Any]]
    first: int
    starts: Sequence[int]
    previous: str | None
    form: summary.Form
    budget: int
    instructions: str | None = None


class Narrator:
    def __init__(self, summariser: Summariser, prudence: Prudence, count: Callable[[str], int]) -> None:
        self._summariser = summariser
        self._prudence = prudence
        self._count = count
        self._aside = Aside(1)  # between two calls there is little to do: none of it needs to wait, or to be at once
        self._scales: LRUCache[str, float] = LRUCache(1_000)  # by endpoint: its tokens for one of ours

    async def tell(self, task: Task, endpoints: Sequence[Endpoint], effort: Effort) -> tuple[str, Endpoint]:
        """The prose, and who wrote it. Raises SummaryError when nobody could; `effort` takes down what it took."""
        reason = ""
        for endpoint in endpoints:
            resting = self._prudence.why_not(endpoint.name, endpoint.calls_per_hour)
            if resting is not None:
                reason = reason or resting
                continue
            scale = self._scales.get(endpoint.name) or endpoint.scale
            work = _Work(self._summariser, self._prudence, self._aside, self._count, task, endpoint, scale, effort)
            try:
                told = await work.run()
            except SummaryError as error:
                reason = error.reason
                effort.failed.append(reason)
                self._prudence.failed(endpoint.name)
                why = f"{NO_SUMMARY[reason]} ({error.detail})" if error.detail else NO_SUMMARY[reason]
                log.warning("the summarizer %.100a at %s failed: %s", endpoint.model, origin(endpoint.url), why)
                continue
            finally:
                if work.scale is not None:
                    self._scales[endpoint.name] = work.scale  # corrected by what its answers said
            self._prudence.worked(endpoint.name)
            return told, endpoint
        raise SummaryError(reason or "no_use")

    async def vet(self, task: Task, text: str, effort: Effort) -> str:
        """A summary that somebody else wrote, judged like a model's. Raises SummaryError if it is none."""

        def vetted() -> tuple[str, str | None]:
            source = "\n\n".join(transcript.render(task.messages, task.first))
            answer = SummaryAnswer(text, "stop")
            return _judged(answer, source, task, self._count, effort, previous=task.previous, last=True)

        told, reason = await self._aside.run(vetted)
        if reason is not None:
            effort.refused.append(reason)
            raise SummaryError(reason)
        return told


class _Work:
    """One task at one endpoint."""

    def __init__(
        self,
        summariser: Summariser,
        prudence: Prudence,
        aside: Aside,
        count: Callable[[str], int],
        task: Task,
        endpoint: Endpoint,
        scale: float | None,
        effort: Effort,
    ) -> None:
        self._summariser = summariser
        self._prudence = prudence
        self._aside = aside
        self._count = cache(count)  # texts are counted again and again
        self._task = task
        self._endpoint = endpoint
        self.scale = scale
        self.calls = 0
        self._effort = effort
        self._sent = 0  # tokens of transcript in the last call
        self._asked = 0  # tokens of all of it
        self._most = 1 << 40  # how many a call may have, once one was refused

    async def run(self) -> str:
        task = self._task
        blocks: Sequence[str] = await self._aside.run(transcript.render, task.messages, task.first)
        rounds = list(zip(task.starts, [*task.starts[1:], len(blocks)], strict=True))
        while True:
            blocks, ranges, room = await self._aside.run(self._divided, blocks, rounds)
            try:
                return await self._fold(blocks, ranges, room)
            except SummaryError as error:
                if error.reason != "overflow" or self.calls >= CALLS_MOST or self._sent <= LEAST_ROOM:
                    raise
                # The same bytes would be refused again: its tokeniser makes more, or its window holds less, than we
                # thought.
                factor = max(SHRINK, error.excess / FIT) if error.excess else 2.0
                self.scale = (self.scale or 1.0) * factor
                self._most = int(self._sent / factor)

    def _divided(
        self, blocks: Sequence[str], rounds: Sequence[tuple[int, int]]
    ) -> tuple[Sequence[str], list[tuple[int, int]], int]:
        """The blocks (shorter ones, where that saves a second call), which of them go into each call, and the room
        that they have there."""
        task = self._task
        room = self._room(self.scale or 1.0)
        rounds = _newest(blocks, rounds, CALLS_MOST * WIDE * room)
        ranges = transcript.chunk(blocks, rounds, room, self._count)
        for share in SQUEEZES if len(ranges) > 1 and not rounds[0][0] else ():
            squeezed = [cut(block, int(share * room)) for block in blocks]
            if self._fits(squeezed, room):
                return squeezed, [(0, len(squeezed))], room
        if len(ranges) > 1:
            room = self._room(self.scale or UNKNOWN_SCALE)
            if not task.previous:  # from the second chunk on there is a summary to be updated
                room = max(LEAST_ROOM, room - min(task.budget, room // 2))
            ranges = transcript.chunk(blocks, rounds, room, self._count)
        return blocks, ranges, room

    def _fits(self, blocks: Sequence[str], room: int) -> bool:
        for block in blocks:
            room -= self._count(block) + 1
            if room < 0:
                return False
        return True

    def _output(self) -> int:
        """Tokens for the answer: more than the budget, for models that think first, within the summariser's window."""
        wanted = self._endpoint.max_tokens or max(OUTPUT_LEAST, int(OUTPUT_SPARE * self._task.budget))
        return min(wanted, int((self._endpoint.window or ASSUMED_WINDOW) * OUTPUT_SHARE))

    def _room(self, scale: float) -> int:
        """Our tokens of transcript in one call."""
        window = self._endpoint.window or ASSUMED_WINDOW
        frame = self._count("\n".join(self._prompt("", self._task.previous, None)))
        room = int(FIT * (window - self._output()) / max(1.0, scale)) - frame
        return max(LEAST_ROOM, min(room, self._most))

    def _prompt(self, text: str, previous: str | None, correction: str | None) -> tuple[str, str]:
        wishes = [wish.strip() for wish in (self._endpoint.instructions, self._task.instructions) if wish]
        return summary.prompt(
            form=self._task.form,
            transcript=text,
            nonce=secrets.token_hex(6),
            previous=previous,
            max_words=max(60, int(self._task.budget * WORDS_PER_TOKEN)),
            instructions="\n".join(wishes),
            correction=correction,
            template=self._endpoint.prompt,
        )

    async def _fold(self, blocks: Sequence[str], ranges: Sequence[tuple[int, int]], room: int) -> str:
        """Each chunk updates the summary of those before it; what the calls do not reach is outlined."""
        previous = self._task.previous
        reached = ranges[-(CALLS_MOST - self.calls) :]
        if reached[0][0]:
            older = await self._aside.run(self._outlined, 0, reached[0][0])
            previous = f"{previous}\n\n{older}" if previous else older
        for first, last in reached:
            if self.calls >= CALLS_MOST:  # corrections took what was meant for the newest
                rest = await self._aside.run(self._outlined, first, len(blocks))
                return f"{previous}\n\n{rest}"
            text = await self._aside.run(fit, "\n\n".join(blocks[first:last]), room, self._count)
            previous = await self._one(text, previous, partial(self._outlined, first, last))
        return previous or ""

    def _outlined(self, first: int, last: int) -> str:
        task = self._task
        return outline(task.messages[first:last], task.budget, self._count, task.first + first)

    async def _one(self, text: str, previous: str | None, outlined: Callable[[], str]) -> str:
        """The summary of one chunk: as it came, after one correction, or mended by machine. `outlined` tells of it
        where a model that was asked twice has nothing to add."""
        output, correction = self._output(), None
        for last in (False, True):
            answer = await self._ask(text, previous, correction, output)
            last = last or self.calls >= CALLS_MOST
            judged = partial(_judged, answer, text, self._task, self._count, self._effort, previous=previous, last=last)
            told, reason = await self._aside.run(judged)
            if reason is None:
                return told
            self._effort.refused.append(reason)
            if last and reason == "unchanged":
                return _bounded(f"{previous}\n\n{await self._aside.run(outlined)}", self._task, self._count)
            if last:
                raise SummaryError(reason)
            if reason in ("unfinished", "empty"):
                output = self._more(output)
            correction = summary.correction(reason)
        raise SummaryError("unfinished")  # not reached: the second answer is the last one

    def _more(self, output: int) -> int:
        """A reasoning model eats a small allowance before it writes: it gets twice as much, once, as far as its window
        has room behind the prompt."""
        window = self._endpoint.window or ASSUMED_WINDOW
        return max(output, min(2 * output, window - int(self._asked * max(1.0, self.scale or 1.0))))

    async def _ask(self, text: str, previous: str | None, correction: str | None, output: int) -> SummaryAnswer:
        call, sizes = await self._aside.run(self._call, text, previous, correction, output)
        self.calls += 1
        self._effort.calls += 1
        self._sent, counted = sizes
        self._asked = counted
        self._prudence.called(self._endpoint.name)
        answer = await self._summariser.ask(call)
        self._effort.charges.append(await self._aside.run(self._charge, answer, counted))
        if answer.prompt_tokens is not None and counted < answer.prompt_tokens < MOST_SCALE * counted:
            self.scale = answer.prompt_tokens / counted
        return answer

    def _charge(self, answer: SummaryAnswer, counted: int) -> Charge:
        prompt, output = answer.prompt_tokens, answer.completion_tokens
        stated = prompt is not None and output is not None
        if prompt is None:
            prompt = int(counted * (self.scale or 1.0))
        return Charge(self._endpoint.target, prompt, self._count(answer.text) if output is None else output, stated)

    def _call(
        self, text: str, previous: str | None, correction: str | None, output: int
    ) -> tuple[SummaryCall, tuple[int, int]]:
        """The call, and our counts of the transcript in it and of the whole."""
        system, user = self._prompt(text, previous, correction)
        endpoint = self._endpoint
        call = SummaryCall(
            url=endpoint.url,
            headers=endpoint.headers,
            model=endpoint.model,
            system=system,
            user=user,
            max_tokens=output,
            silence=endpoint.silence,
            total=endpoint.total,
        )
        return call, (self._count(text), self._count(system) + self._count(user))


def _judged(
    answer: SummaryAnswer,
    text: str,
    task: Task,
    count: Callable[[str], int],
    effort: Effort,
    *,
    previous: str | None,
    last: bool,
) -> tuple[str, str | None]:
    """The summary of `text` in an answer, or why there is none. Nothing of it is kept, or sent again, with its secrets.
    The `last` answer is mended where a machine can do that."""
    told = redact(summary.clean(answer.text))
    reason = judge(told, finish_reason=answer.finish_reason, source=text, previous=previous)
    if reason is not None:
        mended = mend(told, reason) if last or reason == "unfinished" else None
        if mended is None or judge(mended, finish_reason="stop", source=text, previous=previous) is not None:
            return told, reason
        told = mended
        effort.mended += 1
    return _bounded(told, task, count), None


def _bounded(told: str, task: Task, count: Callable[[str], int]) -> str:
    most = LONGEST * task.budget
    return told if count(told) <= most else condense(told, most, count)


def _newest(blocks: Sequence[str], rounds: Sequence[tuple[int, int]], most: int) -> Sequence[tuple[int, int]]:
    """The last rounds, at least one, of which the blocks have at most so many characters."""
    for i in range(len(rounds) - 1, -1, -1):
        most -= sum(map(len, blocks[slice(*rounds[i])]))
        if most < 0:
            return rounds[min(i + 1, len(rounds) - 1) :]
    return rounds
