"""Credentials told by what stands before them in the same line: a name, a flag, a header, a command, an address.

Every pattern is linear: bounded repeats, and no two neighbouring ones over the same characters.
"""

# ruff: noqa: RUF001  (punctuation of many scripts)
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from proxy.core.credentials import (
    BEGINNINGS,
    HIDDEN,
    Demand,
    Name,
    countable,
    folded,
    harmless,
    meant,
    mixed,
    names,
    opaque,
)

Span = tuple[int, int, bool]  # of a value: where it begins and ends, and whether it is a secret

_B = r"[ \t\u00a0]{0,8}"
CLOSE = r"(?:\\{0,15}[\"'`*%\]]){0,3}"  # quotes of the name, escaped as often as JSON in JSON in JSON is
OPEN = r"(?:\\{0,15}[\"'`*]|\[(?!redacted\])){0,4}"
_TYPED = (  # an annotation before the equals sign
    r":[ \t]{0,3}(?:optional\[)?&?(?:'static )?(?:str|string|secretstr|text|any)\b[\]?]?"
    r"(?:[ \t]?\|[ \t]?(?:none|null|undefined))?[ \t]{0,3}(?==)"
)
_IS = r"\b(?:is|are|was|ist|sind|lautet|es|son|est|sont|é|è|são)\b(?:[ \t]?[:=](?!=))?"
SIGN = rf"{CLOSE}{_B}(?:{_TYPED})?(?:=>|:=|->|→|[:=：＝]|{_IS}|是|为|為|は)"
_SIGNED = re.compile(rf"(?i){SIGN}{_B}{OPEN}{_B}")
_LOOSE = re.compile(r"[^\s\"'`\\<>]{2,4096}")
_STRICT = re.compile(r"(?:[a-z0-9]{2,12}[:=])?[A-Za-z0-9$][A-Za-z0-9+/_.~$@!-]{2,512}={0,2}")
_QUOTED = {quote: re.compile(rf"[^{quote}\\\n]{{2,200}}(?={quote})") for quote in "\"'`"}
_AND = re.compile(
    r"(?i)\\{0,15}[\"'`]?[ \t]{0,4}(?:,|;|/|\b(?:and|or|und|oder|et|ou|y|o|e|и)\b)[ \t]{0,4}\\{0,15}[\"'`]?"
)
_SCHEME = re.compile(
    r"((?:(?:bearer|basic|token|digest|negotiate|key)|[A-Za-z][\w-]{1,31}(?=[ \t]{1,4}[^\s\d\"'`]{0,80}\d[^\s\"'`]{5}))"
    r"[ \t]{1,4})?(?:[\w-]{1,32}=\\{0,3}\"[^\s\"'`\\,]{0,2048}\\{0,3}\"?|[^\s\"'`\\<>,]{2,4096})"
    r"(?:,[ \t]{0,4}[\w-]{1,32}=\\{0,3}\"?[^\s\"'`\\,]{0,2048}\\{0,3}\"?){0,20}",
    re.IGNORECASE,
)
_CRUMBS = re.compile(r"[^\s;\"'`\\<>]{2,4096}(?:;[ \t]{0,2}[^\s;\"'`\\<>]{1,4096}){0,100}|\{[^{}\n]{2,4096}\}")
_FLAGGED = re.compile(r"(?:^|[\s\"'`(,\[])-{1,2}[A-Za-z0-9_-]{0,32}$")
_FLAG = re.compile(r"(?:\\{0,3}[\"'],)?[ \t]{1,4}\\{0,3}[\"'`]?([^\s\"'`\\-][^\s\"'`\\]{0,4096})")
_TAG = re.compile(r"[\"']?(?:\s[^<>\n]{0,80})?>\s{0,8}(?:<!\[CDATA\[)?([^\s<>]{2,512})(?=\s{0,8}(?:<|\]\]>))")
_ARGUMENT = re.compile(
    r"(?:\\{0,3}[\"'`][ \t]?,[ \t]{0,4}|[ \t]?\([ \t]?|[ \t]{1,3})\\{0,3}[\"'`]"
    r"((?:[A-Za-z][\w-]{1,20}[ \t])?[^\s\"'`\\]{4,512})(?=\\{0,3}[\"'`])"
)
_CELL = re.compile(
    r"[*`\"]{0,2}[ \t]{0,40}\|[ \t]{0,40}[`\"*]{0,2}([^\s|`\"]{4,512})(?=[`\"*]{0,2}[ \t]{0,80}(?:\||$))"
)
_FIRST = re.compile(r"(?:^|\|)[\s*`\"]{0,8}[\w .-]{0,32}$")
# In prose: within three words of the name, a word of letters and digits (`the password for staging became hunter2`).
_SAID = re.compile(
    r"[ \t:=>→*\"'`(—–-]{1,8}((?:[^\W\d_]{1,12}[ \t]{1,3}){0,3})[\"'`]?"
    r"((?=[^\s\d/\"'`]{0,40}\d)(?=[^\sA-Za-z\"'`]{0,40}[^\W\d])[^\s/\"'`<>]{6,128}(?:/[^\s\"'`<>]{0,256})?)"
)
# Farther off, what a colon announces, if it can be nothing else.
_ANNOUNCED = re.compile(
    r"([^\w\n:=][^\n:=]{0,80})[:=：][ \t]{1,3}[\"'`*]{0,3}([A-Za-z0-9$][A-Za-z0-9+/_.~$-]{11,512}={0,2})"
)
THING = re.compile(  # what says that the next is no secret but what a thing is called
    r"(?i)(?:\b(?:commit|sha-?\d{0,3}|hash|digest|checksum|uuid|guid|user|account|customer|order|ticket|issue|record|row"
    r"|request|trace|span|job|build|run|task|branch|tag|version|rev|revision|ref|file|path|line|page|project|team|tenant"
    r"|device|node|pod|container|image|host|server|region|bucket|object|message|event|model|pr|in|see|at|bestellung"
    r"|kunde|benutzer|commande|utilisateur|pedido|usuario|заказ|пользователь)|id)[ \t\"'`:=#(*]{0,6}$"
)
_WORDS = re.compile(r"[a-z]{2,10}(?:[ \t,]{1,3}[a-z]{2,10}){2,23}(?=[\"'`.,;\s]{0,4}$|[\"'`.;,])")
_SENTENCE = re.compile(
    r"\b(?:the|a|an|in|to|is|are|was|of|not|for|and|or|by|with|it|on|be|as|at|from|must|should|can|your)\b"
)
_IN_QUERY = re.compile(r"[?&][\w.-]{0,40}$")
_PLACE = re.compile(r"(?:\.{0,2}/|~|[A-Za-z]:\\|\$\()")


def _behind(line: str, name: Name) -> Iterator[Span]:
    """The values that `name` makes secrets of."""
    following = line[name.end : name.end + 1]
    if not following or (following.isascii() and following.isalnum()):
        return  # it ends its line, or is the beginning of another word
    for rule in (_signed, _flag, _tag, _argument, _cell, _said):
        if found := rule(line, name):
            yield from found
            return


def _signed(line: str, name: Name) -> list[Span]:
    sign = _SIGNED.match(line, name.end)
    if sign is None:
        return []
    start, called = sign.end(), line[name.start : name.end].lower()
    if line.startswith(HIDDEN, start):
        return [(start, start + len(HIDDEN), False)]
    if "phrase" in called or "mnemonic" in called or "words" in called:
        words = _WORDS.match(line, start)
        if words and not _SENTENCE.search(words.group()):
            return [(start, words.end(), True)]
    if called == "cookies" and (value := _CRUMBS.match(line, start)) and value.group().startswith("{"):
        return [(start, value.end(), True)]
    if name.demand is Demand.OPAQUE:
        return _several(line, name, start)
    if called.startswith("auth"):
        value = _SCHEME.match(line, start)
    elif called == "cookie":
        value = _CRUMBS.match(line, start)
    else:
        quoted = _QUOTED.get(line[start - 1]) if name.spoken else None
        value = (quoted and quoted.match(line, start)) or _LOOSE.match(line, start)
    if not value:
        return []
    if called == "signature" and line.startswith("(", start):
        return []  # of a function
    if countable(called, value.group()):
        return []
    if called == "pwd" and _PLACE.match(value.group()):
        return [(start, value.end(), False)]  # the working directory
    end = value.end()
    if "&" in value.group() and _IN_QUERY.search(line, max(0, name.start - 41), name.start):
        end = line.index("&", start)  # the other parameters are not its value
    return [(start, end, meant(line[start:end], name.demand))] if end > start else []


def _several(line: str, name: Name, start: int) -> list[Span]:
    """Strict values: the first, and those that follow it in a list."""
    found: list[Span] = []
    while len(found) < 50 and (value := _STRICT.match(line, start)):
        text = value.group().rstrip(".")
        end = start + len(text)
        if not (meant(text, Demand.OPAQUE) or (name.spoken and line[name.end - 1] in "sS" and mixed(text))):
            break
        found.append((start, end, True))
        more = _AND.match(line, end)
        if more is None:
            break
        start = more.end()
    return found


def _flag(line: str, name: Name) -> list[Span]:
    if name.demand is not Demand.NOTHING or not _FLAGGED.search(line, max(0, name.start - 34), name.start):
        return []
    value = _FLAG.match(line, name.end)
    return [(*value.span(1), not harmless(value[1]))] if value else []


def _tag(line: str, name: Name) -> list[Span]:
    if name.demand is not Demand.NOTHING or "<" not in line[max(0, name.start - 40) : name.start]:
        return []
    value = _TAG.match(line, name.end)
    return [(*value.span(1), not harmless(value[1]))] if value else []


def _argument(line: str, name: Name) -> list[Span]:
    """The next argument, or what stands in quotes behind the name."""
    value = _ARGUMENT.match(line, name.end)
    if value is None:
        return []
    secret = mixed(value[1]) if name.demand is Demand.NOTHING else meant(value[1], Demand.OPAQUE)
    return [(*value.span(1), True)] if secret else []


def _cell(line: str, name: Name) -> list[Span]:
    """The second cell of a row whose first is the name."""
    if name.start > 80 or line.count("|", 0, name.start) > 1 or not _FIRST.search(line, 0, name.start):
        return []
    value = _CELL.match(line, name.end)
    if value is None:
        return []
    return [(*value.span(1), True)] if opaque(value[1]) or (name.spoken and mixed(value[1])) else []


def _said(line: str, name: Name) -> list[Span]:
    said = _SAID.match(line, name.end)
    if said and (countable(line[name.start : name.end].lower(), said[2]) or harmless(said[2])):
        return []
    if said and not THING.search(said[1]) and (name.demand is Demand.NOTHING or opaque(said[2])):
        return [(*said.span(2), True)]
    if name.demand is Demand.OPAQUE and not line[name.start : name.end].isalpha():
        return []
    told = _ANNOUNCED.match(line, name.end)
    if told and not THING.search(told[1]) and opaque(told[2]):
        return [(*told.span(2), True)]
    return []


def _named(line: str, low: str, hints: Sequence[str]) -> str:
    pieces, end = [], 0
    for name in names(line, low, hints):
        if name.start < end:
            continue
        for start, stop, secret in _behind(line, name):
            pieces += [line[end:start], HIDDEN if secret else line[start:stop]]
            end = stop
    return "".join(pieces) + line[end:] if pieces else line


# --- addresses

_ADDRESS = re.compile(r"(?<=://)[^\s\"'<>`]{1,2048}")
_HOST = re.compile(r"(?:[\w.-]{1,255}|\[[0-9a-fA-F:.]{2,45}\])(?::\d{1,5})?(?:[/?#,]|$)")
_PARAMETERS = (
    "key|token|secret|sig|signature|pass|password|passwd|pwd|credential|code|auth|session|sid|jwt|otp|ticket|assertion"
    "|samlresponse"
)
_PARAMETER = re.compile(rf"(?i)([?&;](?:[a-z0-9_.-]{{0,40}}(?:{_PARAMETERS}))=)([^\s&#\"'<>]{{1,4096}})")
# Whoever has such an address may do what it is for.
_PERMITS = (
    r"reset|invit|verif|confirm|activat|magic|unsubscrib|accept|join|webhook|hooks|passw|login|signin|share|oauth|token"
)
_PERMIT = re.compile(rf"(?i)/(?=[\w.-]{{0,30}}(?:{_PERMITS}))[\w.-]{{1,64}}([/?#][^\s\"'<>`]{{1,1024}})")
_SEGMENT = re.compile(r"[A-Za-z0-9_~-]{12,}(?:\.[A-Za-z0-9_~-]{8,}){0,3}(?![\w.~-])")


def _address(match: re.Match[str]) -> str:
    """A password in an address may hold the signs that end it: at, slash, question mark."""
    rest = match.group()
    first = min((at for sign in "/?#" if (at := rest.find(sign)) >= 0), default=len(rest))
    at = rest.rfind("@", 0, first)
    if at < 0 and (colon := rest.find(":", 0, first)) >= 0 and not rest[colon + 1 : first].isdigit():
        at = rest.find("@", first)
        at = at if at >= 0 and _HOST.match(rest, at + 1) else -1
    return f"{HIDDEN}{rest[at:]}" if at > 0 else rest


def _permit(match: re.Match[str]) -> str:
    start = match.start(1) - match.start()
    whole = match.group()
    return whole[:start] + _SEGMENT.sub(lambda m: HIDDEN if opaque(m.group()) else m.group(), whole[start:])


# --- commands and the like

_SSH = re.compile(r"\bssh-(?:rsa|ed25519|dss) [A-Za-z0-9+/=]{40,4096}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)([ \t]{1,4})([A-Za-z0-9._~+/=-]{8,4096})")
_PAIR = re.compile(r"(?i)(auth\w{0,12} ?= ?\([\"'][^\"'\n]{1,64}[\"'], ?[\"'])([^\"'\n]{1,128})")
_USER = re.compile(
    r"((?:^|\s)(?:-u|--user|--proxy-user)[ =]{1,4}[\"']?)"
    r"(?!\d{1,9}:\d{1,9}(?:\s|$))([^\s\"':-][^\s\"':]{0,127}:[^\s\"']{1,512})"
)
_PASSED = re.compile(  # commands that take a password by a flag of one letter, or at a place of its own
    r"(?P<before>\b(?:"
    r"(?:login|mongo\w{0,10}|cqlsh)\b[^\n]{0,160}?\s-p[ =]?(?!\d{1,5}\b)|sshpass\b[^\n]{0,160}?\s-p ?"
    r"|(?:mysql|mariadb)\w{0,10}\b[^\n]{0,160}?\s-p|(?:7z[a-z]?|rar|unrar)\b[^\n]{0,160}?\s-h?p"
    r"|(?:redis|valkey|keydb)-cli\b[^\n]{0,160}?\s-a[ =]?"
    r"|(?:sqlcmd|bcp|[it]sql|mosquitto_[ps]ub|ipmitool|zip|unzip)\b[^\n]{0,160}?\s-P[ =]?"
    r"|ldap\w{3,10}\b[^\n]{0,160}?\s-w[ =]?|(?:plink|pscp|psftp)\b[^\n]{0,160}?\s-pw[ =]?"
    r"|openssl\b[^\n]{0,160}?\s-[kK] "
    r"|(?:smbclient|rpcclient)\b[^\n]{0,160}?\s-U[ =]?[^\s%]{1,64}%|lftp\b[^\n]{0,160}?\s-u[ =]?[^\s,]{1,64},"
    r"|(?:https?|xh)\b[^\n]{0,160}?\s-a[ =]?[^\s:]{1,64}:|htpasswd +-\w{0,8}b\w{0,8} +\S{1,200} +\S{1,64} +"
    r"|vault +login +(?!-)|(?i:identified +by) +|requirepass +|masterauth +|net +user +[^\s/]{1,64} +(?!/)|pass:"
    r")[\"']?)(?P<value>[^\s\"'`|;&-][^\s\"'`|;&]{1,255})"
)
_COMMANDS = (
    *("login", "sshpass", "mongo", "cqlsh", "mysql", "mariadb", "7z", "rar ", "-cli", "sqlcmd", "bcp", "isql", "tsql"),
    *("mosquitto_", "ipmitool", "zip ", "ldap", "plink", "pscp", "psftp", "openssl", "smbclient", "rpcclient", "lftp"),
    *("http", "xh ", "htpasswd", "vault ", "identified", "requirepass", "masterauth", "net ", "pass:"),
)
_CRUMB = re.compile(r"(\bcurl\b[^\n]{0,400}?\s(?:-b|--cookie)[ =]?[\"']?)([^\s\"'=]{1,64}=[^\"'\n]{1,4096})")
_PIPED = re.compile(
    r"(\b(?:echo|printf) {1,4}(?:-n {1,4})?[\"']?)([^\s\"'|$<>-][^\s\"'|]{3,512})"
    r"(?=[\"']? {0,4}\|[^\n|]{0,120}(?:--password-stdin|--with-token|passwd|secret))"
)
_JAR = re.compile(r"(?i)(\b(?:true|false)\t[^\s]{1,128}\t(?:true|false)\t\d{1,12}\t[^\s]{1,128}\t)([^\s]{4,4096})")
_CRYPT = re.compile(r"\$(?:2[abxy]|[156y]|argon2\w{1,2}|pbkdf2[\w-]{0,12}|scrypt)\$[A-Za-z0-9./+=,$-]{16,256}")
_WIFI = re.compile(r"(WIFI:[^\n]{0,120}?[;:]P:)([^;\n]{1,128})")
_LOGIN = re.compile(
    r"(?i)(\b(?:credentials?|creds|logins?|zugangsdaten|user(?:name)?[/:]pass(?:word)?)[\"'`*]{0,3}"
    r"[ \t]?(?:[:=]|are|is)[ \t]{1,3}[^\s/:|,]{1,64}[ \t]?[/:|,][ \t]?)([^\s\"'`]{4,128})"
)


def _passed(match: re.Match[str]) -> str:
    value = match["value"]
    return match.group() if _PLACE.match(value) or harmless(value) else f"{match['before']}{HIDDEN}"


def _logged(match: re.Match[str]) -> str:
    return f"{match[1]}{HIDDEN}" if mixed(match[2]) or opaque(match[2]) else match.group()


_New = str | Callable[[re.Match[str]], str]
_BEHIND = rf"\1{HIDDEN}"
_Rule = tuple[re.Pattern[str], _New, tuple[str, ...]]
# In this order: what is replaced, with what, and what a line must hold (folded) for it to be tried at all.
_BEFORE: tuple[_Rule, ...] = (
    (_SSH, HIDDEN, ("ssh-",)),
    (_ADDRESS, _address, ("://",)),
    (_LOGIN, _logged, ("credential", "creds", "login", "zugangsdaten", "user")),
)
_AFTER: tuple[_Rule, ...] = (
    (_BEARER, rf"\1\2{HIDDEN}", ("bearer", "basic")),
    (_USER, _BEHIND, ("-u", "--user", "--proxy-user")),
    (_PARAMETER, _BEHIND, tuple(f"{name}=" for name in _PARAMETERS.split("|"))),
    (_PERMIT, _permit, tuple(_PERMITS.split("|"))),
    (_PAIR, _BEHIND, ("auth",)),
    (_PASSED, _passed, _COMMANDS),
    (_CRUMB, _BEHIND, ("curl",)),
    (_PIPED, _BEHIND, ("echo", "printf")),
    (_JAR, _BEHIND, ("true\t", "false\t")),
    (_CRYPT, HIDDEN, ("$",)),
    (_WIFI, _BEHIND, ("wifi:",)),
)
HINTS = tuple(dict.fromkeys((*BEGINNINGS, *(hint for *_, hints in (*_BEFORE, *_AFTER) for hint in hints))))


class Lines:
    """The rules that may match anywhere in a text: those of which it holds a hint. `low` is the text folded."""

    __slots__ = ("_after", "_before", "hints", "names")

    def __init__(self, low: str) -> None:
        found = {hint for hint in HINTS if hint in low}
        self.names = [hint for hint in BEGINNINGS if hint in found]
        self._before = _possible(_BEFORE, found)
        self._after = _possible(_AFTER, found)
        self.hints = sorted(found)

    def struck(self, line: str, low: str) -> str:
        """The line without its credentials; `low` is the line folded."""
        before = line
        line = _replaced(line, low, self._before)
        low = low if line is before else folded(line)
        line = _named(line, low, self.names)
        return _replaced(line, low, self._after)

    def __repr__(self) -> str:
        return f"Lines({len(self.hints)} hints)"


def _possible(rules: Sequence[_Rule], found: set[str]) -> list[tuple[re.Pattern[str], _New, list[str]]]:
    return [(*rule[:2], here) for rule in rules if (here := [hint for hint in rule[2] if hint in found])]


def _replaced(line: str, low: str, rules: Sequence[tuple[re.Pattern[str], _New, list[str]]]) -> str:
    for pattern, new, hints in rules:
        if any(hint in low for hint in hints):
            line = pattern.sub(new, line)
    return line
