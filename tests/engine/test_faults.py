"""What the log says of a failure."""

from __future__ import annotations

import json

from proxy.engine.faults import FRAMES, place


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    json.loads("the client's own words")


def test_kind_and_place_and_no_words() -> None:
    """From where it was raised upwards, a handful of frames, and none of the exception's text."""
    try:
        deep(10)
    except ValueError as error:
        told = place(error)
    assert told.startswith("JSONDecodeError at decoder.py:")
    assert " in raw_decode < decoder.py:" in told and "test_faults.py" in told
    assert told.count(" < ") == FRAMES - 1
    assert "words" not in told
