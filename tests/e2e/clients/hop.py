"""The LiteLLM proxy as a hop between ours and the fake: it rewords every error and takes every stream apart."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import yaml

from tests.e2e.clients.programs import Absent, quiet_environment

COMMAND = "COMPACTION_PROXY_LITELLM"  # the environment variable that names a `litellm` of another environment
KEY = "sk-of-a-hop-in-a-test-0f6d1b7c25ae4893"  # it starts with no key that looks weak
PATIENCE = 90.0  # seconds to start; it takes eight on an idle machine


def command() -> str:
    """The `litellm` to run; raises `Absent` where there is none with its `proxy` extra."""
    if named := os.environ.get(COMMAND):
        return named
    beside = Path(sys.executable).with_name("litellm")
    if not beside.exists() or find_spec("litellm_proxy_extras") is None:
        raise Absent(f"no litellm[proxy] here, and {COMMAND} names none")
    return str(beside)


@contextmanager
def hop(upstream: str) -> Iterator[str]:
    """Run the LiteLLM proxy before `upstream` (a base URL); yields its base URL, ending in /v1."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as output:
        config = Path(folder) / "config.yaml"
        to = {"model": "openai/*", "api_base": upstream, "api_key": "sk-of-the-fake"}
        models = [{"model_name": "*", "litellm_params": to}]
        config.write_text(yaml.safe_dump({"model_list": models, "litellm_settings": {"telemetry": False}}))
        port = _free_port()
        address = f"http://127.0.0.1:{port}"
        process = subprocess.Popen(
            [command(), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=quiet_environment() | {"LITELLM_MASTER_KEY": KEY},
        )
        try:
            if not _alive(process, f"{address}/health/liveliness"):
                output.seek(0)
                raise RuntimeError(f"the LiteLLM proxy did not start: {output.read()[-2000:]}")
            yield f"{address}/v1"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _alive(process: subprocess.Popen[bytes], url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with opener.open(url, timeout=5):
                return True
        except OSError:
            time.sleep(0.2)
    return False
