"""One request's story: envelope, count, look-up, plan, rewrite, send; and what to do when the upstream says no.

The single place that fails open: whatever breaks inside, the client's own bytes still go out.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from proxy.access import tenant
from proxy.core import envelope, rewrite
from proxy.core.checkpoint import Checkpoint
from proxy.core.coding import CODINGS, Codings, decode
from proxy.core.overflow import Overflow
from proxy.core.plan import Compact, Forward, Pass, Plan
from proxy.core.wire import first, response_headers, without
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.compactor import Compactor, Job
from proxy.engine.decider import Decider
from proxy.engine.faults import place
from proxy.engine.knowledge import Knowledge, Target
from proxy.engine.narrator import Endpoint
from proxy.engine.prudence import Prudence
from proxy.engine.story import Outcome, Sending, Story
from proxy.engine.verdict import Observed, examine
from proxy.engine.windows import Windows
from proxy.errors import ProxyError, UpstreamError
from proxy.forward import Incoming, Relayed, call
from proxy.ports import Answer, Clock, Headers, Upstream
from proxy.routing import Router
from proxy.settings import Mode, Settings

log = logging.getLogger("compaction_proxy")

RETRIES = 3
"""After as many refusals Letta and OpenClaw stop too."""

REFUSED = frozenset({400, 404, 413, 415, 422, 500, 501})
"""Statuses that can be the fault of what we wrote; 401, 403, 408, 429 and a gateway's 502-504 cannot."""

REWRITTEN = (b"content-encoding", b"content-md5", b"digest", b"content-digest", b"repr-digest")
"""Header fields that describe the bytes of a body we replaced."""


class Engine:
    def __init__(
        self,
        *,
        settings: Settings,
        secret: bytes,
        upstream: Upstream,
        router: Router,
        decider: Decider,
        checkpoints: Checkpoints,
        knowledge: Knowledge,
        windows: Windows,
        compactor: Compactor,
        prudence: Prudence,
        clock: Clock,
        codings: Codings = CODINGS,
    ) -> None:
        self._settings = settings
        self._secret = secret
        self._upstream = upstream
        self._router = router
        self._decider = decider
        self._checkpoints = checkpoints
        self._knowledge = knowledge
        self._windows = windows
        self._compactor = compactor
        self._prudence = prudence
        self._clock = clock
        self._codings = codings

    async def forward(self, incoming: Incoming) -> Answer:
        """Anything that is no chat request: passed through, to the upstream of its address."""
        route = self._router.route(None, incoming.headers, incoming.upstream)
        return Relayed(await self._upstream.send(call(route, incoming)))

    async def chat(self, incoming: Incoming) -> Answer:
        """Answer a chat request. Raises what `Upstream.send` raises, and `BadRequest`; nothing else."""
        story = self._open(incoming)
        if story is None:
            outcome = ("pass", "unreadable")
            answer = await self.forward(incoming)
            log.info("%s; %s status=%d", *outcome, answer.status)
            return Observed(answer, (*answer.headers, _outcome(outcome)), None)
        if story.mode == "passthrough":
            sending = Sending(self._original(story), ("pass", "off"))
            return self._finish(story, sending, await self._send(story, sending.body))
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
        """Send, and while the upstream refuses it as too long send something shorter."""
        below: int | None = None
        refused: Answer | None = None
        sent: set[bytes] = set()
        sending = Sending(story.request.body, ("forward", "failed"))
        try:
            for attempt in range(1 + RETRIES):
                last = sending
                sending = await self._sending(story, below, "over-limit" if refused is None else "refused")
                if refused is not None and (sending.body in sent or (last.checkpoint and not sending.checkpoint)):
                    break  # nothing shorter can be made: the upstream's own error is the answer
                if refused is not None:
                    await refused.aclose()
                sent.add(sending.body)
                verdict = await examine(await self._send(story, sending.body), self._codings)
                if verdict.overflow is None or story.mode != "compact":
                    return await self._settle(story, sending, verdict.answer)
                refused = verdict.answer
                if attempt < RETRIES:
                    below = await self._learn(story, sending, verdict.overflow, below)
        except BaseException:
            if refused is not None:
                await refused.aclose()
            raise
        assert refused is not None
        return self._finish(story, sending, refused)

    async def _learn(self, story: Story, sending: Sending, said: Overflow, below: int | None) -> int | None:
        """The size that the next attempt has to stay below; what was too large stays too large. Fails open."""
        try:
            found = await self._decider.learn(story, sending, said)
        except Exception as error:
            log.error("nothing learned from a refusal: %s", place(error))
            return below
        return below if found is None else found

    async def _settle(self, story: Story, sending: Sending, answer: Answer) -> Answer:
        """An answer that is no overflow; a refusal of what we wrote is followed once by the original."""
        checkpoint = sending.checkpoint
        if checkpoint is None or answer.status not in REFUSED:
            return self._finish(story, sending, answer)
        await answer.aclose()
        log.warning("the upstream refused a rewritten request with status %d: %r", answer.status, checkpoint)
        self._checkpoints.reject(checkpoint, str(story.target))
        original = Sending(self._original(story), ("forward", "failed"))
        return self._finish(story, original, await self._send(story, original.body))

    def _finish(self, story: Story, sending: Sending, answer: Answer) -> Answer:
        view = story.view
        headers = [_outcome(sending.outcome)]
        tokens = "-"
        if view is not None and sending.counted is not None:
            tokens = f"{view.total}/{view.tokens(sending.counted)}"
            headers.append((b"x-compaction-tokens", tokens.encode()))
        how = ""
        if sending.checkpoint is not None:
            headers.append((b"x-compaction-checkpoint", sending.checkpoint.id.encode()))
            how = f" by={sending.checkpoint.rung.name.lower()}"
        if sending.would is not None:
            headers.append((b"x-compaction-would", "; ".join(sending.would).encode()))
            how = f" would={'/'.join(sending.would)}"
        log.info(
            "%s; %s%s status=%d model=%a messages=%d tokens=%s ms=%d",
            *sending.outcome,
            how,
            answer.status,
            story.request.model,
            len(story.request.messages),
            tokens,
            1000 * (self._clock.monotonic() - story.begun),
        )
        report = None
        if sending.counted is not None and 200 <= answer.status < 300:
            counted, target, key = sending.counted, story.target, story.keys[-1]

            async def report(prompt: int, cached: bool) -> None:
                await self._knowledge.saw_usage(target, story.tenant, key, counted, prompt, cached=cached)

        return Observed(answer, (*response_headers(answer.headers), *headers), report)

    async def _send(self, story: Story, body: bytes) -> Answer:
        headers: Headers = story.route.headers
        if body is not story.incoming.body:
            headers = without(headers, REWRITTEN)
        prepared = call(story.route, story.incoming)
        timeout = story.route.policy.timeout
        try:
            return await self._upstream.send(replace(prepared, headers=headers, body=body, read_timeout=timeout))
        except UpstreamError as error:
            log.warning("%s: %s status=%d model=%a", story.route.origin, error, error.status, story.request.model)
            raise

    # -- deciding and rewriting ------------------------------------------------------------------------------------

    async def _sending(self, story: Story, below: int | None, reason: str) -> Sending:
        """What to send now. Fails open."""
        try:
            decision = await self._decider.decide(story, below, reason)
            return await self._perform(story, decision)
        except ProxyError as error:
            log.warning("not compacted: %s", type(error).__name__)
        except Exception as error:
            log.error("not compacted: %s", place(error))
        return Sending(self._original(story), ("forward", "failed"))

    async def _perform(self, story: Story, decision: Plan) -> Sending:
        observing = story.mode == "observe"
        if isinstance(decision, Pass | Forward) or observing:
            would = (_name(decision), decision.reason)
            counted = story.view.head + story.view.sums[-1] if story.view else None
            if observing:
                return Sending(self._original(story), ("pass", "observe"), counted, would=would)
            return Sending(self._original(story, counted), would, counted)
        view, reading = story.view, story.reading
        assert view is not None and reading is not None
        if isinstance(decision, Compact):
            if decision.base is not None and decision.reason != "refused":
                self._prudence.reused(story.scope)  # a prefix came again, and its summary goes on in the new one
            checkpoint = await self._make(story, decision)
        else:
            checkpoint = decision.checkpoint
            self._prudence.reused(story.scope)
        if self._checkpoints.rejected(checkpoint, str(story.target)):  # made anew, and again what was refused
            return Sending(self._original(story), ("forward", "failed"))
        messages = rewrite.apply(story.request.messages, reading.head, checkpoint)
        counted = view.count(checkpoint.start, checkpoint.text_tokens, checkpoint.trims)
        body = envelope.write(
            story.request,
            messages=messages,
            output=self._decider.output(story, counted),
            model=story.route.upstream_model,
        )
        return Sending(body, (_name(decision), decision.reason), counted, checkpoint)

    async def _make(self, story: Story, decision: Compact) -> Checkpoint:
        view, reading = story.view, story.reading
        assert view is not None and reading is not None
        sizes = self._decider.budget(story)
        job = Job(
            tenant=story.tenant,
            key=story.keys[decision.end],
            scope=story.scope,
            plan=decision,
            view=view,
            turns=story.request.messages[reading.head :],
            window=sizes.window if sizes else view.total,
            endpoints=self._endpoints(story),
        )
        return await self._compactor.make(job, max(0.0, story.deadline - self._clock.monotonic()))

    def _original(self, story: Story, counted: int | None = None) -> bytes:
        """The client's own bytes, but for a requested output that this upstream is known to refuse."""
        output = self._decider.output(story, counted)
        model = story.route.upstream_model
        if output is None and model is None:
            assert isinstance(story.incoming.body, bytes)
            return story.incoming.body
        return envelope.write(story.request, output=output, model=model)

    def _endpoints(self, story: Story) -> tuple[Endpoint, ...]:
        """Who may be asked for the summary, in order. Text goes to no origin but the request's own, unless named."""
        router, route = self._router, story.route
        own = router.summariser_settings(route)
        url, headers = router.summariser_url(route), router.summariser_headers(route, story.incoming.headers)
        found = []
        for model in (own.model or story.target.model, *own.fallbacks):
            target = Target(url.removesuffix("/chat/completions"), model)
            known = own.window or router.route(model, ()).policy.window
            found.append(
                Endpoint(
                    url=url,
                    headers=headers,
                    model=model,
                    window=self._windows.of(target, story.tenant, known, headers),
                    max_tokens=own.max_tokens,
                    scale=self._knowledge.factor(target),
                    silence=own.silence,
                    total=own.total,
                )
            )
        return tuple(found)


def _name(decision: Plan) -> str:
    return type(decision).__name__.lower()


def _outcome(outcome: Outcome) -> tuple[bytes, bytes]:
    return b"x-compaction", "; ".join(outcome).encode()
