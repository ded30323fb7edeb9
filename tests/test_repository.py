"""What the repository promises of itself: documents that agree with the code, layers, and sizes that stay small."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.core.plan import OUTCOMES
from proxy.settings import (
    HookSettings,
    ModelSettings,
    Section,
    Settings,
    SummarizerSettings,
    UpstreamSettings,
    load,
    table,
)

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "proxy"
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]


def name_of(path: Path) -> str:
    """`proxy.core.plan` for its file, `proxy.core` for the package's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# --- documents


def block(name: str) -> str:
    found = re.search(rf"<!-- {name}:[^\n]*-->\n(.*?)<!-- /{name} -->", README, re.DOTALL)
    assert found, f"README.md has no block {name}"
    return found[1]


def test_the_readme_has_the_table_of_settings() -> None:
    """As `python -m proxy.settings` prints it."""
    assert block("settings") == table()


def test_the_readme_has_the_table_of_outcomes() -> None:
    """Every name a client can see in `x-compaction`, in the words of the constant."""
    rows = [f"| `{decision}; {reason}` | {meaning} |\n" for (decision, reason), meaning in OUTCOMES.items()]
    assert block("outcomes") == "".join(["| `x-compaction` | what happened |\n|---|---|\n", *rows])


def test_the_first_screen_of_the_readme() -> None:
    """One sentence, what it does not do, the two commands, and a client with only the base URL changed."""
    screen = "\n".join(README.splitlines()[:45])
    for promise in (
        "`/v1/responses`",
        "`/v1/messages`",
        "WebSockets",
        "pip install . && compaction-proxy demo",
        "pip install -e '.[test]' && pytest",
        'OpenAI(base_url="http://127.0.0.1:8080/v1")',
    ):
        assert promise in screen


@pytest.mark.parametrize("target", re.findall(r"\]\((?!https?:)([^)#]+)\)", README))
def test_links_of_the_readme_lead_somewhere(target: str) -> None:
    """A link within the repository names a file that exists."""
    assert (ROOT / target).exists()


def test_the_example_configuration_loads_and_names_every_key() -> None:
    """It is a real file: no key missing, none that is not there."""
    settings = load(ROOT / "config.example.yaml", {"HOME": "/home/somebody"})
    places: list[tuple[Section, type[Section]]] = [
        (settings, Settings),
        (settings.summarizer, SummarizerSettings),
        (settings.models["qwen*"], ModelSettings),
        (settings.upstreams["openrouter"], UpstreamSettings),
        (settings.hooks, HookSettings),
    ]
    for section, kind in places:
        assert section.model_fields_set == set(kind.model_fields)
    assert settings.models["*"] == ModelSettings()


def test_the_example_configuration_shows_the_defaults() -> None:
    """Whoever copies it gets what whoever has no file gets, but for upstreams and models."""
    home = {"HOME": "/home/somebody"}
    settings, plain = load(ROOT / "config.example.yaml", home), load(None, home)
    changed = {name for name in Settings.model_fields if getattr(settings, name) != getattr(plain, name)}
    assert changed == {"upstreams", "models"}


def test_the_changelog_knows_the_version() -> None:
    """A release without an entry is a mistake."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_ci_runs_what_the_readme_says() -> None:
    """The script is executable, valid, and runs both commands of the README and both linters."""
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", str(script)], check=True)
    for command in ("pip install --quiet .\n", "compaction-proxy demo", "-e '.[test]'", "ruff check", "mypy", "pytest"):
        assert command in text


def test_the_vocabulary_is_the_one_tiktoken_names() -> None:
    """The one file we did not write is byte for byte the one that tiktoken would download."""
    digest = hashlib.sha256((PACKAGE / "data" / "o200k_base.tiktoken").read_bytes()).hexdigest()
    named = inspect.getsource(importlib.import_module("tiktoken_ext.openai_public").o200k_base)
    assert digest in named
    assert "MIT" in (PACKAGE / "data" / "o200k_base.LICENSE").read_text(encoding="utf-8")


# --- maps and mirrors


@pytest.mark.parametrize("init", sorted(PACKAGE.rglob("__init__.py")), ids=name_of)
def test_every_package_opens_with_its_map(init: Path) -> None:
    """The docstring has a line for every module and package in it, and for none that is gone."""
    here = {path.stem for path in init.parent.glob("*.py") if path != init}
    here |= {path.parent.name for path in init.parent.glob("*/__init__.py")}
    map_lines = (ast.get_docstring(parsed(init)) or "").splitlines()
    named = {found[1] for line in map_lines if (found := re.match(r"(\w+)(?:\.py|/)?(?: {2,}|$)", line.strip()))}
    assert named >= here
    assert not {name for name in named - here if name.islower()}


@pytest.mark.parametrize(
    "test", [path for path in SOURCES if path.name.startswith("test_") and path != Path(__file__)], ids=name_of
)
def test_tests_mirror_files(test: Path) -> None:
    """`tests/core/test_plan.py` is about `proxy/core/plan.py`, unless it drives the whole over sockets."""
    where = test.relative_to(ROOT / "tests")
    if where.parts[0] in ("e2e", "shapes", "bench"):
        return
    mirrored = PACKAGE / where.with_name(where.name.removeprefix("test_"))
    assert mirrored.exists() or mirrored.with_suffix("").is_dir(), f"{mirrored.relative_to(ROOT)} does not exist"


@pytest.mark.parametrize("module", [path for path in MODULES if path.parent == PACKAGE / "core"], ids=name_of)
def test_every_module_of_core_has_its_tests(module: Path) -> None:
    """What is pure is cheap to test; `overflow_words.py` may be tested along with `overflow.py`."""
    names = {module.stem, module.stem.partition("_")[0]}
    assert module.name == "__init__.py" or any((ROOT / "tests" / "core" / f"test_{name}.py").exists() for name in names)


# --- layers

EVERYTHING = ("proxy",)
LAYERS: list[tuple[str, tuple[str, ...]]] = [  # longest prefix wins: who may import what of this package
    ("proxy.errors", ()),
    ("proxy.settings", ("proxy.settings", "proxy.errors")),
    ("proxy.core", ("proxy.core", "proxy.errors")),
    ("proxy.ports", ("proxy.core",)),
    ("proxy.adapters", ("proxy.adapters", "proxy.core", "proxy.errors", "proxy.ports")),
    ("proxy.hooks", ("proxy.hooks", "proxy.core")),  # what an operator could have written
    ("proxy.demo", ("proxy.demo", "proxy.errors")),  # a client and an upstream: they know the proxy by its wire alone
    ("proxy.web", ("proxy.web", "proxy.core", "proxy.errors", "proxy.ports", "proxy.forward")),
    ("proxy.wiring", EVERYTHING),
    ("proxy.cli", EVERYTHING),
]
ABOVE_ENGINE = ("proxy.adapters", "proxy.web", "proxy.demo", "proxy.wiring", "proxy.cli")


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


def may_import(importer: str, imported: str) -> bool:
    """The engine and its helpers, which stand in no list, may use all that is not above them."""
    rules = [allowed for prefix, allowed in LAYERS if within(importer, prefix)]
    if rules:
        return any(within(imported, prefix) for prefix in rules[0])
    return not any(within(imported, prefix) for prefix in ABOVE_ENGINE)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_layers(module: Path) -> None:
    """`core` below `ports` below `engine` below `web` and `cli`; adapters are named by the composition root alone."""
    own = [name for name in imports(parsed(module)) if within(name, "proxy") and name != "proxy"]
    assert [name for name in own if not may_import(name_of(module), name)] == []


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("proxy.core.plan", "proxy.core.turns.Turn", True),
        ("proxy.core.plan", "proxy.settings.Settings", False),
        ("proxy.engine", "proxy.settings.Settings", True),
        ("proxy.engine", "proxy.adapters.sqlite", False),
        ("proxy.web.app", "proxy.engine.Engine", False),
        ("proxy.adapters.sqlite", "proxy.engine", False),
        ("proxy.wiring", "proxy.adapters.sqlite", True),
        ("proxy.demo.play", "proxy.engine", False),
    ],
)
def test_the_rule_of_layers(importer: str, imported: str, allowed: bool) -> None:
    """The rule above says what it should, both ways."""
    assert may_import(importer, imported) is allowed


def ruff(path: str, text: str) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "--stdin-filename", path, "-"]
    return subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        *(
            ("proxy/core/plan.py", f"import {name}")
            for name in ("asyncio", "os", "time", "random", "secrets", "socket", "sqlite3", "logging", "pathlib")
        ),
        *(("proxy/core/plan.py", f"import {name}") for name in ("aiohttp", "starlette", "uvicorn", "tiktoken")),
        *(("proxy/core/plan.py", f"import proxy.{name}") for name in ("adapters.sqlite", "web.app", "engine", "ports")),
        ("proxy/core/plan.py", "from datetime import datetime\ndatetime.now()"),
        ("proxy/engine.py", "from proxy.adapters.memory import MemoryStore"),
        ("proxy/web/app.py", "import proxy.adapters.sqlite"),
    ],
)
def test_the_linter_enforces_the_layers(path: str, statement: str) -> None:
    """What may not be imported is named by ruff, not left to manners."""
    assert "TID251" in ruff(path, f"{statement}\n")


@pytest.mark.parametrize("path", ["proxy/wiring.py", "proxy/adapters/sqlite.py", "tests/adapters/test_sqlite.py"])
def test_the_linter_lets_the_composition_root_be(path: str) -> None:
    """And the adapters themselves, and their tests."""
    assert "TID251" not in ruff(path, "import time\nimport proxy.adapters.memory\n")


@pytest.mark.parametrize("module", [path for path in MODULES if path.parent == PACKAGE / "core"], ids=name_of)
def test_core_has_no_async_and_opens_nothing(module: Path) -> None:
    """What a linter of imports cannot see."""
    for node in ast.walk(parsed(module)):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "input", "print", "exec", "eval", "__import__")


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_environment_has_one_door(module: Path) -> None:
    """The command line hands the environment to `settings.load` and `wiring.build`; nothing else looks at it."""
    if name_of(module) == "proxy.cli":
        return
    names = {node.attr for node in ast.walk(parsed(module)) if isinstance(node, ast.Attribute)}
    assert not names & {"environ", "environb", "getenv", "putenv"}


# --- craft

LONGEST_FILE = 400
LONGEST_FUNCTION = 60


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_files_and_functions_stay_short(module: Path) -> None:
    """A file that wants to be longer holds two ideas, and so does a function."""
    assert len(module.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_every_module_says_what_it_is(module: Path) -> None:
    """A docstring opens each file."""
    assert ast.get_docstring(parsed(module))


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_nothing_is_swallowed(module: Path) -> None:
    """No `except Exception: pass`, and no bare `except`."""
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None
            broad = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            assert not (broad and all(isinstance(statement, ast.Pass) for statement in node.body))


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_no_mocks_and_no_bare_ignores(source: Path) -> None:
    """The fakes are shipped, and an ignored finding is named."""
    assert not [name for name in imports(parsed(source)) if within(name, "unittest")]
    assert not re.search(r"#\s*(type: ignore(?!\[)|noqa(?!: [A-Z]))", source.read_text(encoding="utf-8"))
