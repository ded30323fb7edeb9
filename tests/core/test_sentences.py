"""Text taken apart into its sentences."""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sentences import parts, unfenced


@pytest.mark.parametrize(
    ("plain", "sentences"),
    [
        ("One. two three! Four?", ["One.", "two three!", "Four?"]),
        ("Ask Dr. Who, e.g. on 3. May. Then go.", ["Ask Dr. Who, e.g. on 3. May.", "Then go."]),
        ("open src/a.py now", ["open src/a.py now"]),
        ("a wrapped line that\ngoes on here", ["a wrapped line that\ngoes on here"]),
        ("List:\n- one\n- two", ["List:", "- one", "- two"]),
        ("好的。请继续！", ["好的。", "请继续！"]),
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
    ],
)
def test_what_is_fenced_goes(words: str, expected: str) -> None:
    """Indented or not; a fence that is not closed hides nothing."""
    assert unfenced(words) == expected
