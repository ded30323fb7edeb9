"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from proxy.adapters.encoding import O200k

settings.register_profile("tests", deadline=None)  # a time limit tells of the machine's load
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def one_vocabulary() -> Iterator[None]:
    """A proxy of its own stands in many tests. Loading it takes half a second of CPU, and it never changes."""
    shared = O200k()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxy.wiring.O200k", lambda: shared)
        yield
