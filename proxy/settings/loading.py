"""A file and the command line as settings; what is wrong with them, in words."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from proxy.errors import ConfigError
from proxy.settings.fields import ModelSettings, Section, Settings
from proxy.settings.keys import keys_at
from proxy.settings.source import dotted, interpolated, read

CONFIG_VARIABLE = "COMPACTION_PROXY_CONFIG"
STORE_FILE = "compaction.db"

FILE = "file:"
TEXTS = (("summarizer", "instructions"), ("summarizer", "prompt"))
"""Where `file:PATH` stands for what is in that file."""

AnySection = TypeVar("AnySection", bound=Section)


def load(
    path: Path | None,
    env: Mapping[str, str],
    *,
    upstream: str | None = None,
    window: int | None = None,
    platform: str = sys.platform,
) -> Settings:
    """The settings of a file, by default the one `COMPACTION_PROXY_CONFIG` names; without a file the defaults.

    `upstream` and `window` are the command line's. `upstream` replaces the file's. `window` becomes that of the pattern
    `*` (added as the last one where it is missing) and of every pattern that states none.
    The `store` of the result is never empty and never relative. Raises `ConfigError`, one line per problem.
    """
    path = _named(path, env)
    settings = Settings() if path is None else _validated(Settings, str(path), read(path), env, path.parent)
    changes: dict[str, object] = {}
    if upstream is not None:
        changes["upstream"] = _validated(Settings, "command line", {"upstream": upstream}, {}).upstream
    if window is not None:
        every = _validated(ModelSettings, "command line", {"window": window}, {})
        changes["models"] = models = {
            pattern: model.model_copy(update={"window": window}) if pattern == "*" or model.window is None else model
            for pattern, model in settings.models.items()
        }
        models.setdefault("*", every)
    changes["store"] = _placed(settings.store, path, env, platform)
    return settings.model_copy(update=changes)


def load_store(path: Path | None, env: Mapping[str, str], *, platform: str = sys.platform) -> str:
    """The `store` of `load`, and nothing else: whoever looks at what is kept need not have the keys of the server."""
    path = _named(path, env)
    raw = {} if path is None else read(path)
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if key == "store"}
    return _placed(_validated(Settings, str(path), raw, env).store, path, env, platform)


def _named(path: Path | None, env: Mapping[str, str]) -> Path | None:
    return Path(env[CONFIG_VARIABLE]) if path is None and env.get(CONFIG_VARIABLE) else path


def _placed(store: str, path: Path | None, env: Mapping[str, str], platform: str) -> str:
    """A store by its whole name. The directory of one that is named has to be there: a new one would be a typo."""
    if not store:
        return f"sqlite:{_data_directory(env, platform) / STORE_FILE}"
    if not store.startswith("sqlite:"):
        return store
    place = _expanded(path.parent if path else Path(), store.removeprefix("sqlite:"), env)
    if not place.parent.is_dir():
        raise ConfigError(f"{path}: store: there is no directory {place.parent}")
    return f"sqlite:{place}"


def _data_directory(env: Mapping[str, str], platform: str) -> Path:
    """The user's data directory: freedesktop's XDG base directories, Apple's and Microsoft's equivalents."""
    name = "compaction-proxy"
    try:
        if platform == "win32":
            return Path(env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / name
        home = Path(env.get("HOME") or Path.home())
    except RuntimeError as error:
        raise ConfigError("there is no home directory to keep compactions in: set `store` in a config file") from error
    if platform == "darwin":
        return home / "Library" / "Application Support" / name
    data = Path(env.get("XDG_DATA_HOME", ""))
    return (data if data.is_absolute() else home / ".local" / "share") / name  # the XDG text: ignore a relative one


def _expanded(folder: Path, text: str, env: Mapping[str, str]) -> Path:
    if text.startswith("~/") and env.get("HOME"):
        return Path(env["HOME"], text[2:])
    return (folder / text).absolute()


def _validated(
    section: type[AnySection], source: str, raw: Any, env: Mapping[str, str], folder: Path | None = None
) -> AnySection:
    """`raw` as a section; `source` (a file's name) opens every line of the error, `folder` is where it lies."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: must be a mapping of keys to values, not {_shown(raw)}")
    problems: list[str] = []
    data = interpolated(raw, env, (), problems)
    if folder is not None:
        data = _with_texts(data, folder, env, (), problems)
    if not problems:
        try:
            return section.model_validate(data)
        except ValidationError as error:
            problems = [
                _problem(section, item["loc"], item["type"], item["msg"], raw)
                for item in error.errors(include_url=False, include_context=False, include_input=False)
            ]
    raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems))


def _with_texts(value: Any, folder: Path, env: Mapping[str, str], path: tuple[str, ...], problems: list[str]) -> Any:
    """`value` with the texts that `file:PATH` stands for, wherever a summarizer may have one."""
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        where = (*path, str(key))
        if where[-2:] in TEXTS and isinstance(item, str) and item.startswith(FILE):
            file = _expanded(folder, item.removeprefix(FILE).strip(), env)
            try:
                item = file.read_text(encoding="utf-8")
            except OSError as error:
                problems.append(f"{dotted(where)}: {file} cannot be read: {error.strerror}")
            except ValueError:  # not UTF-8; a name that no file can have
                problems.append(f"{dotted(where)}: {file} is no text in UTF-8")
        found[key] = _with_texts(item, folder, env, where, problems)
    return found


def _problem(section: type[Section], where: tuple[int | str, ...], kind: str, message: str, raw: Any) -> str:
    """One line: the key, what is wrong with it, what is allowed, the value as the file has it."""
    path = tuple(str(part) for part in where)
    if kind == "extra_forbidden":
        allowed = keys_at(section, path[:-1])
        close = difflib.get_close_matches(path[-1], allowed, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        return f"{dotted(path)}: unknown key{hint} (allowed: {', '.join(allowed)})"
    text = message.removeprefix("Value error, ")
    if kind in ("model_type", "dict_type"):
        text = "must be a mapping of keys to values"
    if kind in ("tuple_type", "list_type"):
        text = "must be a list"
    text = re.sub("^(Input|String) should", "must", text)
    if kind == "invalid_key":
        return f"{dotted(path)}: the key must be a text"
    if path[-1] == "[key]":
        return f"{dotted(path[:-1])}: the key {text}"
    if kind == "missing":
        return f"{dotted(path)}: must be set"
    if path[-1] == "sha256":
        text = "must be 64 hex digits" + (", in quotes" if kind == "string_type" else "")
    if not {"api_key", "clients", "secret", "options", "prompt"}.isdisjoint(path):
        return f"{dotted(path)}: {text}"
    value = raw
    for part in where:
        value = value[part]
    if kind == "value_error" and isinstance(value, dict):  # what is wrong lies between its keys
        return f"{dotted(path)}: {text}"
    return f"{dotted(path)}: {text}, not {_shown(value)}"


def _shown(value: Any) -> str:
    """A value for an error message: as it stands in the file (no variable replaced), shortened, addresses censored."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        _, at, host = value.rpartition("@")
        address, query, _ = (f"***@{host}" if at else value).partition("?")
        value = address + ("?***" if query else "")
        return repr(value if len(value) <= 80 else value[:77] + "...")
    return "empty" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
