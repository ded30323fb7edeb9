"""H: tokenisers, and text that is hard on them."""

from __future__ import annotations

import json

import pytest

from proxy.adapters.encoding import O200k
from proxy.core import rewrite
from proxy.demo.upstream import SUMMARIZER, FakeUpstream
from tests.shapes.harness import (
    LONG,
    SMALL,
    SYSTEM,
    calls,
    chat,
    early,
    fits,
    late,
    post,
    result,
    said,
    squeezed,
    talk,
    user,
)
from tests.stage import stage

SPECIAL = [
    *("<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|return|>"),
    *("<|start|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|im_start|>", "<|im_end|>"),
    *("<|eot_id|>", "[INST]", "</s>"),
]


def test_H1_special_tokens_in_user_text() -> None:
    """They are text like any other, kept and compacted."""
    asked = user(f"what do {' and '.join(SPECIAL)} do?")
    assert O200k().count(asked["content"]) > len(SPECIAL)
    shown = squeezed(late(asked))
    assert shown.messages[-1]["content"].endswith(asked["content"])
    assert squeezed(early(asked, said("nothing"))).replacement
    fits([SYSTEM, asked])


@pytest.mark.parametrize("piece", ["a", " ", "\n", "ab", "é", "🙂", "=", "0", "\u200b", "const x=1;"])
def test_H2_quadratic_bpe(piece: str) -> None:
    """A million characters without a place to split end in an answer: the upstream's own, if need be."""
    long = piece * (1_000_000 // len(piece))
    fake = FakeUpstream()
    with stage(fake, models={"*": {"window": SMALL}}) as s:
        alone = post(s.url, chat([SYSTEM, user(long)]))
        behind = post(s.url, chat([SYSTEM, user("read"), calls("a"), result("a", long), said("ok"), user("so?")]))
    assert alone.status in (200, 400) and alone.decision.split(";")[0] in ("forward", "pass")
    assert behind.status == 200 and behind.decision == "compact; over-limit"


def test_H3_wrong_tokeniser() -> None:
    """A summariser that counts 1.63 times as much is asked for less, never twice with the same bytes."""
    fake = FakeUpstream(ratio=1.63, summarizer_window=6_000)
    with stage(fake, models={"*": {"window": 12_000}}, summarizer={"model": SUMMARIZER, "window": 6_000}) as s:
        fake.window = 12_000
        reply = post(s.url, chat(talk(5 * LONG)))
    assert reply.status == 200
    bodies = [r.body for r in fake.summaries]
    assert bodies and len(set(bodies)) == len(bodies) <= 8
    assert fake.summaries[-1].accepted


@pytest.mark.parametrize("text", ["🙂👩‍👩‍👧‍👦é漢", "\\ud83d\\ude42", "naïve café — 北京"])
@pytest.mark.parametrize("keep", range(100, 140, 3))
def test_H5_cutting_in_the_middle_of_a_character(text: str, keep: int) -> None:
    """A shortened result has no broken character, and no lone half of one that the client wrote as an escape."""
    raw = f'{{"role":"tool","tool_call_id":"a","content":"{text * 200}"}}'.encode()
    shorter = rewrite.shorten(raw, keep)
    assert len(shorter) < len(raw)
    content = json.loads(shorter)["content"]
    assert "\ufffd" not in content and not any("\ud800" <= c <= "\udfff" for c in content)


def test_H5_lone_surrogates_of_the_clients_own() -> None:
    """They travel as the escapes they came as, and a summary of them can be written."""
    broken = user("half of a smile: \ud83d, and the other: \ude42")
    shown = squeezed(late(broken))
    assert b"\\ud83d, and the other: \\ude42" in shown.sent.body
    assert squeezed(early(broken, said("\udfff ok"))).replacement
    fits([SYSTEM, broken])
