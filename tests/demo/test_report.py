"""Rows and totals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.demo.report import WIDTH, Recalled, Report, Row, heading
from proxy.demo.script import FACTS

ROW = Row(60, 2, 12_955, 3_100, "compact; over-limit, and a very long reason", 0.914, "streamed, " * 12)


def report(**fields: object) -> Report:
    right = Recalled(FACTS[0], 60, f"It is {FACTS[0].value}.")
    return replace(Report(rows=[ROW], recalled=[right], requests=72, invalid=0), **fields)  # type: ignore[arg-type]


def test_nothing_is_wider_than_a_terminal() -> None:
    """Heading, rows and totals keep to the width, whatever they hold."""
    lines = [*heading(), ROW.line(), *report(failures=["x" * 300]).totals()]
    assert max(len(line) for line in lines if "the model" not in line) <= WIDTH


def test_columns_line_up() -> None:
    """The names of the columns stand over their values."""
    *_, names = heading()
    line = Row(7, 1, 999, None, "pass", None, "note").line()
    assert line.split() == ["7", "1", "999", "n/a", "pass", "n/a", "note"]
    for name, value in (("sent", "n/a"), ("decision", "pass"), ("what", "note")):
        end = name in ("sent",)
        places = (names.index(name) + len(name) * end, line.index(value) + len(value) * end)
        assert places[0] == places[1]


@pytest.mark.parametrize(
    ("fields", "ok"),
    [
        ({}, True),
        ({"invalid": None}, True),
        ({"overflows": 3}, True),
        ({"failed": 1}, False),
        ({"invalid": 1}, False),
        ({"recalled": []}, False),
        ({"recalled": [Recalled(FACTS[0], 60, "I do not know.")]}, False),
    ],
)
def test_what_counts_as_success(fields: dict[str, object], ok: bool) -> None:
    """The fact must come back and nothing may fail; an overflow that nobody saw is no failure."""
    assert report(**fields).ok is ok


def test_totals_state_everything() -> None:
    """The lines under the table have the answer, every count, and say what cannot be known."""
    text = "\n".join(report(summary_calls=4, waited=2, prefix_share=0.91).totals())
    for part in (
        FACTS[0].value,
        "requests 72",
        "summary calls 4",
        "waited for one 2",
        "91.0%",
        "overflows upstream n/a",
    ):
        assert part in text
    assert repr(report()).startswith("Report(72 requests, 0 failed")
