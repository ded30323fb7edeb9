"""What others say: wordings held out at first, then improved with as well (see `wording` for the form)."""

USER = {
    "rule": """
        <<{name} signs off on schema changes, nobody else does>>
        in this repo <<tests come first and the {word} code second>>
        <<hands off {path}>> please, that thing is fragile
        It's important to me that <<customer names stay out of the {word} logs>>
        We agreed with {name} that <<generated {word} stubs are not edited by hand>>
        <<Anything that deletes {word} records goes through {name}>>
        please refrain from <<reformatting {file} while you are at it>>
        if {file} fails to build, <<stop and tell me rather than working around it>>
        Nunca <<borres nada en {path} sin avisarme>>
    """,
    "constraint": """
        <<the {word} devices have {n} kB of flash>> and that is what we live with
        {company} insists that <<data of {word} remains in {city}>>
        you've got <<until {day} evening for the {word} part>>
        anything over <<{n} lines in the {word} patch>> gets rejected in review
        <<the {word} runner is offline>>, so downloading packages at build time is out
        <<there are only {m} licences for {word}>>, count the parallel jobs accordingly
        our {word} proxy <<cuts connections after {m}{m} seconds>>
        <<node {m}.x is what the {word} image ships>>, take it as given
    """,
    "fact": """
        The {word} hardware stands <<in a cellar in {city}>>
        <<{name} and {name2} are the only ones who know {word}>>
        we bought the {word} component <<from {company} in {month}>>
        the numbers in {file} are <<in thousands of euros, by the way>>
        <<{word} used to be two products>> until {company} merged them
        as it happens <<the {word} clock runs {m} minutes behind>>
        My colleague <<{name} sits in {city} and starts at {m}>>
    """,
    "goal": """
        Once we are through, <<{name} should be able to do the {word} run alone>>
        I hope to <<show {company} a working {word} prototype in {month}>>
        success means <<nobody has to open the {word} console any more>>
        this whole exercise exists because <<{word} bills went up to {n} euros>> and I want them down
        let's get to a state where <<{word} survives a power cut>>
        my boss wants <<{word} out of the critical path by {month}>>
    """,
    "preference": """
        <<the terse style of {file} appeals to me>>, more of that
        call me <<{name}, not sir>>, when you talk about {word}
        <<comments in {word} code get on my nerves>> unless they say why
        nicer would be <<a table than prose for the {word} comparison>>
        I'm fond of <<{colour} for {word} warnings>>
        between the two I'd go for <<the boring {word} solution>>
    """,
    "path": """
        {name} keeps the originals below <<{path}/{word}/{n}>>
        start reading at <<{path}/{file}>>
        there is a copy in <<{path}/{word}.{m}.tar.gz>> in case it breaks
        it was <<{path}/{word}/{file}>> that gave {name} trouble
        Mount point is <<{path}/{word}-vol{m}>>
    """,
    "number": """
        we sold <<{n} {word} units in {month}>>
        account <<{big}>> belongs to {company}
        {word} answers on <<{port}>>
        it took {name} <<{n} minutes to restore {word}>>
        our {word} error rate sits at <<{m}.{mm} percent>>
    """,
}

SUPERSEDED = {
    "goal": """
        <<hand {word} to {company} by {month}>>, that's the target => <<hand {word} to {company} by {month2}>>, they asked for more time
        my dream: <<the {word} tool in {mm} languages>> => let's be modest, <<the {word} tool in {m} languages>>
    """,
    "number": """
        <<{mm} guests>> for the {word} dinner => sorry, aunt {name} can't come, <<{mm2} guests>> for the {word} dinner
        o {word} usa a <<porta {port}>> => o {word} usa a <<porta {port2}>> desde ontem
        the {word} daemon is on <<{port}>> => they gave the {word} daemon another port, <<{port2}>>
        let's plan with <<{n} seats>> for {word} => {word}: it's <<{n2} seats>>, {name} recounted
        <<{n} percent>> discount for {word} customers => {word} customers get <<{n2} percent>> after all
    """,
    "path": """
        have a look at <<{path}/{file}>> for the {word} tests => the {word} tests? <<{path2}/{file}>>, the other is gone
        put the {word} dump under <<{path}/dump{n}>> => the disk was full, so the {word} dump sits under <<{path2}/dump{n2}>>
        {word} settings: <<{path}/{word}.ini>> => we renamed the {word} settings to <<{path2}/{word}{m}.toml>>
    """,
    "preference": """
        <<{colour} curtains in the {city} flat>> would be lovely => we talked about it at home, <<{colour2} curtains in the {city} flat>>
        <<a room on floor {m}>> in {city} if they have one => oh, and in {city} rather <<a room on floor {mm}>>
        headings of the {word} page in <<{colour} please>> => hmm, looking at the headings of the {word} page again, <<{colour2} please>>
        name the {word} helper <<{word}_{m}>> => I'd call the {word} helper <<{word}_{mm}>> after sleeping on it
    """,
    "constraint": """
        <<back in {city} before {day}>>, no way around it => my meeting got cancelled: <<back in {city} before {day2}>> is enough
        <<{word} must start in {n} ms>> => the {word} people were stricter than i thought, <<{word} must start in {n2} ms>>
        we have <<{n} euros>> for {word} => {name} cut the money for {word} to <<{n2} euros>>
        {word} goes live on <<{month} {m}>> => {word} goes live later, on <<{month2} {mm}>>
    """,
    "fact": """
        <<{name} drives us to {city}>> => {name} is ill, <<{name2} drives us to {city}>>
        <<the {word} meeting takes place in {city}>> => <<the {word} meeting takes place in {city2}>>, they had no room
        <<{name} answers for {word}>> in our team => as of today <<{name2} answers for {word}>>
        <<{word} is hosted in {city}>> => I was wrong about where {word} is <<hosted, it's {city2}>>
    """,
    "rule": """
        <<send the {word} bills to {name}>> => please <<send the {word} bills to {name2}>>, {name} has retired
        <<run {word} through {name}>> before you merge => {name} is on leave, <<run {word} through {name2}>> before you merge
        <<keep {word} functions below {m} lines>> => <<{mm} lines is okay for {word} functions>> too, that's the new cap
    """,
}

TOOL = {
    "rule": "notice: <<only {name} may rotate the {word} keys>>\n# <<do not reorder the {word} entries>>",
    "constraint": "{word}: <<rate limited to {n} per hour>>\nrequires <<{word} >= {m}.{mm}>>",
    "fact": "owner of {word}\t<<{name}, {city}>>\n<<{word} last failed in {month}>>",
    "goal": "epic: <<{word} for everyone at {company}>>\ndescription: <<move {word} to {city} this year>>",
    "preference": "theme.{word}: <<{colour} on grey {m}>>\nreviewer {name} <<likes {word} diffs small>>",
    "path": "found: <<{path}/{word}/{m}.log>>\n-> <<{path}/{file}>> ({n} bytes, {word})",
    "number": "{word} serial <<{big}>>\ntotal {word}: <<{n} items>>",
}

ASSISTANT = {
    "rule": "As agreed, <<{name} reviews whatever touches {word}>>.\nI take it that <<{word} is off limits on {day}s>>.",
    "constraint": "We have to live with <<{n} kB for {word}>>.\nNote that <<{word} cannot take more than {m} clients>>.",
    "fact": "According to the docs <<{word} came from {company}>>.\nApparently <<{name} set up {word} in {city}>>.",
    "goal": "In other words, you want <<{word} to run unattended by {month}>>.\nThe target is <<{m} nines for {word}>>.",
    "preference": "I settled on <<{colour} {word} markers>>.\nThe style I followed is <<one {word} class a file>>.",
    "path": "You will find it under <<{path}/{word}/{m}>>.\nSaved as <<{path}/{file}>> along with {word}.",
    "number": "The <<{word} sum comes to {n}>> exactly.\nI counted <<{n} {word} warnings>>.",
}
