"""A conversation as text: reading messages of any shape, and writing them out for a summariser.

Messages are parsed JSON as the client sent it; any field may be missing, null or of another type. Nothing here raises
on that, and every text that leaves this module can be encoded as UTF-8.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.core.fit import Count, cut

Message = Mapping[str, Any]

RESULT_CAP = (
    3_000  # characters of a tool result: 2,000 of its ends, as Letta, pi and OpenClaw have, the rest as follows
)
TELLING = 1 / 3  # of a shortened result, for lines of its middle: of notes in there 97 % stay in real results, not 7
LINE = 300  # characters; a longer line is data
NOTE = 60  # characters that the note of what is missing takes at most
BETWEEN = "\n…\n"  # where lines of a result are missing
ARGUMENT_CAP = 1_000  # characters of one argument: enough for any command, not for a written file
MESSAGE_CAP = 8_000  # characters of any one message; an uncapped one has made a summary call of 2 M tokens elsewhere
READ = 256 * 1024  # characters of one text of which something may be shown at all, head and tail
PARSED = 1024 * 1024  # characters of a call's arguments; longer ones are taken as they stand
BLOB = re.compile(r"[A-Za-z0-9+/=_-]{512,}")  # base64 in running text: a token a character, worth nothing to a reader
_WORD = re.compile(r"[^\W\d_]{2,}")
_SIGN = re.compile(r"[^\w\s]")
SURROGATE = re.compile("[\ud800-\udfff]")
ERROR = re.compile(
    r"error|exception|fail|fatal|traceback|panic|denied|refused|not found|no such|exit (?:code|status):? [1-9]"
    r"|fehler|erreur|errore|erro\b|ошибк|错误|失败|エラー|오류",
    re.IGNORECASE,
)
SILENT_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
DEPTH = 6  # nesting of content parts and of tool arguments that is looked at


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the assistant made it; `arguments` is the raw text, usually JSON."""

    id: str
    name: str
    arguments: str


def scrub(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 encoder takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return SURROGATE.sub("\ufffd", text)
    return text


def role(message: Message) -> str:
    value = message.get("role") if isinstance(message, Mapping) else None
    return scrub(value) if isinstance(value, str) and value else "unknown"


def text(message: Message) -> str:
    """The words of a message; images, audio and files as placeholders; thinking left out."""
    if not isinstance(message, Mapping):
        return ""
    parts = list(_parts(message.get("content"), DEPTH))
    refusal = message.get("refusal")
    if isinstance(refusal, str):
        parts.append(refusal)
    return scrub("\n".join(part for part in parts if part))


def _parts(content: object, depth: int) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list) and depth:
        for part in content:
            yield from _parts(part, depth - 1)
    elif isinstance(content, Mapping) and depth:
        kind = content.get("type")
        if kind in SILENT_PARTS if isinstance(kind, str) else False:
            return
        for field in ("text", "refusal", "content"):
            if isinstance(content.get(field), str | list):
                yield from _parts(content[field], depth - 1)
                return
        yield _placeholder(kind if isinstance(kind, str) else "part", content)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield repr(content) if abs(content) < 1e300 else "[number]"


def _placeholder(kind: str, part: Message) -> str:
    inner = part.get(kind)
    name = inner.get("filename") if isinstance(inner, Mapping) else None
    for word in ("image", "audio", "video", "file"):
        if word in kind:
            kind = word
    return f"[{kind[:40]} {name[:120]}]" if isinstance(name, str) else f"[{kind[:40]}]"


def calls(message: Message) -> list[ToolCall]:
    """The tool calls of an assistant message, the legacy `function_call` included."""
    if not isinstance(message, Mapping):
        return []
    raw = message.get("tool_calls")
    found = [_call(item) for item in raw if isinstance(item, Mapping)] if isinstance(raw, list) else []
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        found.append(_call({"function": legacy}))
    return found


def _call(item: Message) -> ToolCall:
    body = item.get("function")
    if not isinstance(body, Mapping):
        body = item.get("custom")
    body = body if isinstance(body, Mapping) else item
    name, id_ = body.get("name"), item.get("id")
    arguments = body.get("arguments", body.get("input"))
    return ToolCall(
        id=scrub(id_) if isinstance(id_, str) else "",
        name=scrub(name) if isinstance(name, str) and name else "tool",
        arguments=scrub(arguments) if isinstance(arguments, str) else _dump(arguments),
    )


def _dump(value: object) -> str:
    if value is None:
        return ""
    try:
        return scrub(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
    except (ValueError, RecursionError):
        return ""


def leaves(arguments: str) -> list[tuple[str, str]]:
    """The scalars of a call's arguments with the key each stands under; unreadable arguments are one leaf, and so are
    those of more than a million characters."""
    if len(arguments) > PARSED:
        return [("", arguments)]
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return [("", arguments)] if arguments else []
    found: list[tuple[str, str]] = []
    _walk("", value, DEPTH, found)
    return found


def _walk(key: str, value: object, depth: int, found: list[tuple[str, str]]) -> None:
    if isinstance(value, str):
        found.append((key, scrub(value)))
    elif isinstance(value, Mapping):
        for name, item in value.items() if depth else ():
            _walk(scrub(str(name)), item, depth - 1, found)
    elif isinstance(value, list):
        for item in value if depth else ():
            _walk(key, item, depth - 1, found)
    elif isinstance(value, int | float):
        found.append((key, _dump(value)))


def callers(messages: Sequence[Message]) -> list[ToolCall | None]:
    """For each message: the call it answers, if it is a tool result.

    Paired by position, within the round: ids recur from turn to turn. A result whose id matches none of its round
    belongs to the first call still without an answer.
    """
    found: list[ToolCall | None] = []
    open_ = _Open(())
    for message in messages:
        if role(message) not in ("tool", "function"):
            open_ = _Open(calls(message))
            found.append(None)
            continue
        match = open_.take(message.get("tool_call_id"))
        if match is None:
            name = message.get("name")
            match = ToolCall("", scrub(name) if isinstance(name, str) and name else "tool", "")
        found.append(match)
    return found


class _Open:
    """The calls of one message that have no result yet."""

    def __init__(self, made: Sequence[ToolCall]) -> None:
        self._in_order = deque(enumerate(made))
        self._by_id: dict[str, deque[tuple[int, ToolCall]]] = {}
        for place, call in self._in_order:
            self._by_id.setdefault(call.id, deque()).append((place, call))
        self._taken: set[int] = set()

    def take(self, id_: object) -> ToolCall | None:
        """The first with this id, or else the first of all; None if none is left."""
        queue = self._by_id.get(id_) if isinstance(id_, str) and id_ else None
        for waiting in (queue, self._in_order):
            while waiting:
                place, call = waiting.popleft()
                if place not in self._taken:
                    self._taken.add(place)
                    return call
        return None


def render(messages: Sequence[Message], start: int = 0) -> list[str]:
    """One block of text per message: a label (`[number role]`), its text, its tool calls with their arguments.

    `start` is the number of the first message, so that labels agree with the pins and the ledger of the whole.
    """
    return [
        _block(message, f"[{number} {_label(message, call)}]", call)
        for number, (message, call) in enumerate(zip(messages, callers(messages), strict=True), start)
    ]


def _label(message: Message, call: ToolCall | None) -> str:
    return f"tool {call.name[:64]}" if call else role(message)[:64]


def _block(message: Message, label: str, call: ToolCall | None) -> str:
    words = BLOB.sub(lambda m: f"[data, {len(m.group())} characters]", cut(text(message), READ)).strip()
    if call:
        words = shorten(words, RESULT_CAP)
    lines = [words] if words else []
    lines += [f"-> {made.name[:64]}({_arguments(made)})" for made in calls(message)]
    return f"{label}\n" + cut("\n".join(lines), MESSAGE_CAP, tail=0.4)


def shorten(result: str, limit: int) -> str:
    """A tool result within `limit` characters: mostly its head, or as much of its tail where that holds an error; and
    of what lies between, the lines that say what no other line says."""
    if len(result) <= limit:
        return result
    tail = 0.5 if ERROR.search(result[-(limit // 2) :]) else 0.2
    room = int(limit * (1 - TELLING)) - len(BETWEEN)
    end = max(1, int(room * tail))
    middle = result[room - end : -end]
    told = _telling(middle, limit - room - 2 * len(BETWEEN) - NOTE)
    if not told:
        return cut(result, limit, tail)
    note = f"[… {len(middle) - len(told):,} of {len(result):,} characters left out …]"
    return f"{result[: room - end]}\n{note}\n{told}{BETWEEN}{result[-end:]}"


def _telling(text: str, room: int) -> str:
    """The whole lines of a text that are least like its other lines, in order, within `room` characters.

    A note in a listing, a warning in a log, a comment in data: a line counts the more the fewer lines share its words,
    and its punctuation.
    """
    lines = text.split("\n")[1:-1]  # the first and the last are cut
    words = [sorted({word.casefold() for word in _WORD.findall(line[:LINE])}) for line in lines]
    shapes = [frozenset(_SIGN.findall(line[:LINE])) for line in lines]
    heard, formed = Counter(word for each in words for word in each), Counter(shapes)

    def rarity(i: int) -> float:
        rare = sum(1 / heard[word] for word in words[i]) / len(words[i])
        return float(rare / formed[shapes[i]] ** 0.25 * (0.6 if lines[i][:1].isspace() else 1.0))

    fitting = [i for i, line in enumerate(lines) if 12 <= len(line.strip()) <= LINE and len(words[i]) > 1]
    chosen = []
    for i in sorted(fitting, key=lambda i: (-rarity(i), i)):
        if (cost := len(lines[i]) + len(BETWEEN)) <= room:
            chosen.append(i)
            room -= cost
    return BETWEEN.join(lines[i] for i in sorted(chosen))


def _arguments(call: ToolCall) -> str:
    pairs = leaves(call.arguments)
    shown = ((key, BLOB.sub("[data]", cut(value, READ))) for key, value in pairs)
    return ", ".join(f"{key}={cut(value, ARGUMENT_CAP)}" if key else cut(value, ARGUMENT_CAP) for key, value in shown)


def source(messages: Sequence[Message]) -> str:
    """Everything that was said, called and returned, uncut: what a summary is checked against."""
    pieces: list[str] = []
    for message in messages:
        pieces.append(text(message))
        for call in calls(message):
            pieces.append(call.name)
            pieces += (f"{key}: {value}" if key else value for key, value in leaves(call.arguments))
    return "\n".join(piece for piece in pieces if piece)


def ration(lengths: Sequence[int], most: int) -> int:
    """The largest limit for each of several texts that keeps all together within `most` characters: the short ones
    stay whole, the long ones share what is left. At least as long as the longest where nothing has to be cut."""
    left = most
    for number, length in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
        if length * number > left:
            return left // number
        left -= length
    return max(lengths, default=0)


def chunk(blocks: Sequence[str], rounds: Sequence[tuple[int, int]], budget: int, count: Count) -> list[tuple[int, int]]:
    """Ranges of those `blocks` that are in `rounds`, without a gap, each of whole rounds and at most `budget` tokens.

    A round that alone is over the budget is cut between its blocks; a block that alone is over it is a range by itself
    (the caller shortens it with `fit.fit`).
    """
    # One more for the line break between two blocks.
    sizes = [count(block) + 1 if i >= rounds[0][0] else 0 for i, block in enumerate(blocks)] if rounds else []
    units: list[tuple[int, int]] = []
    for first, last in rounds:
        whole = sum(sizes[first:last]) <= budget
        units += [(first, last)] if whole else [(i, i + 1) for i in range(first, last)]
    ranges: list[tuple[int, int]] = []
    used = 0
    for first, last in units:
        size = sum(sizes[first:last])
        if ranges and used + size <= budget:
            ranges[-1] = (ranges[-1][0], last)
            used += size
        else:
            ranges.append((first, last))
            used = size
    return ranges
