"""The machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `Clock`."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
