"""What people say in the course of work: the wordings that parts may be improved with (see `wording` for the form)."""

USER = {
    "rule": """
        <<never push straight to {branch}>>, open a PR and let {name} look at it first
        Please make sure that <<every migration gets a rollback script>> from here on
        one thing i care about a lot: <<no network calls inside the {word} tests>>
        <<Don't touch anything under {path}>>, that belongs to {name}'s team
        Commits that change {file} <<have to be signed off by {name}>>
        <<Answer me in complete sentences and skip the emojis>>, it reads like marketing otherwise
        whatever you do, <<leave the {word} table alone>> until {name} is back
        When you rename something in {file}, <<update the changelog in the same commit>>
        Bevor du {file} änderst, <<frag immer zuerst {name}>>
    """,
    "constraint": """
        <<the whole thing has to fit into {n} MB of memory>>, the boxes are tiny
        We can't go beyond <<Python 3.{m} on the {word} hosts>>, ops won't upgrade them
        this needs to be finished <<before the {day} demo with {name}>>
        <<The {word} endpoint only allows {n} calls a minute>>, so batch things
        <<no new dependencies>> for the {word} part, legal has to review each one
        it must keep working <<without root on the {word} machines>>
        <<The budget for {word} is {n} euros>> and not a cent more
        <<responses above {n} ms are unacceptable>> for the {word} page
    """,
    "fact": """
        <<our {word} server runs in {city}>>, not in the main data centre
        By the way, <<{name} wrote the {word} parser>> back in the day
        the customer for the {word} module is called <<{company}>>
        <<the {word} queue is drained by a cron job at {m}:{mm}>>
        I inherited this from {name}, who <<left for {company} in {month}>>
        You should know that <<{word} ids are strings in the old database>>
        <<{company} pays for the {word} licences>>
        fyi <<my laptop is an ARM one>>, so some {word} wheels will not be there
    """,
    "goal": """
        What I want in the end is <<a {word} dashboard that {name} can read on a phone>>
        <<the point of all this is to retire the {word} service>> by {month}
        We are doing this so that <<{company} can import its {word} data on its own>>
        eventually <<the {word} job should finish within {m} minutes>>
        <<I'd like to end up with one {word} command instead of {m} scripts>>
        The aim is to <<get {word} coverage to {m}{m} percent>> before we ship
        <<I am trying to convince {name} that {word} is worth rewriting>>
    """,
    "preference": """
        I prefer <<tabs over spaces in the {word} files>>
        i'd rather have <<small {word} functions than clever ones>>
        <<short answers please, at most {m} bullets>>, I read these on the train
        For plots <<use the {word} palette, I find the default one ugly>>
        <<I like my {word} variables spelled out>>, no abbreviations
        if you need a name for it, <<something like {word}{m} is nicer than a generic one>>
        Dates look best to me as <<day.month.year in the {word} report>>
    """,
    "path": """
        the config you want lives in <<{path}/{file}>>
        I put the samples into <<{path}/{word}_samples>>, have a look there
        look at <<{path}/{file}>> first, that is where {name} started
        The export ends up in <<{path}/out/{word}-{m}.csv>>
        my notes on this are in <<{path}/{word}/notes-{name}.md>>
        <<{path}/{word}.lock>> is the one that blocks the second worker
    """,
    "number": """
        the port is <<{port}>> on the {word} box
        {name} measured <<{n} requests per second on {word}>> last week
        invoice for {company} is number <<{big}>>
        The {word} threshold we agreed on was <<0.{mm}{m}>>
        we have about <<{n} customers on the {word} plan>>
        <<ticket {big}>> is the one about {word}
    """,
}

SUPERSEDED = {
    "goal": """
        the plan is <<to fly to {city} in {month}>> => new plan is <<to fly to {city2} in {month}>>, cheaper
        we want <<{word} rewritten by {month}>> => turns out there is more time, we want <<{word} rewritten by {month2}>>
    """,
    "number": """
        <<table for {m} at the {word} place>> then => one more is coming, so <<table for {mm} at the {word} place>>
        il {word} gira sulla <<porta {port}>> => ora il {word} gira sulla <<porta {port2}>>
        the {word} gateway listens on port <<{port}>> => scratch that about the {word} gateway: port <<{port2}>> it is
        set the {word} batch size to <<{n} rows>> => Actually, make the {word} batch size <<{n2} rows>>
        the {word} timeout should be <<{n} seconds>> => {word} timeout: <<{n2} seconds>>, the old one was too short
    """,
    "path": """
        the fixtures come from <<{path}/{file}>> => forget where I said the fixtures come from, take <<{path2}/{file}>>
        write the {word} report to <<{path}/{word}-{m}.html>> => the {word} report goes to <<{path2}/{word}-{mm}.html>> now instead
        {word} backups live in <<{path}/bak{n}>> => {name} moved the {word} backups, they are in <<{path2}/bak{n2}>>
    """,
    "preference": """
        <<{colour} is nice for the {word} button>> => my boss hates it, <<{colour2} is nice for the {word} button>> too
        <<dinner near {city} on the {day}>> sounds good => can we make that <<dinner near {city2} on the {day2}>>?
        I'd like the {word} log in <<{colour} letters>> => no wait, <<{colour2} letters>> for the {word} log please
        for the {word} chart use <<{colour} bars>> => Changed my mind on the {word} chart: <<{colour2} bars>>
    """,
    "constraint": """
        <<we can spend {n} on the {city} hotel>> => got a bonus! <<we can spend {n2} on the {city} hotel>>
        the {word} release must be out by <<{month} {m}>> => the {word} release slipped, new date is <<{month2} {mm}>>
        at most <<{n} rows>> per {word} request => they raised the limit per {word} request, it is <<{n2} rows>> now
    """,
    "fact": """
        <<our flight leaves from {city}>> btw => the airline rebooked us, <<our flight leaves from {city2}>>
        <<{word} wordt beheerd door {name}>> => {name} gaat weg, <<{word} wordt beheerd door {name2}>>
        <<{name} owns the {word} rollout>> => correction: <<{name2} has taken over the {word} rollout>> from {name}
        <<the {word} contact at {company} is {name}>> => the {word} contact at {company} <<changed, write to {name2}>>
    """,
    "rule": """
        <<cc {name} when you mail the {word} people>> => {name} left the company; <<cc {name2} when you mail the {word} people>>
        <<{word} reviews happen on {day}>> only => <<{word} reviews happen on {day2}>> only, the room is taken otherwise
        <<ask {name} before every {word} deployment>> => from now on <<ask {name2} before {word} deployments>>, not {name}
        always run the {word} suite with <<{m} workers>> => run the {word} suite with <<{mm} workers>> from now on
    """,
}

TOOL = {
    "rule": "policy: <<changes below {path} need approval from {name}>>\nWARNING <<{word} jobs are not to be restarted by hand>>",
    "constraint": "quota for {word}: <<{n} MiB, used {mm}%>>\n<<{word}: maximum of {m} concurrent sessions reached>>",
    "fact": "maintainer of {word}: <<{name} ({company})>>\n<<region of {word} is {city}>>",
    "goal": 'milestone "<<{word} without downtime>>" due {month} {m}\nTODO: <<make {word} independent of {company}>>',
    "preference": "editor.{word} = <<{colour}-{m}>>\nstyle guide: <<{word} names are written in lower case>>",
    "path": "wrote <<{path}/{word}-{n}.json>>\nopening <<{path}/{file}>> for {word}",
    "number": "{word} checksum: <<{big}>>\n<<{n} rows of {word} processed>> in {m} s",
}

ASSISTANT = {
    "rule": "I will keep to it: <<{word} files stay untouched until {name} agrees>>.\nSo <<no {word} release on a {day}>>, understood.",
    "constraint": "The limit is clear then: <<{word} has {n} MB at most>>.\nGiven that <<{word} only speaks TLS 1.{m}>>, I will adapt.",
    "fact": "I found out that <<{word} is maintained by {name}>>.\nIt turns out <<{word} was written for {company}>>.",
    "goal": "So what we are after is <<a {word} page that loads in {m} seconds>>.\nThe plan is to <<replace {word} step by step until {month}>>.",
    "preference": "I went for <<{colour} as the {word} colour>>, as it fits better.\nI chose <<the compact {word} layout>> over the wide one.",
    "path": "I wrote the draft to <<{path}/{word}-{m}.md>>.\nThe result is in <<{path}/{file}>>, next to {word}.",
    "number": "That makes <<{n} {word} entries>> in total.\nThe measured {word} latency was <<{n} ms>>.",
}
