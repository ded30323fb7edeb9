"""What the fake answers, computed from the prompt it received and nothing else.

A question is answered by the sentence of the prompt that states it: a fact that was lost on the way here cannot be
answered. Tools are called when the user's last line names one of those offered and its arguments, each between
backticks. Everything else gets a few sentences about the user's words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from proxy.demo.reading import is_question, last_line, sentences, subject, text_of, words
from proxy.demo.reply import Reply, number_of, tool_call

UNKNOWN = "I do not know: nothing I was given says so."
_KNOWN = "You have it here: "
_ASKING = re.compile(r"\b(what|which|who|whom|whose|where|when|how)\b", re.IGNORECASE)
_THING = re.compile(r"\b(?:the|a|an|our) ([a-z]{5,15})\b", re.IGNORECASE)
_TICKED = re.compile(r"`([^`\n]{1,200})`")

# Sentences of an assistant that has understood the job. No digits, no verdicts: nothing here may pass for a fact.
_PHRASES = (
    "Starting from the {a}, the cleanest way is to look at the {b} first and to leave the {c} alone until that holds.",
    "The {a} side looks sound to me, though the {b} could use one more pass before anybody builds upon it.",
    "My suggestion would be a small change near the {a}, reviewed together with whoever looks after the {b}.",
    "With regard to the {a}, a short note beside the {b} would save the next reader some time.",
    "Both the {a} and the {b} follow the same pattern, so one helper could serve them without making either harder.",
    "It would help to see how the {a} behaves under load, since the {b} hides most of the waiting.",
    "After that, the {a} can be simplified, and the {b} would follow with little effort.",
    "There is some risk around the {a}; a narrow test for the {b} would make it visible early.",
    "If the {a} turns out slower than hoped, moving part of the {b} behind a queue is the usual remedy.",
    "None of this touches the {a}, so the {b} may proceed as planned while the {c} is being looked at.",
    "Compared with the {a}, the {b} is the smaller piece of work and a good place to begin.",
    "Once the {a} is through, walking over the {b} with fresh eyes should show what remains.",
)
_GENERAL = ("plan", "module", "interface", "review", "schedule", "pipeline")


def answer(data: Mapping[str, Any], *, turn_ids: bool = False) -> Reply:
    """The reply to a chat request whose list is valid. `turn_ids`: call ids start at `call_0` in every message."""
    messages: Sequence[Mapping[str, Any]] = data["messages"]
    last = messages[-1]
    asked = last_line(text_of(next((m.get("content") for m in reversed(messages) if m["role"] == "user"), "")))
    if last["role"] == "user" and (calls := tuple(_calls(asked, data, turn_ids))):
        return Reply(None, calls, "tool_calls")
    found = _on_results(messages) if last["role"] == "tool" else ""
    question = next((s for s in reversed(list(sentences(asked))) if is_question(s) and _ASKING.search(s)), None)
    return Reply(f"{found} {_look_up(question, messages) if question else _talk(asked)}".strip())


def _look_up(question: str, messages: Sequence[Mapping[str, Any]]) -> str:
    wanted = subject(question)
    best: str | None = None
    for sentence in _statements(messages):
        about = subject(sentence)
        if wanted and wanted < about:
            best = sentence  # what was said last holds
    return UNKNOWN if best is None else _KNOWN + best


def _statements(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        for sentence in sentences(text_of(message.get("content"))):
            if not is_question(sentence) and not sentence.startswith(UNKNOWN[:10]):
                yield sentence.removeprefix(_KNOWN)


def _calls(asked: str, data: Mapping[str, Any], turn_ids: bool) -> Iterator[dict[str, Any]]:
    """One call for every backticked argument behind the name of an offered tool."""
    tools = data.get("tools")
    if not isinstance(tools, list) or data.get("tool_choice") == "none":
        return
    parameters = {tool["function"]["name"]: _parameter(tool["function"]) for tool in tools}
    current, count = "", 0
    for token in _TICKED.findall(asked):
        if token in parameters:
            current = token
        elif current:
            # Of the user's words alone: a rewritten history must not change what the model answers.
            seed = f"{number_of(asked):08x}{number_of(asked[::-1]):08x}{count:08x}"
            yield tool_call(current, {parameters[current]: token}, f"call_{count if turn_ids else seed}")
            count += 1
            if data.get("parallel_tool_calls") is False:
                return


def _parameter(function: Mapping[str, Any]) -> str:
    """The name of the parameter an argument is for: the first required one, else the first there is."""
    schema = function.get("parameters")
    schema = schema if isinstance(schema, Mapping) else {}
    names = [*(schema.get("required") or ()), *(schema.get("properties") or ())]
    return str(names[0]) if names else "input"


def _on_results(messages: Sequence[Mapping[str, Any]]) -> str:
    block = list(takewhile(lambda m: m["role"] == "tool", reversed(messages)))[::-1]
    lines = sum(len(text_of(m.get("content")).splitlines()) for m in block)
    topics = [word for m in block for word in _topics(text_of(m.get("content"))[:2000])[:2]]
    return (
        f"The {'results are' if len(block) > 1 else 'result is'} in ({len(block)} of them, {lines} lines in all). "
        f"They are mostly about {', '.join(dict.fromkeys(topics)) or 'nothing in particular'}."
    )


def _talk(asked: str) -> str:
    chance = random.Random(number_of(asked))
    things = [m.group(1).lower() for m in _THING.finditer(asked)]
    topics = sorted({*things, *_GENERAL})
    phrases = chance.sample(_PHRASES, 3 + chance.randrange(2))
    return " ".join(p.format(**dict(zip("abc", chance.sample(topics, 3), strict=True))) for p in phrases)


def _topics(text: str) -> list[str]:
    """Plain words of some length, in order, once each: what a text is about, without names and numbers."""
    return list(dict.fromkeys(w for w in words(text) if w.isalpha() and w.isascii() and 5 < len(w) < 16))
