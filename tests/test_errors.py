"""The names that failures and outcomes go by: each set is closed, and every place that uses one is looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import proxy
from proxy.adapters import summariser
from proxy.core.plan import OUTCOMES
from proxy.core.summary import REASONS
from proxy.engine.knowledge import USELESS
from proxy.errors import NO_SUMMARY

ROOT = Path(proxy.__file__).parent
PASSED_ON = {
    "reason": "what `core.judge` said, or another SummaryError",
    "reason or 'no_use'": "the same; without anybody to ask",
    "job.unasked": "as the job says",
    "_reason(outcome.status)": "by status",
    "_error_reason(value['error']) if value.get('error') else 'malformed'": "by status",
}
"""Reasons that are no literals, and where they come from."""


def nodes(kind: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield path.relative_to(ROOT), node


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls of functions and methods with these names, and where they stand."""
    for path, node in nodes(ast.Call):
        assert isinstance(node, ast.Call)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if called in names:
            yield f"{path}:{node.lineno}", node


def test_every_summary_error_has_a_reason_of_the_table() -> None:
    """Each place that raises one: a name of the table, or one of the ways that are checked below."""
    raised = {where: call.args[0] for where, call in calls("SummaryError")}
    assert len(raised) >= 15
    for where, reason in raised.items():
        known = isinstance(reason, ast.Constant) and reason.value in NO_SUMMARY
        assert known or ast.unparse(reason) in PASSED_ON, where


def test_no_reason_is_left_over() -> None:
    """What nothing can say does not stand in the table."""
    raised = {name for _, call in calls("SummaryError") for name in _results(call.args[0])}
    by_status = {summariser._reason(status) for status in range(400, 600)}
    why_not = next(n for _, n in nodes(ast.FunctionDef) if getattr(n, "name", "") == "why_not")
    resting = {name for n in ast.walk(why_not) if isinstance(n, ast.Return) and n.value for name in _results(n.value)}
    unasked = {
        name for _, call in calls("replace") for k in call.keywords if k.arg == "unasked" for name in _results(k.value)
    }
    recorded = {name for path, n in nodes(ast.Dict) if path.name == "compactor.py" for name in _whys(n)}
    assert recorded >= {"late", "failed", "unused"} and unasked == {"late", "no_use"}
    assert raised | by_status | set(REASONS) | resting | unasked | recorded == NO_SUMMARY.keys()


def test_what_a_judge_says_is_in_the_table() -> None:
    """Its verdicts are the reasons that a correction exists for."""
    judge = next(n for p, n in nodes(ast.FunctionDef) if p.name == "judge.py" and getattr(n, "name", "") == "judge")
    said = {name for n in ast.walk(judge) if isinstance(n, ast.Return) and n.value for name in _results(n.value)}
    assert said == set(REASONS) and said <= NO_SUMMARY.keys()


def _whys(node: ast.AST) -> Iterator[str]:
    """What a dictionary has under `why`, if it says so itself."""
    assert isinstance(node, ast.Dict)
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "why":
            yield from _results(value)


def _results(value: ast.expr) -> set[str]:
    """The strings an expression may have as its value."""
    if isinstance(value, ast.IfExp):
        return _results(value.body) | _results(value.orelse)
    return {value.value} if isinstance(value, ast.Constant) and isinstance(value.value, str) else set()


@pytest.mark.parametrize("status", range(400, 600))
def test_every_status_of_a_summariser_has_a_reason(status: int) -> None:
    """As the status of an answer, and as the code of an error inside one."""
    assert summariser._reason(status) in NO_SUMMARY
    assert summariser._error_reason({"code": status}) in NO_SUMMARY


def test_every_outcome_is_in_the_table() -> None:
    """Pairs of names as they stand in the engine, and the reasons that a plan is given."""
    pairs = {
        (node.elts[0].value, node.elts[1].value)
        for path, node in nodes(ast.Tuple)
        if isinstance(node, ast.Tuple) and path.parts[0] == "engine" and len(node.elts) == 2
        if isinstance(node.elts[0], ast.Constant) and isinstance(node.elts[1], ast.Constant)
        if node.elts[0].value in {decision for decision, _ in OUTCOMES}
    }
    assert len(pairs) >= 6 and pairs <= OUTCOMES.keys()
    for name in ("Pass", "Forward"):
        for where, call in calls(name):
            assert {(name.lower(), reason) for reason in _results(call.args[0])} <= OUTCOMES.keys(), where


def test_every_compaction_of_no_use_has_a_reason_of_the_table() -> None:
    """Of the places that say so, and no other stands in the table."""
    said = {name for _, call in calls("was_useless") for argument in call.args for name in _results(argument)}
    remedies = ast.parse((ROOT / "engine" / "remedies.py").read_text(encoding="utf-8"))
    gave_up = next(n for n in ast.walk(remedies) if isinstance(n, ast.FunctionDef) and n.name == "_gave_up")
    assigned = {name for n in ast.walk(gave_up) if isinstance(n, ast.Assign) for name in _results(n.value)}
    assert said | assigned == USELESS.keys()
