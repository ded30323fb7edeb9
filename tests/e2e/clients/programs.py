"""The clients: what each needs to be there, how it is started, and how it is talked to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.e2e.clients.drivers.pipe import Opening

PATIENCE = 60.0  # seconds for one line; importing the largest of the libraries takes ten on a busy machine
NODE = Path(__file__).parent / "node"
OLDEST_NODE = 20  # what the locked `openai` runs on
ROOT = Path(__file__).parents[3]
_NO_NETWORK = re.compile(r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED)\b")

# No library may talk to anybody but the address it is given. The proxy is a closed port: what is not switched off here
# fails at once instead of leaving the machine.
_QUIET = {
    "ALL_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


def quiet_environment() -> dict[str, str]:
    """The environment for a program that shall talk to this machine alone, and that knows no key of ours."""
    kept = {name: value for name, value in os.environ.items() if name.upper() not in _QUIET and "API_KEY" not in name}
    return kept | _QUIET


class Absent(Exception):
    """What a client needs is not on this machine; the text says what."""


@dataclass(frozen=True, slots=True)
class Client:
    """`command` makes the command line, given a folder for what has to be installed; it raises `Absent`."""

    name: str
    command: Callable[[Path], list[str]] = field(repr=False)


def _python(driver: str, module: str) -> Client:
    def command(folder: Path) -> list[str]:
        if find_spec(module) is None:
            raise Absent(f"no {module} here")
        return [sys.executable, "-m", f"tests.e2e.clients.drivers.{driver}"]

    return Client(module, command)


def _node(folder: Path) -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Absent("no node and npm here")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        raise Absent(f"node {version.strip()} is older than {OLDEST_NODE}")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(NODE / name, folder)
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1"]
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True)
    if installed.returncode != 0:
        if _NO_NETWORK.search(installed.stderr):
            raise Absent("npm cannot reach its registry")
        raise RuntimeError(f"npm ci: {installed.stderr[-2000:]}")
    return [node, str(NODE / "drive.mjs"), str(folder)]


CLIENTS = (
    _python("with_openai", "openai"),
    Client("openai for Node", _node),
    _python("with_langchain", "langchain_openai"),
    _python("with_pydantic_ai", "pydantic_ai"),
    _python("with_litellm", "litellm"),
)


@dataclass
class Driver:
    """A running client. One conversation at a time; `begin` starts a new one."""

    process: subprocess.Popen[str]
    errors: Any = field(repr=False)  # the file its standard error goes to

    def begin(self, opening: Opening) -> None:
        self._tell({"begin": asdict(opening)})
        self._hear()

    def say(self, text: str, stream: bool, result: Callable[[str, str], str]) -> Mapping[str, Any]:
        """One turn: `{"seen": ...}` or `{"error": ...}`, see `drivers.pipe`. `result` runs a tool."""
        self._tell({"say": text, "stream": stream})
        while "call" in (heard := self._hear()):
            self._tell({"result": result(*heard["call"])})
        return heard

    def _tell(self, value: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        watchdog.join()
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"the client ended or was silent for {PATIENCE:.0f} s: {self.errors.read()[-2000:]}")
        return dict(json.loads(line))


@contextmanager
def driver(client: Client) -> Iterator[Driver]:
    """Run the client; raises `Absent` where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as errors:
        command = client.command(Path(folder))
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env=quiet_environment(),
        )
        with process:
            try:
                yield Driver(process, errors)
            finally:
                process.terminate()
