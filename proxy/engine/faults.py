"""How a failure that nobody expected is told to the log: its kind and place. Its words may be a client's."""

from __future__ import annotations

import traceback

FRAMES = 6
"""Of the stack, from the place of the failure upwards: enough to see who called whom."""


def place(error: BaseException) -> str:
    """`ValueError at plan.py:42 in plan < decider.py:77 in decide`: no text of the exception, none of its causes."""
    frames = list(traceback.walk_tb(error.__traceback__))[-FRAMES:]
    named = (
        f"{frame.f_code.co_filename.rpartition('/')[2]}:{line} in {frame.f_code.co_name}" for frame, line in frames
    )
    return f"{type(error).__name__} at {' < '.join(reversed(list(named)))}"
