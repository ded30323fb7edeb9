"""What is called a credential, and what looks like one: the words before a secret, and the secret itself.

Secrets are often hexadecimal or UUIDs, as ids are: the name before one tells. How sure the name makes it says what the
value must look like: after `password:` anything is one, after `api key:` what has a digit, after `STRIPE_KEY=` only
what nobody would make up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

HIDDEN = "[redacted]"


class Demand(IntEnum):
    """What the value behind a name must look like to be a secret."""

    NOTHING = 0
    DIGIT = 1
    OPAQUE = 2


@dataclass(slots=True)
class Name:
    """A name for a secret in a text, from `start` to `end`."""

    start: int
    end: int
    demand: Demand
    spoken: bool  # whether people say it of a password rather than programs of a token


_PASSWORDS = (
    r"passwort|pass[ _-]?(?:word|wd|phrase|code)|(?<!by)(?<!com)(?<!tres)(?<!sur)(?<!over)pass"
    r"|pwd|(?<![^\W_])pw(?![^\W_])|kennwort|contraseña|contrasenya"
    r"|mots? de passe|senha|wachtwoord|l[öo]senord|passord|adgangskode|salasana|hasło|heslo|jelszó|parola|şifre|κωδικός"
    r"|парол[ьяюе]|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|كلمة المرور|كلمة السر|סיסמה|รหัสผ่าน|mật khẩu"
    r"|kata sandi|पासवर्ड|(?<![a-z])pin"
)
# Their beginning is not matched: `DB_PASSWORD=x` is found at `PASSWORD`.
_SURE = (
    r"secret(?:[_-]?(?:access[_-]?)?key)?|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key"
    r"|shared[_-]?access[_-]?(?:key|signature)|signing[_-]?key|encryption[_-]?key|auth(?:orization|[_-]?key)?"
    r"|credentials?|cookie|session[_-]?id|sessid|sig(?:nature)?|(?<![a-z])(?:otp|psk|cvv)|webhook[_-]?url|dsn|токен|令牌"
)
_CODES = (
    r"(?:recovery|backup|verification|security|access|login|pairing|one[ -]?time|[2m]fa|activation|unlock"
    r"|invit(?:e|ation)|auth\w{0,12}|scratch)[ _-]?codes?"
)
_TOLD = (
    r"(?:api|access|private|secret(?: access)?|signing|encryption|master|licen[sc]e|activation|service|deploy|auth"
    r"|account|wallet|admin|shared)[ \u00a0]keys?|(?:seed|recovery|secret|backup|mnemonic)[ _-]?(?:phrase|words?)"
    rf"|{_CODES}|mnemonic|密钥|密鑰|金鑰|私钥|私鑰|助记词|秘密鍵|秘密键|api ?キー|シークレットキー|api 키"
    r"|секретный ключ|приватный ключ|ключ api|api[- ]ключ|api[- ]?schlüssel"
    r"|(?:geheim|zugangs|lizenz)(?:er |-)?schlüssel"
    r"|clé (?:api|d'api|secrète|privée|d'accès)|clave (?:api|de api|secreta|privada|de acceso)"
    r"|chave (?:de api|api|secreta|privada|de acesso)|chiave (?:api|segreta|privata)"
)
_NAME = re.compile(rf"(?i)(?:(?P<key>key)s?(?![a-z])|(?P<told>{_TOLD})|(?P<spoken>{_PASSWORDS})|(?P<sure>{_SURE}))")
# More behind the name: its number, several of them, what part of it (`SECRET_KEY_BASE`). `tokenizer` is none.
_MORE = re.compile(r"s?(?:[_.-]?\d{1,3})?(?:[_.-][A-Za-z0-9]{1,20}){0,3}(?:(?<=[a-z])[A-Z][a-z]{1,20}){0,2}(?![^\W_])")
_STAGE = re.compile(
    r"(?i)[_-](?:\d{1,3}|base(?:64)?|b64|hex|value|prod\w{0,8}|dev\w{0,8}|test|live|staging|old|new|main)(?!\w)"
)
# How each of them begins, in small letters. Looking up plain strings is far cheaper than trying a pattern everywhere.
BEGINNINGS = tuple(
    (  # noqa: SIM905  (one quoted each would fill a page)
        "pass|pwd|pw|kennwort|contraseña|contrasenya|mot de|mots de|senha|wachtwoord|lösenord|losenord|"
        "adgangskode|salasana|hasło|heslo|jelszó|parola|şifre|κωδικ|парол|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|كلمة|סיסמה|"
        "รหัสผ่าน|mật khẩu|kata sandi|पासवर्ड|pin|secret|token|api|access|private|account|shared|signing|"
        "encryption|auth|credential|cookie|sess|sig|otp|psk|cvv|webhook|dsn|токен|令牌|recovery|backup|"
        "verification|security|login|pairing|one time|one-time|onetime|2fa|mfa|activation|unlock|invit|scratch|"
        "master|licen|service|deploy|wallet|admin|seed|mnemonic|密钥|密鑰|金鑰|私钥|私鑰|助记词|秘密鍵|秘密键|シークレットキー|"
        "секретный ключ|приватный ключ|ключ api|geheim|zugangs|lizenz|clé |clave |chave |chiave |key"
    ).split("|")
)
# What else is called a key: by what it is made of, or what it is for. Of these an id is the usual value.
_ORDINARY = re.compile(
    "primary|foreign|cache|sort|partition|hash|range|row|object|public|pub|idempotency|dedup|deduplication|"
    "routing|lookup|unique|composite|index|group|grouping|registry|surrogate|natural|issue|project|map|json|"
    "dict|item|storage|s3|bucket|redis|store|cursor|page|query|state|translation|i18n|message|event|topic|"
    "record|document|react|list|order|ordering|join|etag|content|file|path|image|blob|config|setting|section|"
    "skip|data|entity|user|tenant|node|cluster|task|job|run|build|commit|request|response|trace|span|parent|"
    "child|shard|search|filter|column|field|table|db|database|memo|the|a|an|this|that|with|by|for|same|each|"
    "every|new|old|and|or|no|not|of|which|duplicate|missing|invalid|wrong|as|on|in|to|from|its|their|any|one|"
    "first|last|next|previous|per|is|has"
)
_BEFORE_KEY = re.compile(r"(?:([A-Z]?[a-z0-9]{1,30}|[A-Z0-9]{1,30})([_.\- ]?))$")
# Values that are code, types or placeholders, not secrets.
_HARMLESS = re.compile(
    r"(?i)(?:(?:str|string|text|int|integer|number|bool|boolean|bytes|none|null|nil|true|false|undefined|optional|any"
    r"|required|missing|invalid|empty|yes|no|not|set|unset|n/a|wpa\d?|(?:n?var)?char\(\d{1,5}\))(?![\w@#%!&-])"
    r"|\$\{?[a-z_]|process\.env|os\.environ|env\.|self\.|this\.|<|\{\{|\*{3}|x{4}|\[redacted)"
)
_FIGURES = re.compile(r"[\d.,:/%]{1,40}")
_DIGITS = re.compile(r"\d{4,12}(?![\w.=])|[\"'`*]{0,2}\d{4,12}(?!\w)")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_HEX = re.compile(r"(?i)(?:0x)?(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])[0-9a-f]{16,}")
_PART = re.compile(r"[A-Za-z0-9]{12,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
CHANGES = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_LOCATION = re.compile(r"(?i)(?:\.{0,2}|~|[a-z]:)[/\\]|[a-z][a-z0-9+.-]{1,20}://|[^\s:]{1,200}\.(?:[a-z]{1,5}\d?)$")


def opaque(value: str) -> bool:
    """Whether nobody would make this up: a UUID, long hexadecimal, or letters and digits in disorder; no path."""
    value = value[:1024]
    if _UUID.search(value):
        return not _LOCATION.match(value)
    if len(value) < 12 or _LOCATION.match(value):
        return False
    return any(map(_disordered, _PART.findall(value))) or bool(_BASE64.fullmatch(value) and _disordered(value))


def _disordered(run: str) -> bool:
    """Random hexadecimal changes between digits and letters at every other character, base62 more often; names with
    capitals and numbers at one of five."""
    if _HEX.fullmatch(run):
        return True
    return len(run) >= 12 and sum(map(str.isdigit, run)) > 1 and len(CHANGES.findall(run)) > 0.3 * len(run)


def meant(value: str, demand: Demand) -> bool:
    """Whether a value behind a name that makes this demand is a secret."""
    if harmless(value):
        return False
    if demand is Demand.OPAQUE:
        return opaque(value)
    if demand is Demand.DIGIT:
        return len(value) >= 4 and any(map(str.isdigit, value)) and not _LOCATION.match(value)
    return True


def ambiguous(called: str) -> bool:
    """Whether a name for a secret, in small letters, is an everyday word, too: tests pass, a pin is a contact."""
    return called in ("pass", "pin")


def countable(called: str, value: str) -> bool:
    """Whether what stands behind such a word is what it counts or fastens: `pass: 120`, `pin: numpy==1.26.4`."""
    if called == "pass":
        return bool(_FIGURES.fullmatch(value))
    return called == "pin" and not _DIGITS.match(value)


def mixed(value: str) -> bool:
    """Whether it has letters and digits, as passwords that people choose have."""
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return len(value) >= 6 and has_digit and has_letter and not _LOCATION.match(value) and not harmless(value)


def harmless(value: str) -> bool:
    """Whether a value is code, a type or a placeholder."""
    return bool(_HARMLESS.match(value)) or value.endswith(("(", "()"))


def folded(text: str) -> str:
    """`text` in small letters, each at the place it had: the one letter that becomes two is replaced before."""
    return text.replace("\u0130", "I").lower()


def names(line: str, low: str, hints: Iterable[str], first: int = 0) -> Iterator[Name]:
    """The names for secrets in a line, from the place `first` on; `low` is the line folded, `hints` those beginnings
    that may be in it."""
    last = Name(0, 0, Demand.NOTHING, spoken=False)
    for place in _places(low, hints, first):
        name = _name(line, place)
        if name and (name.end > last.end or name.demand < last.demand):  # not the `key` of `api_key`
            last = name
            yield name


def _places(low: str, hints: Iterable[str], first: int) -> list[int]:
    """Where one of the hints begins."""
    found = set()
    for hint in hints:
        at = low.find(hint, first)
        while at >= 0:
            found.add(at)
            at = low.find(hint, at + 1)
    return sorted(found)


def _name(line: str, place: int) -> Name | None:
    match = _NAME.match(line, place)
    if match is None:
        return None
    end, demand, spoken = match.end(), Demand.NOTHING, match["spoken"] is not None
    if match["key"]:
        if not _is_secret_key(line, place):
            return None
        stage = _STAGE.match(line, end)
        return Name(place, stage.end() if stage else end, Demand.OPAQUE, spoken=False)
    if match["told"]:
        demand = Demand.DIGIT
    if (more := _MORE.match(line, end)) and more.end() > end:
        end, demand = more.end(), Demand.OPAQUE
    return Name(place, end, demand, spoken)


def _is_secret_key(line: str, place: int) -> bool:
    """Whether what stands before `key` makes it a secret's name: `STRIPE_KEY`, `X-Auth-Key`, `licenseKey`, `my key`."""
    before = _BEFORE_KEY.search(line[max(0, place - 32) : place])
    if before is None:
        return False
    word, joint = before.groups()
    if not joint and not (line[place] == "K" and word[-1:].isalnum()):
        return False  # monkey, hotkey
    return not _ORDINARY.fullmatch(word.lower())
