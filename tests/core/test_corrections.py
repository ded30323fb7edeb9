"""Which of the user's sentences take the place of earlier ones, and which hold side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.corrections import replaces, stands
from proxy.core.pins import words_of
from proxy.core.worth import Unit
from tests.core.wild import user

NOTED = {"role": "assistant", "content": "Noted."}


def told(first: str, second: str) -> tuple[Unit, ...]:
    """The sentences of two messages with an answer between them."""
    return words_of([*user(first), NOTED, *user(second)]).units


SIDE_BY_SIDE = [
    ("The kitchen thermostat is set to 21 degrees.", "The cellar thermostat is set to 14 degrees."),
    ("Vaccine X: 2 doses, 3 weeks apart.", "Vaccine Y: 1 dose, no second one."),
    ("Never send more than 5 mails an hour to subscribers.", "Never send more than 20 mails an hour to colleagues."),
    ("Guest Four: vegan, arrives 18 May.", "Guest Five: no nuts, arrives 20 May."),
    ("Use 80 columns in Rust.", "Use 100 columns in Kotlin."),
    ("Ticket 7710 is for Hanna.", "Ticket 7711 is for Bodo."),
    ("Berth 5 holds 6 boats.", "Berth 6 holds 9 boats."),
    ("Die Heizung im Bad läuft ab 6:30.", "Die Heizung im Büro läuft ab 8:00."),
    ("Le train pour Lyon part à 9:15.", "Le car pour Nantes part à 11:40."),
    ("La reunión de ventas es el martes a las 10:00.", "La reunión de soporte es el jueves a las 12:00."),
    ("测试环境的端口是 8080。", "生产环境的端口是 9090。"),
    ("Сервер в Казани слушает порт 8081.", "Сервер в Перми слушает порт 8085."),
    ("The port of the red box is 7001.", "Is the port of the blue box 7002?"),
    ("Please hold the parcel K7TQ2.", "Please hold the parcel M9XW4."),
    ("Reserve table 4 for Marek at 19:00.", "Reserve table 9 for Ulla at 20:30."),
    ("Backups of orders are kept for 30 days.", "Backups of photos are now kept for 7 days."),
    ("The invoice for March is 210 euros.", "The invoice for April is 260 euros."),
]

SMALL_TALK = [  # none of it takes anything back, whatever words it happens to share
    ("I can spend up to 300 euros on the bike.", "That is all for the moment!"),
    ("I can spend up to 300 euros on the bike.", "I need to change my address, the bike is not mine."),
    ("Cancel booking QX81ZP, please.", "Yes, please go on with the changes."),
    ("Cancel booking QX81ZP, please.", "Yes, cancel booking RT55KA."),
    ("The oven is broken since 3 May.", "Is the oven broken since 4 May?"),
]

CORRECTED = [
    ("The kitchen thermostat is set to 21 degrees.", "The kitchen thermostat is set to 19 degrees."),
    ("Vaccine X: 2 doses.", "Correction, vaccine X: 3 doses."),
    ("Never send more than 5 mails an hour to subscribers.", "Never send more than 20 mails an hour to subscribers."),
    ("Die Heizung im Bad läuft ab 6:30.", "Die Heizung im Bad läuft ab 7:15."),
    ("Le train pour Lyon part à 9:15.", "Finalement, le train pour Lyon part à 10:05."),
    ("La reunión de ventas es el martes a las 10:00.", "La reunión de ventas es ahora el martes a las 12:00."),
    ("测试环境的端口是 8080。", "测试环境的端口改为 9090。"),
    ("書類は 5 部印刷してください。", "書類は 8 部印刷してください。"),
    ("Сервер в Казани слушает порт 8081.", "Сервер в Казани теперь слушает порт 8085."),
    ("Write the log to /var/log/teapot.log", "Write the log to /srv/logs/teapot.log"),
    ("Send the minutes to Marta.", "Send the minutes to Jonas, not Marta."),
    ("The workshop is on 4 May in Ghent.", "The workshop has been moved: 11 May in Bruges."),
    ("Deploy to the staging cluster at 18:00.", "Actually, deploy to the production cluster at 20:00."),
    ("Seats for 4 at the harbour table.", "Seats for 46 at the harbour table."),
]


@pytest.mark.parametrize(("first", "second"), [*SIDE_BY_SIDE, *SMALL_TALK])
def test_two_things_hold_side_by_side(first: str, second: str) -> None:
    """What differs in name and in value, a question, an answer and small talk are quoted in place of nothing."""
    one, later = told(first, second)
    assert not replaces(one, later)


@pytest.mark.parametrize(("first", "second"), CORRECTED)
def test_a_correction_takes_the_place_of_what_it_corrects(first: str, second: str) -> None:
    """It says that it is one, or says the same with another value; and the first stands only together with it."""
    one, later = told(first, second)
    assert replaces(one, later) and one.later == [1]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("Never deploy on Friday.", "Also never deploy on Sunday."),
        ("Never write to Alice before noon.", "Never write to Bob before noon either."),
        ("Send the report to anna@example.org.", "Send the report to ben@example.org as well."),
        ("Lösche nie Dateien in /etc.", "Lösche auch nie Dateien in /var."),
    ],
)
def test_what_is_added_replaces_nothing(first: str, then: str) -> None:
    """Both hold, and it says so."""
    assert not list(words_of([{"role": "user", "content": said} for said in (first, then)]).retired())


def test_a_list_and_a_paste_correct_nothing() -> None:
    """Sentences of one message stand side by side; what is pasted is rarely the user's own."""
    one, later = words_of(user("The red box has port 7001.\nThe red box has port 7002.")).units
    assert not replaces(one, later)
    paste = "\n".join(f"- the blue crate number {i} is full of pears" for i in range(30))
    units = told("The red box has port 7001.", f"{paste}\nThe red box has port 7002.\n{paste}")
    (later,) = (unit for unit in units if "7002" in unit.text)
    assert not replaces(units[0], later) and not units[0].later


def test_a_correction_in_the_middle_of_a_paste_comes_along_if_it_says_that_it_is_one() -> None:
    """It may be the user's own after all, and an old value must not stand alone."""
    paste = "\n".join(f"- the blue crate number {i} is full of pears" for i in range(30))
    units = told("The red box has port 7001.", f"{paste}\nActually, the red box has port 7002.\n{paste}")
    assert "Actually, the red box has port 7002." in {units[i].text for i in units[0].later}


def test_the_rest_of_a_long_sentence_does_not_correct_its_beginning() -> None:
    """Both are one sentence."""
    long = f"Never ship pears without a label, {'not even pears for the label office, ' * 14}please."
    head, rest = words_of(user(long)).units
    assert rest.goes_on and not head.later and head.whole == long


@pytest.mark.parametrize(
    ("value", "sentence", "there"),
    [
        ("4", "46 seats", False),
        ("4", "4 seats, 46", True),
        ("4", "14", False),
        ("a/b", "xa/bc", True),
        ("4", "", False),
    ],
)
def test_a_number_stands_by_itself(value: str, sentence: str, there: bool) -> None:
    """Not as a part of another number."""
    assert stands(value, sentence) is there


@given(st.text(max_size=120), st.text(max_size=120))
def test_any_two_sentences(first: str, second: str) -> None:
    """Nothing raises, and no sentence takes its own place."""
    for one in told(first, second):
        for later in told(first, second):
            replaces(one, later)
        assert not replaces(one, one)
