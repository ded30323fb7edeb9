"""What identifies a conversation whose beginning is missing, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.digest import chain
from proxy.core.turns import Turn
from proxy.engine.rejoin import LONGEST, RUN, RUN_TOKENS, TALKS, Rejoining

TENANT = "t"


def turns(names: Sequence[object], tokens: int = 60) -> list[Turn]:
    return [Turn("user", 0, True, str(name).encode().ljust(16), tokens, 100, False) for name in names]


def keys(names: Sequence[object], tenant: str = TENANT) -> list[str]:
    return chain(tenant, (turn.digest for turn in turns(names)))


def find(known: Sequence[Sequence[object]], names: Sequence[object], tokens: int = 60) -> list[str] | None:
    rejoining = Rejoining()
    for talk in known:
        rejoining.remember(TENANT, turns(talk), keys(talk))
    return rejoining.find(TENANT, turns(names, tokens), keys(names))


WHOLE = range(20)


@pytest.mark.parametrize(
    ("known", "names", "dropped"),
    [
        ([WHOLE], [*range(2, 20)], 2),
        ([WHOLE], [*range(2, 24)], 2),  # it went on
        ([WHOLE], [*range(16, 30)], 16),
        ([WHOLE], [*range(3, 9), "another", "more"], None),  # a script that several conversations have
        ([WHOLE], [*range(3, 19)], None),  # not all that is known of it
        ([WHOLE, range(30, 50)], [*range(35, 50)], None),
        ([WHOLE], [*range(17, 30)], None),  # too short a run
        ([WHOLE], WHOLE, None),  # nothing is missing
        ([WHOLE], [*range(10), "another"], None),
        ([WHOLE], ["before", *range(2, 20)], None),  # it does not begin with it
        ([WHOLE], [0, *range(5, 20)], None),  # its first message stayed: a cut in the middle may be an edit
        ([WHOLE, [*range(40, 44), *range(4, 20)]], [*range(5, 20)], None),  # of which of the two?
        ([[*range(6)] * 5], [*range(6)] * 3, None),  # at which place?
        ([["same"] * 400], ["same"] * 300, None),
        ([], WHOLE, None),
    ],
)
def test_where_a_run_says_what_is_missing(
    known: list[Sequence[object]], names: Sequence[object], dropped: int | None
) -> None:
    """The keys are those of the same conversation with what was dropped before it; no doubt is allowed."""
    found = find(known, names)
    if dropped is None:
        whole = [*range(30, 35), *names] if 35 in names else None
        assert found == (keys(whole)[5:] if whole else None)
    else:
        assert found == keys([*range(dropped), *names])[dropped:]


def test_small_talk_identifies_nothing() -> None:
    """A few greetings are alike in many conversations."""
    least = RUN_TOKENS // RUN
    names = [*range(16, 30)]
    assert find([WHOLE], names, least) is not None and find([WHOLE], names, least - 1) is None


def test_a_client_that_drops_two_a_turn_is_followed_for_ever() -> None:
    """Each request is found by the one before it, and all have keys of the same chain."""
    rejoining = Rejoining()
    rejoining.remember(TENANT, turns(range(20)), keys(range(20)))
    for first in range(2, 400, 2):
        names = range(first, first + 20)
        found = rejoining.find(TENANT, turns(names), keys(names))
        assert found == keys(range(first + 20))[first:]
        rejoining.remember(TENANT, turns(names), found)


def test_tenants_never_meet() -> None:
    """Not even with the same words."""
    rejoining = Rejoining()
    rejoining.remember("one", turns(WHOLE), keys(WHOLE, "one"))
    part = range(2, 20)
    assert rejoining.find("other", turns(part), keys(part, "other")) is None
    assert rejoining.find("one", turns(part), keys(part, "one")) is not None


def test_what_is_kept_is_bounded() -> None:
    """The newest conversations; none that is very long."""
    rejoining = Rejoining()
    talks = [[f"{talk} {i}" for i in range(20)] for talk in range(TALKS + 1)]
    for talk in talks:
        rejoining.remember(TENANT, turns(talk), keys(talk))
    found = [rejoining.find(TENANT, turns(talk[2:]), keys(talk[2:])) is not None for talk in talks]
    assert found == [False] + [True] * TALKS
    giant = range(LONGEST + 1)
    rejoining.remember("u", turns(giant), keys(giant, "u"))
    assert rejoining.find("u", turns(giant[2:]), keys(giant[2:], "u")) is None


def test_what_two_users_of_one_key_have_in_common_is_not_enough() -> None:
    """Each said who he is first, and something of his own at the end; between them all went by a script."""
    script = [*range(100, 136)]
    jane, bob = ["jane", *script, "hers", "and hers"], [*script, "his", "and his"]
    assert find([jane], bob) is None
    assert find([jane], [*jane[3:], "more"]) == keys([*jane, "more"])[3:]


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_what_is_found_continues_what_was_known(known: list[int], names: list[int]) -> None:
    """Whatever repeats in them: the keys are a chain over some beginning of the known one and all of the new."""
    found = find([known], names)
    assert found is None or found in [keys([*known[:i], *names])[i:] for i in range(1, len(known))]
