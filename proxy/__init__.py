"""OpenAI-compatible reverse proxy that compacts conversations before they outgrow the model's context window.

cli          the command: serve, demo
wiring       the composition root: settings in, application out
settings     what the operator configures; the only reader of configuration
errors       what can go wrong, by whose fault
ports        what the engine needs from the world, as Protocols
engine       one request's story, and the single place that fails open
story        what is known of one request so far
decider      brings together what the plan needs, and takes in what the upstream says
reader       messages into facts, once for the same bytes
checkpoints  known compactions: a cache in front of the store
compactor    makes one checkpoint, within a bounded wait
narrator     gets the prose of a summary out of a model
prudence     when not to ask a summariser
knowledge    what experience teaches about upstreams
verdict      what the beginning of an answer says
routing      where a request goes, and whose credentials go with it
forward      passing a request through
core/        pure decisions: no I/O, no clock, no async
adapters/    one outside library each
web/         HTTP, translated
demo/        the shipped fake upstream and the scripted conversation

Where do I change...
  when and what is compacted        core/plan.py, core/budget.py
  what stands in for the old turns  core/replacement.py, core/pins.py, core/ledger.py, core/summary.py
  how an overflow is recognised     core/overflow.py
  a setting                         settings.py, config.example.yaml, README.md (a test compares them)
  where state is kept               adapters/ and tests/contracts/store.py
"""
