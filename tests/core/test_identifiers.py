"""What is an identifier, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.identifiers import Found, Kind, command, identifiers

CASES = [
    ("see src/a.py:12 there", "src/a.py", Kind.PATH),
    ("(./b/c.ts)", "./b/c.ts", Kind.PATH),
    ("in ~/notes and", "~/notes", Kind.PATH),
    ("/var/log/app", "/var/log/app", Kind.PATH),
    ("C:\\Users\\bob\\x.txt,", "C:\\Users\\bob\\x.txt", Kind.PATH),
    ("+++ b/lib/x.rs", "lib/x.rs", Kind.PATH),
    ("the .env file", ".env", Kind.PATH),
    (".github/workflows/ci.yml", ".github/workflows/ci.yml", Kind.PATH),
    ("请看src/app.py文件", "src/app.py", Kind.PATH),
    ("--file=conf/x.toml", "conf/x.toml", Kind.PATH),
    ("tests/a.py::test_b", "tests/a.py", Kind.PATH),
    ("README.md", "README.md", Kind.PATH),
    ('"https://x.io/a?b=1#c".', "https://x.io/a?b=1#c", Kind.URL),
    ("git@github.com:a/b.git", "git@github.com:a/b.git", Kind.URL),
    ("at 10.0.0.1:80,", "10.0.0.1:80", Kind.HOST),
    ("localhost:3000", "localhost:3000", Kind.HOST),
    ("db.internal", "db.internal", Kind.HOST),
    ("bob@ex.org", "bob@ex.org", Kind.HOST),
    ("commit deadbee1", "deadbee1", Kind.HASH),
    ("#00d7ff", "#00d7ff", Kind.HASH),
    ("1e4fa2b0-1111-2222-3333-444455556666", "1e4fa2b0-1111-2222-3333-444455556666", Kind.ID),
    ("reservation 4OG6T3.", "4OG6T3", Kind.ID),
    ("user omar_davis_3817", "omar_davis_3817", Kind.ID),
    ("order 646541602", "646541602", Kind.ID),
    ("fixes #123", "#123", Kind.REF),
    ("PROJ-77:", "PROJ-77", Kind.REF),
    ("origin/main", "origin/main", Kind.REF),
    ("error TS2345:", "TS2345", Kind.ERROR),
    ("got ENOENT", "ENOENT", Kind.ERROR),
    ("ValueError:", "ValueError", Kind.ERROR),
    ("set OPENAI_BASE_URL", "OPENAI_BASE_URL", Kind.ENV),
    ("version v1.2.3", "v1.2.3", Kind.VERSION),
    ("numpy==1.26.4", "numpy==1.26.4", Kind.VERSION),
    ("call foo_bar(x)", "foo_bar", Kind.NAME),
    ("this.fooBar", "this.fooBar", Kind.NAME),
    ("class ThemeSelector:", "ThemeSelector", Kind.NAME),
    ("took 12 ms", "12 ms", Kind.QUANTITY),
    ("costs $5,000.", "$5,000", Kind.QUANTITY),
    ("on 2024-05-01", "2024-05-01", Kind.QUANTITY),
    ("exit code 137", "exit code 137", Kind.QUANTITY),
    ("run `npm run check` now", "npm run check", Kind.COMMAND),
    ("$ make -j4 all", "make -j4 all", Kind.COMMAND),
]


def found(text: str) -> set[tuple[str, Kind]]:
    known: dict[str, Found] = {}
    return set(identifiers(text, known))


@pytest.mark.parametrize(("text", "name", "kind"), CASES)
def test_it_is_found(text: str, name: str, kind: Kind) -> None:
    """The identifier is found whole, without the punctuation round it, and as what it is."""
    assert (name, kind) in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "plain words only, and then some",
        "he/she and/or input/output",
        "e.g. this, i.e. that",
        "24/7",
        "well-known",
        "...",
        "--",
    ],
)
def test_prose_holds_none(text: str) -> None:
    """Ordinary words, alternatives and abbreviations are no identifiers."""
    assert not found(text)


def test_terminal_colours_are_no_part_of_names() -> None:
    """Escape sequences, raw or written out, are skipped."""
    assert {name for name, _ in found("\x1b[39msrc/a.py\x1b[0m \\x1b[1msrc/b.py\\nsrc/c.py")} == {
        "src/a.py",
        "src/b.py",
        "src/c.py",
    }


def test_a_command_is_one_short_line() -> None:
    """Long commands and multi-line scripts are cut to their first line or left out."""
    assert command("  ls   -l \nrm x") == "ls -l"
    assert command("x" * 500) == ""


@given(st.text(max_size=400))
def test_any_text_will_do(text: str) -> None:
    """Nothing raises, and what was found is in the text, blanks aside."""
    flat = "".join(text.split())
    assert all("".join(name.split()) in flat for name, _ in found(text))


@pytest.mark.parametrize("unit", ["a", "a.", "/", "a://", "1,", "--a", "`a ", "A1-", "\\", "中a"])
def test_work_grows_with_the_text(unit: str) -> None:
    """Runs of anything give few tokens, each of bounded length: no token is looked at longer than that."""
    assert all(len(name) <= 600 for name, _ in found(unit * 20_000))
