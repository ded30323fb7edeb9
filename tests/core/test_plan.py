"""Decisions, as a table of situations and as properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import budget
from proxy.core.checkpoint import Checkpoint, Rung, Trim
from proxy.core.plan import OUTCOMES, Compact, Forward, Pass, Reuse, View, ahead, better, plan
from proxy.core.turns import Turn

ROLES = {"U": "user", "A": "assistant", "C": "assistant", "T": "tool", "S": "system"}


def turn(letter: str, tokens: int) -> Turn:
    return Turn(
        role=ROLES[letter],
        calls=int(letter == "C"),
        real=letter == "U",
        digest=bytes(16),
        tokens=tokens,
        chars=tokens * 4,
        media=False,
    )


def view(spec: str, *, head: int = 100, each: int = 100, known: Sequence[Checkpoint] = (), scale: float = 1.0) -> View:
    """`U A C T` with an optional size behind each: `T3000`."""
    turns: list[Turn] = []
    for word in spec.split():
        turns.append(turn(word[0], int(word[1:] or each)))
    return View(head, tuple(turns), scale, tuple(known))


def known(
    start: int, *, tokens: int = 300, rung: Rung = Rung.MODEL, carry: int | None = None, **more: Any
) -> Checkpoint:
    values: dict[str, Any] = {"created": 1.0, "trims": (), "prose": "p", "key": f"k{start}", **more}
    return Checkpoint(
        tenant="t", start=start, end=start, text="x" * start, carry=carry, rung=rung, text_tokens=tokens, **values
    )


W = budget(4_000)
LONG = " ".join(["U A"] * 20)


def test_fits() -> None:
    """At the limit nothing is done."""
    assert plan(view("U A U", head=2_900), W) == Pass("fits")


def test_an_unknown_window_is_no_reason_to_act() -> None:
    """Only the upstream's refusal tells then."""
    assert plan(view(LONG), None) == Pass("window-unknown")


def test_the_smallest_cut_that_reaches_the_target_before_a_user_message() -> None:
    """4,100 tokens against a limit of 3,200: half of what is above the irreducible part goes."""
    made = plan(view(LONG + " U"), W)
    assert isinstance(made, Compact)
    v = view(LONG + " U")
    target = W.target(v.irreducible)
    assert v.turns[made.start].role == "user"
    assert v.size(made.start, made.text) <= target
    assert v.size(made.start - 2, made.text) > target
    assert made.carry is None and made.end == made.start and made.form == "sliding"


def test_a_known_checkpoint_is_reused() -> None:
    """No model is asked when the request fits with what is there; of two the larger result is taken."""
    few, many = known(14), known(30)
    assert plan(view(LONG + " U", known=[many, few]), W) == Reuse(few)
    assert plan(view(LONG + " U A U", known=[many, few]), W) == Reuse(many)


def test_a_better_rung_at_the_same_place_is_preferred_then_the_first_written() -> None:
    """Replicas that see the same checkpoints agree."""
    digest = known(20, rung=Rung.DIGEST, created=0.5)
    model, later = known(20, created=2.0, tokens=310), known(20, created=3.0, tokens=320)
    for order in ([digest, model, later], [later, model, digest]):
        assert plan(view(LONG + " U", known=order), W) == Reuse(model)


def test_a_checkpoint_that_hides_the_last_user_message_is_not_used() -> None:
    """The last real user message stays verbatim: behind the text as `carry`, or where it stands."""
    spec = "U A U" + " C T" * 15
    hiding, carrying = known(11), known(11, carry=2)
    assert plan(view(spec, known=[carrying]), W) == Reuse(carrying)
    made = plan(view(spec, known=[hiding]), W)
    assert isinstance(made, Compact) and made.carry == 2


def test_in_a_long_tool_loop_the_task_is_carried() -> None:
    """No user message to cut at: any round will do, and the task follows the text."""
    made = plan(view("U" + " C T40" * 25), W, clearing=False)
    assert isinstance(made, Compact) and made.carry == 0 and made.text
    assert view("U" + " C T40" * 25).turns[made.start].role == "assistant"


def test_old_results_are_cleared_first() -> None:
    """When that reaches the target no model is needed; the newest rounds stay whole."""
    made = plan(view("U C T700 C T700 C T700 C T700 A U A U"), W)
    assert isinstance(made, Compact)
    assert made.text == 0 and made.start == 0
    assert [t.index for t in made.trims] == [2, 4, 6, 8] and all(t.keep == 0 for t in made.trims)


def test_clearing_can_be_switched_off() -> None:
    """Then the same conversation is cut."""
    made = plan(view("U C T700 C T700 C T700 C T700 A U A U"), W, clearing=False)
    assert isinstance(made, Compact) and made.text > 0


def test_an_answered_oversized_result_is_shortened_even_in_the_newest_rounds() -> None:
    """It alone is over 30 % of the limit."""
    made = plan(view("U A U C T2900 A U"), W)
    assert isinstance(made, Compact) and made.text == 0
    assert [t.index for t in made.trims] == [4] and made.trims[0].keep > 0


def test_a_text_that_was_squeezed_is_rendered_again_when_there_is_room() -> None:
    """From the prose that was kept: no model is asked, and what was said early on comes back."""
    spec = " ".join(["U A"] * 12) + " U C T900 C T900 C T900 A U A U"
    squeezed, full = known(24, tokens=120, stats={"room": 150}), known(24, tokens=120, stats={"room": 400})
    for base, again in ((squeezed, True), (full, False)):
        made = plan(view(spec, known=[base], head=50, each=60), W)
        assert isinstance(made, Compact) and made.base is base and made.start == base.start and made.trims
        assert (made.text > 0) is again


def test_a_pending_result_that_fits_stays_whole() -> None:
    """The reserve gives way before content does; what stands before it goes."""
    made = plan(view(LONG + " U C T3000"), W)
    assert isinstance(made, Compact) and made.trims == ()
    assert made.form == "all" and made.carry == 40 and made.start == 41


def test_a_smaller_pending_result_is_shortened_where_nothing_else_would_help() -> None:
    """It takes less than 30 % of the limit, but beside head, user message and a text there is no room for it."""
    seen = view("U200 A U50 C100 T450", head=1_300)
    made = plan(seen, budget(2_048))
    assert isinstance(made, Compact)
    assert [t.index for t in made.trims] == [4]
    assert made.trims[0].tokens > 200  # by no more than it takes
    assert made.size(seen) <= budget(2_048).hard


def test_several_pending_results_are_shortened_until_they_fit() -> None:
    """The largest first; what is smaller than a note stays."""
    seen = view("U200 C100 T450 T400 T90 T420", head=900)
    made = plan(seen, budget(2_048))
    assert isinstance(made, Compact)
    assert {t.index for t in made.trims} <= {2, 3, 5}
    assert made.size(seen) <= budget(2_048).hard


def test_a_pending_result_that_cannot_fit_is_shortened_alone() -> None:
    """Nothing else of its round is touched."""
    made = plan(view("U A U C T400 T9000 T300"), W)
    assert isinstance(made, Compact)
    assert [t.index for t in made.trims] == [5]
    assert view("U A U C T400 T9000 T300").size(made.start, made.text, made.trims) <= W.limit


def test_on_top_of_a_known_text_results_are_cleared_without_a_new_one() -> None:
    """A clearing needs no model, wherever it stands."""
    base = known(10, tokens=300)
    spec = " ".join(["U A"] * 5) + " U C T900 C T900 C T900 A U A U"
    made = plan(view(spec, known=[base], head=200), W)
    assert isinstance(made, Compact)
    assert made.base is base and made.start == 10 and made.text == 0 and made.trims


@pytest.mark.parametrize(
    ("spec", "reason"),
    [("U9000", "irreducible"), (LONG + " U9000", "irreducible"), ("", "nothing-to-compact"), ("S5000", "irreducible")],
)
def test_what_nothing_can_shrink_goes_out_as_it_came(spec: str, reason: str) -> None:
    """The upstream answers; nobody pays for a summary."""
    assert plan(view(spec, head=4_000 if not spec else 100), W) == Forward(reason)


def test_a_head_that_fills_the_window_is_forwarded() -> None:
    """Tools and system message alone are too much: no compaction helps."""
    assert plan(view(LONG, head=5_000), W) == Forward("irreducible")


def test_the_scale_of_the_upstream_counts() -> None:
    """What fits by our count does not by a tokeniser that makes 1.6 times as many."""
    assert plan(view("U A" * 1 + " U A" * 12), W) == Pass("fits")
    assert isinstance(plan(view("U A" * 1 + " U A" * 12, scale=1.6), W), Compact)


def test_every_outcome_is_in_the_table() -> None:
    """The reasons that the planner gives are the documented ones."""
    for name in ("fits", "window-unknown"):
        assert ("pass", name) in OUTCOMES
    assert {k[0] for k in OUTCOMES} == {"pass", "reuse", "compact", "forward"}


specs = st.lists(
    st.tuples(st.sampled_from(["U", "A", "C T", "C T T", "S"]), st.sampled_from([5, 60, 400, 1_500, 5_000])),
    min_size=1,
    max_size=30,
).map(lambda groups: " ".join(f"{word}{size}" for group, size in groups for word in group.split()))


@given(specs, st.sampled_from([50, 900, 3_900]), st.sampled_from([0.6, 1.0, 1.6]), st.booleans())
def test_any_plan_keeps_what_must_stay(spec: str, head: int, scale: float, clearing: bool) -> None:
    """Head, pending round and last user message are never evicted; the result is smaller; the plan is repeatable."""
    v = view(spec, head=head, scale=scale)
    made = plan(v, W, clearing=clearing)
    assert made == plan(replace(v), W, clearing=clearing)
    if not isinstance(made, Compact):
        assert ("pass", made.reason) in OUTCOMES or ("forward", made.reason) in OUTCOMES
        return
    assert made.start in (0, *v.rounds) and made.start <= v.pending
    assert made.start <= made.end <= len(v.turns)
    assert (made.carry is not None) == (v.user is not None and v.user < made.start)
    assert all(v.turns[t.index].role == "tool" and made.start <= t.index < made.end for t in made.trims)
    assert v.size(made.start, made.text, made.trims) < v.total
    assert v.size(made.start, made.text, made.trims) <= W.hard
    assert v.turns[made.start].role != "tool"
    whole = [i for i in range(v.pending, len(v.turns)) if v.turns[i].role == "tool"]
    if v.irreducible + 400 <= W.hard:
        assert not {t.index for t in made.trims} & set(whole)


@given(specs)
def test_what_was_made_is_reused_at_once(spec: str) -> None:
    """The same request with the new checkpoint known asks for no other one."""
    v = view(spec)
    made = plan(v, W)
    if isinstance(made, Compact):
        text = made.base.text if made.base and not made.text else "t"
        tokens = made.text or (made.base.text_tokens if made.base else 0)
        cp = Checkpoint("t", "k", made.start, made.end, text, made.carry, made.trims, Rung.MODEL, 1.0, tokens)
        assert plan(replace(v, known=(cp,)), W) == Reuse(cp)


def test_trims_are_equal_by_what_they_do() -> None:
    """The measured size is no part of a trim's identity."""
    assert Trim(1, 2, 3) == Trim(1, 2, 4)


def test_ahead_is_nothing_before_the_last_tenth_of_the_limit() -> None:
    """Earlier would cost more summaries."""
    assert ahead(view("U A " * 13 + "U", head=180), W) is None  # 2,880 of 3,200
    made = ahead(view("U A " * 13 + "U", head=190), W)
    assert isinstance(made, Compact)
    assert made.reason == "ahead"


@given(st.integers(4, 40), st.integers(10, 700), st.integers(0, 300))
def test_what_is_made_ahead_serves_the_next_request(exchanges: int, head: int, growth: int) -> None:
    """Whatever the conversation grows by, up to a tenth of the limit, no summary is waited for."""
    before = view("U A " * exchanges + "U", head=head)
    made = ahead(before, W)
    if made is None or before.total > W.limit:
        return
    found = known(made.start, tokens=made.text, key=f"k{made.end}", carry=made.carry, trims=made.trims, created=2.0)
    after = view("U A " * exchanges + f"U A{growth // 2} U{growth - growth // 2}", head=head, known=[found])
    decision = plan(after, W)
    assert isinstance(decision, Pass | Reuse)


def test_ahead_is_nothing_once_it_is_made() -> None:
    """A second answer within the same tenth pays for nothing."""
    before = view("U A " * 14 + "U")
    made = ahead(before, W)
    assert isinstance(made, Compact)
    found = known(made.start, tokens=made.text, carry=made.carry)
    assert ahead(view("U A " * 14 + "U", known=[found]), W) is None


def test_better_stands_in_the_same_place() -> None:
    """A text made without a model is made again by one; one that a model made is not."""
    found = known(6, rung=Rung.DIGEST, prose="", stats={"room": 444, "form": "sliding"})
    made = better(view(LONG, known=[found, known(2)]), W, found)
    assert made == Compact(6, 6, None, (), 444, known(2), "sliding", "better")
    assert better(view(LONG), W, known(6)) is None
    assert better(view(LONG, known=[found, known(6)]), W, found) is None  # another process has had it meanwhile
