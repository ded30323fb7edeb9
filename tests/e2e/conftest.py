"""What the end-to-end tests share; each says why where it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.llama import Llama, llama_server, missing
from tests.e2e.transcripts import Transcript, folder, load


@pytest.fixture(scope="module")
def llama(request: pytest.FixtureRequest) -> Iterator[Llama]:
    """A real llama.cpp server with the module's `CONTEXT`; all its tests share it."""
    if reason := missing():
        pytest.skip(reason)
    with llama_server(request.module.CONTEXT) as server:
        yield server


@pytest.fixture(scope="session")
def transcripts() -> list[Transcript]:
    found = load(folder()) if folder().is_dir() else []
    if not found:
        pytest.skip(f"no transcripts in {folder()}")
    return found
