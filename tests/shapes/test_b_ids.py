"""B: the ids of calls."""

from __future__ import annotations

import pytest

from proxy.core.transcript import callers
from tests.shapes.harness import SYSTEM, Message, calls, early, fits, late, paired, prose, result, said, squeezed
from tests.shapes.test_a_tools import TASK


def recurring(rounds: int) -> list[Message]:
    """Every round's call is `call_0`, as some servers have it."""
    return [
        m
        for i in range(rounds)
        for m in (
            calls("call_0", arguments=f'{{"path":"f{i}"}}'),
            result("call_0", f"result {i}. {prose(f'b{i}', 10)}"),
        )
    ]


def test_B1_the_same_id_in_several_turns() -> None:
    """Pairs are made by position: each kept call has its own result, and the summariser is told so."""
    shown = squeezed([SYSTEM, TASK, *recurring(20)])
    assert paired(shown.messages)
    for call, found in zip(shown.messages, shown.messages[1:], strict=False):
        if call.get("tool_calls"):
            number = call["tool_calls"][0]["function"]["arguments"].removeprefix('{"path":"f').removesuffix('"}')
            assert found["content"].startswith(f"result {number}.")
    told = callers(recurring(3))
    assert [c.arguments for c in told if c] == ['{"path":"f0"}', '{"path":"f1"}', '{"path":"f2"}']
    fits([SYSTEM, TASK, *recurring(2)])


def test_B1_the_same_id_twice_in_one_message() -> None:
    """Doubled ids are answered one after the other, and left as they are."""
    shape = [TASK, calls("x", "x"), result("x", "first"), result("x", "second")]
    assert squeezed(late(*shape)).messages[-3:] == shape[1:]
    assert paired(squeezed(early(*shape, said("ok"))).messages)
    fits([SYSTEM, *shape])


@pytest.mark.parametrize("identity", ["toolu_01A09q90qw90lq917835lq9", "terminal:0", "a" * 40, "é漢", ""])
def test_B3_regenerated_ids(identity: str) -> None:
    """An id is opaque: both halves keep it, whatever it looks like."""
    shape = [TASK, calls(identity), result(identity)]
    assert squeezed(late(*shape)).messages[-2:] == shape[1:]
    fits([SYSTEM, *shape])


@pytest.mark.parametrize("rounds", [20, 60])
def test_B4_format_rules(rounds: int) -> None:
    """No call is fabricated, so no strict format of ids can be broken."""
    given = [SYSTEM, TASK, *recurring(rounds)]
    shown = squeezed(given)
    ours = [m for m in shown.messages if m not in given and m["role"] != "tool"]
    assert all(m["role"] == "user" and "tool_calls" not in m for m in ours)
    fits([SYSTEM, TASK, *recurring(1)])
