"""The tests of `test_llama` with a larger context: a module of its own, so that both can run at once."""

from __future__ import annotations

from tests.e2e.test_llama import (
    test_context_errors_are_recognised,
    test_replayed,
    test_streams_and_calls_in_turn,
    test_too_long_for_anything,
    test_window_is_advertised,
)

CONTEXT = 4096  # tokens

__all__ = [
    "test_context_errors_are_recognised",
    "test_replayed",
    "test_streams_and_calls_in_turn",
    "test_too_long_for_anything",
    "test_window_is_advertised",
]
