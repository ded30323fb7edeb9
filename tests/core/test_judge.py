"""What is refused as a summary, and what is not."""

# ruff: noqa: RUF001  (answers come in many alphabets)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.judge import echoes, judge, loops, mend
from proxy.core.summary import REASONS

THINGS = ("lamp", "chair", "table", "rug", "clock", "mirror", "sofa", "desk", "shelf", "plant", "vase", "book", "radio")
TURNS = [
    f"[{i} {'user' if i % 2 == 0 else 'assistant'}]\n"
    f"In step {i} the {thing} was moved to shelf {i * 7}, which took {i + 3} minutes."
    for i, thing in enumerate(THINGS * 5)
]
SOURCE = "\n".join(TURNS)
GOOD = (
    "[GOALS]\nThe user wants the rooms cleared by Friday.\n[EVENTS]\nThe lamp, the chair and the table went to their new shelves; "
    "the sofa did not fit and stays where it is.\n[DETAILS]\nShelf 7 is the one by the door. The rug needs two people."
)


def reason(text: str, finish: str | None = "stop", source: str = SOURCE, previous: str | None = None) -> str | None:
    return judge(text, finish_reason=finish, source=source, previous=previous)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "The user moved house and asked for a list of what went where.",
        "用户把所有家具搬到了新的架子上，沙发放不下，留在原处，等待星期五。",
        "I cannot be sure of the date, but " + GOOD + "\n" + "\n".join(line.split("\n")[1] for line in TURNS[::4]),
        "\n".join(line.split("\n")[1] for line in TURNS[::5]),  # scattered sentences of the transcript
        "[4 user] " + TURNS[4].split("\n")[1] + "\n" + GOOD,
        "\n".join(f"- shelf {i}: item number {i * 31}, carried by helper {i % 4}" for i in range(30)),
    ],
)
def test_summaries_pass(text: str) -> None:
    """Any language, with or without headings, first person, extracts and lists included."""
    assert reason(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("...", "empty"),
        ("[GOALS]\n[EVENTS]", "empty"),
        ("N/A", "empty"),
        ("I'm sorry, but I can't help with that request.", "refusal"),
        ("Es tut mir leid, dabei kann ich nicht helfen, bitte wenden Sie sich an jemand anderen.", "refusal"),
        ("抱歉，我无法完成这个请求，请您提供更多的信息。", "refusal"),
        ("Error: upstream request failed with status 500", "refusal"),
        ('{"error": {"message": "model overloaded, try again"}}', "refusal"),
        ("Summary unavailable due to context limits.", "refusal"),
        ("There is no transcript here. Please share the conversation.", "refusal"),
        ("[assistant]\nSure, I will move the next piece of furniture right away.", "continuation"),
        ("Assistant: Sure, I will move the next piece right away.", "continuation"),
        ("[73 user]\nAnd where does the piano go, my friend?", "continuation"),
        ('<tool_call>\n{"name": "move", "arguments": {"item": "sofa"}}\n</tool_call>', "tool_syntax"),
        ('{"name": "move", "arguments": {"item": "the big sofa"}}', "tool_syntax"),
        ('[TOOL_CALLS][{"name": "move_the_sofa"}]', "tool_syntax"),
        ("<!DOCTYPE html><html><body>Bad gateway, try again later</body></html>", "html"),
        ("The sofa was moved to the shelf again. " * 40, "loop"),
        (GOOD + "\nAnd so it went on and on, they say." * 40, "loop"),
        ("\n".join(TURNS[3:40]), "echo"),
        ("Here it is:\n" + "\n".join(TURNS[10:30]), "echo"),
    ],
)
def test_what_is_no_summary_is_named(text: str, why: str) -> None:
    """Each kind of failure is refused for its own reason, and the reason is one of the closed set."""
    assert reason(text) == why
    assert why in REASONS


def test_a_text_as_long_as_the_transcript_is_no_summary() -> None:
    """Retelling at full length is refused."""
    retold = " ".join(
        f"Then piece {i} of {i * 3} went from room {i % 5} to room {i % 7} by way of hall {i}." for i in range(80)
    )
    assert reason(retold, source=retold[: len(retold) // 2] + "x" * 10) == "no_reduction"


def test_what_ran_into_its_limit_is_unfinished_and_can_be_mended() -> None:
    """The finish reason alone refuses it; cut back to its last full line it may be used."""
    cut_off = GOOD + "\nThe piano was sold to a neighbour. The harp went to"
    assert reason(cut_off, "length") == "unfinished"
    mended = mend(cut_off, "unfinished")
    assert mended == GOOD + "\nThe piano was sold to a neighbour."
    assert reason(mended) is None
    assert mend("Too short to save. And", "unfinished") is None


def test_a_loop_is_mended_by_saying_things_once() -> None:
    """What came before the repetition is kept."""
    mended = mend(GOOD + "\nand on it goes" * 60, "loop")
    assert mended is not None and mended.startswith(GOOD[:60]) and mended.count("and on it goes") <= 1


@pytest.mark.parametrize("circle", ["the ", "I will do it again, ok, ", "码头和泊位，"])
def test_a_line_that_goes_round_in_itself_is_left_out(circle: str) -> None:
    """However long the line: what stands before it is kept, and where nothing does there is nothing to mend."""
    mended = mend(f"{GOOD}\n{circle * 400}", "loop")
    assert mended == GOOD.rstrip() and reason(mended) is None
    assert mend(circle * 400, "loop") is None


def test_lines_that_are_alike_are_no_circle() -> None:
    """A list says the same of many things; what stands around it is kept with it."""
    same = (
        "was moved to the new store, and all of its letters were answered before the end of the week by the two clerks"
    )
    listed = "\n".join(f"- file {i} {same}" for i in range(6))
    text = f"{listed}\n{GOOD}"
    mended = mend(text + "\nSo it went on. " * 80, "loop")
    assert mended is not None and mended.startswith(text) and reason(mended) is None


@pytest.mark.parametrize(
    "told",
    [
        "Error handling was rewritten in the importer, and the two clerks were told of it on Monday.",
        "Error messages now name the file, as the user wished; the tests for it pass.",
        "Rate limiting was added to the importer: the user wants four requests a second at most.",
        "No content changed in the letters; only the order of the boxes did, as was asked for.",
    ],
)
def test_a_short_summary_may_begin_like_an_error(told: str) -> None:
    """It is about one."""
    assert reason(told) is None


@pytest.mark.parametrize("why", [r for r in REASONS if r not in ("unfinished", "loop")])
def test_nothing_else_can_be_mended(why: str) -> None:
    """A refusal or a copy holds no summary to save."""
    assert mend(GOOD * 3, why) is None


@pytest.mark.parametrize("finish", ["length", "tool_calls", "content_filter"])
def test_an_empty_answer_says_why(finish: str) -> None:
    """Without text the finish reason decides; a filtered answer is a refusal even with text."""
    assert (
        reason("", finish) == {"length": "unfinished", "tool_calls": "tool_syntax", "content_filter": "empty"}[finish]
    )
    assert reason(GOOD, "content_filter") == "refusal"


def test_an_updated_summary_is_no_echo() -> None:
    """What the previous summary said may be said again, even word for word and even if the source holds it."""
    assert not echoes(GOOD + "\nThe rug was sold.", SOURCE + GOOD, GOOD)
    assert echoes(GOOD + "\nThe rug was sold.", SOURCE + GOOD, None)


@given(st.integers(0, 500), st.integers(230, 900))
def test_every_long_copy_is_an_echo(start: int, length: int) -> None:
    """Wherever a copied run begins and however it is wrapped, it is found."""
    run = SOURCE[start : start + length]
    if len(" ".join(run.split())) >= 220:
        assert echoes("\n\n" + run.replace(" ", "\n"), SOURCE, None)


@given(st.text(max_size=300), st.sampled_from([None, "stop", "length", "odd"]), st.text(max_size=100))
def test_any_text_is_judged(text: str, finish: str | None, source: str) -> None:
    """Nothing raises, and the verdict is in the closed set."""
    assert judge(text, finish_reason=finish, source=source, previous=source) in (None, *REASONS)


@given(st.text("ab ", min_size=1, max_size=30), st.integers(30, 60))
def test_pure_repetition_is_always_a_loop(unit: str, times: int) -> None:
    """A text that is one passage over and over is refused, whatever the passage."""
    text = unit * times
    if len(" ".join(text.split())) > 600:
        assert loops(text)


def test_the_summary_before_it_told_again_is_unchanged() -> None:
    """However it is spaced; if next to nothing came since, it may well be the same."""
    assert reason(GOOD, previous=GOOD) == "unchanged"
    assert reason(GOOD.replace("\n", "\n\n"), previous=GOOD) == "unchanged"
    assert reason(GOOD, source="[9 user]\nthanks", previous=GOOD) is None
    assert reason(GOOD + "\nThe rug was sold.", previous=GOOD) is None
