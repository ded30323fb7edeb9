"""F: the arguments of calls."""

from __future__ import annotations

import json

import pytest

from proxy.demo.upstream import FakeUpstream
from tests.shapes.harness import (
    SMALL,
    SYSTEM,
    Message,
    calls,
    chat,
    early,
    fits,
    late,
    lenient,
    post,
    prose,
    result,
    said,
    squeezed,
    user,
)
from tests.shapes.test_a_tools import TASK
from tests.stage import stage


def written(number: int, sentences: int = 25) -> list[Message]:
    """A round that writes a file: all that is long in it are the arguments."""
    arguments = json.dumps({"path": f"docs/{number}.md", "content": prose(f"file {number}", sentences)})
    return [calls(f"w{number}", name="write_file", arguments=arguments), result(f"w{number}", "ok")]


@pytest.mark.parametrize(
    "arguments",
    ["{}", "", '{"path": "a', "null", '{"n": 123456789012345678901234567890}', '{"a":1,"a":2}', '{"t":"\\ud800"}'],
)
def test_F1_arguments_cut_at_a_byte_count(arguments: str) -> None:
    """The string is opaque, valid JSON or not: kept whole, or gone with its round."""
    shape = [TASK, calls("a", arguments=arguments), result("a")]
    assert squeezed(late(*shape), lenient()).messages[-2] == shape[1]
    assert squeezed(early(*shape, said("ok"))).messages[0] == SYSTEM
    fits([SYSTEM, *shape])


@pytest.mark.parametrize("arguments", [None, {"path": "a"}, 7])
def test_F1_arguments_that_are_no_string(arguments: object) -> None:
    """Null, an object or a number where a string should be: left as they are, and no request fails for them."""
    odd = calls("a")
    odd["tool_calls"][0]["function"]["arguments"] = arguments
    assert squeezed(late(TASK, odd, result("a")), lenient()).messages[-2] == odd
    assert squeezed(early(TASK, odd, result("a"), said("ok"))).replacement
    fits([SYSTEM, TASK, odd, result("a")])


@pytest.mark.parametrize("rounds", [14, 25])
def test_F2_arguments_shortened_in_place(rounds: int) -> None:
    """Every call that stays visible has the arguments the model gave it, the pending one above all."""
    given = [SYSTEM, TASK, *(m for i in range(rounds) for m in written(i)), user("same for b.md"), *written(99, 40)]
    shown = squeezed(given)
    made = [m for m in shown.messages if m.get("tool_calls")]
    assert made and all(m in given for m in made) and made[-1] == given[-2]
    fits([SYSTEM, TASK, *written(1)])


def test_F4_results_pruned_arguments_kept() -> None:
    """Arguments are counted: no overflow happens though the results are next to nothing."""
    fake = FakeUpstream()
    given = [SYSTEM, TASK]
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        for i in range(30):
            given += written(i)
            assert post(s.url, chat(given)).status == 200
    assert not any(r.refused for r in fake.chats)
    fits([SYSTEM, TASK, *written(1)])
