"""Server-sent events, split without being changed: the raw spans of the events tile the stream."""

from __future__ import annotations

import re
from dataclasses import dataclass

LIMIT = 8 * 1024 * 1024  # bytes of one event that are kept; images in base64 come in events of some megabytes

_EOL = rb"(?:\r\n|\n|\r(?!\n))"
_LEADING_BLANK = re.compile(rb"(?:" + _EOL + rb")+")
_END = re.compile(_EOL + _EOL)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One block of a stream, up to and with the blank line that ends it.

    `data` is the joined `data` fields, `name` the `event` field ("message" where there is none). `comment` marks a
    block that no client dispatches: comments, `id` or `retry` alone, stray blank lines in a row, a piece of an
    over-long block.
    """

    name: str
    data: bytes
    comment: bool
    raw: bytes

    def __repr__(self) -> str:  # fit for logs: no text
        kind = "comment" if self.comment else self.name
        return f"Event({kind}, {len(self.data)} of {len(self.raw)} bytes)"


class Events:
    """Splits a stream that arrives in any chunks (WHATWG HTML, 9.2.5 and 9.2.6: LF, CR LF and CR end lines; a BOM may
    come first). An event is given out with the last byte of its blank line; nothing waits for the chunk after it.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer that hold no end of a block
        self._at_start = True
        self._after_cr = False  # the last block ended with CR: an LF that comes now belongs to it
        self._overlong = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The blocks that `chunk` completes."""
        buffer = self._buffer
        buffer += chunk
        events: list[Event] = []
        position = 0
        while (end := self._block_end(position)) is not None:
            events.append(self._event(bytes(buffer[position:end])))
            self._after_cr = buffer[end - 1] == 0x0D
            position, self._scanned = end, end
        del buffer[:position]
        self._scanned = max(0, len(buffer) - 3)  # the longest unfinished blank line: CR LF CR
        if len(buffer) > self._limit:
            events.append(self._give_up())
        return events

    def finish(self) -> Event | None:
        """What stands unfinished at the end of the stream: many servers end without a last blank line."""
        if not self._buffer:
            return None
        event = self._event(bytes(self._buffer))
        self._buffer.clear()
        self._scanned = 0
        return event

    def _block_end(self, start: int) -> int | None:
        buffer = self._buffer
        begin = start
        if self._after_cr and buffer[start : start + 1] == b"\n":
            begin = start + 1
        if not self._overlong:
            blank = _LEADING_BLANK.match(buffer, begin)
            if blank:
                return blank.end()
        found = _END.search(buffer, max(begin, self._scanned))
        return found.end() if found else None

    def _event(self, raw: bytes) -> Event:
        if self._overlong:
            self._overlong = False
            return Event("message", b"", True, raw)
        text = raw.removeprefix(_BOM) if self._at_start else raw
        self._at_start = False
        name, data = b"", []
        for line in text.splitlines():
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"event":
                name = value.removeprefix(b" ")
        return Event(name.decode("utf-8", "replace") or "message", b"\n".join(data), not data, raw)

    def _give_up(self) -> Event:
        """Pass an over-long block on in pieces; its last three bytes stay, for they may begin its end."""
        cut = len(self._buffer) - 3
        piece = bytes(self._buffer[:cut])
        del self._buffer[:cut]
        self._scanned = 0
        self._overlong = True
        self._at_start = False
        self._after_cr = False
        return Event("message", b"", True, piece)
