"""Which model a body asks for that is not read, or cannot be: a glimpse of its beginning, and of its end if it is here.

A request for a model that is served elsewhere must not reach the common upstream because of a trailing comma, its size,
or a path that nobody compacts.
"""

from __future__ import annotations

import json
import re

from proxy.core import envelope
from proxy.core.coding import CODINGS, Codings, Decoder, Undecodable, decode

END = 1024
"""Bytes that are looked at on each side: clients write `model` first, or last behind the messages."""

SMALL = 64 * 1024
"""Bytes of a body that is read as JSON in any case: a fraction of a millisecond."""

STEP = 512
"""Bytes of a compressed body that are unpacked at a time: deflate makes up to 1032 times as many of them."""

ROOM = 1024 * 1024
"""Bytes that may come out of a compressed body here."""

_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*+)("?)|[{}\[\]]', re.DOTALL)
_VALUE = re.compile(rb'[ \t\r\n]*+:[ \t\r\n]*+"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_FIELD = re.compile(rb'(?<!\\)"model"[ \t\r\n]*+:[ \t\r\n]*+"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_BLANK = b" \t\r\n"


def model(body: bytes, content_encoding: bytes | None, *, whole: bool, codings: Codings = CODINGS) -> str | None:
    """The `model` of a JSON object, None where none is found. `whole`: that is all of the body, else its beginning."""
    if content_encoding is not None:
        body, whole = _unpacked(body, content_encoding, whole, codings)
    if whole and len(body) <= SMALL:
        spans = envelope.fields(body)
        if spans is not None:
            raw = body[slice(*spans["model"])] if "model" in spans else b""
            return _name(raw[1:-1]) if raw[:1] == b'"' else None
    found = _at_end(body[-END:]) if whole else None
    return found if found is not None else _at_beginning(body[:END])


def _unpacked(body: bytes, content_encoding: bytes, whole: bool, codings: Codings) -> tuple[bytes, bool]:
    if whole and len(body) <= SMALL:
        unpacked = decode(body, content_encoding, limit=ROOM, codings=codings)
        if unpacked is not None:
            return unpacked, True
    beginning = b""
    try:
        decoder = Decoder(content_encoding, ROOM, ROOM, codings)
        for start in range(0, min(len(body), SMALL), STEP):
            beginning += decoder.feed(body[start : start + STEP])
            if len(beginning) >= END:
                break
    except Undecodable:
        pass
    return beginning, False


def _at_beginning(start: bytes) -> str | None:
    """Of the outermost object alone; of two the last, as parsers have it."""
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK)
    if start[:1] != b"{":
        return None
    depth, found = 0, None
    for token in _TOKEN.finditer(start):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        elif not token[2]:
            break  # a text that is cut off: what follows stands in it
        elif depth == 1 and token[1] == b"model":
            value = _VALUE.match(start, token.end())
            found = _name(value[1]) if value else found
    return found


def _at_end(end: bytes) -> str | None:
    """Of the outermost object alone: whatever was opened behind it is closed, and then that object is."""
    for field in reversed(list(_FIELD.finditer(end))):
        if _closes(end, field.end()):
            return _name(field[1])
    return None


def _closes(end: bytes, position: int) -> bool:
    depth = 1
    for token in _TOKEN.finditer(end, position):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return not end[token.end() :].strip(_BLANK)
        elif not token[2]:
            return False
    return False


def _name(text: bytes) -> str | None:
    """What stands between the quotes of a JSON text."""
    try:
        name = json.loads(b'"' + text + b'"', strict=False)
    except ValueError:
        return None
    return name if isinstance(name, str) else None
