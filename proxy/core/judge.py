"""Whether an answer is a summary: what is refused, why, and what can be mended by a machine."""

# ruff: noqa: RUF001  (answers come in many alphabets)
from __future__ import annotations

import re

from proxy.core.sections import split

SHORT = 600  # characters; a refusal or an error message is short, a summary that begins with "I cannot" is not
FINISHED = 200  # characters that a cut-off answer must keep to be worth mending
PROBE = 48  # characters: long enough not to recur by chance, short enough to lie inside any long copy
SHINGLE = 40  # characters of a passage that is compared with those before it
LOOPED = 0.55  # share of an answer's last third that it has said before
CIRCLING = 3 * SHINGLE  # characters said before, in a row: no turn of phrase, a circle
TINY = 200  # characters; what is shorter cannot be told from a copy of a short conversation

_LETTERS = re.compile(r"[^\W\d_]")
_HTML = re.compile(r"(?i)\A\s*(?:<!doctype|<html\b|<head\b|<body\b|<\?xml)|</(?:html|body|head)>\s*\Z")
_REFUSAL = re.compile(
    r"(?i)\A\W*(?:(?:i['’]?m |i am |we are )?(?:really |very |so )?sorry\b"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|am unable|am not able|must decline)|i['’]m (?:unable|not able)"
    r"|as an ai\b|unfortunately,? i\b|(?:es )?tut mir leid|ich kann (?:das |dies )?(?:leider )?nicht"
    r"|(?:je suis )?désolé|je ne peux pas|lo siento|no puedo|desculpe|não posso|mi dispiace|non posso"
    r"|извините|я не могу|к сожалению"
    r"|抱歉|对不起|很抱歉|我无法|我不能|申し訳|すみません|죄송"
    r"|error\b(?! handling|s? (?:messages?|codes?|paths?) )|internal (?:server )?error|bad gateway|service unavailable"
    r"|rate limit(?!ing)|too many requests"
    r"|\{\s*\"(?:error|detail|message)\""
    r"|(?:the )?(?:summary|conversation|transcript) (?:is )?(?:unavailable|not available|missing|empty|could not)"
    r"|(?:there is |there's |i see |i have )?no (?:conversation|transcript|text|content|summary)\b(?! chang| was chang)"
    r"|please (?:provide|share|paste)\b)"
)
_TOOL = re.compile(
    r"(?i)<tool_?calls?\b|<function[ =_]|<function_calls>|<invoke\b|\[TOOL_CALLS\]|<\|(?:python_tag|tool)"
    r"|<｜tool|```tool_(?:code|call)|\bto=functions\.|<\w{1,8}:(?:invoke|function_calls)\b|\bfunctions\.\w{1,60}:\d"
)
_TOOL_JSON = re.compile(
    r"\A\s*(?:```(?:json)?\s*)?\[?\s*\{\s*\"(?:name|function|tool|action|type|tool_name|recipient_name)\"\s*:"
)
_LABEL = re.compile(
    r"(?i)\A\W{0,4}(?:\d{1,6} )?(?:assistant|user|human|tool|ai|system)(?: [\w.-]{1,64})?\W{0,3}[\]:>](?!\w)"
)


def judge(text: str, *, finish_reason: str | None, source: str, previous: str | None) -> str | None:
    """Why `text` (cleaned) is no summary of `source`, one of `summary.REASONS`; None if it may be used.

    `source` is the transcript as the model saw it. The previous summary told over again is `unchanged`, unless next to
    nothing came since: there may have been nothing to add, so whoever asked again may take it. An answer that ran into
    its limit is `unfinished`, always: whoever asked may ask for more, or `mend` it.
    """
    if len(_LETTERS.findall(text[:2_000])) < 12 or not any(body.strip() for _, body in split(text)):
        return (
            "unfinished" if finish_reason == "length" else "tool_syntax" if finish_reason == "tool_calls" else "empty"
        )
    if _HTML.search(text):
        return "html"
    if _TOOL_JSON.match(text) or any(m.group() not in source for m in _TOOL.finditer(text)):
        return "tool_syntax"
    if finish_reason == "content_filter" or (len(text) <= SHORT and _REFUSAL.match(text)):
        return "refusal"
    if (label := _LABEL.match(text)) and _flat(text[: label.end() + PROBE]) not in _flat(f"{source}\n{previous}"):
        return "continuation"  # not an extract that begins with a label of the transcript
    if loops(text):
        return "loop"
    if echoes(text, source, previous):
        return "echo"
    if previous and _flat(text) == _flat(previous) and len(_flat(source)) >= TINY:
        return "unchanged"
    if len(text) > 1_000 and len(text) > 0.8 * (len(source) + len(previous or "")):
        return "no_reduction"
    return "unfinished" if finish_reason == "length" else None


def mend(text: str, reason: str) -> str | None:
    """What a machine can save of a refused answer; None if nothing. The result is to be judged again, as finished.

    A cut-off answer is cut back to its last full line or sentence; a looping one to what it said before it looped.
    """
    if reason == "loop":
        text = _before_loop(text)
    elif reason != "unfinished":
        return None
    end = max(text.rfind("\n"), *(text.rfind(mark) + 1 for mark in (". ", ".\n", "。", "! ", "? ")))
    kept = text[:end].rstrip()
    return kept if len(kept) >= FINISHED else None


def _flat(text: str) -> str:
    return " ".join(text.split())


def loops(text: str) -> bool:
    """Whether the last third of a text says again, passage for passage, what stands before it."""
    flat = _flat(text)
    if len(flat) < 8 * SHINGLE:
        return False
    start = len(flat) * 2 // 3
    return sum(_repeats(flat)[start:]) > LOOPED * (len(flat) - start)


def _repeats(flat: str) -> list[bool]:
    """For each position: whether the passage that begins there has begun before."""
    seen: set[str] = set()
    marks = []
    for i in range(len(flat)):
        passage = flat[i : i + SHINGLE] if i + SHINGLE <= len(flat) else flat[-SHINGLE:]
        marks.append(passage in seen)
        seen.add(passage)
    return marks


def _before_loop(text: str) -> str:
    """The lines (and within them sentences) of a text, each once; none that goes round in itself."""
    seen: set[str] = set()
    kept = []
    for line in re.split(r"(?<=[.!?。])(?=\s)|(?<=\n)", text):
        key = " ".join(line.split())
        if key not in seen or not key:
            seen.add(key)
            kept += [] if _circles(line) else [line]
    return "".join(kept) + "\n"


def _circles(line: str) -> bool:
    marks = "".join("x" if repeated else " " for repeated in _repeats(line))
    return "x" * CIRCLING in marks


def echoes(text: str, source: str, previous: str | None) -> bool:
    """Whether more than half of a text is one contiguous run of the source.

    Such a run covers the middle of the text and a good stretch to one side of it: it is enough to look up the
    passages before and after the middle. What the previous summary says already may be said again.
    """
    flat = _flat(text)
    if len(flat) < TINY:
        return False
    where, known = _flat(source), _flat(previous or "")
    middle = len(flat) // 2
    for start in (middle - PROBE, middle):
        probe = flat[start : start + PROBE]
        if probe in known:
            continue
        at = where.find(probe)
        for _ in range(20):  # a passage that recurs more often is boilerplate
            if at < 0:
                break
            if _run(flat, start, where, at) > len(flat) / 2:
                return True
            at = where.find(probe, at + 1)
    return False


def _run(one: str, i: int, other: str, j: int) -> int:
    """Length of the common run of two texts that covers position `i` of one and `j` of the other."""
    back = 0
    while i - back > 0 and j - back > 0 and one[i - back - 1] == other[j - back - 1]:
        back += 1
    ahead = 0
    while i + ahead < len(one) and j + ahead < len(other) and one[i + ahead] == other[j + ahead]:
        ahead += 1
    return back + ahead
