"""Sections of a summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sections import ORDER, join, split


@pytest.mark.parametrize(
    ("prose", "sections"),
    [
        ("just told", [("EVENTS", "just told")]),
        ("[GOALS]\na\n[EVENTS]\nb", [("GOALS", "a"), ("EVENTS", "b")]),
        ("Intro\n## [goals]:\na", [("EVENTS", "Intro"), ("GOALS", "a")]),
        ("**[DETAILS]** port 1", [("DETAILS", "port 1")]),
        ("[GOALS]\n\n[EVENTS]\nb", [("EVENTS", "b")]),
        ("a [GOALS] in a sentence", [("EVENTS", "a [GOALS] in a sentence")]),
        ("", []),
    ],
)
def test_split(prose: str, sections: list[tuple[str, str]]) -> None:
    """Markers are recognised however they are dressed up; text without them is what happened."""
    assert split(prose) == sections


@given(st.lists(st.tuples(st.sampled_from(ORDER), st.text("ab \n", min_size=1)), max_size=6))
def test_nothing_is_lost(parts: list[tuple[str, str]]) -> None:
    """What was joined is split into the same words under the same names."""
    told = [(name, "".join(body.split())) for name, body in split(join(parts))]
    assert told == [(name, "".join(body.split())) for name, body in parts if body.strip()]
