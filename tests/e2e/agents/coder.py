"""A model that writes code: what it does next is computed from the prompt it receives, and from nothing else.

It runs the check, reads the specification and the source of the module the check names, edits one line, and checks
again. What a compaction loses on the way it has to look up again, by the agent's own tools, and a rule of the user's
that is lost is a rule it does not follow: figures and outcome depend on what is in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.demo.reading import text_of
from proxy.demo.reply import Reply, number_of, tool_call
from tests.e2e.agents.task import CHANGES, CHECK, GOOD, RELEASE

_NEXT = re.compile(r"FIRST WRONG MODULE: (m\d\d)")
_MARK = re.compile(r"`(# reviewed [A-Z0-9-]+)`")
_CODE = re.compile(r"release code is ([A-Z]+-\d+)")
# What an agent calls its tools, and the arguments they take: found in the schemas it sends.
_ALIASES = {
    "path": ("path", "filePath"),
    "old": ("oldText", "oldString"),
    "new": ("newText", "newString"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """A call in view and its result."""

    name: str
    arguments: str
    result: str


def act(data: Mapping[str, Any], steps: int) -> Reply:
    """The next step of a request with tools. `steps` only makes the ids of calls unique."""
    view = _View(data["messages"], {t["function"]["name"]: t["function"] for t in data["tools"]})
    wanted = list(_next(view))
    if not wanted:
        return Reply(f"All modules are right, and {CHANGES} states the release code.")
    calls = [
        _call(view, name, f"call_{number_of(f'{steps} {n}'):08x}", **given) for n, (name, given) in enumerate(wanted)
    ]
    return Reply(_aloud(*wanted[0]), tuple(calls), "tool_calls")


class _View:
    def __init__(self, messages: Sequence[Mapping[str, Any]], tools: Mapping[str, Any]) -> None:
        self.tools = tools
        self.events = list(_events(messages))
        self.text = "\n".join(text_of(m.get("content")) for m in messages)

    def since_check(self) -> tuple[str | None, list[Event]]:
        """The module the newest check names (or `GOOD`), and what was done since; None if no check is in view."""
        for place in range(len(self.events) - 1, -1, -1):
            event = self.events[place]
            if event.name == "bash" and CHECK in event.arguments:
                found = _NEXT.search(event.result)
                said = found[1] if found else GOOD if GOOD in event.result else None
                return said, self.events[place + 1 :]
        return None, self.events


def _events(messages: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    pending: list[Mapping[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant":
            pending = list(message.get("tool_calls") or ())
        elif message["role"] == "tool":
            call = next((c for c in pending if c["id"] == message["tool_call_id"]), None)
            if call is not None:
                function = call["function"]
                yield Event(function["name"], function["arguments"], text_of(message.get("content")))


def _next(view: _View) -> Iterator[tuple[str, dict[str, str]]]:
    """Tool and arguments of what to do next; two where they do not depend on one another; nothing when all is done."""
    said, since = view.since_check()
    if not _CODE.search(view.text) and not any(RELEASE in e.arguments for e in since) and said in (None, GOOD):
        yield "read", {"path": RELEASE}
    elif said is None or (said != GOOD and any(e.name == "edit" for e in since)):
        yield "bash", {"command": f"python3 {CHECK}"}
    elif said == GOOD:
        if not any(e.name == "write" for e in since):
            code = _CODE.search(view.text)
            yield "write", {"path": CHANGES, "content": f"Release {code[1] if code else 'unknown'}.\n"}
    else:
        yield from _fix(view, said, since)


def _fix(view: _View, module: str, since: Sequence[Event]) -> Iterator[tuple[str, dict[str, str]]]:
    specification, source = f"docs/{module}.md", f"src/{module}.py"
    stated = re.search(rf"LIMIT_{module.upper()} must be (\d+)", view.text)
    seen = "\n".join(e.result for e in since)
    line = re.search(rf"LIMIT_{module.upper()} = \d+(?!\d)", seen)
    unread = [p for p, known in ((specification, stated), (source, line)) if not known and not _was_read(since, p)]
    if unread:
        for path in unread if int(module[1:]) % 2 == 0 else unread[:1]:
            yield "read", {"path": path}
    elif not stated or not line:
        # It was read, and the one line that matters is not in view: the result was shortened.
        pattern = f"LIMIT_{module.upper()}"
        yield "bash", {"command": f"grep -n {pattern} {specification if not stated else source}"}
    else:
        mark = _MARK.search(view.text)
        right = f"LIMIT_{module.upper()} = {stated[1]}{'  ' + mark[1] if mark else ''}"
        yield "edit", {"path": source, "old": line[0], "new": right}


def _was_read(events: Sequence[Event], path: str) -> bool:
    return any(e.name == "read" and path in e.arguments for e in events)


def _call(view: _View, name: str, identity: str, **given: str) -> dict[str, Any]:
    """The call in the agent's own terms."""
    schema = view.tools[name]["parameters"]
    properties = schema["properties"]
    if name == "edit" and "edits" in properties:
        inner = properties["edits"]["items"]["properties"]
        edit = {_named("old", inner): given.pop("old"), _named("new", inner): given.pop("new")}
        arguments: dict[str, Any] = {"edits": [edit]}
    else:
        arguments = {}
    arguments |= {_named(key, properties): value for key, value in given.items()}
    if "description" in schema.get("required", ()):
        arguments["description"] = f"Runs {given.get('command', name)}"
    return tool_call(name, arguments, identity)


def _named(key: str, properties: Mapping[str, Any]) -> str:
    return next((alias for alias in _ALIASES.get(key, ()) if alias in properties), key)


def _aloud(name: str, given: Mapping[str, str]) -> str:
    subject = given.get("path") or given.get("command")
    verbs = {"read": "I will read", "bash": "I run", "edit": "Now I correct the constant in", "write": "I write"}
    return f"{verbs[name]} {subject}."
