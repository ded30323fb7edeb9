"""Error bodies taken apart: which objects claim something, in which words, whatever they are wrapped in.

Gateways put an upstream's error into a message, a list, a `metadata.raw`, a client library's exception text. So text is
searched for JSON and Python literals inside it, to a bounded depth; what the request or a completion contributed
(echoes, chat messages, choices) is left out, because it may quote an error. Every pass is linear in the text.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from typing import Any

from proxy.core.overflow.words import about_rates, label

DEPTH = 32  # nesting of objects and texts together; the deepest wrapping seen in public reports is five
READINGS = 2  # times a text's length that is scanned for objects inside it: a failed attempt may not cost all the rest
PARTS = 512  # objects and lists visited in one body: real error bodies hold a dozen

# Where requests and completions stand in error bodies (FastAPI `input`, the AI SDK's `requestBodyValues`, ...).
ECHOES = frozenset({
    "input", "inputs", "prompt", "messages", "message_history", "history", "content", "contents", "text", "delta",
    "output", "outputs", "request", "requestbody", "request_body", "requestbodyvalues", "original_request",
    "arguments", "tool_calls", "logprobs", "usage", "conversation", "documents", "failed_generation", "example",
    "examples",
})  # fmt: skip
LABELS = frozenset({
    "code", "type", "status", "reason", "param", "error_type", "errortype", "error_code", "errorcode", "statuscode",
    "status_code", "http_code", "httpcode", "httpstatus", "raw_status_code", "object", "__type", "name",
    "finish_reason",
})  # fmt: skip
STATUSES = frozenset({
    "code", "status", "statuscode", "status_code", "http_code", "httpcode", "httpstatus", "raw_status_code",
    "error_code",
})  # fmt: skip
IDENTITIES = frozenset({
    "id", "request_id", "requestid", "trace", "trace_id", "model", "provider", "provider_name", "url", "doc_url",
    "loc",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """One object (or bare text) of an error body.

    `labels` are its codes and types as words, `fields` its numbers as text. `throttled`: there is a 429, or a label
    that speaks of rates, in it or around it.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    fields: str = ""
    throttled: bool = False

    def __repr__(self) -> str:
        return f"Claim({len(self.texts)} texts, labels={self.labels}, throttled={self.throttled})"


def claims(value: Any) -> list[Claim]:
    """All claims of a parsed body, outer before inner. Strings in it are searched for further objects."""
    found: list[Claim] = []
    pending: list[tuple[Any, int, bool]] = [(value, 0, False)]
    while pending and len(found) < PARTS:
        item, depth, throttled = pending.pop(0)
        if depth > DEPTH:
            continue
        if isinstance(item, dict):
            claim, inner = _object(item, throttled)
        elif isinstance(item, list):
            claim, inner = Claim((), throttled=throttled), item[:PARTS]
        elif isinstance(item, str):
            prose, inner = unfold(item)
            claim = Claim((prose,), throttled=throttled)
        else:
            continue
        if claim.texts or claim.labels or claim.fields:
            found.append(claim)
        pending[:0] = [(part, depth + 1, claim.throttled) for part in inner]
    return found


def _object(item: dict[Any, Any], throttled: bool) -> tuple[Claim, list[Any]]:
    """The claim an object makes itself, and what lies inside it."""
    texts: list[str] = []
    labels: list[str] = []
    fields: list[str] = []
    inner: list[Any] = []
    if "role" in item:  # a chat message, whoever holds it
        return Claim(()), []
    for key, value in item.items():
        name = key.lower() if isinstance(key, str) else ""
        if name == "choices" and isinstance(value, list):  # OpenRouter puts errors into choices
            inner += [choice["error"] for choice in value[:8] if isinstance(choice, dict) and choice.get("error")]
        elif name in ECHOES or name in IDENTITIES or isinstance(value, bool):
            continue
        elif name in LABELS and isinstance(value, str | int):
            text = label(str(value)[:200])
            labels.append(text)
            throttled = throttled or about_rates(text) or (name in STATUSES and text == "429")
        elif isinstance(value, str):
            prose, parts = unfold(value)
            texts.append(prose)
            inner += parts
        elif isinstance(value, int | float):
            fields.append(f"{name}: {value}")
        else:
            inner.append(value)
    return Claim(tuple(t for t in texts if t.strip()), tuple(labels), "; ".join(fields), throttled), inner


def unfold(text: str) -> tuple[str, list[Any]]:
    """Prose of a text without the objects embedded in it, and these objects."""
    for _ in range(4):  # escaped once per wrapping that was cut off or quoted in the middle
        prose, parts = _lift(text)
        if parts or '\\"' not in text:
            return _ESCAPED_RUN.sub(_spell_out, prose), parts
        text = text.replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n")
    return text, []


def read(text: str) -> Any:
    """A body as a value: JSON, a Python literal (`b'...'` too), the text of HTML and XML, else the text itself."""
    for _ in range(4):  # a literal may hold a literal
        text = text.strip()
        if text[:1] == "<":
            return html.unescape(_TAG.sub("\n", text))
        try:
            value = json.loads(text, strict=False) if text[:1] in ("{", "[", '"') else _whole(text)
        except (ValueError, RecursionError):
            value = _whole(text)
        if not isinstance(value, str):
            return text if value is None else value
        text = value
    return text


def _lift(text: str) -> tuple[str, list[Any]]:
    whole = _whole(text)
    if whole is not None:
        return "", [whole]
    prose: list[str] = []
    parts: list[Any] = []
    position = 0
    budget = READINGS * len(text)
    while budget > 0 and (opening := _OPENING.search(text, position)):
        start = opening.start()
        scanner = _Scanner(text, start)
        try:
            parts.append(scanner.value(0))
        except _NoLiteral:
            budget -= scanner.position - start
            scanner.position = start = start + 1
        prose.append(text[position:start])
        position = scanner.position
    return " ".join([*prose, text[position:]]), parts


def _whole(text: str) -> Any:
    """The value of a text that is one literal from end to end, else None."""
    stripped = text.strip()
    if not _LITERAL.match(stripped):
        return None
    scanner = _Scanner(stripped, 0)
    try:
        value = scanner.value(0)
    except _NoLiteral:
        return None
    return value if scanner.position == len(stripped) else None


_TAG = re.compile(r"<[^<>]{0,400}>")
_OPENING = re.compile(  # an object, a list of objects or texts, bytes, or a text that holds one of these
    r"""\{\s{0,99}["'}]|\[\s{0,99}[{"']|(?<!\w)b(?=["'])|(?<![\w\\])["'](?=\{|\[|b\\{0,8}["'])""", re.ASCII
)
_LITERAL = re.compile(r"""[\[{"']|b["']""")
_TOKEN = re.compile(
    r"""\s*+(?:(?P<mark>[{}\[\](),:])"""
    r"""|(?P<text>[bru]{0,2}(?:"(?:[^"\\]|\\.)*+(?:"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z)))"""
    r"""|(?P<word>[^\s{}\[\](),:"']++))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"((?:\\x[0-9a-fA-F]{2})+)|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED_RUN = re.compile(r"(?:\\{1,8}x[0-9a-fA-F]{2})+|(?:\\{1,8}u[0-9a-fA-F]{4})+")
_HEX = re.compile(r"[xu]([0-9a-fA-F]{2,4})")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_WORDS = {"true": True, "false": False, "null": None, "none": None}


class _NoLiteral(Exception):
    """What stands here is no JSON and no Python literal."""


class _Scanner:
    """Reads one JSON or Python literal, forgiving what was cut off at the end."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def value(self, depth: int) -> Any:
        kind, token = self._next()
        if depth > DEPTH or kind == "":
            raise _NoLiteral
        if kind == "text":
            return _unquote(token)
        if kind == "word":
            return _number(token)
        if token == "{":
            return self._pairs(depth)
        if token in "[(":
            return self._items("]" if token == "[" else ")", depth)
        raise _NoLiteral

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            return "", ""
        self.position = match.end()
        return match.lastgroup or "", match[match.lastgroup or 0]

    def _pairs(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            kind, key = self._next()
            if kind == "" or key == "}":
                return found
            if key == "," and kind == "mark":
                continue
            if kind != "text" or self._next()[1] != ":":
                raise _NoLiteral
            try:
                found[_unquote(key)] = self.value(depth + 1)
            except _NoLiteral:
                if self.text[self.position :].strip():
                    raise
                return found

    def _items(self, closing: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while True:
            before = self.position
            kind, token = self._next()
            if kind == "" or (kind == "mark" and token == closing):
                return found
            if kind == "mark" and token == ",":
                continue
            self.position = before
            found.append(self.value(depth + 1))


def _number(word: str) -> Any:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        return int(word[:20]) if word.lstrip("-").isdigit() else float(word)
    except ValueError:
        return None


def _unquote(token: str) -> str:
    quote = min(i for i in (token.find('"'), token.find("'")) if i >= 0)
    prefix, body = token[:quote], token[quote + 1 :].removesuffix(token[quote])
    if "r" not in prefix and "\\" in body:
        body = _ESCAPE.sub(_unescape, body)
    return body.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of surrogates become characters


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return _octets(match[1])
    digits = match[2] or match[3]
    if digits:
        code = int(digits, 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _PLAIN.get(match[4], match[4])


def _octets(run: str) -> str:
    r"""`\xe4\xbd\xa0`: bytes of UTF-8 in a bytes literal, a character of Latin-1 in a text."""
    octets = bytes(int(code, 16) for code in _HEX.findall(run))
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def _spell_out(match: re.Match[str]) -> str:
    r"""A run of `\xe4` or `\u4f60` that is still escaped after all unwrapping, as what it stands for."""
    if "u" not in match[0]:
        return _octets(match[0])
    text = "".join(chr(int(code, 16)) for code in _HEX.findall(match[0]))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
