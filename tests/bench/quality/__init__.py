"""A benchmark of what survives compaction, without a judge: `python -m tests.bench.quality`.

__main__     the command: which conversations, which summarisers, which tables
sources      conversations long enough, and short ones made long
canaries     sentences planted in them
wording      templates into sentences
family_a     wordings to improve with
family_b     more of them, held out at first
family_c     wordings held out
summarisers  scripted, from useless to perfect
model        a real one instead
world        what an engine needs around it, taking notes
replay       a conversation, turn by turn, through the engine
survival     which canaries were still there
figures      sizes, compactions, unchanged prefix, cost
names        identifiers that are used again, and what a ledger keeps of them
leaks        a detector of secrets
report       tables, and what was promised
"""
