"""Is this answer an overflow? A value from an answer's bytes: not one, or the stated window, prompt and output.

claims   error bodies taken apart, in whatever they are wrapped
words    the vocabulary of "too long": words that name no provider
numbers  which number is the window, which the prompt: told apart by their neighbours

Only what an error object says counts. Text of a completion, of a tool
result, or of an echoed request is never looked at, and a 429 is never an overflow.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from proxy.core.overflow import words
from proxy.core.overflow.claims import DEPTH, Claim, claims, read
from proxy.core.overflow.numbers import Figures, figures

LOOKED_AT = 64 * 1024  # bytes of a body; error bodies beyond that are echoes of the request
FULL = 0.99  # share of the window that counts as full: servers stop a few tokens short (pi-ai's figure)
CONTEXT_FINISH = "model_context_window_exceeded"  # Z.AI, and Anthropic's stop reason behind gateways


@dataclass(frozen=True, slots=True)
class Overflow:
    """The upstream found the request too long. Tokens as it states them, None where it does not.

    `prompt` is the sum of all input parts; `at_least` says that it is a lower bound (servers that stop counting at the
    window): no ratio may be taken from it.
    """

    window: int | None = None
    prompt: int | None = None
    output: int | None = None
    at_least: bool = False


def from_answer(status: int, body: bytes) -> Overflow | None:
    """What a non-2xx answer says, JSON, HTML, plain text or nothing. 401, 402, 407 are never about size, nor is 429."""
    if status in (401, 402, 407, 429):
        return None
    text = _text(body)
    found, settled = _judge(claims(read(text)))
    if found is None and status == 413 and not settled and not _PAGE.match(text):
        return Overflow()  # too large, and nothing says that it is anything but the request
    return found


def from_event(data: bytes, event: str | None = None) -> Overflow | None:
    """What an event of a 200 stream, or a whole 200 body, says: error objects alone, or an empty end at a full window.

    `data` is the payload behind `data:`, `event` the event's name. Plain text counts only where it calls itself an
    error; a body above the bound is a completion.
    """
    if len(data) > LOOKED_AT:
        return None
    value = read(_text(data))
    if isinstance(value, str):
        return _judge(claims(value))[0] if event == "error" or _CALLS_ITSELF_ERROR.search(value[:200]) else None
    return Overflow() if _ends_full(value) else _judge(claims(_errors(value, event)))[0]


def from_finish(reason: str | None, has_content: bool, prompt: int | None, window: int | None) -> Overflow | None:
    """What the end of a 200 answer says. `prompt` and `window` in tokens, as far as known.

    With content the window ran out while writing: an ordinary `length`, no overflow.
    """
    if has_content:
        return None
    full = prompt is not None and window is not None and prompt >= FULL * window
    if reason == CONTEXT_FINISH or (reason == "length" and full):
        return Overflow(prompt=prompt or None)
    return None


def is_answer(data: bytes) -> bool:
    """Does this event of a stream carry content: text, reasoning, a refusal, a tool call? Before, an error may come.

    Comments, roles, empty deltas, usage, pings and errors carry none. What is not understood counts as content: better
    passed on than held back.
    """
    data = data.strip()
    if not data or data == b"[DONE]" or data[:1] == b":":
        return False
    try:
        event = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return from_event(data) is None
    if not isinstance(event, dict):
        return True
    if event.get("error") or event.get("type") in ("error", "ping"):
        return False
    choices = event.get("choices")
    if not isinstance(choices, list):
        return "usage" not in event and bool(event) and choices is None
    return any(_has_content(choice) for choice in choices)


def is_reasoning_complaint(status: int, body: bytes) -> bool:
    """Does the answer complain of reasoning that was changed, lost or moved?

    Signatures, thinking blocks, Gemini's thought signatures, DeepSeek's `reasoning_content`; not of reasoning that the
    model does not support, nor of its budget.
    """
    if not 400 <= status < 600 or status in (401, 402, 403, 404, 407, 429):
        return False
    texts = (text.lower() for claim in claims(read(_text(body))) for text in claim.texts)
    return any(
        _REASONING.search(line) and _BROKEN.search(line) and not _UNSUPPORTED.search(line)
        for text in texts
        for line in text.split("\n")
    )


_PAGE = re.compile(r"\s{0,99}<(?:!doctype|html|head)", re.IGNORECASE)
_CALLS_ITSELF_ERROR = re.compile(r"error|exception|failed|failure", re.IGNORECASE)
_ERROR_KEYS = frozenset({"error", "errors", "error_message", "exception", "fault"})
_REASONING = re.compile(
    r"thought_?signature|\bsignature\b.{0,60}(?:thinking|thought|reasoning|block|prefix)|(?:thinking|thought|reasoning|prefix)"
    r".{0,60}\bsignature\b|`?(?:redacted_)?thinking`?.{0,60}\bblocks?\b|\breasoning_(?:content|details)\b|\bprefix_binding"
    r"|\btype 'reasoning'|\breasoning item|\bencrypted content\b|expected.{0,20}thinking"
)
_BROKEN = re.compile(
    r"invalid|missing|mismatch|corrupt|(?:must|should|needs? to) (?:be|remain|match|start|have|precede)"
    r"|cannot be|can't be|not be|could not|required|expected|without|not match|modified|not found|verif|passed back"
    r"|failed"
)
_UNSUPPORTED = re.compile(
    r"not supported|unsupported|does not support|budget_tokens|unrecognized|unknown (?:field|parameter)|not permitted"
)


def _text(body: bytes) -> str:
    return body[:LOOKED_AT].decode("utf-8", "replace")


def _judge(found: list[Claim]) -> tuple[Overflow | None, bool]:
    """The overflow among the claims, and whether something else explains the answer.

    What a message says stands by itself; a label (code, type) counts only where no message explains otherwise.
    """
    best: Figures | None = None
    labelled = settled = False
    details = Figures()
    for claim in found:
        if claim.throttled:
            settled = True
            continue
        labelled = labelled or any(words.too_long(label) for label in claim.labels)
        details = _richer(details, figures(words.normalise(claim.fields)))
        for report in (report for text in claim.texts for report in words.reports(text)):
            told = _told(report)
            best = _richer(best, told) if told else best
            settled = settled or (told is None and words.explains(report))
    if best is None and not (labelled and not settled):
        return None, settled
    best = _filled(best or Figures(), details)
    return Overflow(best.window, best.prompt, best.output, best.at_least), settled


def _told(report: str) -> Figures | None:
    """The figures of a normalised report that says the request is too long, by its words or by its numbers."""
    if words.about_something_else(report):
        return None
    told = figures(report)
    by_numbers = told.overflowing and words.about_tokens_sent(report)
    return told if by_numbers or words.too_long(report) or words.negative_room(report) else None


def _richer(one: Figures | None, other: Figures) -> Figures:
    return one if one is not None and one.count >= other.count else other


def _filled(said: Figures, details: Figures) -> Figures:
    """What a message leaves open, its object's number fields may state."""
    return Figures(
        said.window if said.window is not None else details.window,
        said.prompt if said.prompt is not None else details.prompt,
        said.output if said.output is not None else details.output,
        at_least=said.at_least,
    )


def _ends_full(value: Any) -> bool:
    """A completion that ended at the full window before it said anything."""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(c, dict) for c in choices):
        return False
    return all(c.get("finish_reason") == CONTEXT_FINISH and not _has_content(c) for c in choices)


def _has_content(choice: Any) -> bool:
    """Anything but a role in a choice's delta, message or text."""
    if not isinstance(choice, dict):
        return bool(choice)
    for key in ("delta", "message"):
        part = choice.get(key)
        if isinstance(part, dict) and any(value and name != "role" for name, value in part.items()):
            return True
        if isinstance(part, str) and part:
            return True
    return bool(choice.get("text"))


def _errors(value: Any, event: str | None, depth: int = 0) -> list[Any]:
    """The error objects of a 200 answer: the whole value if it presents itself as one, else what error keys hold."""
    if isinstance(value, list) and depth <= DEPTH:
        return [part for item in value[:8] for part in _errors(item, event, depth + 1)]
    if not isinstance(value, dict) or "role" in value or depth > DEPTH:
        return []
    if "choices" in value:
        kept = {"choices", "error", "errors"}
        return [{key: part for key, part in value.items() if key in kept and part}]
    kind = str(value.get("type") or value.get("object") or "").lower()
    spoken = isinstance(value.get("message"), str) and any(key in value for key in ("code", "status", "type", "object"))
    if event == "error" or "error" in kind or spoken or any(value.get(key) for key in _ERROR_KEYS):
        return [value]
    return [part for item in value.values() if isinstance(item, dict) for part in _errors(item, None, depth + 1)]
