"""The user's own words: which are carried, and in which company."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.pins import HEARD, SAID, pins, words_of
from proxy.core.transcript import text
from tests.core.watching import lengths
from tests.core.wild import called, size, user, wild

CHATTER = [
    "ok, go on",
    "can you show me the file again?",
    "hm, that still fails",
    "thanks, looks good",
    "what does that function do?",
    "run the tests once more",
    "why is it so slow?",
    "let me look at this for a moment",
    "that did not work, the page is empty",
    "great, next one",
]

LASTING = [  # rules, preferences and facts; none is labelled as one
    "Whatever happens, the ledger table is not to be migrated.",
    "Nobody outside of Utrecht may see those figures.",
    "All amounts are in Swiss francs.",
    "I can't read red text on green.",
    "Releases go out on Tuesdays, never later in the week.",
    "Our courier is called Meridian Freight.",
    "Die Schnittstelle darf sich nicht ändern.",
    "N'ajoute aucune bibliothèque sans me demander.",
    "La oficina de Sevilla cierra a las 15:30.",
    "发票必须用人民币。",
    "Логи хранить не дольше недели.",
    "変数名は英語でお願いします。",
]


def chat(n: int, seed: int = 1) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    said = []
    for i in range(n):
        said += user(chance.choice(CHATTER) + f" ({i})")
        said.append(
            {"role": "assistant", "content": f"Here is what I found in step {i}, and what I would do about it."}
        )
    return said


def test_all_of_it_verbatim_where_it_fits() -> None:
    """Short conversations are carried word for word, in order, numbered by message."""
    messages = [
        *user("Hello there, Anna."),
        {"role": "assistant", "content": "Hi"},
        *user("Keep it short.\nAnd  polite."),
    ]
    assert pins(messages, 500, size) == "0: Hello there, Anna.\n2: Keep it short.\nAnd  polite."


def test_only_the_user_is_quoted() -> None:
    """Nothing of assistants, tools or the system gets in."""
    others = [{"role": r, "content": "never do that"} for r in ("assistant", "system", "developer", "function")]
    assert pins([*others, *called("read", "always do this", path="x")], 500, size) == ""


@pytest.mark.parametrize("sentence", LASTING)
def test_what_holds_on_stays_when_room_is_short(sentence: str) -> None:
    """Rules, preferences and facts of any wording and language outlive questions and errands."""
    messages = chat(120)
    messages[40]["content"] += "\n" + sentence
    kept = pins(messages, 200, size)
    assert sentence in kept
    assert size(kept) <= 200


@pytest.mark.parametrize("sentence", LASTING)
def test_a_paste_does_not_hide_what_was_said_before_it(sentence: str) -> None:
    """Logs, listings and code in a user message weigh nothing against a sentence of the user's."""
    paste = "\n".join(f"2024-05-01T10:{i % 60:02}:00 INFO worker[{i}] request served in {i} ms" for i in range(300))
    messages = [*chat(10), *user(f"{sentence}\n\n{paste}"), *chat(10, 2)]
    assert sentence in pins(messages, 150, size)
    for indent in ("", "      "):
        fenced = [*chat(10), *user(f"{indent}```\n{paste}\n{indent}```\n{sentence}"), *chat(10, 2)]
        kept = pins(fenced, 150, size)
        assert sentence in kept and "worker" not in kept


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The demo is on 12 March.", "The demo was moved to 3 April."),
        ("Name the service heron.", "On reflection, name the service egret."),
        ("The pool holds 40 connections.", "Make that pool 64 connections."),
        ("Der Termin ist am 3. Oktober.", "Der Termin ist nun am 17. Oktober."),
        ("端口是 8080。", "端口改为 9090。"),
    ],
)
@pytest.mark.parametrize("budget", [16, 24, 40, 80, 160])
def test_what_was_superseded_never_stands_alone(old: str, new: str, budget: int) -> None:
    """Whatever the budget, an old value is there only together with the one that took its place, after it."""
    messages = chat(60)
    messages[10]["content"] += "\n" + old
    messages[70]["content"] += "\n" + new
    kept = pins(messages, budget, size)
    assert old not in kept or kept.index(old) < kept.index(new)


def test_a_fence_that_is_not_closed_hides_nothing() -> None:
    """Of a paste that begins in the middle only the closing fence is there; the user's own words come after it."""
    assert "Never deploy on a Friday." in pins(user("```\n\nNever deploy on a Friday."), 100, size)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("our train leaves from Basel btw", "the agency called again, our train leaves from Bern"),
        ("the teal labels on the map are fine", "hm, the grey labels on the map are fine"),
        ("我们的火车从巴塞尔出发", "旅行社说我们的火车从伯尔尼出发"),
    ],
)
def test_common_words_in_a_row_tell_that_something_is_said_anew(old: str, new: str) -> None:
    """However common each of the words is: said in the same order they are about the same."""
    noise = "The train was late, our labels are there, it leaves from the map: fine. 火车 我们 出发"
    messages = [*user(old), *({"role": "assistant", "content": noise} for _ in range(20)), *user(new)]
    units = words_of(messages).units
    assert units[0].text == old and units[0].later == [1]


def test_what_happens_to_share_a_phrase_is_not_superseded() -> None:
    """A few words in a row of a long sentence are no sign of it."""
    units = words_of(
        user(
            "I would like to have the invoices of the last quarter sorted by customer and printed on thick paper",
            "I would like to learn why nobody of the harbour office picks up the telephone before nine",
        )
    ).units
    assert not units[0].later


def test_gaps_are_marked() -> None:
    """Where sentences of a message are left out, the reader sees it."""
    long = "We never ship on Fridays. " + "Could you look at that page again? " * 60 + "Prices include VAT of 8.1 %."
    kept = pins(user(long), 40, size)
    assert kept.startswith("0: We never ship on Fridays. […] ") and kept.endswith("Prices include VAT of 8.1 %.")


@given(wild(), st.integers(-5, 200))
def test_any_conversation_within_any_budget(messages: list[dict[str, Any]], budget: int) -> None:
    """Nothing raises, the budget holds, the bytes are stable, and every word is a user's."""
    kept = pins(messages, budget, size)
    assert size(kept) <= max(0, budget)
    assert kept == pins(messages, budget, size)
    said = " ".join(text(m) for m in messages if isinstance(m.get("role"), str) and m["role"] == "user")
    for line in kept.split("\n"):
        for word in line.partition(":")[2].replace("[…]", " ").split():
            assert word in said


def test_the_count_is_asked_seldom_and_about_little() -> None:
    """Ten times the conversation does not mean more counting."""
    asked = []

    def count(text: str) -> int:
        asked.append(len(text))
        return size(text)

    for n in (100, 1_000):
        asked.clear()
        pins(chat(n), 200, count)
        assert len(asked) <= 24 and max(asked) <= 40 * 200


def test_links_grow_with_the_conversation_not_with_its_square() -> None:
    """A conversation that says the same words over and over links each sentence to few others."""
    for n in (50, 500):
        units = words_of(user(*(f"The port of server {i} is {i + 1000}." for i in range(n)))).units
        assert sum(len(unit.later) for unit in units) <= 12 * n


def test_its_repr_shows_no_text() -> None:
    """Fit for logs: numbers only."""
    assert repr(words_of(user("a secret plan"))) == "Words(1 units)"


def test_of_very_many_words_the_longest_messages_lose_their_middle() -> None:
    """Short messages stay whole however old; where something was not looked at there is a mark."""
    paste = " ".join(f"Row {i} holds {i * 7} crates of tea." for i in range(9_000))
    messages = [*user("Never touch the ledger table."), *user(*(f"{n}. {paste} The end of {n}." for n in range(8)))]
    words = words_of(messages)
    assert sum(len(unit.text) for unit in words.units) <= SAID
    assert words.units[0].text == "Never touch the ledger table."
    assert {unit.turn for unit in words.units} == set(range(9))
    assert any(unit.text == "The end of 7." for unit in words.units)
    gaps = [b.order - a.order for a, b in zip(words.units, words.units[1:], strict=False) if a.turn == b.turn]
    assert gaps.count(2) == 8 and set(gaps) == {1, 2}
    everything = pins(messages, 400_000, size)
    assert everything.count("[…]") == 8
    assert everything == pins(messages, 400_000, size)


def test_a_giant_message_without_a_stop_is_quoted_in_part() -> None:
    """What is quoted is its head and its tail, cut between words."""
    said = [*user("word " * 400_000), *user("Use tabs.")]
    first, second, _ = words_of(said).units
    assert set(first.text.split()) == set(second.text.split()) == {"word"}


def test_words_are_looked_up_in_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the conversation does not mean ten times the reading."""
    read = lengths(monkeypatch, "proxy.core.pins.content")
    words_of([*user("Use tabs."), *({"role": "assistant", "content": "on it goes " * 1_000} for _ in range(2_000))])
    assert HEARD // 2 < sum(read) <= HEARD + 100


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("The port of the gateway is 4711.", "The port of the gateway is 4712 now.", {"4711"}),
        ("Send the weekly report to Marta.", "Actually, send the weekly report to Jonas.", {"Marta"}),
        ("send the freight bills to Marta", "please send the freight bills to Jonas, Marta has retired", set()),
        ("We never ship on Fridays.", "The invoice template is in English.", None),
        ("1. The list of filters used by the reader", "2. It is used by:", None),
    ],
)
def test_what_was_taken_back_is_known(first: str, second: str, values: set[str] | None) -> None:
    """A sentence that a later one supersedes, in which turn, and which of its values hold no longer."""
    found = list(words_of(user(first, second)).retired())
    assert [(each.text, each.turn, each.instead) for each in found] == (
        [(first, 1, (second,))] if values is not None else []
    )
    assert not found or set(found[0].values) == values
    assert first not in repr(found)


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("When the nightly import fails, page the owner of the feed.", "Ah, the nightly import fails for that feed."),
        ("The nightly import takes under 30 minutes.", "The nightly import took some 30 minutes."),
        ("The nightly import has to be idempotent.", "The nightly import looks quite idempotent."),
    ],
)
def test_hints_that_are_no_words_of_command(more: str, less: str) -> None:
    """A condition, a limit and a duty are worth more than talk about the same."""
    values = {unit.text: unit.value for unit in words_of(user(more, less)).units}
    assert values[more] > values[less]


def test_an_item_of_a_list_in_a_paste_is_worth_less_than_in_a_message_that_was_typed() -> None:
    """A long paste is rarely of the user's own making."""
    items = [f"- component number {i} reads its settings from the registry" for i in range(4)]
    paste = "\n".join(f"- step {i} of the plan was looked at by nobody in particular" for i in range(60))
    typed = words_of(user("Hello.", "\n".join(items))).units[3]
    pasted = words_of(user("Hello.", "\n".join([*items, paste]))).units[3]
    assert typed.text == pasted.text and pasted.value < 0.7 * typed.value


WRAPPED = [  # sentences that programs wrap, or that are hard to tell from what a program writes
    "<note>Always spell colour with a u.</note>",
    "<rules>\n<rule>Nothing goes out before Tilda has read it.</rule>\n</rules>",
    "> Payment is due on 9 June, without extension.",
    "[billing] Round to five cents, always.",
    "[URGENT] Never restart the mixer on a Sunday.",
    "[Signal Marek 2027-03-05 08:12] Immer mit Umsatzsteuer rechnen.",
    "[WhatsApp +44 7700 900123 05.03.27, 08:12] Toujours répondre en français.",
    "@helper never touch attic/",
    "@helper: [press] Nunca publiques nada sin mi permiso.",
    '{"rule": "Quote prices without VAT, always.", "by": "Ulla"}',
    "| what | rule |\n|---|---|\n| mails | never before eight in the morning |",
    "```\nNever merge without asking Tilda first.\n```",
    "```text\nAll measures are in inches.\nNo abbreviations, ever.\n```",
    "# Never rename a column of the ledger.",
    "हमेशा हिंदी में उत्तर दें।",
    "मुझसे पूछे बिना कोई फ़ाइल कभी मत हटाना।",
    "Coeliac.",
    "No puns.",
    f"Never call the supplier without me, {'not even if the manager of the north yard asks for it by telephone, ' * 6}ok.",
]


@pytest.mark.parametrize("said", WRAPPED)
def test_a_rule_is_kept_whatever_is_around_it(said: str) -> None:
    """What a person typed is no paste because of an address, a quotation mark, a tag or its script."""
    messages = chat(120)
    messages[16]["content"] = said
    told = max(said.split("\n"), key=len)[:60]
    assert told in pins(messages, 200, size)


@pytest.mark.parametrize(
    "line",
    [
        "[worker-{i}] Picked up job {i} from the queue of the day",
        "> Row {i} of the quoted mail says nothing in particular",
        "<li>Entry {i} of the list in the page that was saved</li>",
        "| crate {i} | pears of the south yard | counted by nobody |",
    ],
)
def test_a_paste_of_many_such_lines_is_one(line: str) -> None:
    """A few a person may have written; where all the lines are like that a program has."""
    few, many = ("\n".join(line.format(i=i) for i in range(n)) for n in (2, 30))
    assert max(unit.value for unit in words_of([*chat(4), *user(many)]).units if unit.turn == 8) < 0.4
    assert max(unit.value for unit in words_of([*chat(4), *user(few)]).units if unit.turn == 8) > 0.8


def test_a_word_that_leads_to_tool_calls_is_an_errand() -> None:
    """It is nothing that was said for good."""
    errand = [*user("Rebase."), *called("run", "done", command="git rebase"), *user("Go on.")]
    said = [*user("Coeliac."), {"role": "assistant", "content": "Understood."}, *user("Go on.")]
    assert words_of(said).units[0].value > 2 * words_of(errand).units[0].value


def test_what_somebody_repeats_is_worth_no_less() -> None:
    """What stands in nearly every message of many is put there by a machine."""
    rule = "Never touch the vendor folder."
    for times in (2, 3, 5):
        messages = [
            m for i in range(12) for m in user(f"Look at shelf {i} again. {rule}" if i < times else f"Look at {i}.")
        ]
        values = [unit.value for unit in words_of(messages).units if unit.text == rule]
        assert values[:-1] == [0.0] * (times - 1) and values[-1] > 1.2
    everywhere = words_of(user(*(f"Look at shelf {i} again. {rule}" for i in range(12)))).units
    assert 0 < max(unit.value for unit in everywhere if unit.text == rule) < 1.2


def test_a_value_that_is_part_of_another_is_replaced_nevertheless() -> None:
    """4 is gone where 46 stands."""
    (found,) = words_of(
        [*user("Seats for 4 at the harbour table."), *user("Seats for 46 at the harbour table.")]
    ).retired()
    assert found.values == {"4"}


def test_a_long_correction_is_quoted_whole_or_not_at_all() -> None:
    """Half of it might say the opposite."""
    long = f"Actually, never ship more than 7 pears, {'not even to the office at the north yard, ' * 12}please."
    (found,) = words_of([*user("Never ship more than 5 pears."), *user(long)]).retired()
    assert found.instead == (long,)
