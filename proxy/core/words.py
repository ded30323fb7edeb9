"""Words that hint at what a sentence is worth, for the commoner languages. Hints only: see `pins` for the rest.

Plain lists, matched as whole words (lower case); for languages written without blanks as substrings. A word missing
here costs a little rank, never a sentence.
"""

# ruff: noqa: RUF001  (other alphabets are meant here)
from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().split())


def _parts(text: str, separator: str | None = None) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.casefold().split(separator))


RULE = _words(  # obligation, prohibition, exclusion, generality
    """
    always never ever must mustn't mustnt shall should shouldn't shouldnt ought cannot don't dont without nobody
    none every everything everywhere everyone anything anyone anybody each only solely unless until till
    whenever wherever whatever whichever whoever forbidden prohibited required requires require allowed
    permitted disallowed avoid ensure remember refuse refrain stick prefer prefers preferred rather exclusively
    strictly exactly throughout henceforth onwards forever off-limits untouched taboo stays stay remain remains
    leave keep mandatory needs allergic immer nie niemals niemand kein keine keinen keinem keiner muss müssen
    musst darf dürfen darfst nur soll sollen sollte sollst ohne jede jeder jedes jeden ausschließlich mindestens
    höchstens vermeide verboten bevorzuge grundsätzlich stets lieber erst toujours jamais doit dois devez
    doivent faut seulement uniquement sans aucun aucune chaque toutes interdit obligatoire évite éviter évitez
    préfère préfères plutôt laisse laissez siempre nunca jamás debe debes deben sólo únicamente ningún ninguna
    nadie cada prohibido obligatorio evita evitar prefiero prefiere sempre deve devem apenas somente sem nenhum
    nenhuma ninguém proibido obrigatório evite prefiro mantenha mai devono soltanto senza nessun nessuno ogni
    vietato obbligatorio preferisco bisogna altijd nooit moet moeten mag alleen zonder geen elke verboden
    verplicht vermijd liever zawsze nigdy musi trzeba należy tylko żaden każdy każda zabronione wolę unikaj
    всегда никогда должен должна должно должны нужно надо нельзя только каждый каждая запрещено обязательно
    предпочитаю избегай завжди ніколи потрібно лише кожен asla yalnızca sadece olmadan yasak zorunlu mutlaka
    alltid aldrig måste endast utan varje förbjudet aldri kun altid uden vždy nikdy musí pouze každý mindig soha
    csak kell întotdeauna niciodată trebuie doar fără selalu jangan harus hanya tanpa setiap luôn chỉ phải دائما
    أبدا يجب فقط بدون ممنوع हमेशा कभी केवल सिर्फ मत बिना हर
    """
)

LEANING = _words(  # negation, wishes (the conditional mood above all), comparison, limits: half a hint
    """
    not no nothing can't cant won't wont doesn't isn't aren't any all just want wants like likes love hate hates
    dislike need favour favor instead before after important note please most least maximum minimum max min
    within per nicht nichts alle alles bitte statt bevor will möchte brauche pas rien tous veux voudrais besoin
    avant sin todos todas quiero necesito antes não quero preciso non tutti voglio niet wil wszystkie chcę
    не ни все хочу değil tüm inte alla không semua لا كل नहीं सभी would wouldn't i'd we'd he'd she'd they'd than
    würde würden hätte hätten wäre gern gerne aimerais j'aimerais aimerions préférerais serait gustaría quisiera
    sería gostaria seria vorrei vorremmo sarebbe zou graag chciałbym wolałbym byłoby бы лучше skulle gärna isterim
    """
)

LIMIT = _words(  # nouns that name a rule or a limit: half a hint, and what the sentence is about
    """
    policy rule rules constraint constraints requirement deadline due budget limit cap convention pflicht regel
    regeln frist termin grenze vorgabe règle délai échéance regla plazo límite presupuesto regra prazo limite
    orçamento regola scadenza termijn zasada правило срок бюджет лимит kural süre
    """
)

LEANING_PARTS = _parts(  # phrases of duty and purpose: half a hint
    """
    have to | has to | had to be | need to be | needs to | is to be | are to be | are to | supposed to | make sure |
    be sure to | take care | be careful | so that | the point of | point is | end up | end with | in the end |
    the aim | the goal | the idea is | in order to | rule of thumb | musst du | hat zu | haben zu | damit | am ende |
    das ziel | doit être | il faut | afin de | pour que | le but | tiene que | tienes que | hay que | para que |
    el objetivo | tem que | tem de | o objetivo | bisogna | l'obiettivo | чтобы | цель
    """,
    "|",
)

CONDITION = _words(  # with these begins what holds again and again: half a hint
    """
    when whenever if once before after while as wenn falls sobald bevor si quand lorsque dès cuando se quando
    wanneer если когда gdy jeśli når
    """
)

COMPARING = _words(  # beside a number, a limit
    """
    above below over under beyond than within until till by per up exceed exceeds between über unter bis innerhalb
    plus moins sous hasta más menos até mais fino più meno tot meer minder więcej mniej до более менее
    """
)

TALKING = _words(  # with these begins a turn of talk rather than a statement
    """
    ok okay yes yeah nope so ah oh well hmm but and then also let's lets let sorry great good cool nice right ja
    nein und aber oui et mais sí y pero
    """
)

LASTING = _parts(  # phrases that make a sentence hold from now on
    """
              from now on   |   from here on   |   from today   |
    going forward      |   in     future   |   in the future   |
    every time   |   at all times      |   by default   |       as a
    rule   |   no matter   |   in general   |      up to   |   at most
    |   at least   |       no more than   |   less than      |   fewer
    than   |   no longer   |   not any more   |       how we do   |
    the way we   |   ab jetzt   |   ab sofort   |   von nun an   |
    künftig   |   in zukunft   |   auf keinen fall   |   dorénavant
    |      désormais   |       à partir de   |   à l'avenir   |   de
    ahora en     adelante   |   a partir de     ahora   |   desde
    ahora   |   por defecto      |   a partir de agora   |   daqui
    para     a frente   |   d'ora in poi      |   d'ora in avanti   |
    vanaf nu   |   voortaan   |       od teraz   |      отныне   |
    впредь   |   с этого момента   |   по умолчанию   |      bundan
    sonra   |   från och med nu   |   以后   |   以後   |   今后   |   今後
    |      从现在   |   從現在   |       これから   |   앞으로   |   지금부터
    """,
    "|",
)

RULE_PARTS = _parts(
    """
    总是 始终 永远 必须 务必 一定 只能 只用 只要 仅 不要 不能 不得 不许 不可 禁止 别 每次 每个 所有 避免 优先 最多
    至少 不超过 要求 规则 總是 必須 務必 必ず 常に 絶対 だけ のみ ないで しない すべて 全て べき なければ 以内 までに
    毎回 항상 절대 반드시 마세요 하지 금지 모든 꼭 해야 없이 마라
    """
)

CORRECTION = _words(
    """
    actually instead correction correct scratch changed changes change longer anymore wrong rather forget ignore
    update updated mistake meant misspoke moved switch switched replaced replace revised now turns new renamed
    postponed nevermind nvm wait oops eigentlich doch stattdessen korrektur geändert ändert falsch jetzt
    verschoben neu sondern finalement plutôt changé désormais maintenant mejor cambio cambió cambiado corrección
    ahora cambiamos mudou mudança agora correção anzi adesso cambiato correzione eigenlijk nu gewijzigd jednak
    teraz zmiana теперь вместо исправление изменился изменилось нет aslında şimdi değişti egentligen ändrat
    """
)

CORRECTION_PARTS = _parts(
    """
    其实 改为 改成 更正 不对 现在 变成 換成 換 実は 変更 訂正 やっぱり 사실 변경 정정 대신 이제
    """
)

SELF = _words(
    """
    i i'm i've my mine me we we're our ours us you're ich wir mein meine meinem meinen unser unsere mir uns je
    j'ai nous mon ma mes notre nos moi yo mi mis nosotros nuestro nuestra eu meu minha nós nosso nossa io mio
    mia noi nostro nostra ik wij mijn ons onze ja mój moja nasz nasza я мы мой моя моё наш наша мне нам ben biz
    benim bizim jag vi min vår أنا نحن मैं हम मेरा हमारा
    """
)

SELF_PARTS = _parts(
    """
    我 我们 我的 我們 私 僕 俺 うち 弊社 저는 제 나는 내 우리
    """
)

SMALL_TALK = _words(
    """
    ok okay k yes yep yeah yup no nope thanks thank thx ty please hi hello hey great good nice perfect cool
    awesome sure fine right continue go ahead proceed next done sounds looks lgtm bye cheers you're welcome and
    so very much that that's it is ja nein danke bitte hallo gut super weiter oui non merci bonjour bien parfait
    sí gracias hola vale bueno sim obrigado obrigada olá bom grazie ciao bene dank hoi goed tak dziękuję cześć
    dobrze да нет спасибо привет хорошо evet hayır teşekkürler tack hej
    """
)

SMALL_TALK_TEXTS = _words(
    """
    好 好的 谢谢 是 是的 对 继续 可以 はい いいえ ありがとう 続けて 네 예 아니요 감사합니다 계속
    """
)
