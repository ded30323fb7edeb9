"""Which number of an error is the window, which the prompt, which the output: told by the words beside it.

The words before a number reach back to the number before it, the words after it to the next mark or number. A limit
word with no verb of size after it makes a limit ("maximum prompt length is N"), a verb of size makes a size ("contains
N"), and the noun nearest says of what. Characters, bytes, images, codes and excesses ("by N tokens") are no sizes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from proxy.core.overflow.words import CONTEXT, INPUT, OUTPUT, TOKENS

SMALLEST = 64  # tokens; below it a "maximum" counts blocks or retries (the smallest window in public reports is 256)
LARGEST = 10**9  # tokens; no window is near it, ids and timestamps are above
NEAR = 120  # characters on either side of a number that can say what it is
MOST = 64  # numbers looked at in one report; real ones hold up to eight


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens, as stated. `total` is prompt and output together; `at_least`: the prompt is a lower bound."""

    window: int | None = None
    prompt: int | None = None
    output: int | None = None
    total: int | None = None
    at_least: bool = False

    @property
    def count(self) -> int:
        return sum(value is not None for value in (self.window, self.prompt, self.output))

    @property
    def overflowing(self) -> bool:
        """Do the numbers alone say that it does not fit?"""
        size = self.total if self.prompt is None else self.prompt + (self.output or 0)
        return self.window is not None and size is not None and size > self.window


def _any(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.ASCII)


_NUMBER = re.compile(
    r"(?<![\w./@#$%-])(-?)"
    r"(\d{1,3}(?:[,_.\u00a0\u202f\u2009]\d{3})+(?![\d])|\d{1,12})(\.\d{1,9})?( ?[万萬]|[km])?"
    r"(?![\w%]|\.\d|-(?!token)\w)",
    re.ASCII,
)
_SCALE = {"k": 1_000, "m": 1_000_000, "万": 10_000, "萬": 10_000}
_SPACED = re.compile(r"(?<![\w.,])(\d{1,3}(?: \d{3}){1,3})(?= tokens?\b)", re.ASCII)
_FRACTION = re.compile(r"(?<=\d\d)(?:/| of )(?=\d{3})", re.ASCII)  # used of allowed

_OTHER_UNIT = re.compile(
    r"[ -]?(?:char|bytes?\b|[kmgt]i?b\b|pixel|px\b|images?\b|pages?\b|s\b|secs?\b|seconds?\b|ms\b|minutes?\b|hours?\b"
    r"|days?\b|items?\b|elements?\b|requests?\b|times\b|messages?\b(?! tokens)|draft\b|tools?\b(?! input)|files?\b"
    r"|layers?\b|字|个?字符|秒|张|次|文字|글자|символ|zeichen|caract)",
    re.ASCII,
)
_NO_SIZE_BEFORE = re.compile(
    r"(?:\b(?:code|status|line|column|col|position|index|http|version|port|id|errno|rank|gpu|char|retry|attempt|top"
    r"|error)[:= #(]{0,3}"
    r"|\b(?:must|should|has to) be at least ?|\bminimum(?: is| of)?[: ]{0,2}"
    r"|\bby(?: about| approximately| at least| roughly)? ?"
    r"|\b(?:budget|reasoning|thinking|draft) tokens[:= (]{0,3})$",
    re.ASCII,
)
_SENTENCE = re.compile(r"[.!?] |[\n。]", re.ASCII)
_CLAUSE = re.compile(r"[,;:()\[\]|=+。]|\. |[.]$|\n| (?:and|but|while|however|whereas|which|plus)\b", re.ASCII)

_SIZE = _any(
    r"\b(?:contain(?:s|ed|ing)?|ha[sd]|got|received?|given|provided|passed|sent|use[sd]?|using"
    r"|current|actual|currently|needs?|required?s?"
    r"|requires|result(?:s|ed)? in|requested|request|take[sn]?|was|were|found|counted|totals?"
    r"|totall?ing|asked for|plus|keep|consumes?)\b"
    r"(?: a total of)?(?: about| approximately| roughly| at least| more than| over| around| up to)?", "请求了?",
    "实际", "当前", "共计?", "使用了?", "包含", "传入", "现在", "本次", "收到", "요청", "실제", "현재", "получено",
    "содержит", "запрошено", r"\bcontiene", r"\bcontient", r"\benthält",
)  # fmt: skip
_LIMIT = _any(
    r"\bmax(?:imum|imal)?\b", r"\blimit(?:s|ed)?\b", r"\ballow(?:s|ed)?\b", r"\bat most\b", r"\bup to\b",
    r"\bexceed\w*", r"\bonly\b", r"\bwithin\b", r"\b(?:long|great|larg|bigg|high|few|small|short)er than\b",
    r"\b(?:more|less) than\b", r"[<>≤≥]=?", r"\bcapacity\b", r"\b(?:n )?ctx\b", r"\b(?:max )?seq len\b",
    r"\bcontext (?:length|window|size|limit|budget|tokens)", r"\bover(?: the| its)?\b", r"\babove\b", r"\bbeyond\b",
    r"\b(?:support|accept|handle|hold|offer|provide)s?\b", r"\blargest\b", r"\bwindow\b",
    r"\bcan (?:take|process|fit|serve)\b", r"[,;] (?:but )?(?:only )?have ?$", r"\bbetween\b", r"\brange\b", "最大",
    "最多", "上限", "限制", "超过", "超出", "不能", "支持", "大于", "最長", "超え", "최대", "초과", "제한", "максим",
    "лимит", "предел", "erlaubt", r"\bhöchst", r"\bmáxim", r"\bmassim", "dépass", r"\bsupera", r"\bl[ií]mite",
    r"\bexced", r"\büberschr",
)  # fmt: skip
_TOTAL = _any(
    r"\btotal\b(?! tokens limit)", r"\bsum\b", r"\brequested\b", r"\banswering\b", r"\btogether\b", r"\bcombined\b",
    "请求了?", "共计?", "总", r"\btake\b",
)  # fmt: skip
_PROMPT_WORD = _any(
    INPUT.pattern, r"\bfunctions?\b", r"\btools?\b", r"\btext\b", r"\bsystem\b", r"\bquery\b", r"\brequest\b",
    "请求", "文本",
)  # fmt: skip
_SHARE = re.compile(
    r" ?(?:个 ?)?(?:(?:total |combined )?tokens? ?|トークン|토큰)?"
    r"(?:, which is |(?:are |is )?reserved )?"
    r"(?:in|of|for|from|as|on|to)? ?(?:the |your |its |this |a |an )?"
    r"(?:(?P<prompt>(?:text |tool |image |audio |message |chat )?"
    r"(?:inputs?|prompts?|messages|functions?|tools|conversation|history|system)\b)"
    r"|(?P<output>(?:outputs?|completions?|outputcap|responses?|generation|answer|reply|generated|new tokens)\b)"
    r"|(?P<limit>max(?:imum)?\b|limit\b|(?:token )?context (?:length|window|size|limit)|allowed"
    r"|token (?:limit|window|context)|is the (?:max|limit)))",
    re.ASCII,
)
_PREPOSED = re.compile(r" ?(?:tokens? )?(?:in|of|for|from) ", re.ASCII)
_SIZE_AFTER = re.compile(
    r" ?(?:个 ?)?(?:tokens?|トークン|토큰|токенов)?\)? ?"
    r"(?:\+|exceeds?\b|exceeded (?:the|its|max|our|model)|is (?:long|larg|great)er|is (?:more|over)|超过|超出|>)",
    re.ASCII,
)
_LEAST = re.compile(r"\b(?:at least|more than|over)\s?$", re.ASCII)


@dataclass(slots=True)
class _Reading:
    """Roles handed out so far."""

    windows: list[tuple[bool, int]] = field(default_factory=list)  # (the words name the context, value)
    opened: set[int] = field(default_factory=set)  # windows that stood behind a colon or bracket
    prompts: list[tuple[int, int, int]] = field(default_factory=list)  # (value, start, end)
    outputs: list[int] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)
    at_least: bool = False


def figures(text: str) -> Figures:
    """The numbers of one normalised report."""
    text = _FRACTION.sub(" > ", _SPACED.sub(lambda m: m[1].replace(" ", ","), text))
    if not TOKENS.search(text) and re.search(
        r"\bchar(?:acter)?s?\b|\bbytes?\b|\bstring\b|字符|maxlength", text, re.ASCII
    ):
        return Figures()
    found = [m for m in _first(text) if _is_size(text, m)]
    reading = _Reading()
    taken = _formula(text, found, reading)
    behind = 0
    for place, match in enumerate(found):
        if place not in taken:
            ahead = found[place + 1].start() if place + 1 < len(found) else len(text)
            before = text[max(behind, match.start() - NEAR) : match.start()]
            _assign(match, before, text[match.end() : min(ahead, match.end() + NEAR)], reading)
        if place not in taken or _value(match) > 1:
            behind = match.end()
    return _settle(text, reading)


def _first(text: str) -> list[re.Match[str]]:
    found = []
    for match in _NUMBER.finditer(text):
        found.append(match)
        if len(found) == MOST:
            break
    return found


def _value(match: re.Match[str]) -> int:
    whole, fraction, scale = match[2], match[3] or "", (match[4] or "").strip()
    digits = re.sub(r"\D", "", whole, flags=re.ASCII)
    if not scale:
        return int(digits)
    if re.fullmatch(r"\d{1,3}\.\d{3}", whole):  # 1.048M, no thousands
        digits, fraction = whole.split(".")[0], "." + whole.split(".")[1]
    return round(float((digits or "0") + fraction) * _SCALE[scale])


def _is_size(text: str, match: re.Match[str]) -> bool:
    before, after = text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 24]
    if match[1] or _value(match) > LARGEST or _OTHER_UNIT.match(after) or _NO_SIZE_BEFORE.search(before):
        return False
    # "context window exceeds limit (2013)": an error's number at the end, not a window. Windows are (nearly) multiples
    # of 256 or of 100.
    if before.endswith("(") and re.fullmatch(r"\)[.! ]{0,3}", after) and len(match[0]) == 4 and not TOKENS.search(text):
        return (_value(match) + 1) % 256 <= 2 or _value(match) % 100 == 0
    return True


def _formula(text: str, found: list[re.Match[str]], reading: _Reading) -> set[int]:
    """`A + B > C` without words between, `A > B`, and ranges `[1, B]`: places whose role the form decides."""
    taken: set[int] = set()
    values = [_value(match) for match in found]
    for i in range(len(found) - 1):
        gap = text[found[i].end() : found[i + 1].start()]
        if len(gap) > 24 or i in taken:
            continue
        if re.fullmatch(r" ?(?:,|and|to|~|-|\.\.|至|到) ?", gap) and _value(found[i]) <= 1:
            taken.add(i)  # the lower end of a range; the upper end is read as a limit by its words
        if values.count(values[i]) > 1:
            continue  # a formula that repeats what the words have said
        if i + 2 < len(found) and re.fullmatch(r" ?(?:tokens)? ?\+ ?", gap):
            last = text[found[i + 1].end() : found[i + 2].start()]
            if re.fullmatch(r" ?(?:tokens)? ?(?:>|exceeds?) ?", last):
                reading.prompts.append((values[i], found[i].start(), found[i].end()))
                reading.outputs.append(values[i + 1])
                reading.windows.append((True, values[i + 2]))
                taken |= {i, i + 1, i + 2}
        elif re.fullmatch(r" ?(?:tokens)? ?> ?", gap) and values[i] > values[i + 1]:
            before = text[max(0, found[i].start() - NEAR) : found[i].start()]
            if not OUTPUT.search(before[-40:]):
                reading.prompts.append((values[i], found[i].start(), found[i].end()))
                reading.windows.append((bool(CONTEXT.search(before)), values[i + 1]))
                taken |= {i, i + 1}
    return taken


def _assign(match: re.Match[str], before: str, after: str, reading: _Reading) -> None:
    value = _value(match)
    before = _nearest(_SENTENCE.split(before)[-1])
    clause = _CLAUSE.split(after, maxsplit=1)[0]
    size, limit = _last(_SIZE, before), _last(_LIMIT, before)
    share = _SHARE.match(after)
    listed = bool(_PREPOSED.match(after)) and before[-2:].strip()[-1:] in ("(", ",", ":", ";")
    role = share.lastgroup if share else None
    if limit >= max(size, 0) and not listed and not (role is None and _SIZE_AFTER.match(after)):
        role = "none" if _is_output_limit(before, role) else "limit"
    elif role is None or (role == "limit" and size > limit >= 0):
        role = _noun(before, clause, after, size)
    if role == "prompt" and value:
        reading.prompts.append((value, match.start(), match.end()))
        reading.at_least = reading.at_least or bool(_LEAST.search(before))
    elif role == "limit" and value >= SMALLEST:
        reading.windows.append((bool(CONTEXT.search(before + clause)), value))
        if before.rstrip()[-1:] in (":", "("):
            reading.opened.add(value)
    elif role == "output":
        reading.outputs.append(value)
    elif role == "total":
        reading.totals.append(value)
    elif role is None:
        reading.loose.append(value)


def _nearest(before: str) -> str:
    """The last part of the words before a number, if it says anything by itself: `limit exceeded: prompt=`."""
    part = re.split(r"[:;,(]", before.rstrip(" :=("))[-1]
    if ")" in part or not any(_last(words, part) >= 0 for words in (_PROMPT_WORD, OUTPUT, _LIMIT)):
        return before
    return before[before.rindex(part) :] if part else before


def _is_output_limit(before: str, role: str | None) -> bool:
    before = before.rsplit(")", 1)[-1]
    return role == "output" or bool(OUTPUT.search(before) and not CONTEXT.search(before) and not INPUT.search(before))


def _noun(before: str, clause: str, after: str, size: int) -> str | None:
    """What a size is the size of: the noun nearest before it; a total only if no noun says otherwise."""
    output, prompt, total = _last(OUTPUT, before), _last(_PROMPT_WORD, before), _last(_TOTAL, before)
    if before.strip() == "=" or total > max(output, prompt) or (total >= 0 and "answering" in before):
        return "total"
    if output > prompt:
        return "output"
    if prompt >= 0 or size >= 0 or _SIZE_AFTER.match(after):
        return "prompt"
    return None


def _last(pattern: re.Pattern[str], text: str) -> int:
    """Where the last match ends, -1 if there is none."""
    end = -1
    for match in pattern.finditer(text):
        end = match.end()
    return end


def _settle(text: str, reading: _Reading) -> Figures:
    limits = {value for _, value in reading.windows}
    if not reading.prompts and not reading.totals and len(limits) == 2 and max(limits) in reading.opened:
        # "context length exceeded: 9000 tokens, limit 8192": the larger one is what was sent
        reading.prompts.append((max(limits), 0, 0))
        reading.windows = [window for window in reading.windows if window[1] != max(limits)]
    named = [value for context, value in reading.windows if context]
    window = next(iter(named or [value for _, value in reading.windows]), None)
    output = reading.outputs[0] if reading.outputs else None
    sizes = {value for value, _, _ in reading.prompts}
    sums = {size for size in sizes if output and size - output in sizes}  # prompt and output together, stated as well
    prompt = _sum(text, [p for p in reading.prompts if p[0] not in sums | {window}] or reading.prompts)
    total = max(reading.totals, default=None)
    if prompt is None and total is None and window is not None:
        total = next((value for value in reading.loose if value > window), None)
    if prompt is None and total is not None:
        if output is not None and total > output:
            prompt = total - output
        elif not OUTPUT.search(text):
            prompt = total
    return Figures(window, prompt, output, total, reading.at_least and prompt is not None)


def _sum(text: str, prompts: list[tuple[int, int, int]]) -> int | None:
    """Parts of one list add up; a size that is stated again elsewhere does not."""
    if not prompts:
        return None
    total, _, end = prompts[0]
    seen = {total}
    for value, start, stop in prompts[1:]:
        gap = text[end:start]
        if len(gap) > 60 or value in seen or _SENTENCE.search(gap) or not re.search(r",|\+|\band\b", gap):
            break
        total += value
        seen.add(value)
        end = stop
    return total
