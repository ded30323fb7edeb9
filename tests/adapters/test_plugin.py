"""A hook in Python: how it is found, where it runs, and that it holds up nothing."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.adapters.plugin import GROUP, RUNNING_MOST, Plugin, load
from proxy.errors import ConfigError, HookError
from proxy.ports import Event

EVENT = Event("before_compaction", {"id": "e", "stats": {"a": [1]}}, (b'{"role":"user","content":"hi"}',))


class Hook:
    """Takes whatever function a test wants."""

    def __init__(self, before: Callable[[dict[str, Any]], Any]) -> None:
        self.before_compaction = before


def told(before: Callable[[dict[str, Any]], Any]) -> Any:
    return asyncio.run(Plugin("h", Hook(before)).tell(EVENT))


def test_a_function_gets_the_event_and_answers() -> None:
    """Plain or async, in a thread that is not the event loop's; the event is its own copy."""
    threads = []

    def plain(event: dict[str, Any]) -> Any:
        threads.append(threading.get_ident())
        event["stats"]["a"].clear()
        return {"instructions": event["messages"][0]["content"], "event": event["event"]}

    async def slowly(event: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return plain(event)

    for function in (plain, slowly):
        assert told(function) == {"instructions": "hi", "event": "before_compaction"}
    assert threading.get_ident() not in threads and EVENT.fields["stats"] == {"a": [1]}


def test_what_it_has_no_method_for_it_is_not_told() -> None:
    """One of both is enough."""
    hook = Plugin("h", Hook(lambda event: 1))
    assert asyncio.run(hook.tell(Event("after_compaction", {"id": "e"}, ()))) is None


@pytest.mark.parametrize("error", [ValueError("a secret"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_what_it_raises_is_its_own_affair(error: BaseException) -> None:
    """Told by its kind and where it was raised, whatever it is."""

    def fails(event: dict[str, Any]) -> Any:
        raise error

    async def fails_later(event: dict[str, Any]) -> Any:
        raise error

    for function in (fails, fails_later):
        with pytest.raises(HookError, match=f"^raised {type(error).__name__}$") as caught:
            told(function)
        assert caught.value.__cause__ is error and error.__traceback__ is not None


@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_blocks_stalls_itself_alone(is_async: bool) -> None:
    """The event loop goes on; so many calls can hang, and further ones fail at once."""
    release = threading.Event()

    def blocks(event: dict[str, Any]) -> Any:
        release.wait(30)

    async def blocks_too(event: dict[str, Any]) -> Any:
        release.wait(30)

    async def story() -> None:
        hook = Plugin("h", Hook(blocks_too if is_async else blocks))
        for _ in range(RUNNING_MOST):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await hook.tell(EVENT)
        with pytest.raises(HookError, match="busy"):
            await hook.tell(EVENT)
        release.set()
        for _ in range(2_000):
            try:
                assert await hook.tell(EVENT) is None
                return
            except HookError:
                await asyncio.sleep(0.005)
        raise AssertionError("it is busy for ever")

    try:
        asyncio.run(story())
    finally:
        release.set()


def test_one_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    """Its thread ends with everything else, and an answer that comes after the loop's end hurts nobody."""
    done = threading.Event()

    def late(event: dict[str, Any]) -> Any:
        time.sleep(0.1)
        done.set()

    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Plugin("h", Hook(late)).tell(EVENT)

    asyncio.run(story())
    assert done.wait(10)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "hook")


MODULE = """
class Made:
    def __init__(self, **options):
        self.options = options
    def after_compaction(self, event):
        return self.options

class Empty:
    pass

def fails():
    raise ValueError("no directory")

text = "text"

class Inner:
    make = Made
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_hooks.py").write_text(MODULE)
    (tmp_path / "broken_hooks.py").write_text("import nothing_of_this_name")
    info = tmp_path / "some_hooks-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-hooks\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = some_hooks:Made\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "some_hooks", raising=False)


@pytest.mark.parametrize("name", ["some_hooks:Made", "some_hooks:Inner.make", "mine"])
def test_a_hook_by_its_name(name: str, module: None) -> None:
    """A function or class of a module, or an entry point, called once with the options."""
    hook = load(name, {"directory": "/x"})
    assert asyncio.run(hook.tell(Event("after_compaction", {"id": "e"}, ()))) == {"directory": "/x"}
    assert repr(hook) == f"Plugin({name})"


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("nowhere:Made", {}, "nowhere:Made cannot be imported: ModuleNotFoundError"),
        ("broken_hooks:Made", {}, "broken_hooks:Made cannot be imported: ModuleNotFoundError"),
        ("some_hooks:Nobody", {}, "some_hooks:Nobody cannot be imported: AttributeError"),
        (":", {}, ": cannot be imported: ValueError"),
        ("theirs", {}, "there is no entry point 'theirs'"),
        ("some_hooks:text", {}, "some_hooks:text is no function"),
        ("some_hooks:fails", {}, "some_hooks:fails fails: ValueError: no directory"),
        ("some_hooks:fails", {"a": 1}, "some_hooks:fails fails: TypeError"),
        ("some_hooks:Empty", {}, "has neither of the methods before_compaction and after_compaction"),
    ],
)
def test_a_hook_that_cannot_be_had_is_told_at_the_start(
    name: str, options: dict[str, Any], reason: str, module: None
) -> None:
    """With its setting and the reason."""
    with pytest.raises(ConfigError) as caught:
        load(name, options)
    assert str(caught.value).startswith("hooks.python: ") and reason in str(caught.value)
