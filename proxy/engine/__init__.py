"""One request's story, told with core's decisions and the ports' help.

engine       the story itself: open, prepare, send, and again where that may help
preparer     from a request to the bytes that go out; the single place that fails open
remedies     what may help when the upstream says no
assembly     how the parts belong together
story        what is known of one request so far
rejoin       conversations whose client drops their beginning
decider      brings together what the plan needs, and takes in what the upstream says
reader       messages into facts, once for the same bytes
checkpoints  known compactions: a cache in front of the store
tolerant     the store, kept from delaying or failing anything
jobs         from a decision to the job of making it
background   compactions before they are needed
hooks        the operator's hooks, asked and told
compactor    makes one checkpoint, within a bounded wait
record       how a checkpoint was made
bill         what that cost, and what it saves
narrator     gets the prose of a summary out of a model
aside        work that takes long, beside the event loop
prudence     when not to ask a summariser
knowledge    what experience teaches about upstreams
windows      how long a model's context is, from four sources
advertised   what an upstream says of it in its list of models
verdict      what the beginning of an answer says
faults       how an unexpected failure is told to the log
"""
