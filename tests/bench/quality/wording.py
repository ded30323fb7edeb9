"""Templates into sentences: slots filled by a seeded draw, and what of a sentence must survive.

A template has slots (`{name}`, `{path}`, ...) and one key in double angle brackets: the words that count. Where an
earlier statement is superseded later, both stand in one line with ` => ` between them and share their slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.bench.quality import family_a, family_b, family_c

KINDS = ("rule", "constraint", "fact", "goal", "preference", "path", "number")
ORIGINS = ("user", "tool", "assistant")

_POOLS = {
    "name": "Priya Tobias Amelie Kofi Ingrid Mateusz Yusuf Saoirse Dimitri Noor Lucía Hartmut Wanjiru Elodie Bram Keiko",
    "word": "harbor walnut sextant marigold quarry lantern juniper trellis cobalt gantry pelican thimble orchard cinder "
    "meridian bramble falcon tundra saffron glacier mosaic ember willow cascade vortex basalt clover drizzle",
    "city": "Leipzig Tampere Córdoba Utrecht Winnipeg Nagoya Ghent Aarhus",
    "company": "Norvia Halbrook Teravolt Quillon Osterman Brightfen Kestrel Vantor",
    "month": "January February March April May June July September October November",
    "day": "Monday Tuesday Wednesday Thursday Friday",
    "colour": "teal crimson ochre indigo mauve olive amber violet",
    "branch": "main release master stable",
    "folder": "srv opt data home mnt var projects work",
    "suffix": "py yaml ts json toml rs sql",
}
_SLOT = re.compile(r"\{(\w+?)(2?)\}")
_KEY = re.compile(r"<<(.+?)>>")


@dataclass(frozen=True)
class Family:
    user: Mapping[str, str]
    superseded: Mapping[str, str]
    tool: Mapping[str, str]
    assistant: Mapping[str, str]

    def templates(self, origin: str, kind: str) -> list[str]:
        text = {"user": self.user, "tool": self.tool, "assistant": self.assistant}[origin][kind]
        return [line.strip() for line in text.strip().split("\n")]

    def pairs(self, kind: str) -> list[str]:
        return [line.strip() for line in self.superseded[kind].strip().split("\n")]


FAMILIES = {
    "a": Family(family_a.USER, family_a.SUPERSEDED, family_a.TOOL, family_a.ASSISTANT),
    "b": Family(family_b.USER, family_b.SUPERSEDED, family_b.TOOL, family_b.ASSISTANT),
    "c": Family(family_c.USER, family_c.SUPERSEDED, family_c.TOOL, family_c.ASSISTANT),
}


def filled(template: str, draw: Random) -> list[tuple[str, str]]:
    """The sentences of a template, each with its key."""
    values: dict[str, str] = {}

    def slot(match: re.Match[str]) -> str:
        name = match.group(1) + match.group(2)
        while name not in values:
            value = _value(match.group(1), draw)
            if value not in values.values():  # two slots of one kind differ
                values[name] = value
        return values[name]

    sentences = [_SLOT.sub(slot, one) for one in template.split(" => ")]
    return [(_KEY.sub(r"\1", one), key.group(1)) for one in sentences if (key := _KEY.search(one))]


def _value(name: str, draw: Random) -> str:
    def word(pool: str) -> str:
        return draw.choice(_POOLS[pool].split())

    match name:
        case "path":
            return f"/{word('folder')}/{word('word')}/{word('word')}{draw.randint(2, 99)}"
        case "file":
            return f"{word('word')}_{word('word')}.{word('suffix')}"
        case "n":
            return str(draw.randint(110, 980))
        case "m":
            return str(draw.randint(3, 9))
        case "mm":
            return str(draw.randint(12, 58))
        case "port":
            return str(draw.randint(4200, 9800))
        case "big":
            return str(draw.randint(1_000_000, 9_999_999))
    return word(name)
