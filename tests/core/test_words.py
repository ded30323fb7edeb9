"""The word lists are data; they must be usable as such."""

from __future__ import annotations

from proxy.core import words


def test_words_are_written_as_they_are_looked_up() -> None:
    """Lists of whole words hold single words in lower case; parts are not empty."""
    for name in (
        "RULE",
        "LEANING",
        "LIMIT",
        "CORRECTION",
        "SELF",
        "SMALL_TALK",
        "SURELY",
        "EMPTY",
        "ASSENT",
        "POINTING",
    ):
        listed = getattr(words, name)
        assert listed and all(word == word.casefold() and len(word.split()) == 1 for word in listed), name
    for name in (
        "RULE_PARTS",
        "CORRECTION_PARTS",
        "CORRECTION_PHRASES",
        "SELF_PARTS",
        "LASTING",
        "NOT",
        "ASKING",
        "FORBIDDING",
    ):
        assert all(part and part == part.strip().casefold() for part in getattr(words, name)), name
    for name in ("MANNER", "USING"):
        assert all(part == f"{part.strip().casefold()} " for part in getattr(words, name)), name


def test_a_hint_is_counted_once() -> None:
    """No word is both a rule's and half a hint."""
    assert not words.RULE & (words.LEANING | words.LIMIT)
