"""What to do with one request: a pure function from facts to a decision with its reason.

All sizes are in the upstream's tokens: our counts times `scale`, which its own `usage` has taught us.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import Literal

from proxy.core.budget import TEXT_FLOOR, TEXT_LEAST, Budget
from proxy.core.checkpoint import Checkpoint, Rung, Trim
from proxy.core.turns import TOOL_ROLES, Turn, last_real_user, pending, rounds

OVERSIZED = 0.3
"""A tool result that alone takes this share of the limit is shortened first (OpenClaw caps one at 0.3 x window)."""

SHORTENED = 0.1
"""What an answered oversized result keeps, as a share of the limit: a head and a tail that still say what it was."""

KEPT_LEAST = 200
"""Characters that stay of a result that is shortened, however small the window."""

CLEARABLE = 100
"""Tokens; clearing a smaller result frees next to nothing, for its note takes a third of it."""

NEWEST_ROUNDS = 3
NEWEST_WITHIN = 0.8
"""The last three rounds stay while the result is within 0.8 of the limit: the target is not worth the newest
messages."""

DETOUR = 0.15
"""How much of the limit a cut may evict beyond the smallest one in order to stand before a user message."""

WORTH = 0.9
"""A new checkpoint must make the request 10 % smaller than the best known one does (gemini-cli compressed 750 k to
750 k over and over, #6563)."""

RENDER_AGAIN = 0.6
"""A text that had less than this share of the room there is now is rendered again, from the prose that was kept: a
summary that was squeezed once must not stay so."""

AHEAD = 0.1
"""Of the limit: a conversation that comes as near to it is compacted before it has to be. Earlier would cost more
summaries (at 80 % of the limit 1.67 times as many, measured)."""

OUTCOMES = {
    ("pass", "fits"): "the request is within the limit: the client's own bytes go out",
    ("pass", "window-unknown"): "nothing is known about the model's window: the client's own bytes go out",
    ("pass", "unreadable"): "the body is no chat request that can be read: it goes out as it came",
    ("pass", "off"): "switched off for this model or request",
    ("pass", "observe"): "observe mode: counted and reported, not changed",
    ("reuse", "known"): "compactions made before bring it within the limit: no model call",
    ("compact", "over-limit"): "above the limit: a new compaction was made",
    ("compact", "refused"): "the upstream refused it as too long: a new compaction was made",
    ("compact", "forced"): "asked for by the request's own header",
    ("compact", "timeout"): "no answer in time with a nearly full window: a new compaction was made",
    ("compact", "images"): "the body was too large: its oldest images were replaced by a note",
    (
        "compact",
        "reasoning",
    ): "compacted, and older reasoning left out because the upstream could not verify it",
    ("forward", "failover"): "compaction could not help: the configured larger model got the original",
    ("forward", "irreducible"): "what must stay is larger than the window: the client's own bytes go out",
    ("forward", "nothing-to-compact"): "there is nothing old enough to compact: the client's own bytes go out",
    (
        "forward",
        "failed",
    ): "something broke inside, or the upstream refused the rewritten request: the original went out",
}
"""Every outcome a client can see in `x-compaction`, as one table."""


@dataclass(frozen=True)
class View:
    """One request as the planner sees it. `head` is our count of everything that is no turn. `ratios`, in place of
    `scale`, are of the forms that the upstream has counted before: by checkpoint id, "" the whole."""

    head: int
    turns: tuple[Turn, ...]
    scale: float = 1.0
    known: tuple[Checkpoint, ...] = ()
    ratios: Mapping[str, float] = field(default_factory=dict)

    def tokens(self, count: float, form: str | None = None) -> int:
        """Our count in the upstream's tokens: of `form`, or of a request that it has not seen yet."""
        return ceil(count * (self.scale if form is None else self.ratios.get(form, self.scale)))

    @cached_property
    def sums(self) -> list[int]:
        return list(accumulate((t.tokens for t in self.turns), initial=0))

    @cached_property
    def user(self) -> int | None:
        return last_real_user(self.turns)

    @cached_property
    def pending(self) -> int:
        return pending(self.turns)

    @cached_property
    def rounds(self) -> list[int]:
        return rounds(self.turns)

    @cached_property
    def total(self) -> int:
        return self.tokens(self.head + self.sums[-1], "")

    def carried(self, start: int) -> int | None:
        """The user message that has to stand behind a replacement of the turns before `start`."""
        return self.user if self.user is not None and self.user < start else None

    def count(self, start: int, text: int, trims: Iterable[Trim]) -> int:
        """Our count of the request with turns before `start` replaced by `text` tokens, and some results trimmed."""
        carry = self.carried(start)
        saved = sum(self.turns[t.index].tokens - t.tokens for t in trims if t.index >= start)
        return (
            self.head
            + (text if start else 0)
            + (self.turns[carry].tokens if carry is not None else 0)
            + self.sums[-1]
            - self.sums[start]
            - saved
        )

    def size(self, start: int, text: int, trims: Iterable[Trim] = ()) -> int:
        return self.tokens(self.count(start, text, trims))

    def size_with(self, checkpoint: Checkpoint) -> int:
        counted = self.count(checkpoint.start, checkpoint.text_tokens, checkpoint.trims)
        return self.tokens(counted, checkpoint.id)

    @cached_property
    def irreducible(self) -> int:
        return self.size(self.pending, 0) if self.turns else self.tokens(self.head)

    def usable(self, checkpoint: Checkpoint) -> bool:
        """Whether the last real user message stays verbatim with it."""
        if checkpoint.start == 0:
            return True
        return self.user is None or self.user >= checkpoint.start or self.user == checkpoint.carry


@dataclass(frozen=True, slots=True)
class Pass:
    reason: str


@dataclass(frozen=True, slots=True)
class Reuse:
    checkpoint: Checkpoint
    reason: str = "known"


@dataclass(frozen=True, slots=True)
class Compact:
    """Make a checkpoint of the first `end` turns. With `text` > 0 turns before `start` need a new replacement of at
    most so many of our tokens, which updates `base`'s prose; else `base`'s own text stays (or there is none)."""

    start: int
    end: int
    carry: int | None
    trims: tuple[Trim, ...]
    text: int
    base: Checkpoint | None
    form: Literal["sliding", "all"]
    reason: str = "over-limit"

    def size(self, view: View) -> int:
        """What it will bring the request down to, at most."""
        text = self.text or (self.base.text_tokens if self.base else 0)
        return view.size(self.start, text, self.trims)


@dataclass(frozen=True, slots=True)
class Forward:
    reason: str


Plan = Pass | Reuse | Compact | Forward


def best(view: View, most: int | None = None) -> list[Checkpoint]:
    """The usable checkpoints, with `most` those that bring the request down to that, one for each place: the higher
    rung, then the first written: all replicas agree."""
    usable = (c for c in view.known if view.usable(c) and (most is None or view.size_with(c) <= most))
    places: dict[tuple[str, int, tuple[Trim, ...]], Checkpoint] = {}
    for found in sorted(usable, key=lambda c: (-c.rung, c.created, c.id)):
        places.setdefault((found.key, found.start, found.trims), found)
    return list(places.values())


def plan(view: View, budget: Budget | None, *, clearing: bool = True, reason: str = "over-limit") -> Plan:
    """Decide. `budget` is None while nothing is known about the window. Same arguments, same plan."""
    if budget is None:
        return Pass("window-unknown")
    if view.total <= budget.limit:
        return Pass("fits")
    fitting = best(view, budget.limit)
    if fitting:
        return Reuse(max(fitting, key=lambda c: (view.size_with(c), c.rung, -c.created, c.id)))
    if not view.turns:
        return Forward("nothing-to-compact")
    made = _make(view, budget, best(view), clearing)
    smallest = min(best(view, budget.hard), key=lambda c: (view.size_with(c), -c.rung, c.created, c.id), default=None)
    if made is not None and (smallest is None or made.size(view) < WORTH * view.size_with(smallest)):
        return replace(made, reason=reason)
    # Between limit and window compact as far as it goes and send; but never pay twice for the same.
    if smallest is not None:
        return Reuse(smallest)
    if view.total <= budget.hard:
        return Pass("fits")
    return Forward("irreducible" if view.irreducible > budget.hard else "nothing-to-compact")


def ahead(view: View, budget: Budget, *, clearing: bool = True) -> Compact | None:
    """What to make after a request was answered, so that none behind it has to wait; None: nothing yet.

    It serves any later request that grew by less than a tenth of the limit. Same arguments, same plan.
    """
    known = best(view)
    near = int((1 - AHEAD) * budget.limit)
    smallest = min([view.total, *(view.size_with(c) for c in view.known if view.usable(c))])
    if smallest <= near or not view.turns:
        return None
    made = _make(view, replace(budget, coming=max(0, budget.limit - smallest)), known, clearing)
    if made is None or made.size(view) > min(near, int(WORTH * smallest)):
        return None
    return replace(made, reason="ahead")


def better(view: View, budget: Budget, found: Checkpoint) -> Compact | None:
    """What stands where `found` does, by a model: a summariser that failed then may work now. None: it has one, or one
    is known that serves."""
    place = (found.start, found.end)
    there = (c for c in view.known if c.rung == Rung.MODEL and (c.start, c.end) == place)
    if found.rung != Rung.DIGEST or any(map(view.usable, there)):
        return None
    room = _text_room(view, budget, view.irreducible)
    text = found.stats.get("room", room)
    form: Literal["sliding", "all"] = "all" if found.stats.get("form") == "all" else "sliding"
    base = _base(view, found.start)
    return Compact(found.start, found.end, found.carry, found.trims, text, base, form, "better")


def _base(view: View, start: int) -> Checkpoint | None:
    """Whose prose is to be updated: the deepest summary of what lies before `start`."""
    return max(
        (c for c in view.known if c.prose and c.rung == Rung.MODEL and c.start <= start),
        key=lambda c: (c.start, -c.created, c.id),
        default=None,
    )


def _make(view: View, budget: Budget, known: Sequence[Checkpoint], clearing: bool) -> Compact | None:
    """The cheapest new checkpoint that does: shorten, then clear, then cut."""
    newest = _shorten_newest(view, budget)
    irreducible = view.size(view.pending, 0, newest)
    if irreducible > budget.hard:
        return None
    target = budget.target(irreducible)
    room = _text_room(view, budget, irreducible)
    end = len(view.turns)
    if newest and view.size(0, 0, newest) <= budget.limit:
        return Compact(0, end, None, newest, 0, None, "sliding")
    bases: list[Checkpoint | None] = [None, *sorted(known, key=lambda c: c.start)]
    for step in (_oversized, _clear) if clearing else (_oversized,):
        for base in bases:
            start, text = (base.start, base.text_tokens) if base else (0, 0)
            again = room if base and base.prose and base.stats.get("room", room) < RENDER_AGAIN * room else 0
            text = again or text
            trims = _merge(step(view, budget, start), newest)
            if trims and (not base or trims != base.trims) and view.size(start, text, trims) <= target:
                carry = view.carried(start)
                reach = end if newest else max(t.index for t in trims) + 1
                # Its key stands for all turns up to the last one that it changes, and for the carried message.
                reach = max(reach, start, (carry or 0) + 1, _round_end(view, reach))
                return Compact(start, reach, carry, trims, again, base, "sliding")
    return _cut(view, budget, irreducible, newest)


def _round_end(view: View, index: int) -> int:
    return next((s for s in view.rounds if s >= index), len(view.turns))


def _merge(older: Sequence[Trim], newest: Sequence[Trim]) -> tuple[Trim, ...]:
    found = {t.index: t for t in (*older, *newest)}
    return tuple(found[i] for i in sorted(found))


def _trim(turn: Turn, index: int, tokens: float) -> Trim:
    """Shorten to about so many of our tokens. The note and the message's own frame take some 40 of them."""
    keep = max(KEPT_LEAST, int(turn.chars * max(0.0, tokens - 40) / max(1, turn.tokens)))
    return Trim(index, keep, tokens=min(turn.tokens, ceil(tokens) if keep else 40))


def _shorten_newest(view: View, budget: Budget) -> tuple[Trim, ...]:
    """A pending result is cut only if the rest of what must stay leaves no room for it: oversized ones, and where that
    does not do any of them."""
    need = view.irreducible + (view.tokens(TEXT_FLOOR) if view.pending else 0) - budget.hard
    if need <= 0:
        return ()
    # Once it has to be cut, leave the usual room for an answer and a text.
    usual = need + budget.hard - budget.limit + (view.tokens(TEXT_LEAST - TEXT_FLOOR) if view.pending else 0)
    least = OVERSIZED * budget.limit / view.scale
    trims = _shorten_pending(view, usual, least, least / 2)
    if view.tokens(sum(view.turns[t.index].tokens - t.tokens for t in trims)) < need:
        trims = _shorten_pending(view, need, CLEARABLE, CLEARABLE)
    return trims


def _shorten_pending(view: View, excess: int, above: float, least: float) -> tuple[Trim, ...]:
    """Pending results of more than `above` tokens, the largest first, down to `least` until the excess is gone."""
    trims: list[Trim] = []
    results = [i for i in range(view.pending, len(view.turns)) if view.turns[i].role in TOOL_ROLES]
    for index in sorted(results, key=lambda i: (-view.turns[i].tokens, i)):
        turn = view.turns[index]
        if excess <= 0 or turn.tokens <= above or turn.media:
            break
        trim = _trim(turn, index, max(least, turn.tokens - excess / view.scale))
        excess -= view.tokens(turn.tokens - trim.tokens)
        trims.append(trim)
    return tuple(sorted(trims, key=lambda t: t.index))


def _oversized(view: View, budget: Budget, start: int) -> tuple[Trim, ...]:
    """Answered results that alone take over 30 % of the limit keep head and tail."""
    least, most = SHORTENED * budget.limit / view.scale, OVERSIZED * budget.limit / view.scale
    return tuple(
        _trim(view.turns[i], i, least)
        for i in range(start, view.pending)
        if view.turns[i].role in TOOL_ROLES and view.turns[i].tokens > most and view.turns[i].chars
    )


def _clear(view: View, budget: Budget, start: int) -> tuple[Trim, ...]:
    """All results older than the newest rounds go; an oversized newer one is shortened."""
    protected = min(view.pending, view.rounds[-NEWEST_ROUNDS] if len(view.rounds) >= NEWEST_ROUNDS else 0)
    cleared = [
        Trim(i, 0, tokens=40)
        for i in range(start, protected)
        if view.turns[i].role in TOOL_ROLES and view.turns[i].tokens > CLEARABLE
    ]
    return _merge(_oversized(view, budget, max(start, protected)), cleared)


def _text_room(view: View, budget: Budget, irreducible: int) -> int:
    """Our tokens for a new replacement text."""
    return max(1, int(budget.text(view.tokens(view.head), irreducible) / view.scale))


def _cut(view: View, budget: Budget, irreducible: int, newest: tuple[Trim, ...]) -> Compact | None:
    """The smallest cut that reaches the target; as deep as it goes if none does."""
    cuts = [s for s in view.rounds if 0 < s <= view.pending]
    if not cuts:
        return None
    target = budget.target(irreducible)
    text = _text_room(view, budget, irreducible)

    def size(start: int) -> int:
        return view.size(start, text, newest)

    start = next((s for s in cuts if size(s) <= target), cuts[-1])
    before_user = next((s for s in cuts if s >= start and view.turns[s].role == "user"), None)
    if before_user is not None and view.tokens(view.sums[before_user] - view.sums[start]) <= DETOUR * budget.limit:
        start = before_user
    newest_start = view.rounds[-NEWEST_ROUNDS] if len(view.rounds) >= NEWEST_ROUNDS else 0
    if newest_start in cuts and start > newest_start and size(newest_start) <= NEWEST_WITHIN * budget.limit:
        start = newest_start
    # The last rung must help: what goes out has to be smaller than what came in, and within the window.
    if size(start) > budget.hard or size(start) >= view.total:
        return None
    end = len(view.turns) if newest else start
    form: Literal["sliding", "all"] = "all" if start >= view.pending and start == cuts[-1] else "sliding"
    return Compact(start, end, view.carried(start), newest, text, _base(view, start), form)
