"""Taking credentials out of text before anything is remembered of it.

Rather one word too many than one secret kept: what is struck here is only missing from a list of identifiers. Some
are known by their shape, here; the others by what stands before them (see `credentials_line`, `credentials_rows`).
Every pattern is linear: bounded repeats, and no two neighbouring ones over the same characters.
"""

from __future__ import annotations

import re

from proxy.core import credentials_rows
from proxy.core.credentials import CHANGES, HIDDEN, folded
from proxy.core.credentials_line import Lines

SEAM = 8_000  # characters read beyond a cut: the longest credential (4,096) twice, so that none is taken for less
PIECE = 8_192  # characters of an unbroken run that are searched at a time
PASSES = 4  # what is taken out may bring other things together: text that changed is looked at again, so often at most

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
_RUN = re.compile(r"[A-Za-z0-9+/_=]{30,}")
_TWILIO = re.compile(r"(?:AC|SK)[0-9a-f]{32}")
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")


def redact(text: str) -> str:
    """`text` with everything that looks like a credential replaced by `[redacted]`."""
    for _ in range(PASSES):
        before, text = text, _redacted(text)
        if text == before:
            break
    return text


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


def _redacted(text: str) -> str:
    text = _private_keys(text)
    text = _LONG.sub(lambda m: _shapes(m.group()), text)
    low = folded(text)
    rules = Lines(low)
    if rules.hints:
        lows = low.split("\n")
        lines = [
            rules.struck(line, low) if any(hint in low for hint in rules.hints) else line
            for line, low in zip(text.split("\n"), lows, strict=True)
        ]
        if rules.names:
            credentials_rows.strike(lines, lows, rules.names)
        text = "\n".join(lines)
    return _RUN.sub(lambda m: HIDDEN if random_looking(m.group()) else m.group(), text)


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
    return all(classes) and len(CHANGES.findall(run)) > 0.4 * len(run)


def _private_keys(text: str) -> str:
    pieces, at = [], 0
    while begin := _BEGIN.search(text, at):
        end = _END.search(text, begin.end())
        pieces += [text[at : begin.start()], HIDDEN]
        at = end.end() if end else len(text)  # a key that never ends: nothing after it is trusted
    return "".join(pieces) + text[at:] if pieces else text
