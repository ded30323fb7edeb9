"""What a sentence is worth, in many scripts and wrappings."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.core.worth import LONG, WORD, Unit, asks, content, hints, human, rate


def unit(sentence: str, *, curt: bool = False) -> Unit:
    made = Unit(0, 0, sentence, said=sentence[:LONG], curt=curt, words=content(sentence[:LONG]))
    rate(made, Counter(made.words))
    return made


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Don't re-read it", ["Don't", "re-read", "it"]),
        ("हमेशा हिंदी में लिखें", ["हमेशा", "हिंदी", "में", "लिखें"]),
        ("אָלֶף בֵּית", ["אָלֶף", "בֵּית"]),
        ("ห้าม", ["ห้าม"]),
        ("snake_case", ["snake", "case"]),
    ],
)
def test_words_of_any_script_are_whole(sentence: str, words: list[str]) -> None:
    """Signs for vowels belong to the word they stand in."""
    assert WORD.findall(sentence) == words


@pytest.mark.parametrize(
    "rule",
    [
        "Never restart the mixer on a Sunday.",
        "Do not open the green valve.",
        "The green valve may not be opened.",
        "हमेशा हिंदी में उत्तर दें।",
        "मुझसे पूछे बिना कोई फ़ाइल कभी मत हटाना।",
        "ห้ามลบไฟล์โดยไม่ถามฉันก่อน",
        "لا تحذف الملفات أبدًا",
        "永远不要删除文件。",
    ],
)
def test_a_rule_in_any_script_is_one(rule: str) -> None:
    """Written by a person, with a word of rules, worth more than what is said in passing."""
    made = unit(rule)
    assert hints(rule) and human(made) > 0.9
    assert made.value > unit("the page is empty").value


def test_a_short_message_of_its_own_is_worth_more_than_the_same_words_in_passing() -> None:
    """One states what will hold in a word; small talk and questions stay what they are."""
    assert unit("Coeliac.", curt=True).value > 3 * unit("Coeliac.").value
    assert unit("Thanks.", curt=True).value < 0.1
    assert unit("Coeliac?", curt=True).value < 0.3


def test_a_rule_that_is_asked_for_is_no_question() -> None:
    """Politeness costs nothing; whether one should is a question."""
    asked = unit("Could you please never mail the customers directly?")
    assert asks(asked.said) and asked.value > 1.5 * unit("Should we never mail the customers directly, then?").value


def test_logs_code_and_data_are_hardly_worth_anything() -> None:
    """However many numbers and names are in them."""
    for line in ("2024-05-01T10:00:01 INFO worker[3] served in 3 ms", "for (const a of b) {", "| 17 | 4 | 0.33 | 9 |"):
        assert unit(line).value < 0.4
