"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from proxy.adapters.encoding import O200k

settings.register_profile("tests", deadline=None)  # a time limit tells of the machine's load
settings.load_profile("tests")


SLOWEST = ("test_llama.py", "test_llama_4096.py")
"""A real model takes minutes: begun last, its tests would be all that one of two processes does in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in SLOWEST)  # stable: all others stay as they are


@pytest.fixture(scope="session", autouse=True)
def one_vocabulary() -> Iterator[None]:
    """A proxy of its own stands in many tests. Loading it takes half a second of CPU, and it never changes."""
    shared = O200k()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxy.wiring.O200k", lambda: shared)
        yield
