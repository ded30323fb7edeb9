"""Work beside the event loop: in another thread, a few at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from proxy.engine.aside import Aside


def test_work_is_done_in_another_thread() -> None:
    """Its result comes back, and so does what it raises."""

    async def story() -> None:
        aside = Aside(1)
        assert await aside.run(threading.get_ident) != threading.get_ident()
        assert await aside.run(int, "12", base=3) == 5
        with pytest.raises(ValueError, match="invalid literal"):
            await aside.run(int, "x")

    asyncio.run(story())


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_at_once_than_allowed(most: int) -> None:
    """The others wait, in their order."""
    at_once: list[int] = []
    begun: list[int] = []
    busy = 0
    lock, gate = threading.Lock(), threading.Event()

    def work(number: int) -> None:
        nonlocal busy
        with lock:
            busy += 1
            begun.append(number)
            at_once.append(busy)
        gate.wait(0.01)
        with lock:
            busy -= 1

    async def story() -> None:
        aside = Aside(most)
        await asyncio.gather(*(aside.run(work, i) for i in range(8)))

    asyncio.run(story())
    assert max(at_once) == most
    assert sorted(begun) == list(range(8)) and all(abs(place - i) < most for i, place in enumerate(begun))
