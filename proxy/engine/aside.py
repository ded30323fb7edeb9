"""Work that takes long: beside the event loop, and not too much of it at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Aside:
    """Runs work in threads, at most so many at once; the others wait in order.

    Threads share one interpreter: more of them get nothing done sooner, they only make the event loop wait for its
    turn behind each (5 ms, Python's switch interval).
    """

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        async with self._free:
            return await asyncio.to_thread(work, *args, **named)
