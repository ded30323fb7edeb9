"""Answers are computed from the prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.demo.answers import UNKNOWN, answer

FACT = "The vault code of the north gate is 7731."
QUESTION = "What is the vault code of the north gate?"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"required": [field], "properties": {field: {}}}}}
    for name, field in (("read_file", "path"), ("get_ticket", "key"))
]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(*messages: dict[str, Any], **fields: Any) -> Any:
    return answer({"model": "m", "messages": list(messages), **fields})


@pytest.mark.parametrize(
    "before",
    [
        [user(f"{FACT} Please go on.")],
        [{"role": "system", "content": FACT}],
        [user(f"Condensed:\n- {FACT}\n- more"), {"role": "assistant", "content": "fine"}],
        [user([{"type": "text", "text": FACT}])],  # type: ignore[arg-type]
    ],
)
def test_a_stated_fact_is_found(before: list[dict[str, Any]]) -> None:
    """Wherever the sentence stands, it is the answer."""
    assert "7731" in ask(*before, user(QUESTION)).text


def test_a_lost_fact_is_not_known() -> None:
    """Without the sentence there is no answer, and earlier questions and failures are no source."""
    silence = [user(QUESTION), {"role": "assistant", "content": UNKNOWN}]
    assert ask(user(QUESTION)).text == UNKNOWN
    assert ask(*silence, user(QUESTION)).text == UNKNOWN
    assert ask(user("The vault code is 7731."), user(QUESTION)).text == UNKNOWN  # of another gate, maybe


def test_what_was_said_last_holds() -> None:
    """A corrected fact is answered as corrected."""
    assert "9999" in ask(user(FACT), user(FACT.replace("7731", "9999")), user(QUESTION)).text


def test_only_the_last_line_is_the_request() -> None:
    """Text in front of the user's own words is history: its orders are not carried out, its facts are known."""
    text = f"Earlier: run `read_file` on `a.py`. {FACT}\n\n{QUESTION}"
    reply = ask(user(text), tools=TOOLS)
    assert not reply.calls
    assert "7731" in reply.text


def test_tools_are_called_as_told() -> None:
    """One call for each backticked argument behind a tool's name, in parallel, under its parameter."""
    order = user("Run `read_file` on `a.py` and `b.py`, then `get_ticket` for `HB-1`.")
    reply = ask(order, tools=TOOLS)
    made = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in reply.calls]
    assert made == [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"}), ("get_ticket", {"key": "HB-1"})]
    assert reply.finish == "tool_calls" and reply.text is None
    assert len({c["id"] for c in reply.calls}) == 3
    assert all(len(c["id"]) <= 40 for c in reply.calls)


def test_tools_are_not_called_otherwise() -> None:
    """Not when none is offered, not when they are forbidden, and one by one when asked."""
    order = user("Run `read_file` on `a.py` and `b.py`.")
    assert not ask(order).calls
    assert not ask(order, tools=TOOLS, tool_choice="none").calls
    assert len(ask(order, tools=TOOLS, parallel_tool_calls=False).calls) == 1


def test_calls_do_not_depend_on_the_history() -> None:
    """A rewritten history changes neither calls nor talk."""
    order = user("Run `read_file` on `a.py`.")
    assert ask(order, tools=TOOLS) == ask(user("x"), {"role": "assistant", "content": "y"}, order, tools=TOOLS)
    assert ask(user("About the crane scheduler.")) == ask(user("long ago"), user("About the crane scheduler."))


def test_results_are_talked_about() -> None:
    """After tool results comes text, with the answer to the question that was asked along with the order."""
    order = user(f"Run `read_file` on `a.py`. {QUESTION}")
    call = ask(order, tools=TOOLS)
    block = [{"role": "tool", "tool_call_id": c["id"], "content": f"note\n{FACT}"} for c in call.calls]
    reply = ask(order, call.message(), *block, tools=TOOLS)
    assert not reply.calls
    assert "1 of them, 2 lines" in reply.text
    assert "7731" in reply.text


def test_talk_plants_no_facts() -> None:
    """Ordinary answers repeat neither numbers nor names: what is asked for later has one source."""
    text = ask(user(f"{FACT} About the archive reader: the import is slow. Sketch the steps.")).text
    assert not any(c.isdigit() for c in text)
    assert 30 <= len(text.split()) <= 120


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_other_last_roles(role: str) -> None:
    """A prefill or a late system message is answered with text."""
    assert ask(user("hello there"), {"role": role, "content": "Well"}).text
