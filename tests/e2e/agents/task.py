"""The work: a small repository with one wrong constant in each module, and a program that says which is next.

Specifications and sources are long, so that reading them fills a window; the one figure that matters stands in the
middle of each. Two rules and a code word are told once, at the beginning, and are needed until the end.
"""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHECK = "check.py"
CHANGES = "CHANGES.md"
RELEASE = "docs/RELEASE.md"
TAG = "QX-4471"  # told by the user
CODE = "HERON-8823"  # told by a file that is read once, first of all
GOOD = "ALL GOOD"

_THINGS = [
    "queue",
    "ledger",
    "shard",
    "cursor",
    "lease",
    "batch",
    "index",
    "replica",
    "journal",
    "digest",
    "quota",
    "session",
    "frame",
    "bucket",
]
_PROSE = (
    "The {a} is drained before the {b} is opened, so that no {c} is ever counted twice.",
    "Whoever changes the {a} looks at the {b} as well; both are read by the nightly job.",
    "A {a} without a {b} is legal and stands for an account that was closed in between.",
    "When the {a} and the {b} disagree, the {c} is believed and the difference is written to the log.",
    "The order of the {a} follows from the {b}; sorting it again would be harmless, and slow.",
    "Nothing here depends on the {a}, which is kept for the sake of old readers of the {b}.",
)


@dataclass(frozen=True, slots=True)
class Task:
    """`modules` modules; about `lines` lines of filling in each specification and source, six times that in the
    specification of module `giant` (0: in none)."""

    modules: int = 14
    lines: int = 48
    giant: int = 7

    def write(self, folder: Path) -> None:
        """Lay the repository out in an empty folder."""
        (folder / "src").mkdir()
        (folder / "docs").mkdir()
        for number in range(1, self.modules + 1):
            lines = self.lines * (6 if number == self.giant else 1)
            (folder / "docs" / f"{_name(number)}.md").write_text(_specification(number, lines), encoding="utf-8")
            (folder / "src" / f"{_name(number)}.py").write_text(_source(number, self.lines), encoding="utf-8")
        (folder / RELEASE).write_text(_release(self.lines), encoding="utf-8")
        (folder / CHECK).write_text(_check(self.modules), encoding="utf-8")

    def prompt(self) -> str:
        """What the user says."""
        return (
            f"Each of the {self.modules} modules under src/ has one wrong constant. What it should be stands in the "
            f"module's specification under docs/. Read {RELEASE} first: it names the release code. Then run "
            f"`python {CHECK}`, which names the first module that is wrong, and fix one after the other until it says "
            f"{GOOD}. You must end every line you change with the comment `# reviewed {TAG}`, and never change any "
            f"other line. When all is good, write {CHANGES} with one line that states the release code."
        )

    def solved(self, folder: Path) -> bool:
        """Every constant right and marked, nothing else changed, and the release code written down."""
        for number in range(1, self.modules + 1):
            wanted = _source(number, self.lines).replace(_wrong(number), _right(number))
            if (folder / "src" / f"{_name(number)}.py").read_text(encoding="utf-8") != wanted:
                return False
        changes = folder / CHANGES
        return changes.exists() and CODE in changes.read_text(encoding="utf-8")

    def fixed(self, folder: Path) -> int:
        """How many modules `check.py` is content with."""
        sources = ((n, (folder / "src" / f"{_name(n)}.py").read_text("utf-8")) for n in range(1, self.modules + 1))
        return sum(f"{_constant(n)} = {_value(n)} " in source for n, source in sources)


def git(folder: Path) -> None:
    """A first commit: coding agents look for a repository."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "Start")):
        subprocess.run(("git", *command), cwd=folder, check=True, capture_output=True)


def _name(number: int) -> str:
    return f"m{number:02d}"


def _constant(number: int) -> str:
    return f"LIMIT_M{number:02d}"


def _value(number: int) -> int:
    return 100 + 37 * number


def _wrong(number: int) -> str:
    return f"{_constant(number)} = {_value(number) - 13}\n"


def _right(number: int) -> str:
    return f"{_constant(number)} = {_value(number)}  # reviewed {TAG}\n"


def _filling(seed: str, lines: int) -> list[str]:
    chance = random.Random(seed)
    return [
        chance.choice(_PROSE).format(**dict(zip("abc", chance.sample(_THINGS, 3), strict=True))) for _ in range(lines)
    ]


def _specification(number: int, lines: int) -> str:
    filling = _filling(f"docs {number}", lines)
    filling.insert(lines // 2, f"The constant {_constant(number)} must be {_value(number)}.")
    return f"# Module {_name(number)}\n\n" + "\n".join(filling) + "\n"


def _source(number: int, lines: int) -> str:
    chance = random.Random(f"src {number}")
    body = [f'"""Module {_name(number)}."""\n\n']
    for place in range(lines // 2):
        thing = chance.choice(_THINGS)
        body.append(
            f"def {thing}_{place}(value: int) -> int:\n    return value * {chance.randrange(2, 99)} + {place}\n\n\n"
        )
        if place == lines // 4:
            body.append(_wrong(number) + "\n\n")
    return "".join(body)


def _release(lines: int) -> str:
    filling = _filling("release", lines // 2)
    filling.insert(3, f"The release code is {CODE}, and the announcement must state it.")
    return "# Release\n\n" + "\n".join(filling) + "\n"


def _check(modules: int) -> str:
    wanted = {_name(n): f"{_constant(n)} = {_value(n)}" for n in range(1, modules + 1)}
    hidden = {name: sum(map(ord, line)) * 7919 + len(line) for name, line in wanted.items()}
    return f'''"""Says which module is wrong."""

import pathlib
import re

MARKS = {hidden!r}

for name, mark in MARKS.items():
    source = pathlib.Path("src", name + ".py").read_text()
    line = re.search(r"^LIMIT_M[0-9]+ = [0-9]+", source, re.M).group()
    if sum(map(ord, line)) * 7919 + len(line) != mark:
        print("FIRST WRONG MODULE:", name)
        break
else:
    print("{GOOD}")
'''
