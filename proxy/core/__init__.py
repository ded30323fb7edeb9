"""Pure decisions: same input, same output. No I/O, no clock, no environment, no async, no randomness (see ruff.toml).

envelope          the request as it came: raw JSON of every field and message
turns             what the planner knows of a message; rounds and legal cuts
digest            what identifies a conversation prefix
tokens            what a message costs
budget            from a window to limit, target and room
checkpoint        a compaction of a prefix, as a value
plan              what to do with a request, and why
rewrite           a checkpoint applied to raw messages
strip             what an upstream complained of, taken out
replacement       what stands in place of the evicted messages
summary           asking a model for a summary
sections          the sections of a summary
judge             whether an answer is a summary
audit             what nobody said is struck from it
outline           the narrative that needs no model
pins              the user's own words
worth             what a sentence of the user's is worth
corrections       which of his sentences take the place of earlier ones
sentences         text taken apart into sentences
ledger            identifiers: ranked and listed
identifiers       identifiers: found in text
redact            credentials taken out of text
credentials       names for secrets, and what looks like one
credentials_line  credentials behind what announces them
credentials_rows  credentials in the lines below
words             words that hint at what a sentence is worth
fit               text made to fit a budget
transcript        a conversation as text, for a summariser
overflow/         whether an answer is an overflow
wire              header fields, targets, error bodies
glimpse           the model of a body that is not read
sse               server-sent events, split unchanged
coding            content codings undone within bounds
"""
