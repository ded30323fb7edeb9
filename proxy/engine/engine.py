"""One request's story: envelope, count, look-up, plan, rewrite, send; and what to do when the upstream says no.

The single place that fails open: whatever breaks inside, the client's own bytes still go out.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from proxy.access import tenant
from proxy.core import envelope
from proxy.core.coding import CODINGS, Codings, decode
from proxy.core.wire import REWRITTEN, first, response_headers, without
from proxy.engine.background import Background
from proxy.engine.bill import Accounts
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.decider import Decider
from proxy.engine.faults import place
from proxy.engine.knowledge import Knowledge, Target
from proxy.engine.preparer import Preparer
from proxy.engine.remedies import BUSY, Remedies, Trouble
from proxy.engine.story import Outcome, Sending, Story
from proxy.engine.verdict import HELD_SECONDS, HELD_SECONDS_NEAR, Observed, Verdict, examine
from proxy.errors import UpstreamError
from proxy.forward import Forwarder, Incoming, call
from proxy.ports import Answer, Clock, Headers, Upstream
from proxy.routing import Router
from proxy.settings import Mode, Settings

log = logging.getLogger("compaction_proxy")

OPEN_BYTES = 16 * 1024
"""A body above it may be too long for a window that nobody knows: the smallest that are still served hold about 4,000
tokens."""


class Engine:
    def __init__(
        self,
        *,
        settings: Settings,
        secret: bytes,
        upstream: Upstream,
        router: Router,
        decider: Decider,
        preparer: Preparer,
        background: Background,
        checkpoints: Checkpoints,
        knowledge: Knowledge,
        accounts: Accounts,
        clock: Clock,
        codings: Codings = CODINGS,
    ) -> None:
        self._settings = settings
        self._secret = secret
        self._upstream = upstream
        self._forwarder = Forwarder(upstream, router, codings, background.make_way)
        self._router = router
        self._decider = decider
        self._preparer = preparer
        self._background = background
        self._checkpoints = checkpoints
        self._knowledge = knowledge
        self._accounts = accounts
        self._clock = clock
        self._codings = codings
        self._learning: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """What is still being learned is not."""
        for task in list(self._learning):
            task.cancel()
        await asyncio.gather(*self._learning, return_exceptions=True)

    async def forward(self, incoming: Incoming) -> Answer:
        """Anything that is no chat request: passed through."""
        return await self._forwarder.forward(incoming)

    async def chat(self, incoming: Incoming) -> Answer:
        """Answer a chat request. Raises what `Upstream.send` raises, and `BadRequest`; nothing else."""
        story = self._open(incoming)
        if story is None:
            outcome = ("pass", "unreadable")
            try:
                answer = await self.forward(incoming)
            except UpstreamError as error:
                log.warning("%s; %s: %s status=%d", *outcome, error, error.status)
                raise
            log.info("%s; %s status=%d", *outcome, answer.status)
            return Observed(answer, (*answer.headers, _outcome(outcome)), None)
        if story.mode == "passthrough":
            sending = Sending(self._preparer.original(story), ("pass", "off"))
            return self._finish(story, sending, await self._send(story, sending))
        return await self._attempts(story)

    # -- opening ---------------------------------------------------------------------------------------------------

    def _open(self, incoming: Incoming) -> Story | None:
        assert isinstance(incoming.body, bytes)  # web/chat.py hands larger bodies to `forward`
        coding = first(incoming.headers, b"content-encoding")
        body = incoming.body if coding is None else decode(incoming.body, coding, codings=self._codings)
        request = envelope.parse(body) if body is not None else None
        if request is None:
            return None
        route = self._router.route(request.model, incoming.headers, incoming.upstream)
        override = (first(incoming.headers, b"x-compaction") or b"").strip().lower()
        mode: Mode = route.policy.mode or self._settings.mode
        if override in (b"off", b"observe"):
            mode = "passthrough" if override == b"off" else "observe"
        elif override not in (b"", b"force"):
            log.warning("x-compaction: %.40a means nothing (off, observe and force do)", override.decode("latin-1"))
        begun = self._clock.monotonic()
        return Story(
            incoming=incoming,
            request=request,
            route=route,
            tenant=tenant(incoming, self._secret),
            target=Target(route.base_url, route.upstream_model or request.model or ""),
            mode=mode,
            force=override == b"force",
            begun=begun,
            deadline=begun + self._router.summariser_settings(route).wait,
        )

    # -- attempts --------------------------------------------------------------------------------------------------

    async def _attempts(self, story: Story) -> Answer:
        """Send, and while the upstream says no and something may help, send something else.

        A refusal is kept until something better came: if what was sent instead fails in another way, the client gets
        the upstream's own refusal.
        """
        sending = await self._preparer.prepare(story)
        remedies = Remedies(self._preparer, self._decider, self._checkpoints, story)
        kept: tuple[Sending, Verdict] | None = None
        try:
            while True:
                trouble, verdict = await self._try(story, sending)
                if trouble is None or kept is None or remedies.tells_more(trouble):
                    kept, before = (sending, verdict) if verdict is not None else None, kept
                    if before is not None:
                        await before[1].answer.aclose()
                elif verdict is not None:
                    await verdict.answer.aclose()
                if trouble is None:
                    remedies.succeeded()
                other = await remedies.after(sending, trouble) if trouble and story.mode == "compact" else None
                if other is not None:
                    sending = other
                elif kept is not None:
                    outcome = remedies.found or kept[0].outcome
                    return self._finish(story, replace(kept[0], outcome=outcome), kept[1].answer)
                else:
                    assert trouble is not None and trouble.failure is not None
                    raise trouble.failure
        except BaseException:
            if kept is not None:
                await kept[1].answer.aclose()
            raise

    async def _try(self, story: Story, sending: Sending) -> tuple[Trouble | None, Verdict | None]:
        """One attempt: what is wrong with its answer, if anything, and the answer, if there is one."""
        try:
            seconds = HELD_SECONDS_NEAR if self._nearly_full(story, sending) else HELD_SECONDS
            verdict = await examine(await self._send(story, sending), self._codings, seconds=seconds)
        except UpstreamError as error:
            return Trouble(failure=error), None
        answer = verdict.answer
        if verdict.overflow is None and 200 <= answer.status < 300:
            return None, verdict
        return Trouble(answer.status, verdict.overflow, verdict.complaint), verdict

    def _nearly_full(self, story: Story, sending: Sending) -> bool:
        """Whether what is sent may well be too long: then it is worth a wait to hear of it."""
        window = self._decider.window(story)
        if window is None:
            return len(sending.body) > OPEN_BYTES
        if sending.counted is None or story.view is None:
            return False  # so short that it was not counted
        return story.view.tokens(sending.counted, sending.form) > BUSY * window

    def _finish(self, story: Story, sending: Sending, answer: Answer) -> Answer:
        view = story.view
        headers = [_outcome(sending.outcome)]
        tokens = "-"
        if view is not None and (sending.counted is not None or sending.body is story.incoming.body):
            after = view.total if sending.counted is None else view.tokens(sending.counted, sending.form)
            tokens = f"{view.total}/{after}"
            headers.append((b"x-compaction-tokens", tokens.encode()))
        how = ""
        if sending.checkpoint is not None:
            headers.append((b"x-compaction-checkpoint", sending.checkpoint.id.encode()))
            how = f" by={sending.checkpoint.rung.name.lower()} checkpoint={sending.checkpoint.id}"
            if view is not None and sending.counted is not None and 200 <= answer.status < 300:
                self._accounts.served(story.target, view.total, view.tokens(sending.counted, sending.form))
        if sending.would is not None:
            headers.append((b"x-compaction-would", sending.would.encode()))
            how = f' would="{sending.would}"'
        log.info(
            "%s; %s%s status=%d model=%.100a messages=%d tokens=%s ms=%d",
            *sending.outcome,
            how,
            answer.status,
            story.request.model,
            len(story.request.messages),
            tokens,
            1000 * (self._clock.monotonic() - story.begun),
        )
        report = None
        learns = sending.counted is not None or sending.outcome == ("pass", "window-unknown")
        if learns and sending.route is None and 200 <= answer.status < 300:

            async def report(prompt: int | None, cached: bool) -> None:
                learning = self._learn(story, sending, prompt, cached)
                if sending.counted is not None:
                    await learning
                else:  # counting may take a second, and the end of the answer need not wait for it
                    task = asyncio.create_task(learning)
                    self._learning.add(task)
                    task.add_done_callback(self._learning.discard)

        return Observed(answer, (*response_headers(answer.headers), *headers), report, self._codings)

    async def _learn(self, story: Story, sending: Sending, prompt: int | None, cached: bool) -> None:
        """From the `prompt` tokens that an answer stated, and what they were `sending`. Raises nothing."""
        try:
            if prompt is not None:
                counted = sending.counted if sending.counted is not None else await self._decider.count(story)
                if counted is not None:
                    key, form = story.keys[-1], sending.form
                    await self._knowledge.saw_usage(
                        story.target, story.tenant, key, counted, prompt, form=form, cached=cached
                    )
            self._background.after(story, sending)
        except Exception as error:  # the client has its answer: what we make of it must not break it off
            log.error("a usage was not taken in: %s", place(error))

    async def _send(self, story: Story, sending: Sending) -> Answer:
        route = sending.route or story.route
        headers: Headers = route.headers
        if sending.body is not story.incoming.body:
            headers = without(headers, REWRITTEN)
        prepared = call(route, story.incoming)
        timeout = route.policy.timeout
        self._background.make_way(route.origin)
        try:
            return await self._upstream.send(
                replace(prepared, headers=headers, body=sending.body, head_timeout=timeout)
            )
        except UpstreamError as error:
            log.warning("%s: %s status=%d model=%.100a", route.origin, error, error.status, story.request.model)
            raise


def _outcome(outcome: Outcome) -> tuple[bytes, bytes]:
    return b"x-compaction", "; ".join(outcome).encode()
