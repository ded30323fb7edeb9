"""An upstream that counts other tokens than the proxy does: what it says in `usage` keeps every later request within.

The fake refuses whatever exceeds its window by its own tokeniser, so an overflow that was not foreseen is on its record.
"""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from proxy.core.replacement import OPENING
from proxy.demo.record import OVERFLOW
from proxy.demo.upstream import FakeUpstream
from tests.e2e.test_promises import SYSTEM, chat, post, prose
from tests.stage import stage

TURNS = 64
THINGS = [
    "港口",
    "起重机",
    "泊位",
    "调度",
    "费率",
    "账本",
    "会话",
    "许可",
    "发票",
    "档案",
    "天气",
    "舱单",
    "引航员",
    "夜班",
    "潮汐",
    "合同",
    "审计",
    "大门",
]
DEEDS = ["等待", "依赖", "替换", "报告", "阻塞", "超过", "取决于", "检查"]


def chinese(seed: str, sentences: int = 8) -> str:
    """Some 250 tokens."""
    chance = random.Random(seed)
    return "".join(
        f"也许{chance.choice(THINGS)}附近的{chance.choice(THINGS)}{chance.choice(DEEDS)}某个{chance.choice(THINGS)}、"
        f"而且{chance.choice(THINGS)}也因此受到影响。"
        for _ in range(sentences)
    )


def encoded(seed: str, size: int) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def mime(seed: str) -> str:
    """Lines of 76 characters, as in mails and certificates: no run is long enough to be taken for base64 by itself."""
    text = encoded(seed, 600)
    return "\n".join(text[i : i + 76] for i in range(0, len(text), 76))


def blobs(number: int) -> Any:
    """Runs of base64 in text, in lines and without, and pictures as data URLs."""
    kind = number % 4
    if kind == 0:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + encoded(f"p{number}", 15_000)}}
        return [{"type": "text", "text": f"What is on it? {prose(f'q{number}', 2)}"}, picture]
    if kind == 1:
        return f"What does this decode to? {encoded(f'b{number}', 700)} {prose(f'q{number}', 2)}"
    return f"And this?\n{mime(f'm{number}')}" if kind == 2 else prose(f"q{number}")


KINDS: dict[str, Any] = {
    "English": (lambda n: prose(f"q{n}"), lambda n: prose(f"a{n}")),
    "Chinese": (lambda n: chinese(f"q{n}"), lambda n: chinese(f"a{n}")),
    "base64": (blobs, lambda n: prose(f"a{n}", 4)),
    "by turns": (
        lambda n: (prose(f"q{n}"), chinese(f"q{n}"), blobs(n))[n // 8 % 3],
        lambda n: chinese(f"a{n}") if n % 8 < 3 else prose(f"a{n}"),
    ),
}


@pytest.mark.parametrize("known", [True, False], ids=["configured", "unknown"])
@pytest.mark.parametrize("ratio", [1.0, 1.6])
@pytest.mark.parametrize("kind", KINDS)
def test_no_overflow_once_the_upstream_is_known(kind: str, ratio: float, known: bool) -> None:
    """None reaches it after the first ten turns; a window that nobody told of is found by running into it once."""
    asks, answers = KINDS[kind]
    fake = FakeUpstream(window=8_000, ratio=ratio)
    messages: list[dict[str, Any]] = [SYSTEM]
    refused: list[int] = []
    with stage(fake, **({"models": {"*": {"window": 8_000}}} if known else {})) as s:
        for number in range(1, TURNS + 1):
            messages.append({"role": "user", "content": asks(number)})
            before = len(fake.requests)
            assert post(s.url, chat(messages)).status == 200
            refused += [number for r in fake.requests[before:] if r.refused == OVERFLOW]
            messages.append({"role": "assistant", "content": answers(number)})
    assert OPENING in str(fake.chats[-1].messages)  # or nothing was put to the test
    assert len(refused) <= 1 - known, refused
