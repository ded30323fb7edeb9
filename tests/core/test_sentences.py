"""Text taken apart into its sentences."""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sentences import FENCED, bare, cut, letters, parts, unfenced


@pytest.mark.parametrize(
    ("plain", "sentences"),
    [
        ("One. two three! Four?", ["One.", "two three!", "Four?"]),
        ("Ask Dr. Who, e.g. on 3. May. Then go.", ["Ask Dr. Who, e.g. on 3. May.", "Then go."]),
        ("open src/a.py now", ["open src/a.py now"]),
        ("a wrapped line that\ngoes on here", ["a wrapped line that\ngoes on here"]),
        ("List:\n- one\n- two", ["List:", "- one", "- two"]),
        ("好的。请继续！", ["好的。", "请继续！"]),
        ("पहला वाक्य। दूसरा वाक्य।", ["पहला वाक्य।", "दूसरा वाक्य।"]),
        ("هل انتهيت؟ نعم.", ["هل انتهيت؟", "نعم."]),
        ('He said "no." Then left.', ['He said "no."', "Then left."]),
        ("", []),
    ],
)
def test_sentences(plain: str, sentences: list[str]) -> None:
    """Sentences end at stops and line breaks, not at abbreviations, dots inside names or wrapped lines."""
    assert list(parts(plain)) == sentences


@given(st.text(max_size=300))
def test_sentences_lose_nothing_but_blanks(plain: str) -> None:
    """Put together again, the sentences are the text."""
    assert "".join("".join(parts(plain)).split()) == "".join(plain.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("look:\n```py\nx = 1\n```\nthat is all", "look:\n\n\nthat is all"),
        ("look:\n      ```\n      x = 1\n      ```", "look:\n\n"),
        ("~~~\n```\n~~~", "\n"),
        ("```\nnot closed", "```\nnot closed"),
        ("no fence", "no fence"),
        ("```\nNever merge before noon.\n```", "\nNever merge before noon.\n\n"),
        (
            "```text\nAll of it is in inches.\n\nNo abbreviations, ever.\n```",
            "\nAll of it is in inches.\n\nNo abbreviations, ever.\n\n",
        ),
        ("```\n请一直使用中文回答。\n```", "\n请一直使用中文回答。\n\n"),
        ("```\nnpm run build now\n```", "\n"),
        ("```py\nNever merge before noon.\n```", "\n"),
        ("```\nNever merge before noon.\nx = [1, 2]\n```", "\n"),
        ("```\n" + "Never merge before noon.\n" * (FENCED + 1) + "```", "\n"),
    ],
)
def test_what_is_fenced_goes(words: str, expected: str) -> None:
    """Indented or not; a fence that is not closed hides nothing, and one around a few plain sentences neither."""
    assert unfenced(words) == expected


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("> Payment is due on 9 June.", "Payment is due on 9 June."),
        ("<rule>Nothing goes out unread.</rule>", "Nothing goes out unread."),
        ("[URGENT] Never restart it.", "Never restart it."),
        ("[Signal Marek 2027-03-05 08:12] Immer mit Umsatzsteuer.", "Immer mit Umsatzsteuer."),
        ("@helper: [press] Nunca publiques nada.", "Nunca publiques nada."),
        ("| mails | never before eight |", "mails | never before eight"),
        ("## Never rename a column", "Never rename a column"),
        ('{"rule": "Quote prices without VAT.", "by": "Ulla"}', "Quote prices without VAT."),
        ('"rule": "Nobody outside may read it.",', "Nobody outside may read it."),
        ("[INFO] Server is up", "[INFO] Server is up"),
        ("[1, 2, 3]", "[1, 2, 3]"),
        ("@dataclass(frozen=True)", "@dataclass(frozen=True)"),
        ("[a link](https://a.example)", "[a link](https://a.example)"),
        ("|---|---|", "|---|---|"),
        ("<div>", "<div>"),
        ("Nothing around it, 3 > 2.", "Nothing around it, 3 > 2."),
        ("", ""),
    ],
)
def test_what_wraps_a_sentence_is_no_word_of_it(sentence: str, words: str) -> None:
    """Addresses, marks of quotation, tags, tables and data; what has nothing else in it stays as it is."""
    assert bare(sentence) == words


def test_a_long_sentence_is_cut_between_its_clauses() -> None:
    """Its beginning says most; without clauses it stays whole."""
    long = "Never ship pears, " + "not even small ones, " * 20 + "please."
    head, rest = cut(long, 100)
    assert f"{head} {rest}" == long and len(head) <= 50 and head.endswith(",")
    assert cut("word " * 100, 100) == ["word " * 100]
    assert cut("short, and whole", 100) == ["short, and whole"]


@given(st.text(max_size=300), st.integers(1, 100))
def test_any_text_is_cut_and_unwrapped(text: str, most: int) -> None:
    """Nothing is lost by the one or made up by the other."""
    assert "".join("".join(cut(text, most)).split()) == "".join(text.split())
    assert set(bare(text)) <= {*text, " "} and letters(text) <= len(text)
