"""One outside library or service each, its errors translated into `proxy.errors` at the edge.

Named by `proxy/wiring.py` alone; everything else takes the Protocols of `proxy/ports.py`.

upstream    Upstream over aiohttp
switched    an upstream's connection after a 101: raw bytes both ways
proxies     which outbound proxy an address goes through
codings     br and zstd, beside what the standard library undoes
opaque      header bytes that aiohttp could not send
summariser  Summariser: one call of a model, its dialects and failures
webhook     Hook behind a web address, signed
plugin      Hook in Python
catalogue   windows and prices of models at well-known addresses, by genai-prices
encoding    tokens, by tiktoken with the shipped vocabulary
memory      Store in dictionaries
sqlite      Store in one file, for all processes of a machine
rows        checkpoints as rows of a table
retention   how long stores keep checkpoints
secret      the install secret, kept beside the store
clock       Clock: the machine's
"""
