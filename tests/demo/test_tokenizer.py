"""The fake's own tokeniser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.tokenizer import ANSWER_TOKENS, IMAGE_TOKENS, MESSAGE_TOKENS, TOOL_TOKENS, Tokenizer

ENGLISH = (
    "The nightly import holds its lock for too long, and the operators do not see new bookings until noon. "
    "We decided to move the archive reader behind a queue, because restarts lose the last few updates."
)
CHINESE = "在这个项目里我们决定使用数据库来保存所有的检查点因为服务器可能会重新启动。"
CODE = "for item in queue.take(limit):\n    if not store.known(item.key):\n        store.put(item)\n"


@pytest.mark.parametrize(
    ("text", "o200k"),
    [(ENGLISH, 41), (CHINESE, 21), (CODE, 21), ("4172" * 100, 134), ("", 0)],
    ids=["english", "chinese", "code", "digits", "nothing"],
)
def test_sizes_are_near_o200k(text: str, o200k: int) -> None:
    """Prose, CJK, code and digits are within a fifth of what o200k_base says."""
    assert abs(Tokenizer().count(text) - o200k) <= 0.2 * o200k


def test_the_ratio_multiplies() -> None:
    """A ratio of 1.6 sees 1.6 times as many tokens in the same text."""
    assert Tokenizer(1.6).count(ENGLISH) == pytest.approx(1.6 * Tokenizer().count(ENGLISH), abs=1)


@given(st.text(st.characters(exclude_categories=()), max_size=300), st.integers(0, 60))
def test_any_text_counts_and_cuts(text: str, limit: int) -> None:
    """Any text has a size, the same twice, and a cut of it is a beginning that fits."""
    tokenizer = Tokenizer()
    size = tokenizer.count(text)
    assert size == tokenizer.count(text)
    assert (size > 0) == bool(text)
    cut = tokenizer.cut(text, limit)
    assert text.startswith(cut)
    assert tokenizer.count(cut) <= limit


@pytest.mark.parametrize("run", ["a", "aB3", " \n", "漢", "=-", "é1", '?!"', "."])
def test_long_runs_are_counted(run: str) -> None:
    """Runs without a natural end are counted in one pass, whatever they are made of."""
    assert Tokenizer().count(run * 100_000) > 1000


def test_a_prompt_costs_more_than_its_words() -> None:
    """Each message, tool and call pays for the template; an image has a price of its own."""
    tokenizer = Tokenizer()
    word = tokenizer.count("hello")
    assert tokenizer.prompt([]).total == ANSWER_TOKENS
    assert tokenizer.prompt([{"role": "user", "content": "hello"}]).total == ANSWER_TOKENS + MESSAGE_TOKENS + word
    parts = [
        {"type": "text", "text": "hello"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    listed = tokenizer.prompt([{"role": "user", "content": parts}])
    assert listed.total == ANSWER_TOKENS + MESSAGE_TOKENS + word + IMAGE_TOKENS
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert tokenizer.prompt([{"role": "assistant", "content": None, "tool_calls": [call]}]).total > ANSWER_TOKENS + 4
    assert tokenizer.prompt([], [{"type": "function"}]).functions > TOOL_TOKENS


def test_odd_messages_do_not_raise() -> None:
    """Fields of the wrong type cost nothing or a flat price, never an error."""
    odd = [{"content": 7}, {"content": [3, None, {"type": "video"}]}, "text", {"tool_calls": [1, {"function": None}]}]
    assert Tokenizer().prompt(odd).total > 0
