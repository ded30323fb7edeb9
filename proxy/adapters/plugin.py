"""A hook in Python: found by its name, and run where it can hold up nothing of ours.

Each call has a thread of its own, which nobody waits for when its time is up or the process ends. An async function
has an event loop of its own there, so that one which blocks all the same stalls itself alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from proxy.core import envelope
from proxy.errors import ConfigError, HookError
from proxy.ports import AFTER, BEFORE, Event

GROUP = "compaction_proxy.hooks"
"""Of entry points (https://packaging.python.org/en/latest/specifications/entry-points/)."""

METHODS = (BEFORE, AFTER)

RUNNING_MOST = 8
"""Calls at once, those included that nobody waits for any more. Above it the hook counts as failed."""


class Plugin:
    """Implements `Hook` on an object with one or both of `METHODS`, each taking the event as a dict. What it returns
    is its answer; what it changes in the event is its own."""

    def __init__(self, name: str, hook: object) -> None:
        self._name = name
        self._methods: dict[str, Callable[[dict[str, Any]], Any]] = {
            method: getattr(hook, method) for method in METHODS if callable(getattr(hook, method, None))
        }
        self._running = 0

    def __repr__(self) -> str:
        return f"Plugin({self._name})"

    async def tell(self, event: Event) -> Any:
        method = self._methods.get(event.name)
        if method is None:
            return None
        if self._running >= RUNNING_MOST:
            raise HookError("all its threads are busy")
        self._running += 1
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._run, args=(method, event, done), name="hook", daemon=True).start()
        return await done

    def _run(self, method: Callable[[dict[str, Any]], Any], event: Event, done: asyncio.Future[Any]) -> None:
        answer, failure = None, None
        try:
            answer = method(_dict(event))
            if inspect.isawaitable(answer):
                answer = asyncio.run(_awaited(answer))
        except BaseException as error:  # whatever it raises, SystemExit included, is its own affair
            failure = HookError(f"raised {type(error).__name__}")
            failure.__cause__ = error  # says where

        def deliver() -> None:
            self._running -= 1
            if done.cancelled():
                return
            if failure is not None:
                done.set_exception(failure)
            else:
                done.set_result(answer)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to hear it
            done.get_loop().call_soon_threadsafe(deliver)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _dict(event: Event) -> dict[str, Any]:
    fields = json.loads(json.dumps(dict(event.fields)))  # its own copy
    return {"event": event.name, **fields, "messages": [envelope.value(raw) for raw in event.messages]}


def load(name: str, options: Mapping[str, Any]) -> Plugin:
    """The hook that `module:function`, or an installed entry point, makes of `options`. Raises `ConfigError`."""
    made = _called(name, _found(name), options)
    if not any(callable(getattr(made, method, None)) for method in METHODS):
        raise ConfigError(f"hooks.python: what {name} returns has neither of the methods {' and '.join(METHODS)}")
    return Plugin(name, made)


def _found(name: str) -> Any:
    module, colon, path = name.partition(":")
    try:
        if not colon:
            points = list(entry_points(group=GROUP, name=name))
            if not points:
                raise ConfigError(f"hooks.python: there is no entry point {name!r} in the group {GROUP}")
            return points[0].load()
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except ConfigError:
        raise
    except Exception as error:  # importing runs whatever stands in the module
        raise ConfigError(f"hooks.python: {name} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def _called(name: str, function: Any, options: Mapping[str, Any]) -> object:
    if not callable(function):
        raise ConfigError(f"hooks.python: {name} is no function")
    try:
        return function(**options)
    except Exception as error:
        raise ConfigError(f"hooks.python: {name} fails: {type(error).__name__}: {error}") from error
