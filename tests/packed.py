"""Bodies in gzip that are the same on every run: they name test cases."""

from __future__ import annotations

import gzip


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)
