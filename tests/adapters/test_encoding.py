"""The shipped tokeniser against tiktoken's own, and against input that breaks tiktoken."""

from __future__ import annotations

import hashlib
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from proxy.adapters import encoding
from proxy.adapters.encoding import PIECE, O200k
from proxy.errors import ConfigError

URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


@pytest.fixture(scope="module")
def o200k() -> O200k:
    return O200k()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """tiktoken's definition of the encoding, its download answered from a cache that holds the shipped file."""
    folder: Path = tmp_path_factory.mktemp("cache")
    with as_file(files("proxy") / "data" / "o200k_base.tiktoken") as shipped:
        shutil.copy(shipped, folder / hashlib.sha1(URL.encode()).hexdigest())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        definition: dict[str, Any] = openai_public.o200k_base()
        return definition


@pytest.fixture(scope="module")
def reference(theirs: dict[str, Any]) -> tiktoken.Encoding:
    return tiktoken.Encoding(**theirs)


def test_definition(theirs: dict[str, Any]) -> None:
    """Pattern, special tokens and vocabulary are those of tiktoken's own encoding."""
    assert theirs["pat_str"] == encoding.PATTERN
    assert theirs["special_tokens"] == encoding.SPECIAL
    assert theirs["mergeable_ranks"] == encoding._ranks()


def test_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary with another checksum is refused, not used."""
    monkeypatch.setattr(encoding, "SHA256", "0" * 64)
    with pytest.raises(ConfigError):
        O200k()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("お誕生日おめでとう", 8),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("a<|endoftext|>b", 9),  # as text; as a special token it were 3
    ],
)
def test_known(o200k: O200k, text: str, tokens: int) -> None:
    """Counts known from tiktoken's cookbook and from the encoding itself."""
    assert o200k.count(text) == tokens


@pytest.mark.parametrize("special", [*encoding.SPECIAL, "<|fim_prefix|>", "<|im_start|>", "<|return|>"])
def test_special_tokens_are_text(o200k: O200k, special: str) -> None:
    """The spelling of a special token in a message counts as several ordinary tokens and raises nothing."""
    assert o200k.count(special) > 3
    assert o200k.count(f"what does {special} do?") > 6


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udfff\ud800" * 3, "\ud83d\ude00"])
def test_lone_surrogates(o200k: O200k, text: str) -> None:
    """Half a character counts like a replacement character, also in a text that is cut."""
    assert o200k.count(text) > 0
    assert o200k.count(text * PIECE) >= PIECE // 8


def test_cut_at_spaces_changes_nothing(o200k: O200k, reference: tiktoken.Encoding) -> None:
    """Prose of many pieces has exactly the count that it has in one."""
    prose = "It's the 3rd of May; nothing (really) happened at 12:45 — naïve, 漢字 and all. " * 2000
    assert o200k.count(prose) == len(reference.encode_ordinary(prose))


def test_code_is_nearly_exact(o200k: O200k, reference: tiktoken.Encoding) -> None:
    """Indented source, where the last space of a piece is often no place to cut, is off by less than a thousandth."""
    source = Path(encoding.__file__).read_text(encoding="utf-8") * 20
    exact = len(reference.encode_ordinary(source))
    assert exact <= o200k.count(source) <= exact * 1.001


RUNS = {
    "lower": "a",
    "upper": "A",
    "digits": "7",
    "spaces": " ",
    "newlines": "\n",
    "tabs": "\t",
    "cjk": "漢",
    "kana": "ア",
    "thai": "กา",
    "marks": "e\u0301",
    "punctuation": "!",
    "equals": "=-",
    "slashes": "/\n",
    "separators": "!\x1c",
    "surrogates": "\ud800",
    "emoji": "😀",
    "nul": "\0",
    "joiners": "👨‍👩‍👧",
    "no-break": "\u00a0",
    "spaced": "a ",
    "indents": "\n        ",
    "base64": "Zm9vYmFyYmF6",
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_long_runs(o200k: O200k, run: str) -> None:
    """Two megabytes without a place to split are counted, all of them, and proportionally to their length."""
    whole = o200k.count((run * 2_000_000)[:2_000_000])
    tenth = o200k.count((run * 200_000)[:200_000])
    assert 9.5 * tenth <= whole <= 10.5 * tenth


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), max_size=200), st.integers(1, 300))
def test_any_text(o200k: O200k, reference: tiktoken.Encoding, text: str, times: int) -> None:
    """Any text, repeated to any length, is off by at most three tokens for each piece that it is cut into."""
    long = text * times
    exact = len(reference.encode_ordinary(long))
    assert abs(o200k.count(long) - exact) <= 3 * (len(long) * 2 // PIECE)
