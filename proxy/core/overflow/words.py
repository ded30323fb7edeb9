"""The vocabulary of "too long": which sentences say that the context is full, and which only sound like it.

Nothing here knows a provider. A sentence counts when it names what was sent (context, prompt, tokens) *and* says that
it is too much; it does not when what is too much is the output, an image or a field, and a report never does when it
speaks of rates, quotas or policies. All patterns are flat alternations with bounded gaps: linear on any text.
"""

# Words of other scripts are the point of these tables, letters that look Latin included:
# ruff: noqa: RUF001

from __future__ import annotations

import re
from itertools import pairwise


def _any(*words: str) -> re.Pattern[str]:
    """One alternation; ASCII, so that Latin words end where CJK text begins."""
    return re.compile("|".join(words), re.ASCII)


# --- spelling ---------------------------------------------------------------------------------------------------------

_WIDTHS = {c: c - 0xFEE0 for c in range(0xFF01, 0xFF5F)} | {
    ord(k): v
    for k, v in {"\u3000": " ", "【": "[", "】": "]", "、": ",", "‘": "'", "’": "'", "“": '"', "”": '"'}.items()
}
_CLASS = re.compile(r"(?:[A-Za-z]\w{0,60}\.){0,4}[A-Z]\w{0,60}(?:Error|Exception)\b:?", re.ASCII)
_OUTPUT_PARAMETER = re.compile(
    r"max_?(?:completion|new|output|gen\w{0,8})?_?tokens(?:_to_sample)?\b"
    r"|\bmax(?:Completion|New|Output)Tokens\b|\bn(?:um)?_predict\b",
    re.ASCII,
)
_IDENTIFIER = re.compile(
    r"\b[a-z0-9_]{0,40}(?:token|ctx|seq_len|seqlen|model_len|context|length|exceed)[a-z0-9_]{0,40}\b", re.ASCII
)
_CONTENT_PATH = re.compile(r"\b(?:messages|input)(?:\[\d{1,9}\]|\.\d{1,9})\.content(?![\w.\[])", re.ASCII)
_PATH = re.compile(r"\b(?:messages|input|tools|contents|body)(?:\[\d{1,9}\]|\.\[?\d{1,9}\]?)[\w.\[\]]{0,99}", re.ASCII)
_NOISE = _any(
    r"(?:input )?validation (?:error|failed)",
    r"\bin(?:valid| the|) (?:input|request|prompt)(?: request| body| argument" r"| parameter)s?\b(?=[^a-z])",
    r"malformed input request", r"\bend of (?:the )?(?:json )?input\b",
    r"\bprompt[ -](?:cach|template|injection|name)\w*", r"\binvalid request\b", r"request[ -]?id:? ?[\w-]{0,80}",
    r"\b(?:took|takes?|taking|waited) too long", r"context (?:deadline|cancel)\w*",
    r"\b(?:vision|image|video|audio) tokens",
    r"(?:api|access|auth\w*|bearer|jwt|refresh|unexpected|invalid|id) tokens?\b(?! (?:in|limit is))",
)  # fmt: skip
_QUOTES = re.compile(r"[`'\"*«»„]")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s|[\n。;]|(?<=[a-z\)])\. ?(?=[A-Z])")
_REPORT = "\x1e"  # the name of an error class begins a new report: gateways append the error of a fallback
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def normalise(text: str) -> str:
    """Lower case, half-width, class names out (labels lie), identifiers about tokens as words, quotes gone."""
    text = text.translate(_WIDTHS)
    text = _CLASS.sub(_REPORT, text)
    text = _OUTPUT_PARAMETER.sub(" outputcap ", text)
    text = _CONTENT_PATH.sub(" message content ", text)
    text = _PATH.sub(" fieldpath ", text)
    text = _QUOTES.sub(" ", text).lower()
    text = _IDENTIFIER.sub(lambda m: m[0].replace("_", " "), text)
    text = _NOISE.sub(" ", text)
    return re.sub(r"[ \t\r\f\v]+", " ", text)


def reports(text: str) -> list[str]:
    """A message as normalised reports; each is judged by itself."""
    return [part for part in normalise(text).split(_REPORT) if part.strip()]


def label(text: str) -> str:
    """A code or type as words: `ContextLengthExceeded`, `context_length_exceeded` -> `context length exceeded`."""
    return re.sub(r"[_\-.\s]+", " ", _CAMEL.sub(" ", text)).lower()


def sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


# --- words: what was sent ---------------------------------------------------------------------------------------------

CONTEXT = _any(
    r"\bcontext\b", r"\b(?:sequence|session|model|seq|kv cache|kv)(?: s)?(?: max(?:imum)?)? (?:length|len|size)\b",
    r"\bn ctx\b", r"\bctx\b", "上下文", "コンテキスト", "컨텍스트", "문맥", "контекст", r"\bkontext", r"\bcontexte",
    r"\bcontexto", r"\bcontesto",
)  # fmt: skip
INPUT = _any(
    r"\bprompts?\b", r"\binputs?\b(?! audio)", r"\bmessages\b", r"\byour message\b",
    r"\bmessage (?:content|length|size|tokens?)\b", r"\bconversation\b", r"\bhistory\b", r"\bcontents\b", "输入",
    "提示词", "消息", "对话", "会话", "聊天记录", "历史", "入力", "プロンプト", "メッセージ", "会話", "입력",
    "프롬프트", "메시지", "대화", "ввод", "промпт", "сообщени", "входн", r"\beingabe", r"\bnachrichten",
    r"\bentr[ée]e", r"\bentrada", r"\bmensaje", r"\bmensage",
)  # fmt: skip
TOKENS = _any(
    r"\btokens\b", r"\btoken (?:limit|count|number|length|window|context|size|budget|total|usage)", r"\d[ -]token",
    r"token ?数", "token (?:总|个|上限|超)", "个 ?tokens?", "トークン", "토큰", "токен", r"\bjetons\b",
)  # fmt: skip
_REQUEST = _any(
    r"\brequest\b", "请求", "リクエスト", "요청", "запрос", r"\banfrage", r"\brequête", r"\bpetición",
    r"\bsolicitud",
)  # fmt: skip

# --- words: what is not the prompt ------------------------------------------------------------------------------------

OUTPUT = _any(
    r"\boutputcap\b", r"\boutputs?\b", r"\bcompletions?\b", r"\bgenerat(?:ed|ion)\b", r"\bresponses?\b",
    r"\banswering\b", r"\breply\b", r"\bnew tokens\b", r"\bmax(?:imum)? tokens you\b", "输出", "补全", "生成",
    "回复", "出力", "출력", "вывод", r"\bausgabe", r"\bsortie", r"\bsalida", r"\bsa[íi]da",
)  # fmt: skip
_OUTPUT_LIMIT = _any(
    r"\b(?:output|completion|generation|response)(?: tokens?| length| size){0,2} (?:limit" r"|maximum|max|cap)\b",
    r"\bmax(?:imum)?(?: allowed)?(?: number of| length of)? (?:output|completion|response)\b",
    "输出(?:长度|内容|token)?(?:超|过|限|上限)", "最大输出",
)  # fmt: skip
_MEDIA = _any(
    r"\bimages?\b", r"\bpictures?\b", r"\bphotos?\b", r"\bpixels?\b", r"\bdimensions?\b", r"\bresolution\b",
    r"\baudio\b", r"_audio\b", r"\bvideos?\b", r"\bpdfs?\b", r"\bpages?\b", r"\battachments?\b", r"\bfiles?\b",
    "图片", "图像", "音频", "视频", "文件", "画像", "이미지", "изображени", r"\bbild",
)  # fmt: skip
_FIELD = _any(
    r"\bnames?\b", r"\bdescriptions?\b", r"\bids?\b", r"\bidentifiers?\b", r"\bmetadata\b", r"\bschemas?\b",
    r"\bpropert(?:y|ies)\b", r"\bur[il]s?\b", r"\bheaders?\b", r"\bcookies?\b", r"\bkeys?\b", r"\btitles?\b",
    r"\barguments?\b", r"\bbiases\b", r"\bfieldpath\b", r"\bblocks?\b", r"\bretr(?:y|ies)\b", r"\battempts?\b",
    r"\broles?\b", r"\btemperature\b", r"\bpenalty\b", "参数", "名称",
)  # fmt: skip

# --- words: too much --------------------------------------------------------------------------------------------------

EXCESS = _any(
    r"\bexceed", r"\bover(?:flow|run|size)", r"\bsurpass", r"\bout of (?:room|space|context)\b", r"\bbeyond\b",
    r"\bexhaust", r"\btoo (?:long|large|big|many|much)\b", r"\b(?:long|larg|great|bigg|high)er than\b",
    r"\bmore than\b", r"\bover (?:the|its|your|our|a|max|limit|\d)", r"\babove\b", r"\b(?:not|t) fit\b",
    r"\bnot enough\b", r"\bno room\b", r"\breduc", r"\bshorten", r"\bshorter\b", r"\bdecrease\b", r"\btrim\b",
    r"\b(?:must|should|can|may|could|shall)(?: only)?(?: be| have| contain)?(?: (?:less|fewer"
    r"|smaller|shorter) than| at most| under| below" r"| within| between| in| no more than| ?<=?| ?≤)",
    r"\brange of\b", r"<=|≤|(?<=\d )> ?\d|tokens > ?\d",
    r"\blimit(?:s|ed)?(?: is| was| has been| were)? (?:reached|hit)\b",
    r"\b(?:reached|hit)(?: the| its)?(?: max\w{0,4})?(?: \w{1,12}){0,3} limit\b", r"\bfull\b", "过长", "过大",
    "过多", "太长", "太大", "太多", "超长", "超过", "超出", "超限", "大于", "缩短", "精简", "不能超", "不得超",
    "达到", "减少", "超え", "超過", "長すぎ", "大きすぎ", "多すぎ", "초과", "너무 ?(?:길|많|큽|크)", "превы",
    "слишком", "überschr", "übersteig", r"\bzu (?:lang|gro|viel)", "dépass", r"\bexc[eèé]d",
    r"\btrop (?:long|grand)", r"\bsuper[aó]\b", r"\bdemasiad", r"\bultrapass", r"\bmuito long", r"\btroppo lung",
)  # fmt: skip
LIMIT_STATED = _any(
    r"\bmax(?:imum)?\b", r"\blimit", r"\bat most\b", r"\bup to\b", r"\bonly\b", "最大", "上限", "限制", "최대",
    "максимальн", "лимит", r"\bmaxim", r"\bmáxim",
)  # fmt: skip

# --- words that settle it: a report with one of them is about something else ------------------------------------------

_THROTTLE = _any(
    r"\brate[ -]?limit", r"\brate limiting", r"\bper (?:min|sec|hour|day|week|month|user)", r"\b[tr]p[mdshr]\b",
    r"\b(?:dai|week|month|hour)ly\b", r"\btoo many requests\b", r"\bquota", r"\bthrottl", r"\bplease wait\b",
    r"\bslow down\b", r"\bretry[ -]after\b", r"\b(?:try|retry) again (?:in \d|later|after)", r"\bconcurren",
    r"\bcredits?\b", r"\bafford\b", r"\bbalance\b", r"\bspend", r"\busage limit", r"\btoken rate\b",
    r"\bbudget has\b", r"\b(?:error|status)(?: code)?:? 429\b", r"\bhttp(?:/[\d.]{1,3})? 429\b", r"^\s*429\b",
    "限流", "频率", "频繁", "速率", "额度", "余额", "配额", "每分钟", "每秒", "每天", "每日", "每月", "每小时",
    "并发", "次数", "欠费", "套餐", "レート制限", "クォータ", "할당량", "квот", "resource exhausted",
)  # fmt: skip
_POLICY = _any(
    r"\bcontent[ _-]?(?:filter|polic|management)", r"\bsafety\b", r"\bmoderation\b", r"\bsensitive\b",
    r"\bpolicy violation\b", "敏感", "审核", "违规",
)  # fmt: skip
_TOO_SMALL = re.compile(r"\b(?:window|context|length|size)(?: is)? too small\b", re.ASCII)
_NEGATIVE_ROOM = re.compile(
    r"outputcap[^\n]{0,40}(?:at least|greater than|positive|>=?|minimum)"
    r"[^\n]{0,40}(?:got|was|received|is|value|:|=) ?-(\d+)",
    re.ASCII,
)


def about_rates(text: str) -> bool:
    """A normalised report or label that speaks of rates, quotas, money."""
    return _THROTTLE.search(text) is not None


def about_something_else(text: str) -> bool:
    """A normalised report that is about rates or policies, or about a window that is too small to begin with."""
    return about_rates(text) or bool(_POLICY.search(text)) or bool(_TOO_SMALL.search(text) and not INPUT.search(text))


def negative_room(text: str) -> bool:
    """`max_tokens must be at least 1, got -186`: the server took the prompt from the window. -1 is a client's own."""
    match = _NEGATIVE_ROOM.search(text)
    return match is not None and match[1].lstrip("0") not in ("", "1")


def too_long(text: str) -> bool:
    """Does a normalised report say that the context is full, by words alone?"""
    parts = sentences(text)
    if any(_sentence(part) for part in parts):
        return True
    # "Request too large for m. Max size: 4000 tokens.": what was sent and its unit in neighbouring sentences
    return any(
        _REQUEST.search(one)
        and EXCESS.search(one)
        and TOKENS.search(two)
        and not (OUTPUT.search(one) or OUTPUT.search(two))
        for one, two in pairwise(parts)
    )


def explains(text: str) -> bool:
    """Does a normalised report say what else is wrong: rates, a policy, an image, a field or an output too large?"""
    return about_something_else(text) or any(
        EXCESS.search(part) and (_MEDIA.search(part) or _FIELD.search(part) or OUTPUT.search(part))
        for part in sentences(text)
    )


def about_tokens_sent(text: str) -> bool:
    """Does a normalised report name a prompt at all? Then its numbers may tell what its words do not."""
    if CONTEXT.search(text):
        return True
    if _MEDIA.search(text) and not TOKENS.search(text):
        return False
    return bool(INPUT.search(text) or (TOKENS.search(text) and not OUTPUT.search(text)))


def _sentence(text: str) -> bool:
    context, sent, tokens = CONTEXT.search(text), INPUT.search(text), TOKENS.search(text)
    if not EXCESS.search(text):
        return bool(context and LIMIT_STATED.search(text) and re.search(r"\d{3}", text))
    if _OUTPUT_LIMIT.search(text) and not context:
        return False
    if context:
        return True
    if _MEDIA.search(text) and not tokens:
        return False
    if sent:
        return bool(tokens or not _FIELD.search(text))
    return bool(tokens and not OUTPUT.search(text))
