"""The agents: where they come from, how each is told its server, and where it says that something failed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.agents.task import Task
from tests.e2e.agents.upstream import MODEL
from tests.e2e.clients.programs import Absent, quiet_environment

MODULES = "COMPACTION_PROXY_AGENTS"  # the environment variable that names a folder with `node_modules` of the agents
PATIENCE = 420.0  # seconds for a run; a hundred turns take one or two minutes
BELIEVED = 1_000_000  # tokens: the window the agents are told, so that their own compaction waits for an overflow
_KEY = "sk-of-an-agent"


@dataclass(frozen=True, slots=True)
class Setup:
    """What an agent is given. `window`: in tokens, what it is told of the model."""

    modules: Path
    home: Path
    base_url: str
    window: int
    prompt: str


@dataclass(frozen=True, slots=True)
class Agent:
    """`prepare` writes its configuration into the home folder and returns command line and environment."""

    name: str
    window: int  # tokens of the server it is tried with: its head (pi 1,500, opencode 7,100) and room for some files
    task: Task
    prepare: Callable[[Setup], tuple[list[str], dict[str, str]]] = field(repr=False)
    errors: Callable[[str], list[str]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Run:
    """How an agent ended: its exit code (None: killed for its time), the errors it reported, and all it said."""

    code: int | None
    errors: list[str]
    output: str = field(repr=False)


def install(folder: Path) -> Path:
    """The folder that holds `node_modules`; raises `Absent` where npm cannot deliver them."""
    if named := os.environ.get(MODULES):
        return Path(named)
    npm = shutil.which("npm")
    if npm is None:
        raise Absent("no npm here")
    shutil.copy(Path(__file__).parent / "node" / "package.json", folder)
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if installed.returncode != 0:
        raise Absent(f"npm cannot install the agents: {installed.stderr[-300:]}")
    return folder


def run(agent: Agent, repository: Path, setup: Setup) -> Run:
    """Let the agent work in `repository`, alone, with a home of its own and no network."""
    home = setup.home
    command, more = agent.prepare(setup)
    environment = quiet_environment() | {"HOME": str(home), "CI": "1", "NO_COLOR": "1", "PWD": str(repository)} | more
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        environment[name] = str(home / name.lower())
    with (home / "output").open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=repository, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            code: int | None = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        output.seek(0)
        said = output.read()
    return Run(code, agent.errors(said), said)


def _pi(setup: Setup) -> tuple[list[str], dict[str, str]]:
    settings = setup.home / "pi"
    settings.mkdir()
    model = {"id": MODEL, "contextWindow": setup.window, "maxTokens": 4096}
    provider = {"baseUrl": setup.base_url, "api": "openai-completions", "apiKey": _KEY, "models": [model]}
    (settings / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    command = [
        str(setup.modules / "node_modules" / ".bin" / "pi"),
        "--mode",
        "json",
        "-p",
        "--no-session",
        "--no-extensions",
    ]
    command += ["--no-skills", "--no-context-files", "--provider", "local", "--model", MODEL, setup.prompt]
    return command, {"PI_CODING_AGENT_DIR": str(settings), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


def _pi_errors(output: str) -> list[str]:
    messages = [e.get("message") or {} for e in _events(output) if e.get("type") == "message_end"]
    return [str(m.get("errorMessage")) for m in messages if m.get("stopReason") == "error"]


def _opencode(setup: Setup) -> tuple[list[str], dict[str, str]]:
    model = {"name": MODEL, "limit": {"context": setup.window, "output": 4096}, "tool_call": True}
    options = {"baseURL": setup.base_url, "apiKey": _KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "local", "options": options, "models": {MODEL: model}}
    config: dict[str, Any] = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"local": provider},
        "model": f"local/{MODEL}",
        "small_model": f"local/{MODEL}",
        "permission": {"edit": "allow", "bash": "allow", "webfetch": "deny"},
        "share": "disabled",
        "autoupdate": False,
    }
    switches = (
        "AUTOUPDATE",
        "MODELS_FETCH",
        "LSP_DOWNLOAD",
        "DEFAULT_PLUGINS",
        "CLAUDE_CODE",
        "EXTERNAL_SKILLS",
        "SHARE",
    )
    more = {f"OPENCODE_DISABLE_{name}": "1" for name in switches} | {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    found = next((setup.modules / "node_modules").glob("opencode-linux-*/bin/opencode"), None)
    binary = str(found or setup.modules / "node_modules" / ".bin" / "opencode")
    return [binary, "run", "--pure", "--format", "json", "--auto", "--model", f"local/{MODEL}", setup.prompt], more


def _opencode_errors(output: str) -> list[str]:
    return [json.dumps(e.get("error")) for e in _events(output) if e.get("type") == "error"]


def _events(output: str) -> list[Mapping[str, Any]]:
    """The events of an agent that prints one JSON object a line; other lines are not events."""
    found: list[Mapping[str, Any]] = []
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


AGENTS = (
    Agent("pi 0.73.1", 12_000, Task(), _pi, _pi_errors),
    # No giant: 6,300 tokens of one file next to a head of 7,100 leave a window of 16,000 no room for another.
    Agent("opencode 1.18.33", 16_000, Task(giant=0), _opencode, _opencode_errors),
)
