"""A hook that reflects: it notes what a user said for good, and gives it to later conversations of the same tenant.

When a conversation's oldest part is compacted, the rules, preferences and constraints that its user laid down there are
written to a file. When another conversation of the same tenant is compacted, these notes go to its summariser, as
something to take in, and so stand in its summary from then on. They get in nowhere else: what was sent before stays
byte for byte the same, and with it the provider's cache.

    hooks:
      python: proxy.hooks.reflection:Reflection
      options: {directory: /var/lib/compaction-proxy/notes}

Notes are the user's own sentences, credentials taken out, in plain text: `DIRECTORY/TENANT/CONVERSATION.txt`, one a
line. Edit or delete them as you like.
"""

# ruff: noqa: RUF001  (punctuation of several scripts)
from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from proxy.core.pins import GAP, words_of
from proxy.core.redact import redact
from proxy.core.sentences import bare
from proxy.core.words import MANNER, MANNER_PARTS, POINTING, SMALL_TALK, TALKING, USING
from proxy.core.worth import WORD, Unit, hints

TITLE = "Known of this user from earlier conversations, to be kept where it still matters (this one overrides it):"

WORTH = 0.8
"""The value (see `core.worth`) from which a sentence is noted: that of a short rule whose words occur elsewhere too,
and above that of one in the middle of a paste or of a log."""

WORTH_OF_MANNER = 0.4
"""The same for `answer in German`, which has no word of a rule in it."""

NOTES_MOST = 40
"""Lines of one conversation; the newest stay."""

LENGTH_MOST = 400
"""Characters of a line; a longer sentence is a paste."""

CONVERSATIONS_MOST = 50
"""Files of one tenant; the longest untouched go."""

TOLD_MOST = 6_000
"""Characters that a summariser is given: some 1,500 tokens of its window."""

_NAME = re.compile("[0-9a-f]{8,64}")
_SCOPE = re.compile(r"\s*(\[[^\[\]\d\n]{1,24}\])\s")  # `[frontend]`: for what it holds, not who said it when
_OPENING = (SMALL_TALK | TALKING) - {"no"}  # with these, too, begins a sentence that says how things are to be done


class Reflection:
    """`directory` is made where it is missing, for its owner alone. Raises `OSError` if it cannot be written to."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory).expanduser()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=self._directory).close()

    def before_compaction(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The notes of the tenant's other conversations, the newest first."""
        own = self._file(event)
        told: list[str] = []
        for file in _newest(own.parent):
            if file != own:
                told += (line for line in _lines(file) if line not in told)
        kept = list(_within(told, TOLD_MOST - len(TITLE)))
        return {"notes": "\n".join([TITLE, *(f"- {line}" for line in kept)])} if kept else None

    def after_compaction(self, event: dict[str, Any]) -> None:
        """Note what was said for good in what is gone from view now."""
        said = durable(event["messages"])
        if not said:
            return
        file = self._file(event)
        before = [line for line in _lines(file) if line not in said]
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(file, [*before, *said][-NOTES_MOST:])
        for old in _newest(file.parent)[CONVERSATIONS_MOST:]:
            old.unlink(missing_ok=True)

    def _file(self, event: dict[str, Any]) -> Path:
        tenant, conversation = str(event["tenant"]), str(event["conversation"])
        if not (_NAME.fullmatch(tenant) and _NAME.fullmatch(conversation)):
            raise ValueError("names are hexadecimal")
        return self._directory / tenant / f"{conversation}.txt"


def durable(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What the user of a stretch of conversation said that is meant to last, sentence by sentence, in its order and
    without what a chat program put around it; of what was corrected later, the correction alone."""
    words = words_of(messages)
    lasting = [unit for unit in words.units if _lasts(unit) and len(unit.text) <= LENGTH_MOST]
    found = [unit for unit in lasting if not any(_lasts(later) for later in words.instead(unit))]
    lines = map(_line, found)
    return list({line.casefold().rstrip(".!"): line for line in lines}.values())


def _line(unit: Unit) -> str:
    told = redact(unit.text)  # before anything is taken off: a key's name tells that it is one
    if unit.said != unit.text:
        scope = _SCOPE.match(told)
        told = f"{scope[1] if scope else ''} {bare(told)}"
    return " ".join(f"{told} {GAP if unit.whole else ''}".split())


def _lasts(unit: Unit) -> bool:
    """A rule or how somebody wants things done, worth enough, and no question."""
    folded = unit.said.casefold().replace("’", "'")
    words = WORD.findall(folded)
    while words and words[0] in _OPENING:
        words.pop(0)
    if folded.rstrip().endswith(("?", "？", "؟")):
        return False
    return (hints(folded) > 0 and unit.value >= WORTH) or (unit.value >= WORTH_OF_MANNER and _manner(words, folded))


def _manner(words: Sequence[str], folded: str) -> bool:
    """`Answer in German`, `use British spelling`, `no emojis`: not `use the second one`."""
    said = f"{' '.join(words)} "
    if said.startswith(MANNER) or any(part in folded for part in MANNER_PARTS):
        return True
    return said.startswith(USING) and f"{words[0]}," not in folded and not any(word in POINTING for word in words)


def _newest(folder: Path) -> list[Path]:
    """Its files, the last written first."""
    try:
        return sorted(folder.glob("*.txt"), key=lambda file: (-file.stat().st_mtime, file.name))
    except OSError:  # one went while we looked: better none now than half of them
        return []


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _within(lines: Sequence[str], most: int) -> Iterator[str]:
    for line in lines:
        most -= len(line) + 3
        if most < 0:
            return
        yield line


def _write(file: Path, lines: Sequence[str]) -> None:
    """Whole or not at all; for the owner alone."""
    descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".draft")  # 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
            writing.write("".join(f"{line}\n" for line in lines))
        os.replace(draft, file)
    except BaseException:
        os.unlink(draft)
        raise
