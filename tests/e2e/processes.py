"""Programs in processes of their own, as an operator runs them."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

PATIENCE = 60.0  # seconds to start; loading a tokeniser and a model takes one or two on an idle machine
_ADDRESS = re.compile(r"listens on (http://\S+)")


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """Run `python ARGUMENTS`; yield the address it says it listens on. Its output is shown if it does not get there."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        command = (sys.executable, *arguments)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield _address(process, output)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


@contextmanager
def compaction_proxy(upstream: str, **settings: Any) -> Iterator[str]:
    """`compaction-proxy serve` before `upstream` (a base URL), nothing kept on disk; yields its base URL.

    `settings` are keys of the configuration file.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        content: Mapping[str, Any] = {"upstream": upstream, "store": "memory:", **settings}
        config.write_text(yaml.safe_dump(content), encoding="utf-8")
        with running("-m", "proxy.cli", "serve", "--port", "0", "--config", str(config)) as address:
            yield f"{address}/v1"


def _address(process: subprocess.Popen[bytes], output: Any) -> str:
    deadline = time.monotonic() + PATIENCE
    while True:
        output.seek(0)
        said = output.read()
        if found := _ADDRESS.search(said):
            return found[1]
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} did not start: {said[-2000:]}")
        time.sleep(0.05)
