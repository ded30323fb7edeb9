"""What is remembered of a request."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.record import OVERFLOW, Recorded, common_prefix, prefix_share


def recorded(*texts: str, refused: str | None = None, summary: bool = False) -> Recorded:
    data: dict[str, Any] = {"messages": [{"role": "user", "content": text} for text in texts]}
    return Recorded(json.dumps(data).encode(), [], 0.0, data, refused=refused, summary=summary)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_common_prefix(start: bytes, one: bytes, other: bytes) -> None:
    """Bisection finds what comparing byte by byte finds."""
    pairs = zip(start + one, start + other, strict=False)
    assert common_prefix(start + one, start + other) == sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)
    )


def test_prefix_share_counts_accepted_chats() -> None:
    """A growing list keeps its beginning; refused requests and summary calls are not looked at."""
    grown = [recorded("a" * 100), recorded("a" * 100, "b" * 100)]
    share = prefix_share(grown)
    assert share == pytest.approx(1 / 3, abs=0.02)
    noise = [recorded("z", refused=OVERFLOW), recorded("y", summary=True)]
    assert prefix_share([grown[0], *noise, grown[1]]) == share
    assert prefix_share([recorded("a" * 100), recorded("b" * 100)]) < 0.3
    assert prefix_share([]) == 0.0


def test_only_broken_rules_are_invalid_lists() -> None:
    """An overflow and a planned failure say nothing about the list."""
    assert recorded("a", refused="orphan tool").invalid
    assert not any(recorded("a", refused=why).invalid for why in (None, OVERFLOW, "intercepted"))


def test_the_repr_has_no_text() -> None:
    """A failing assertion shows sizes and fates, not messages."""
    assert repr(recorded("secret", refused=OVERFLOW)) == "Recorded(chat, 1 messages, 0 tokens, overflow)"
