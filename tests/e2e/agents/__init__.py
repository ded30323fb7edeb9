"""Real coding agents, driven unattended through the proxy past the window: `python -m tests.e2e.agents`.

task.py      the work: a repository with a wrong constant in each module
coder.py     the scripted model: its next step is computed from the prompt alone
upstream.py  the OpenAI-compatible server around it: rules, window, errors, usage
programs.py  the agents, pi and opencode: installed by npm (or found in the folder that the environment variable
             COMPACTION_PROXY_AGENTS names), each told an address, and where it reports errors
__main__.py  every agent in every setting, as a table

A setting is a window and what stands before it: `endless` nothing, and a window nobody reaches; `direct` nothing, with
the real window, which the agent does not know; `told` the same, but it knows; `known` and `unknown` the proxy, told the
window or not. The agents run with a home of their own and reach this machine alone. Not part of the test run: it takes
some minutes, and npm.
"""
