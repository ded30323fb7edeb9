"""Making text fit."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.fit import cut, fit, settle
from tests.core.wild import size


@given(st.text(max_size=500), st.integers(0, 300), st.floats(0, 1))
def test_cut_keeps_the_limit(text: str, limit: int, tail: float) -> None:
    """A cut text is never longer than asked, and an uncut one is the text itself."""
    short = cut(text, limit, tail)
    assert len(short) <= limit
    assert short == text or len(text) > limit


def test_cut_keeps_both_ends_and_says_how_much_is_missing() -> None:
    """Head and tail survive, with a visible note between them."""
    short = cut("a" * 500 + "z" * 500, 200)
    assert short.startswith("aaa") and short.endswith("zzz") and "800 characters left out" in short


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=2_000), st.integers(-1, 200))
def test_fit_keeps_the_budget(text: str, budget: int) -> None:
    """Whatever the text, the result is within the budget and equals the text where that fits."""
    short = fit(text, budget, size)
    assert size(short) <= max(0, budget)
    assert short == text or size(text) > budget


@example(lines=["a"], budget=2, factor=5)
@given(
    st.lists(st.text("ab cd", min_size=1, max_size=30), max_size=40), st.integers(0, 120), st.sampled_from([0.2, 1, 5])
)
def test_settle_finds_what_fits(lines: list[str], budget: int, factor: float) -> None:
    """However wrong the estimate is, the result fits; all of it is given where all of it fits."""
    asked: list[str] = []

    def build(room: float) -> str:
        kept = []
        for line in lines:
            room -= factor * (len(line) + 1) / 4
            if room < 0:
                break
            kept.append(line)
        return "\n".join(kept)

    def count(text: str) -> int:
        asked.append(text)
        return size(text)

    best = settle(build, budget, count)
    assert size(best) <= budget
    assert len(asked) <= 26
    if size("\n".join(lines)) <= budget * 0.5:
        assert best == "\n".join(lines)


def test_settle_uses_the_room_it_has() -> None:
    """With small steps at least four fifths of the budget are used, in a handful of counts."""
    calls = 0

    def count(text: str) -> int:
        nonlocal calls
        calls += 1
        return len(text) // 3

    best = settle(lambda room: "word " * int(room), 1_000, count)
    assert 800 <= len(best) // 3 <= 1_000
    assert calls <= 8
