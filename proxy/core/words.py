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
    أبدا أبدًا دائمًا لا يجب فقط بدون
    ممنوع हमेशा कभी केवल सिर्फ सिर्फ़ मत न बिना हर ज़रूर जरूर अनिवार्य সবসময় কখনো
    """
)

FORBIDDING = _parts("do not | may not | is not to | are not to | hands off | darf nicht | ne pas | on no account", "|")

LEANING = _words(  # negation, wishes (the conditional mood above all), comparison, limits: half a hint
    """
    not no nothing can't cant won't wont doesn't isn't aren't any all just want wants like likes love hate hates
    dislike need favour favor instead before after important note please most least maximum minimum max min
    within per nicht nichts alle alles bitte statt bevor will möchte brauche pas rien tous veux voudrais besoin
    avant sin todos todas quiero necesito antes não quero preciso non tutti voglio niet wil wszystkie chcę
    не ни все хочу değil tüm inte alla không semua كل नहीं सभी would wouldn't i'd we'd he'd she'd they'd than
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

ADDING = _words(  # what is said with these holds beside what was said before
    """
    also too either additionally likewise besides auch ebenfalls außerdem zusätzlich aussi également también además
    também anche pure ook również także też также тоже också også
    """
)

ASSENT = _words("yes yeah yep yup ja oui sí sim sì tak да evet はい 是 是的 네 예 हाँ نعم")

TALKING = _words(  # with these begins a turn of talk rather than a statement
    """
    ok okay yes yeah nope so ah oh well hmm but and then also let's lets let sorry great good cool nice right ja
    nein und aber oui et mais sí y pero
    """
)

ASKING = _parts(  # a rule that begins with these is asked for, and no question
    """
    please | could you | can you | would you | will you | könntest du | kannst du | können sie | könnten sie | bitte |
    peux-tu | pouvez-vous | pourriez-vous | pourrais-tu | puedes | podrías | puede | podría | por favor | você pode |
    pode | poderia | puoi | potresti | può | kun je | kunt u | czy możesz | можешь | можете | пожалуйста
    """,
    "|",
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
    毎回 항상 절대 반드시 마세요 하지 금지 모든 꼭 해야 없이 마라 ห้าม ต้อง อย่า เสมอ ทุกครั้ง เท่านั้น
    """
)

MANNER = tuple(  # with these begins how somebody wants to be spoken to
    f"{phrase} "
    for phrase in _parts(
        """
        answer in | answer me in | answer with | reply in | reply to me in | reply with | respond in | respond with |
        write in | write to me in | speak | talk to me in | explain in | call me | address me | sign with | sign as |
        i like | i love | i hate | i dislike | i want all | i use | we use | antworte auf | antworte in | antworte mir |
        schreib auf | schreibe auf | sprich | nenn mich | nenne mich | duze mich | sieze mich | réponds en |
        réponds-moi | répondez en | répondez-moi | écris en | écrivez en | parle |
        parlez | appelle-moi | tutoie-moi | responde en |
        respóndeme | contesta en | escribe en | háblame | llámame | responda em | escreva em | fale | me chame |
        rispondi in | rispondimi | scrivi in | parla | chiamami | antwoord in | schrijf in | noem me | noem mij |
        odpowiadaj | pisz po | mów | отвечай | отвечайте | пиши на | пишите на | говори | svara på | svar på
        """,
        "|",
    )
)

USING = tuple(  # with these begins what is to be used, or left out: for good, if it points at nothing at hand
    f"{word} "
    for word in _parts(
        """
        use no stick verwende verwenden nutze nutzen benutze benutzen kein keine utilise utilisez emploie employez usa
        utiliza usen evita use usem usi usate gebruik używaj używajcie используй используйте använd brug bruk kullan
        """
    )
)

POINTING = _words(  # words for something at hand
    """
    this that these those it its them the one ones here there now next last first second third other same above below
    again yours dies diese dieser dieses das der die den jetzt hier nächste erste zweite andere ce cette ces ça celui
    celle le la les ici maintenant premier deuxième autre este esta esto estos estas ese esa eso el los las aquí ahora
    primero segundo otro isto isso o os as aqui agora primeiro questo questa quello quella il lo gli qui adesso dit deze
    dat die het de hier nu ten ta to этот эта это эти его тот denna detta den det
    """
)

MANNER_PARTS = _parts(
    """
    请用 請用 用中文 用英文 用英语 回答时 で答えて で書いて で返事 でお願い 답해줘 대답해줘 써줘
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

CORRECTION_PHRASES = _parts(  # a sentence with one of these says that something else holds from now on
    """
    make that | changed my mind | on second thought | on reflection | after all | turns out |
    i was wrong | not any more | no wait | as of today | as of now | taken over | take that back | lieber doch |
    ab jetzt | ab sofort | ab heute | en fait | à la place | à partir de maintenant | en realidad | en lugar de |
    en vez de | na verdade | em vez de | no lugar de | in realtà | al posto di | toch maar |
    jednak nie | на самом деле
    """,
    "|",
)

SURELY = _words(  # of the words of corrections those that hardly mean anything else
    """
    actually instead correction scratch longer anymore mistake meant misspoke moved switched replaced revised renamed
    postponed nevermind nvm oops doch stattdessen korrektur geändert verschoben finalement corrección cambiado
    correção mudou anzi correzione eigenlijk gewijzigd jednak zmiana исправление изменился изменилось aslında değişti
    egentligen ändrat
    """
)

NOT = _parts(  # before a value that holds no longer
    """
    not | no longer | instead of | rather than | nicht | statt | pas | au lieu de | no | en vez de | não | em vez de |
    non | invece di | niet | in plaats van | nie | zamiast | не | вместо | inte
    """,
    "|",
)

EMPTY = _words(  # words that tell nothing about what a sentence is about: articles, pronouns, prepositions, auxiliaries
    """
    a an the this that these those it its he she they them his her their there here who what which and or but so as
    of in on at to for from by with into onto about is are was were be been being am has have had do does did can
    could will may might too also again still just btw fyi then it's that's let's der die das den dem des ein eine
    einen einem einer und oder aber von vom zu zum zur mit bei beim für auf aus im am an in ist sind war waren wird
    werden hat haben auch noch es er sie le la les l un une des du de et ou en dans sur avec par est sont était a ont
    ce cette il elle el los las una del al y o con para por es son era está en su lo os as um uma do da no na dos das
    e é foi com il i gli uno del della nel nella ed è sono het een en van op met voor is zijn was werd dat i w z na do
    jest są był и в на с по к из у это был была bir ve bu i och är var en ett på av för
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
    awesome sure fine right continue go ahead on going proceed next done understood got sounds looks lgtm bye cheers
    you're welcome and so very much that that's it is ja nein danke bitte hallo gut super weiter oui non merci bonjour
    bien parfait
    sí gracias hola vale bueno sim obrigado obrigada olá bom grazie ciao bene dank hoi goed tak dziękuję cześć
    dobrze да нет спасибо привет хорошо evet hayır teşekkürler tack hej
    """
)

SMALL_TALK_TEXTS = _words(
    """
    好 好的 谢谢 是 是的 对 继续 可以 はい いいえ ありがとう 続けて 네 예 아니요 감사합니다 계속
    """
)
