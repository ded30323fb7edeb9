"""Sentences and what they tell."""

from __future__ import annotations

import pytest

from proxy.demo.reading import is_question, last_line, sentences, subject, text_of, worth


def test_sentences_lose_their_marks() -> None:
    """List marks, quotes and headings round a sentence go; its own points and dots stay."""
    text = '- The port is 8080. "Never restart it!" he said.\n# Version 2.5 is out\n* 端口是八千。不要重启。'
    text += "\n\n> done\n- 4: Keep it.\n"
    text += '[12] Why not. 3.5 is enough\n{"notes": "Reported. The key is K-1."}'
    assert list(sentences(text)) == [
        "The port is 8080.",
        "Never restart it!",
        "he said.",
        "Version 2.5 is out",
        "端口是八千。",
        "不要重启。",
        "done",
        "Keep it.",
        "[12] Why not.",
        "3.5 is enough",
        '{"notes": "Reported.',
        "The key is K-1.",
    ]


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("What is the release codename of the project?", "The release codename of the project is BLUE-HERON."),
        ("When do the holidays begin?", "The holidays begins on Monday."),
        ("Which port does the gateway use?", "Our gateway uses port 8080."),
    ],
)
def test_a_statement_covers_its_question(question: str, statement: str) -> None:
    """All words a question is about stand in the sentence that answers it, and at least one more."""
    assert subject(question) < subject(statement)


@pytest.mark.parametrize(
    ("text", "asked"), [("Why?", True), ('"Really?"', True), ("真的吗\uff1f", True), ("a? b", False)]
)
def test_questions(text: str, asked: bool) -> None:
    """A question ends in its mark, whatever closes behind it."""
    assert is_question(text) is asked


def test_facts_are_worth_more_than_talk() -> None:
    """Names, numbers and decisions count; questions and scraps are worth nothing."""
    talk = "The first step looks sound to me, though it could use one more pass."
    assert worth("The signing key of the gateway is stored in vault slot K-5581.") > worth(talk)
    assert worth("We decided that Marit Oyelaran must never be paged.") > worth(talk)
    assert worth("2031-05-01T08:52:10 gateway-5 released batch 48233") == worth("get_ticket(key=HB-1005, x=1)") == 0
    assert worth("Is the key K-5581?") < 0
    assert worth("ok then") < 0
    assert worth("x " * 400) < 0


def test_text_of_content() -> None:
    """Strings and text parts are read, anything else is silence; the last line is what was said last."""
    assert text_of("a") == "a"
    assert text_of([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]) == "a\n\nb"
    assert text_of(None) == text_of(7) == ""
    assert last_line("summary\n\nthe request \n\n") == "the request"
    assert last_line("") == ""
