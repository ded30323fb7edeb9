"""The ledger: which identifiers are carried, and how they are listed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.ledger import NEWEST, OLDER, ledger, names_of
from tests.core.test_redact import SECRETS
from tests.core.watching import lengths
from tests.core.wild import called, size, user, wild


def test_files_have_lists_of_their_own() -> None:
    """What tools wrote and what they only read is told apart by the tools' names."""
    messages = [
        *called("read_file", "x", path="src/a.py"),
        *called("edit", "ok", file_path="src/b.py", old="1", new="2"),
        *called("read_file", "y", path="src/b.py"),
        *called("apply_patch", "ok", input="*** Update File: src/c.py\n@@"),
    ]
    lines = ledger(messages, 500, size).split("\n")
    assert lines[:2] == ["files changed: src/b.py, src/c.py", "files read: src/a.py"]
    assert "src/a.py" not in "".join(lines[2:])


def test_the_rest_stands_in_order_of_last_use_with_its_turns() -> None:
    """Each line says where its identifiers were last seen."""
    messages = user("order 4OG6T3", "and QX77-2 please", "again 4OG6T3")
    assert ledger(messages, 500, size) == "1-2: QX77-2, 4OG6T3"


def test_no_secret_is_listed_wherever_it_stood() -> None:
    """Text, arguments and results are redacted before anything is extracted."""
    for case in SECRETS.values():
        secret = case.split("«")[1].split("»")[0]
        plain = case.replace("«", "").replace("»", "")
        listed = ledger([*user(plain), *called("bash", plain, command=plain, note=plain)], 2_000, size)
        assert secret not in listed


def test_what_was_used_often_and_lately_stays_when_it_is_short() -> None:
    """Identifiers that only a tool's listing showed give way to those the assistant works with."""
    listing = "\n".join(f"old/folder/module_{i}.py" for i in range(300))
    messages = called("bash", listing, command="ls")
    for _ in range(4):
        messages += called("edit", "ok", path="src/core/engine.py")
    listed = ledger(messages, 60, size)
    assert "src/core/engine.py" in listed
    assert size(listed) <= 60


def test_a_path_and_its_ending_are_one() -> None:
    """`plan.py` of `core/plan.py` is not listed a second time."""
    listed = ledger(user("see core/plan.py", "in plan.py, again"), 200, size)
    assert listed == "1: core/plan.py"


def test_what_stands_elsewhere_is_not_repeated() -> None:
    """`skip` names the text that is already there."""
    assert ledger(user("see core/plan.py and core/x.py"), 200, size, skip="about core/x.py") == "0: core/plan.py"


def test_commands_are_listed_as_such() -> None:
    """The command of a shell tool is one entry, in backticks."""
    assert "`npm run check`" in ledger(called("bash", "ok", command="npm run check"), 200, size)


def test_nothing_gives_nothing() -> None:
    """Without identifiers there is no ledger."""
    assert ledger(user("good morning", "thanks a lot"), 200, size) == ""
    assert ledger([], 200, size) == ""


@given(wild(), st.integers(-5, 300))
def test_any_conversation_within_any_budget(messages: list[dict[str, Any]], budget: int) -> None:
    """Nothing raises, the budget holds, and the bytes are the same every time."""
    listed = ledger(messages, budget, size)
    assert size(listed) <= max(0, budget)
    assert listed == ledger(messages, budget, size)


@pytest.mark.parametrize("budget", [50, 400])
def test_the_count_is_asked_seldom_and_about_little(budget: int) -> None:
    """Twice the conversation does not mean more counting: what is counted is bounded by the budget."""
    asked = []

    def count(text: str) -> int:
        asked.append(len(text))
        return size(text)

    for n in (200, 2_000):
        asked.clear()
        ledger(user(*(f"file src/part_{i}/module_{i}.py" for i in range(n))), budget, count)
        assert len(asked) <= 24 and max(asked) <= 40 * budget


def test_its_repr_shows_no_text() -> None:
    """Fit for logs: numbers only."""
    assert repr(names_of(user("see core/plan.py"))) == "Names(1 of which 0 changed, 0 read)"


def test_of_a_very_long_conversation_the_newest_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its length; what the user named long ago is found all the same."""
    read = lengths(monkeypatch, "proxy.core.ledger.identifiers")
    filler = "and it went on like that for a while " * 140
    for length in (300, 900):
        read.clear()
        rest = [m for i in range(length) for m in (*user(filler), *called("bash", f"{filler} part_{i}", command="ls"))]
        listed = ledger([*user(f"My order is XK77-204. {filler}"), *rest], 400, size)
        assert sum(read) <= NEWEST + 2 * OLDER
        assert "XK77-204" in listed and f"part_{length - 1}" in listed and "part_1," not in listed
        assert listed == ledger([*user(f"My order is XK77-204. {filler}"), *rest], 400, size)


def test_a_giant_argument_is_read_at_its_ends() -> None:
    """Millions of characters in one call, as JSON or not."""
    for argument in ("src/first.py " + "x y " * 500_000 + " src/last.py", "[1,2" * 500_000):
        listed = ledger(called("write", "ok", content=argument), 100, size)
        assert ("src/last.py" in listed) == ("last" in argument)
