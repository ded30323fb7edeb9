"""Finding identifiers in text: paths, addresses, ids, hashes, error codes, code names, commands, quantities.

Text is split once into tokens (runs without blanks, quotes, brackets and CJK), and each different token is classified
once; that keeps the whole linear however often a token recurs. Quantities and commands, which hold blanks, have
patterns of their own. Credentials have to be gone before (see `redact`).
"""

# ruff: noqa: RUF001  (units are written in many alphabets)
from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum


class Kind(StrEnum):
    PATH = "path"
    URL = "url"
    HOST = "host"
    HASH = "hash"
    ID = "id"
    REF = "ref"  # an issue, a branch, a repository
    ERROR = "error"
    ENV = "env"
    VERSION = "version"
    NAME = "name"  # a function, class, variable or flag
    QUANTITY = "quantity"
    COMMAND = "command"


LONGEST = 200  # characters; longer tokens are data, except URLs
LONGEST_URL = 600
LONGEST_COMMAND = 120

TOKEN = re.compile(  # no blanks, quotes, brackets, long dashes, box drawing, symbols, CJK
    r"[^\s\"'`<>|(){}\[\],;*\u00ab\u00bb\u2010-\u2026\u2500-\u27bf\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]{2,}"
)
_NOISE = re.compile(r"(?:\x1b|\\x1b|\\e|\\033|\\u001b)\[[0-9;]{0,20}[A-Za-z]|\\[nrt]|\\x[0-9a-f]{2}|</")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(
    r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}|(?:sha\d*[:-])[0-9a-f]{7,128}|0x[0-9a-f]{4,64}", re.IGNORECASE
)
_COLOUR = re.compile(r"#[0-9a-f]{3,8}", re.IGNORECASE)
_REMOTE = re.compile(r"[\w.-]{1,40}@[\w.-]{1,80}:[\w./~-]{1,100}")
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_ADDRESS = re.compile(
    r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){4,7}", re.IGNORECASE
)
_DOMAIN = re.compile(
    r"(?:[a-z0-9_-]{1,63}\.){1,6}(?:com|org|net|io|dev|ai|app|edu|gov|co|me|info|cloud|local|internal|lan|cluster|test"
    r"|example|invalid|de|uk|fr|es|it|nl|pl|ru|cn|jp|kr|br|in|eu|ch|at|se|no|us|ca|au|xyz|tech|sh)"
    r"(?::\d{1,5})?(?:/[^\s]{0,200})?",
    re.IGNORECASE,
)
_PORT = re.compile(r"[a-z][a-z0-9.-]{1,62}:\d{2,5}", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:[\\/][^:]{1,190}|\\\\[\w.$-]{1,60}\\[^:]{1,130}")
_NUMBERED = re.compile(r"^\d{1,7}[:-](?=[A-Za-z_./])")  # how grep begins a line
_LINE = re.compile(r"(?::\d{1,7}){1,2}(?:-\d{1,7})?:?$|[#:]L\d{1,7}(?:-L?\d{1,7})?$")
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9_]{0,9}$|\.[ch]$|\.7z$|\.mp[34]$")
_FILE = re.compile(
    r"[\w@.+~%-]{1,100}\.(?:py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|mts|cts|vue|svelte|java|kt|kts|scala|go|rs|rb|php|c|cc|cpp"
    r"|cxx|h|hh|hpp|cs|fs|swift|m|mm|lua|pl|pm|r|jl|ex|exs|erl|hs|ml|clj|dart|zig|nim|sol|sh|bash|zsh|fish|ps1|bat|cmd"
    r"|html?|css|scss|sass|less|xml|svg|json|jsonl|json5|ya?ml|toml|ini|cfg|conf|config|env|properties|lock|sum|mod"
    r"|md|mdx|rst|txt|tex|pdf|docx?|xlsx?|pptx?|odt|csv|tsv|parquet|sql|sqlite3?|db|log|out|err|diff|patch|png|jpe?g|gif"
    r"|webp|ico|bmp|tiff?|wav|mp[34]|ogg|flac|mov|avi|mkv|webm|zip|tar|gz|tgz|bz2|xz|zst|7z|rar|jar|war|whl|deb|rpm|dmg"
    r"|exe|dll|so|dylib|bin|iso|img|pem|crt|cer|key|pub|gguf|onnx|pt|pth|npy|npz|pkl|proto|graphql|tf|tfvars|gradle"
    r"|cmake|mk|plist|xcodeproj|csproj|sln|epub|ics|eml|service|timer|template|tmpl|j2|snap|test|spec|bak|tmp|swp|pid)"
)
_HIDDEN = re.compile(
    r"\.{0,2}/|\.[a-z][\w.-]{0,60}/|\.(?:env|git|vim|bash|zsh|docker|editor|pre-commit|[a-z]{2,16}(?:rc|ignore))"
)
_DOTFILE = re.compile(r"\.(?:env|[a-z]{2,16}(?:rc|ignore|config|attributes|keep))(?:\.[a-z]{1,20}){0,2}")
_BRANCH = re.compile(r"(?:origin|upstream|feature|feat|fix|bugfix|hotfix|release|chore|refs|heads|tags)/[\w.#-]{2,80}")
_MEDIA = re.compile(r"(?:application|text|image|audio|video|font|multipart)/[\w.+-]{2,80}")
_VERSION = re.compile(r"v?\d{1,5}(?:\.\d{1,6}){1,3}(?:[-+.]?[A-Za-z][\w.+-]{0,30})?|v\d{1,4}")
_PINNED = re.compile(r"[@\w./-]{1,80}(?:==|>=|<=|~=|@)\^?v?\d[\w.+-]{0,30}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d:.]{4,15}(?:Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_REF = re.compile(r"(?:[\w.-]{1,60}/[\w.-]{1,60})?#\d{1,9}|[A-Z][A-Z0-9]{1,9}-\d{1,9}|!\d{2,9}")
_ERROR = re.compile(
    r"ERR_[A-Z0-9_]{2,60}|E[A-Z]{4,14}|[A-Z]{1,6}\d{3,7}|SIG[A-Z]{3,6}|[A-Z][A-Za-z]{2,50}(?:Error|Exception|Warning|Fault)"
)
_ENV = re.compile(r"\$?\{?[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,8}\}?|\$[A-Za-z_]\w{1,40}")
_ID = re.compile(r"(?=[\w.:-]*[A-Za-z])(?=[A-Za-z_.:-]*\d[A-Za-z_.:-]*\d)[A-Za-z0-9][\w.:-]{3,79}", re.ASCII)
_DIGITS = re.compile(r"\+?\d{5,24}")
_NAME = re.compile(
    r"_{0,2}[A-Za-z][A-Za-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,10}_{0,2}"  # snake_case
    r"|[a-z]{1,60}(?:[A-Z][a-z0-9]{0,60}){1,10}"  # camelCase
    r"|(?:[A-Z][a-z0-9]{1,60}){2,10}"  # PascalCase
    r"|[A-Za-z_]\w{0,60}(?:(?:\.|::|->|#)[A-Za-z_]\w{1,60}){1,8}"  # a.bc, A::bc
    r"|--?[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){0,6}",  # a flag
    re.ASCII,
)
_KEBAB = re.compile(r"[a-z0-9]{1,40}(?:-[a-z0-9]{1,40}){2,10}", re.ASCII)

_UNIT = (
    r"(?:%|‰|°[CF]?|[kKMGTPµnm]?i?[Bb](?:it|yte)?s?(?:/s)?|[mµn]?s|sec(?:ond)?s?|min(?:ute)?s?|h(?:ours?|rs?)?|days?|weeks?"
    r"|months?|years?|[kKMG]?Hz|[cmkµn]?m|[kmµ]?g|[kMG]?W(?:h)?|m?V|m?A|l|ml|px|em|rem|pt|fps|rpm|dB|tokens?|lines?|rows?"
    r"|files?|tests?|items?|users?|requests?|passed|failed|errors?|USD|EUR|GBP|JPY|CNY|CHF|dollars?|euros?|Euro|€|£|¥|元|円"
    r"|Tage?n?|Stunden?|Minuten?|Sekunden?|jours?|heures?|días?|horas?|dias?|дн(?:ей|я)|час(?:ов|а)?|минут|天|小时|分钟|日|時間|分)"
)
_QUANTITY = re.compile(
    rf"(?<![\w.,/#-])(?:[$€£¥]\s?\d[\d,.]{{0,15}}(?:[kKMB]\b)?|\d[\d,.]{{0,15}}\s?{_UNIT}(?![\w/-])|\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s?[ap]m)?"
    r"(?![\w:]))"
    r"|(?i:\b(?:port|exit code|exit status|status|error code|errno|http|line|code|rc|pid)\b[ :=#]{1,3}-?\d{1,7}\b)"
)
_COMMAND = re.compile(r"^[ \t]{0,8}\$ ([^\n]{3,400})$|`([a-z.][\w./-]{0,40} [^`\n]{1,100})`", re.MULTILINE)
_TRIM = ".,:;!?~=&^_-/\\"


def tokens(text: str) -> Iterator[str]:
    """The tokens of `text`, unclassified, in order; assignments are split at the equals sign."""
    for match in TOKEN.finditer(text):
        yield from pieces(match.group())


def pieces(token: str) -> list[str]:
    """A token itself, or the sides of the assignment it is; nothing for one too long to be a name."""
    if len(token) > LONGEST_URL:
        return []
    assigns = "=" in token and "://" not in token and not any(sign in token for sign in ("==", "~=", ">=", "<="))
    return token.split("=") if assigns else [token]


Found = tuple[tuple[str, Kind], ...]


def identifiers(text: str, known: dict[str, Found]) -> Iterator[tuple[str, Kind]]:
    """Every occurrence of an identifier in `text` with its kind; not in order of place.

    `known` remembers what each token was found to be; hand the same one in for every text of a conversation.
    """
    text = _NOISE.sub(" ", text)  # terminal colours, escaped line breaks, closing tags
    for token in tokens(text):
        if token not in known:
            known[token] = classify(token)
        yield from known[token]
    for match in _QUANTITY.finditer(text):
        yield " ".join(match.group().split()).rstrip(".,"), Kind.QUANTITY
    for match in _COMMAND.finditer(text):
        if found := command(match.group(1) or match.group(2)):
            yield found, Kind.COMMAND


def command(line: str) -> str:
    """A command line as one that can be listed: its first line, blanks collapsed, nothing if it is too long for one."""
    words = " ".join(line.strip().split("\n", 1)[0].split())
    return words if 2 < len(words) <= LONGEST_COMMAND and "`" not in words else ""


def classify(token: str) -> Found:
    """What a token identifies: nothing, one thing, or a path with the name behind it (`tests/a.py::test_b`)."""
    if "://" in token:
        start = token.find("://")
        while start and (token[start - 1].isalnum() or token[start - 1] in "+.-"):
            start -= 1
        url = token[start:].rstrip(".,:;!?~&^")
        return ((url, Kind.URL),) if len(url) > 8 and "redacted" not in url else ()
    token = _NUMBERED.sub("", token.lstrip(",:;!?=&^%+").rstrip(_TRIM + "$+%"))
    if token[:1] == "." and not _HIDDEN.match(token):
        token = token.lstrip(".,:;!?=&^%+")
    if not 2 < len(token) <= LONGEST or "redacted" in token or ".." in token.lstrip("./"):
        return ()
    if "::" in token and "/" in token:
        path, _, name = token.partition("::")
        return classify(path) + classify(name)
    if "/" in token or "\\" in token:
        return _with_slash(token)
    kind = _plain(token)
    return ((_LINE.sub("", token) if kind is Kind.PATH else token, kind),) if kind else ()


def _with_slash(token: str) -> Found:
    if _ADDRESS.fullmatch(token) or (_DOMAIN.fullmatch(token) and not _FILE.fullmatch(token.split("/", 1)[0])):
        return ((token, Kind.HOST),)
    if _REF.fullmatch(token) or _BRANCH.fullmatch(token):
        return ((token, Kind.REF),)
    if _MEDIA.fullmatch(token):
        return ((token, Kind.NAME),)
    if _DATE.fullmatch(token):
        return ((token, Kind.QUANTITY),)
    if _PINNED.fullmatch(token):
        return ((token, Kind.VERSION),)
    if _REMOTE.fullmatch(token):
        return ((token, Kind.URL),)
    path = _LINE.sub("", token)
    if path[:2] in ("a/", "b/") and _SUFFIX.search(path):
        path = path[2:]  # the two sides of a diff
    if is_path(path):
        return ((path, Kind.PATH),)
    parts = [part for part in re.split(r"[/\\]", path) if part]
    if (
        len(parts) == 2
        and all(re.fullmatch(r"[\w.-]{2,60}", p, re.ASCII) for p in parts)
        and re.search(r"[-_\d]", path)
    ):
        return ((path, Kind.REF),)
    return tuple(found for part in parts for found in classify(part)) if len(parts) <= 3 else ()


def is_path(token: str) -> bool:
    """Whether a token with a slash is a path rather than alternatives (`and/or`), a fraction or a regex."""
    if _DRIVE.fullmatch(token):
        return True
    if "\\" in token or "//" in token or not re.search(r"[^\W\d]", token):
        return False
    if re.search(r"[?^$&!#]|\.\.\.", token) and not token.startswith("$"):
        return False
    if token.startswith(("~/", "./", "../", "$")) or (token[0] == "/" and len(token) > 3):
        return True
    parts = token.split("/")
    if _FILE.fullmatch(parts[-1]) or (_SUFFIX.search(parts[-1]) and len(parts[-1]) < 60):
        return True
    return len(parts) > 2 or token[0] == "@"


def _plain(token: str) -> Kind | None:
    """The kind of a token without a slash."""
    if _UUID.fullmatch(token):
        return Kind.ID
    if _DATE.fullmatch(token):
        return Kind.QUANTITY
    if _HEX.fullmatch(token) or (_COLOUR.fullmatch(token) and not _REF.fullmatch(token)):
        return Kind.HASH
    if _ADDRESS.fullmatch(token) or _MAIL.fullmatch(token):
        return Kind.HOST
    bare = _LINE.sub("", token)
    if _FILE.fullmatch(bare) or _DOTFILE.fullmatch(bare):
        return Kind.PATH
    if _PORT.fullmatch(token) or _DOMAIN.fullmatch(token):
        return Kind.HOST
    for pattern, kind in _REST:
        if pattern.fullmatch(token):
            return kind
    return None


_REST: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (_VERSION, Kind.VERSION),
    (_PINNED, Kind.VERSION),
    (_REF, Kind.REF),
    (_ERROR, Kind.ERROR),
    (_ENV, Kind.ENV),
    (_ID, Kind.ID),
    (_DIGITS, Kind.ID),
    (_NAME, Kind.NAME),
    (_KEBAB, Kind.NAME),
)
