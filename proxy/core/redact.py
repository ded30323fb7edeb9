"""Taking credentials out of text before anything is remembered of it.

Rather one word too many than one secret kept: what is struck here is only missing from a list of identifiers. Every
pattern is linear: bounded repeats, and no two neighbouring ones over the same characters.
"""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
from collections.abc import Callable, Sequence

HIDDEN = "[redacted]"
SEAM = 8_000  # characters read beyond a cut: the longest credential (4,096) twice, so that none is taken for less
PIECE = 8_192  # characters of an unbroken run that are searched at a time

_NAME = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|token|api[_-]?key|apikey|access[_-]?key"
    r"|private[_-]?key|account[_-]?key|shared[_-]?access[_-]?(?:key|signature)|signing[_-]?key|encryption[_-]?key"
    r"|auth(?:orization)?|credentials?|cookie|session[_-]?id|sig(?:nature)?|pin|otp|cvv|webhook[_-]?url|dsn"
    r"|passwort|kennwort|contraseña|mot de passe|senha|wachtwoord|lösenord|hasło|parola|şifre|пароль|токен"
    r"|密码|密碼|口令|パスワード|비밀번호"
)
# A name that ends in a word for a secret, an equals sign of some kind, and the value. The name's beginning is not
# matched at all: `DB_PASSWORD=x` is found at `PASSWORD`. `tokens: 4096` is not: the word ends otherwise.
_NAMED = re.compile(
    rf"(?i)({_NAME})"
    r"((?:\\?[\"'`*\]])?[ \t]{0,4}(?:=>|:=|[:=：]|\b(?:is|was|ist|es|est|é)\b|是|为|は)[ \t]{0,4}"
    r"(?:\\?[\"'`*]){0,3})"
    r"((?:(?:bearer|basic|token|digest)[ \t]{1,4})?[^\s\"'`\\<>]{2,4096})"
)
_FLAG = re.compile(rf"(?i)(?<=-)((?:{_NAME})[ \t]{{1,4}})([^\s\"'`-][^\s\"'`]{{0,4096}})")
# In prose: within three words of the name, a word of letters and digits (`the password for staging became hunter2`).
_SAID = re.compile(
    rf"(?i)({_NAME})([ \t:=>→*\"'`-]{{1,8}}(?:[^\W\d_]{{1,12}}[ \t]{{1,3}}){{0,3}}[\"'`]?)"
    r"((?=[^\s\d/]{0,40}\d)(?=[\d\W]{0,40}[^\W\d])[^\s/\"'`]{6,128})"
)
_PAIR = re.compile(r"(?i)(auth\w{0,12} ?= ?\([\"'][^\"'\n]{1,64}[\"'], ?[\"'])([^\"'\n]{1,128})")
_MYSQL = re.compile(r"(\b(?:mysql|mariadb)\w{0,10}\b[^\n]{0,80}?\s-p)([^\s]{3,128})")
_BEARER = re.compile(r"(?i)\b(bearer|basic)([ \t]{1,4})([A-Za-z0-9._~+/=-]{8,4096})")
_USERINFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)([^\s/@\"'<>]{1,512})@")
_CURL_USER = re.compile(r"((?:^|\s)(?:-u|--user)[ =]{1,4}[\"']?)([^\s\"':]{1,128}:[^\s\"']{1,512})")
_PARAMETER = re.compile(
    r"(?i)([?&;](?:[a-z0-9_.-]{0,40}(?:key|token|secret|sig|signature|password|credential|code|auth|session|jwt))=)"
    r"([^\s&#\"'<>]{1,4096})"
)
_LONG = re.compile(r"[A-Za-z0-9_.=/+:-]{11,}")  # what may hold a key by its shape
_SHAPES = re.compile(  # what issuers document of their own keys' beginnings
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z]{1,12}[-_]){0,3}[A-Za-z0-9_-]{12,256}"
    r"|\b(?:ghp|gho|ghu|ghs|ghr|glpat|gldt|github_pat|hf|npm|pypi|dop_v1|doo_v1|shpat|shpss|shpca|gsk|xai|r8|nvapi|pplx"
    r"|tvly|lin_api|figd|ntn|rpa|whsec|sntrys|sntryu|phc|phx|glsa|atlasv1|ATATT|sbp|sq0[a-z]{3})[-_][A-Za-z0-9_=-]{16,256}"
    r"|\b(?:key|api|secret|tok|token|fc|rnd|vercel|fly|dapi)[-_][A-Za-z0-9]{20,256}|\bHRKU-[0-9a-fA-F-]{30,40}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{8,256}|\bxapp-[A-Za-z0-9-]{8,256}"
    r"|\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,32}|\bAIza[A-Za-z0-9_-]{30,64}|\bya29\.[A-Za-z0-9_-]{16,512}"
    r"|\bSG\.[A-Za-z0-9_-]{12,64}\.[A-Za-z0-9_-]{12,96}|\bAGE-SECRET-KEY-1[A-Z0-9]{20,80}"
    r"|\beyJ[A-Za-z0-9_-]{8,4096}(?:\.[A-Za-z0-9_-]{0,4096}){0,4}"
    r"|\b\d{8,10}:AA[A-Za-z0-9_-]{33}\b"
    r"|hooks\.slack\.com/[A-Za-z0-9/_-]{8,128}|discord(?:app)?\.com/api/webhooks/[A-Za-z0-9/_-]{8,160}"
)
_SSH = re.compile(r"\bssh-(?:rsa|ed25519|dss) [A-Za-z0-9+/=]{40,4096}")
_RUN = re.compile(r"[A-Za-z0-9+/_=]{30,}")
_TWILIO = re.compile(r"(?:AC|SK)[0-9a-f]{32}")
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
# How each of the names begins, case folded. Looking up plain strings is far cheaper than trying a pattern everywhere.
_BEGINNINGS = (
    *("pass", "pwd", "secret", "token", "api", "access", "private", "account", "shared", "signing", "encryption"),
    *("auth", "credential", "cookie", "session", "sig", "pin", "otp", "cvv", "webhook", "dsn", "kennwort"),
    *("contraseña", "mot de passe", "senha", "wachtwoord", "lösenord", "hasło", "parola", "şifre", "пароль"),
    *("токен", "密码", "密碼", "口令", "パスワード", "비밀번호"),
)
_HARMLESS = re.compile(  # values that are code, types or placeholders, not secrets
    r"(?i)(?:str|string|int|bool|boolean|bytes|none|null|nil|true|false|undefined|optional|any|required|missing|invalid"
    r"|\$\{?[a-z_]|process\.env|os\.environ|env\.|self\.|this\.|<|\{\{|\*{3}|x{4}|\[redacted)"
)
_CHANGES = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")


def redact(text: str) -> str:
    """`text` with everything that looks like a credential replaced by `[redacted]`."""
    text = _private_keys(text)
    text = _LONG.sub(lambda m: _shapes(m.group()), text)
    folded = text.casefold()
    found = {hint for hint in _HINTS if hint in folded}
    rules = [(*rule[:2], here) for rule in _RULES if (here := [hint for hint in rule[2] if hint in found])]
    if rules:
        hints = sorted({hint for *_, here in rules for hint in here})
        pairs = zip(text.split("\n"), folded.split("\n"), strict=True)
        text = "\n".join(_line(line, low, rules) if _any(hints, low) else line for line, low in pairs)
    return _RUN.sub(lambda m: HIDDEN if random_looking(m.group()) else m.group(), text)


def ends(text: str, most: int) -> str:
    """`text` redacted; of one longer than `most` characters head and tail alone, and no more than them is read.

    What is cut in two at the seam would not be recognised: so some more is read on either side of it, and left out.
    """
    half, seam = most // 2, min(SEAM, most)
    if len(text) <= most + 2 * seam:
        clean = redact(text)
        return clean if len(clean) <= most else f"{clean[:half]}\n{clean[-half:]}"
    head, tail = redact(text[: half + seam]), redact(text[len(text) - half - seam :])
    return f"{head[:half]}\n{tail[max(seam // 4, len(tail) - half) :]}"


def _any(hints: Sequence[str], line: str) -> bool:
    return any(hint in line for hint in hints)


def _line(line: str, low: str, rules: Sequence[tuple[re.Pattern[str], _New, list[str]]]) -> str:
    """`low` is the line case folded; each rule comes with those of its hints that may be in it."""
    for pattern, new, hints in rules:
        if not _any(hints, low):
            continue
        if pattern in _AFTER_NAME and len(low) == len(line):
            changed = _sub_at(pattern, new, line, _places(low, hints))
        else:
            changed = pattern.sub(new, line)
        if changed != line:
            line, low = changed, changed.casefold()
    return line


def _places(low: str, hints: Sequence[str]) -> list[int]:
    """Where one of the hints begins."""
    places = set()
    for hint in hints:
        at = low.find(hint)
        while at >= 0:
            places.add(at)
            at = low.find(hint, at + 1)
    return sorted(places)


def _sub_at(pattern: re.Pattern[str], new: _New, line: str, places: Sequence[int]) -> str:
    """`pattern.sub(new, line)` for a pattern that matches at one of these places or nowhere."""
    pieces, end = [], 0
    for place in places:
        if place >= end and (match := pattern.match(line, place)):
            pieces += [line[end:place], match.expand(new) if isinstance(new, str) else new(match)]
            end = match.end()
    return "".join(pieces) + line[end:] if pieces else line


def _shapes(run: str) -> str:
    """A long run is data: it is looked at in pieces, so that no single search takes long."""
    if len(run) <= PIECE:
        return _SHAPES.sub(HIDDEN, run)
    return "".join(_SHAPES.sub(HIDDEN, run[at : at + PIECE]) for at in range(0, len(run), PIECE))


def random_looking(run: str) -> bool:
    """Whether an unbroken run changes between capitals, small letters and digits as often as only a random one does.

    A random base62 string changes at two of three characters, CamelCase at one of four; hexadecimal hashes have no
    capitals and are let through.
    """
    if _TWILIO.fullmatch(run):
        return True
    classes = (any(c.isupper() for c in run), any(c.islower() for c in run), any(c.isdigit() for c in run))
    return all(classes) and len(_CHANGES.findall(run)) > 0.4 * len(run)


def _named(match: re.Match[str]) -> str:
    name, sign, value = match.groups()
    if _HARMLESS.match(value) or value.endswith(("(", "()")):
        return match.group()
    return f"{name}{sign}{HIDDEN}"


def _private_keys(text: str) -> str:
    pieces, at = [], 0
    while begin := _BEGIN.search(text, at):
        end = _END.search(text, begin.end())
        pieces += [text[at : begin.start()], HIDDEN]
        at = end.end() if end else len(text)  # a key that never ends: nothing after it is trusted
    return "".join(pieces) + text[at:] if pieces else text


_New = str | Callable[[re.Match[str]], str]
_AFTER_NAME = frozenset({_NAMED, _FLAG, _SAID})
# In this order: what is replaced, with what, and what a line must hold (case folded) for it to be tried at all.
_RULES: tuple[tuple[re.Pattern[str], _New, tuple[str, ...]], ...] = (
    (_SSH, HIDDEN, ("ssh-",)),
    (_USERINFO, rf"\1{HIDDEN}@", ("://",)),
    (_NAMED, _named, _BEGINNINGS),
    (_BEARER, rf"\1\2{HIDDEN}", ("bearer", "basic")),
    (_FLAG, rf"\1{HIDDEN}", _BEGINNINGS),
    (_CURL_USER, rf"\1{HIDDEN}", ("-u", "--user")),
    (
        _PARAMETER,
        rf"\1{HIDDEN}",
        (
            "key=",
            "token=",
            "secret=",
            "sig=",
            "signature=",
            "password=",
            "credential=",
            "code=",
            "auth=",
            "session=",
            "jwt=",
        ),
    ),
    (_SAID, rf"\1\2{HIDDEN}", _BEGINNINGS),
    (_PAIR, rf"\1{HIDDEN}", ("auth",)),
    (_MYSQL, rf"\1{HIDDEN}", ("mysql", "mariadb")),
)
_HINTS = tuple(dict.fromkeys(hint for *_, hints in _RULES for hint in hints))
