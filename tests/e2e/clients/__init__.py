"""Real client libraries, each in a process of its own, driven through the proxy past the end of the window.

drivers/: one small program per Python library, all speaking the protocol of `drivers/pipe.py`; node/: the same for Node.
programs: which clients there are, what each needs, and how it is started. scene: a conversation played by a client,
and what it saw. `python -m tests.e2e.clients` prints the figures. hop: the LiteLLM proxy between ours and the fake.
"""
