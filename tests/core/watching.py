"""How much is read: for tests that bound the work instead of measuring time."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def lengths(monkeypatch: pytest.MonkeyPatch, place: str) -> list[int]:
    """The lengths of what the function at this dotted place is given first, from here on."""
    module, _, name = place.rpartition(".")
    work = getattr(importlib.import_module(module), name)
    read: list[int] = []

    def noted(first: Any, *more: Any) -> Any:
        read.append(len(first))
        return work(first, *more)

    monkeypatch.setattr(place, noted)
    return read
