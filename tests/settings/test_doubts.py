"""What is said of a configuration that loads and hardly means what it says."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.settings import Settings, doubts

H = "http://h:8000"


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({}, []),
        ({"upstream": f"{H}/v1"}, []),
        ({"upstream": H}, ["upstream"]),
        ({"upstream": f"{H}/"}, ["upstream"]),
        ({"upstream": f"{H}/v1/chat/completions"}, ["upstream"]),
        ({"upstreams": {"a": {"url": H}, "b": {"url": f"{H}/api"}}}, ["upstreams.a.url"]),
        ({"upstreams": {"a": {"url": f"{H}/v1"}}, "models": {"m": {"upstream": "a"}}}, []),
        ({"summarizer": {"upstream": H}}, ["summarizer.upstream"]),
        (
            {"models": {"m": {"upstream": H, "summarizer": {"upstream": H}}}},
            ["models.m.upstream", "models.m.summarizer.upstream"],
        ),
        ({"models": {"m": {"window": 4000, "compact_at": 4000}}}, []),
        ({"models": {"m": {"window": 4000, "compact_at": 4001}}}, ["models.m.compact_at"]),
        ({"models": {"m": {"compact_at": 4001}}}, []),
        ({"upstreams": {"a": {"url": f"{H}/v1", "summarizer": {"upstream": H}}}}, ["upstreams.a.summarizer.upstream"]),
        ({"hooks": {"python": "m:f", "timeout": 20}}, ["hooks.timeout"]),
        ({"hooks": {"python": "m:f", "timeout": 19}}, []),
        ({"hooks": {"timeout": 60}}, []),
        ({"summarizer": {"wait": 2}}, []),
        ({"hooks": {"webhook": H, "secret": "s"}, "summarizer": {"wait": 0}}, []),
    ],
)
def test_what_is_doubtful(values: dict[str, Any], keys: list[str]) -> None:
    """One line each, with its key first."""
    said = list(doubts(Settings.model_validate(values)))
    assert [line.partition(": ")[0] for line in said] == keys
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    ("patterns", "useless"),
    [
        (["gpt", "*"], []),
        (["*", "gpt"], ["gpt"]),
        (["**", "gpt-[45]", "?"], ["gpt-[45]", "?"]),
        (["gpt-*", "gpt-4*", "gpt-4"], ["gpt-4*", "gpt-4"]),
        (["gpt-4*", "gpt-*"], []),
        (["gpt-?", "gpt-4", "gpt-*"], ["gpt-4"]),
        (["[ab]", "a", "[a]"], ["a"]),
        (["*b]", "a[b]", "ab]"], ["ab]"]),
        (["a?", "a*"], []),
    ],
)
def test_patterns_that_nothing_reaches(patterns: list[str], useless: list[str]) -> None:
    """Those behind one that matches all that they match; where that is not sure nothing is said."""
    said = list(doubts(Settings.model_validate({"models": {pattern: {} for pattern in patterns}})))
    assert [line.partition(": ")[0] for line in said] == [f"models.{pattern}" for pattern in useless]
