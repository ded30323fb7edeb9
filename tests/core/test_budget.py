"""Window to limit, target and room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import budget


@pytest.mark.parametrize(
    ("window", "compact_at", "below", "limit"),
    [
        (4_000, None, None, 3_200),
        (4_096, None, None, 3_277),
        (32_768, None, None, 26_215),
        (128_000, None, None, 111_616),  # the same trigger as Letta's at this window
        (1_000_000, 200_000, None, 200_000),
        (4_000, None, 2_000, 2_000),
        (4_000, 9_000, None, 3_200),
    ],
)
def test_limit(window: int, compact_at: int | None, below: int | None, limit: int) -> None:
    """The reserve is proportional and capped; a lower `compact_at` or a refusal lowers the limit."""
    assert budget(window, compact_at, below).limit == limit


@given(st.integers(1_024, 2_000_000), st.floats(0, 2), st.floats(0, 1))
def test_sizes_are_in_order(window: int, share: float, head_share: float) -> None:
    """Irreducible <= target; a text has room, and never takes the request over the hard bound if it need not."""
    sizes = budget(window)
    irreducible = int(window * share)
    head = int(irreducible * head_share)
    target = sizes.target(irreducible)
    assert irreducible <= target <= max(irreducible, sizes.limit)
    text = sizes.text(head, irreducible)
    assert 1 <= text <= 12_000
    assert text <= 120 or irreducible + text <= sizes.hard
