"""OpenAI-compatible reverse proxy that compacts conversations before they outgrow the model's context window.

cli          the command: serve, show, list, demo
show         what was done to a request, in words
wiring       the composition root: settings in, application out
settings/    what the operator configures; the only reader of configuration
errors       what can go wrong, by whose fault
ports        what the engine needs from the world, as Protocols
access       who may come in, by which address, and whose conversations theirs are
routing      where a request goes, and whose credentials go with it
forward      passing a request through
core/        pure decisions: no I/O, no clock, no async
engine/      one request's story: what core decides, performed
adapters/    one outside library each
web/         HTTP, translated
hooks/       hooks that come with it
demo/        the shipped fake upstream and the scripted conversation

Where do I change...
  when and what is compacted        core/plan.py, core/budget.py
  what stands in for the old turns  core/replacement.py, core/pins.py, core/ledger.py, core/summary.py
  how an overflow is recognised     core/overflow/
  a setting                         settings/fields.py, config.example.yaml, README.md (a test compares them)
  where state is kept               adapters/ and tests/contracts/store.py
"""
