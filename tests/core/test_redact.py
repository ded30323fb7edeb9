"""Credentials are taken out, and little else."""

from __future__ import annotations

import base64
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import redact as module
from proxy.core.redact import PIECE, SEAM, ends, random_looking, redact
from tests.core.test_credentials_line import LINES
from tests.core.test_credentials_rows import ROWS
from tests.core.watching import lengths

SECRETS = {  # text with the secret between angle quotes
    "aws": "export AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»",
    "aws id": "key id «AKIAIOSFODNN7EXAMPLE» of the bucket",
    "openai": "use «sk-proj-Zb3dEfGh1jKlMn0pQrStUv» for now",
    "github": "git clone with «ghp_16C7e42F292c6912E7710c838347Ae178B4a»",
    "gitlab": "«glpat-x8sK2mNqRtYvWz3bCdEf»",
    "slack": "bot «xoxb-123456789012-abcdefghijkl»",
    "google": "«AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY»",
    "hugging face": "login «hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345»",
    "twilio": "sid «AC0123456789abcdef0123456789abcdef»",
    "jwt": "cookie «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U»",
    "bearer": "curl -H 'Authorization: Bearer «a1b2.c3d4.e5f6»'",
    "basic": "Authorization: Basic «dXNlcjpwYXNz»",
    "url": "postgres://«bob:s3cr3t»@db.local:5432/app",
    "url without user": "redis://«:hunter2»@cache:6379/0",
    "parameter": "GET https://h.io/cb?state=1&access_token=«zzz111»&x=1",
    "connection string": "Server=db;User Id=sa;Password=«Pa55w0rd!»;Encrypt=yes",
    "account key": "AccountName=x;AccountKey=«abcd1234+/efgh==»",
    "json": '{"user": "bob", "password": "«correct-horse»"}',
    "escaped json": '{\\"api_key\\": \\"«esc4ped»\\"}',
    "yaml": "client_secret: «Q~8Zabcdefghijk»",
    "env": "DB_PASSWORD=«hunter33»",
    "flag": "deploy --token «letmein99» --force",
    "curl": "curl -u «bob:pw123» https://x.y",
    "mysql": "mysql -u root -p«TopS3cret» shop",
    "python": "requests.get(url, auth=('bob', '«pw5566»'))",
    "header": "x-api-key: «0123456789abcdef0123456789abcdef»",
    "english": "my password is «hunter2», please log in",
    "english, later": "the password for staging became «hunter2x»",
    "german": "das Passwort lautet «geheim77»",
    "spanish": "contraseña: «secreto8»",
    "chinese": "密码是 «qwerty12»",
    "russian": "пароль: «йцукен12»",  # noqa: RUF001
    "pem": "«-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----» and on",
    "pem without end": "before «-----BEGIN PRIVATE KEY-----\nMIIEow\nmore»",
    "telegram": "bot 1234567890:«AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1»",
    **LINES,
    **ROWS,
}

HARMLESS = [
    "max_tokens: 4096",
    "tokens = count(text)",
    "def token(self) -> str:",
    "password: str = None",
    "if token is None:",
    "token = os.environ['X']",
    "author: bob",
    "src/Components/AuthTokenProvider.tsx",
    "packages/coding-agent/src/tui/user-message-selector.ts",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "id 1e4fa2b0-1111-2222-3333-444455556666",
    "https://example.org/a/b?page=2#top",
    "The keyboard and the monkey are donkeys.",
    "",
]


@pytest.mark.parametrize("case", SECRETS, ids=str)
def test_a_secret_is_gone_and_what_stands_round_it_stays(case: str) -> None:
    """The secret itself does not survive; the words before it do."""
    before, rest = SECRETS[case].split("«")
    secret, _ = rest.split("»")
    clean = redact(before + rest.replace("»", ""))
    assert secret not in clean
    assert "[redacted]" in clean
    assert clean.startswith(before.split(" ")[0].split("=")[0])


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Code and prose about tokens, paths, hashes and ids are left alone."""
    assert redact(text) == text


@given(st.integers(0, 10_000), st.integers(32, 80))
def test_random_keys_are_recognised_without_any_name(seed: int, length: int) -> None:
    """Base62 of key length is taken for a secret (a few in a hundred may pass), hexadecimal is not."""
    chance = random.Random(seed)
    alphabet = string.ascii_letters + string.digits
    found = sum(random_looking("".join(chance.choices(alphabet, k=length))) for _ in range(20))
    assert found >= 17
    assert not random_looking("".join(chance.choices("0123456789abcdef", k=length)))


@given(st.text(max_size=300))
def test_any_text_can_be_redacted_twice(text: str) -> None:
    """Nothing raises, and redacting again finds no secret in what redacting left."""
    once = redact(text)
    assert redact(once) == once


PIECES = (
    *("password", "token", "_key", "api key", "Cookie", "value", "name", "kind: Secret", "data", "is", "-p", "login"),
    *(
        "\n",
        " ",
        "  ",
        ":",
        "=",
        '"',
        "|",
        ",",
        "- ",
        "\\",
        "//",
        "@",
        "&",
        "?",
        "[redacted]",
        "x9f8e7d6c5b4a3928",
        "hunter2",
    ),
    *("\ud800", "\u0130"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_any_pieces_can_be_redacted_twice(pieces: list[str]) -> None:
    """However names, signs and values come together."""
    once = redact("".join(pieces))
    assert redact(once) == once


def test_a_key_in_a_long_line_is_found() -> None:
    """Position and length of the line do not matter."""
    key = "ghp_" + base64.b16encode(b"0123456789abcdefgh").decode()
    assert key not in redact("x, " * 50_000 + key + ", y" * 50_000)


@pytest.mark.parametrize("case", SECRETS, ids=str)
@pytest.mark.parametrize("place", [0, 3_000, 4_990, 5_010, 30_000, 94_990, 95_010, 99_000])
def test_of_a_long_text_no_part_of_a_secret_shows(case: str, place: int) -> None:
    """Wherever it stands, at the seam of head and tail too; what lies between them is not there."""
    before, rest = SECRETS[case].split("«")
    secret, after = rest.split("»")
    filler = "So it went on. " * 7_000
    text = f"{filler[:place]}\n{before}{secret}{after}\n{filler[place:100_000]}"
    shown = ends(text, 10_000)
    assert len(shown) <= 10_001
    assert not any(secret[i : i + 12] in shown for i in range(max(1, len(secret) - 11)))


@given(st.text(max_size=400), st.integers(2, 200))
def test_a_short_text_has_no_seam(text: str, most: int) -> None:
    """Up to the limit the whole is redacted; beyond it head and tail are those of the whole."""
    clean, shown = redact(text), ends(text, most)
    assert len(shown) <= most + 1
    if len(clean) <= most and len(text) <= 3 * most:
        assert shown == clean


def test_of_a_long_text_only_the_ends_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not shown costs nothing."""
    read = lengths(monkeypatch, "proxy.core.redact.redact")
    ends("a token of sorts, " * 200_000, 60_000)
    assert sum(read) <= 60_000 + 2 * SEAM


def test_a_long_run_is_searched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern with many beginnings is never let loose on all of it: that would hold up every other thread."""
    searched: list[int] = []

    class Watched:
        def sub(self, new: str, text: str) -> str:
            searched.append(len(text))
            return pattern.sub(new, text)

    pattern = module._SHAPES
    monkeypatch.setattr(module, "_SHAPES", Watched())
    redact("a-b_" * 80_000)
    assert len(searched) > 30 and max(searched) <= PIECE
