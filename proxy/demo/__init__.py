"""The shipped fake upstream, the scripted conversation, and the play that shows the proxy at work.

upstream    FakeUpstream: an ASGI application that enforces what real servers do, and records every request
rules       the shape of a request: roles, contents, tool pairing, alternation
wording     how three kinds of server word a refusal
tokenizer   the fake's own tokeniser and chat template
answers     what it answers, from the prompt it received
summarizer  its extractive summariser, and sixteen ways in which summarisers fail or differ
reading     sentences, subjects and how much a sentence tells
reply       what a model says before it is put on the wire
record      what is remembered of a request; prefix shares
exchange    one HTTP exchange over ASGI
script      the conversation: sixty turns, tools, a huge result, facts planted and asked for
client      a plain chat client over HTTP
play        plays the script and totals it; `run_demo` is the command
report      rows, totals, the table
serving     runs an ASGI application in a thread
"""
