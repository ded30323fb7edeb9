"""Checkpoints as rows: there and back, and what is not believed."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given

from proxy.adapters.rows import COLUMNS, readable, row
from proxy.core.checkpoint import Checkpoint
from tests.contracts.store import checkpoint, checkpoints


@given(checkpoints)
def test_what_was_written_is_read(made: Checkpoint) -> None:
    """Equal in every field; what else a query asks for may stand behind."""
    assert len(row(made)) == len(COLUMNS.split(", "))
    assert [asdict(found) for found in readable([(*row(made), 7, 1.5)])] == [asdict(made)]


@pytest.mark.parametrize(
    "odd", [(), (1, 2), tuple(None for _ in row(checkpoint())), tuple(b"" for _ in row(checkpoint()))]
)
def test_what_is_no_row_is_left_out(odd: tuple[object, ...]) -> None:
    """Its neighbours are read."""
    assert readable([odd, row(checkpoint()), odd]) == [checkpoint()]
