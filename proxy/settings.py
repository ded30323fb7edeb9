"""What the operator configures: YAML, read once into frozen models. The only reader of the environment.

`load` gives the settings of a file; `python -m proxy.settings` prints the README's table of all keys.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from proxy.errors import ConfigError

CONFIG_VARIABLE = "COMPACTION_PROXY_CONFIG"
STORE_FILE = "compaction.db"


def _url(text: str) -> str:
    """An absolute http(s) address without its trailing slashes."""
    allowed = "must be an http:// or https:// address"
    if not re.fullmatch(r"[!-\[\]-~]+", text):  # printable ASCII, no space, no backslash
        raise ValueError(f"{allowed} in ASCII, without spaces or backslashes")
    parts = urlsplit(text)  # a ValueError of its own for a broken IPv6 host
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(allowed)
    if "@" in parts.netloc:
        raise ValueError(f"{allowed} without user name or password (use api_key)")
    if "?" in text or "#" in text:
        raise ValueError(f"{allowed} without query or fragment")
    if parts.port == 0:  # reading the port raises ValueError where it is no number up to 65535
        raise ValueError(f"{allowed} with a port from 1 to 65535")
    return text.rstrip("/")


def _store(text: str) -> str:
    path = text.removeprefix("sqlite:")
    if text in ("", "memory:") or (path != text and path.strip() and not path.startswith(":") and "\0" not in path):
        return text
    raise ValueError("must be sqlite:PATH or memory:")


def _key(secret: SecretStr | None) -> SecretStr | None:
    """An empty key is none: `${KEY:-}` makes a key optional. Others must be fit for a header field."""
    text = secret.get_secret_value() if secret else ""
    if not re.fullmatch(r"[!-~]*", text):
        raise ValueError("must be printable ASCII without spaces")
    return secret if text else None


Mode = Literal["compact", "observe", "passthrough"]
Seconds = Annotated[float, Field(gt=0)]
Tokens = Annotated[int, Field(ge=256)]
Url = Annotated[str, AfterValidator(_url)]
StoreName = Annotated[str, AfterValidator(_store)]
Key = Annotated[SecretStr | None, AfterValidator(_key)]
Name = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """Frozen, and strict about keys: a misspelt key is an error, not a default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


AnySection = TypeVar("AnySection", bound=Section)


class SummarizerSettings(Section):
    """Who writes summaries. Without a `model` the request's own model does."""

    model: Name | None = None
    """The model that writes summaries; unset: the model of the request."""
    upstream: Url | None = None
    """Where that model is served; unset: where the request goes."""
    api_key: Key = None
    """The key for the summarizer's `upstream`."""
    window: Tokens | None = None
    """The summarizer's context window in tokens; unset: as for any model of its name."""
    wait: Annotated[float, Field(ge=0)] = 20
    """Seconds a request waits for its summary, chunks and retries together; then it goes out with one made without a
    model, and the summary serves the next turn."""
    silence: Seconds = 180
    """Seconds a summary call may say nothing."""
    total: Seconds = 600
    """Seconds a summary call may take."""
    max_tokens: Annotated[int, Field(ge=64)] | None = None
    """The output limit of a summary call; unset: chosen from the size of what is to be written."""
    calls_per_hour: Annotated[int, Field(ge=1)] = 120
    """The most summary calls in an hour; beyond it summaries are made without a model."""
    fallbacks: tuple[Name, ...] = ()
    """Models to ask, in this order, when `model` fails; served at the same place."""


class ModelSettings(Section):
    """What is known of the models that a pattern matches; the first matching pattern wins."""

    window: Tokens | None = None
    """The context window in tokens; unset: found out, at the latest from the upstream's first refusal."""
    compact_at: Tokens | None = None
    """Compact above so many tokens already, though the window would hold more."""
    upstream: Url | None = None
    """Where these models are served; unset: at the common `upstream`."""
    upstream_model: Name | None = None
    """The model's name there; unset: the name the client uses."""
    api_key: Key = None
    """The key for this `upstream`; the word `client` passes the client's own on; unset: it gets none."""
    summarizer: SummarizerSettings | None = None
    """Who summarizes for these models, in place of the common section (the keys are the same)."""
    mode: Mode | None = None
    """As the common `mode`, for these models."""
    timeout: Seconds | None = None
    """Seconds to the first byte of an answer; unset: no limit."""


class Settings(Section):
    upstream: Url = "https://api.openai.com/v1"
    """The OpenAI-compatible server, its path up to and including `/v1`."""
    api_key: Key = None
    """The key for `upstream`, sent instead of the client's own; unset: the client's key is passed on."""
    models: dict[Name, ModelSettings] = {}
    """What is known of which models: a section for each pattern (`*` and `?` stand for any text and any character);
    the first that matches the model's name wins."""
    summarizer: SummarizerSettings = SummarizerSettings()
    """Who writes summaries."""
    store: StoreName = ""
    """Where compactions are kept: `sqlite:PATH` (relative to this file) or `memory:`; unset: `compaction.db` in the
    user's data directory."""
    mode: Mode = "compact"
    """`compact`, `observe` (plan, count and report, change nothing) or `passthrough` (touch nothing, not even after an
    overflow)."""
    clearing: bool = True
    """Clear old tool results before anything is summarized."""
    keepalive_after: Seconds | None = 10
    """Seconds after which a streaming client that waits for a summary gets a comment line; null: never."""
    connect_timeout: Seconds = 10
    """Seconds to make a connection to an upstream."""
    max_body: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    """Bytes; a larger request body passes through unread."""


# --- loading


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
    if path is None and env.get(CONFIG_VARIABLE):
        path = Path(env[CONFIG_VARIABLE])
    settings = Settings() if path is None else _validated(Settings, str(path), _read(path), env)
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
    if not settings.store:
        changes["store"] = f"sqlite:{_data_directory(env, platform) / STORE_FILE}"
    elif settings.store.startswith("sqlite:"):
        folder = path.parent if path else Path()
        changes["store"] = f"sqlite:{_expanded(folder, settings.store.removeprefix('sqlite:'), env)}"
    return settings.model_copy(update=changes)


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


def _read(path: Path) -> Any:
    """What the YAML says, its `${...}` still in it. Messages quote no line of the file: it may hold a key."""
    try:
        loader = yaml.SafeLoader(path.read_bytes())
        node = loader.get_single_node()
        problems = list(_misshapen(node, (), ())) if node else []
        if not problems:
            raw = loader.construct_document(node) if node else None
            return {} if raw is None else raw
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise ConfigError(f"{path}:{where} not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML ({type(error).__name__})") from None
    raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))


def _misshapen(node: yaml.Node, path: tuple[str, ...], above: tuple[yaml.Node, ...]) -> Iterator[str]:
    """What YAML's reader lets pass: a key that stands twice (the last would win), a node that contains itself."""
    if any(node is outer for outer in above):
        yield f"{_dotted(path)}: refers to itself"
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _misshapen(item, (*path, str(index)), (*above, node))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarNode) else "?")
            if inner[-1] in seen:
                yield f"{_dotted(inner)}: stands twice (again in line {key.start_mark.line + 1})"
            seen.add(inner[-1])
            yield from _misshapen(value, inner, (*above, node))


def _validated(section: type[AnySection], source: str, raw: Any, env: Mapping[str, str]) -> AnySection:
    """`raw` as a section; `source` (a file's name) opens every line of the error."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{source}: must be a mapping of keys to values, not {_shown(raw)}")
    problems: list[str] = []
    data = _interpolated(raw, env, (), problems)
    if not problems:
        try:
            return section.model_validate(data)
        except ValidationError as error:
            problems = [
                _problem(section, item["loc"], item["type"], item["msg"], raw)
                for item in error.errors(include_url=False, include_context=False, include_input=False)
            ]
    raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems))


_VARIABLE = re.compile(r"\$(\$?)\{([^{}]*)\}")


def _interpolated(value: Any, env: Mapping[str, str], path: tuple[str, ...], problems: list[str]) -> Any:
    """`value` with `${NAME}` and `${NAME:-default}` replaced in its strings; `$${` stands for `${`."""
    if isinstance(value, dict):
        return {key: _interpolated(item, env, (*path, str(key)), problems) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolated(item, env, (*path, str(index)), problems) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        escaped, inside = match.groups()
        if escaped:
            return f"${{{inside}}}"
        name, has_default, default = inside.partition(":-")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            problems.append(f"{_dotted(path)}: ${{...}} must be ${{NAME}} or ${{NAME:-default}}")
        elif not env.get(name) and not has_default:
            problems.append(f"{_dotted(path)}: the environment variable {name} is not set (or empty)")
        return env.get(name) or default

    return _VARIABLE.sub(replacement, value)


def _problem(section: type[Section], where: tuple[int | str, ...], kind: str, message: str, raw: Any) -> str:
    """One line: the key, what is wrong with it, what is allowed, the value as the file has it."""
    path = tuple(str(part) for part in where)
    if kind == "extra_forbidden":
        allowed = _keys_at(section, path[:-1])
        close = difflib.get_close_matches(path[-1], allowed, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        return f"{_dotted(path)}: unknown key{hint} (allowed: {', '.join(allowed)})"
    text = message.removeprefix("Value error, ")
    if kind in ("model_type", "dict_type"):
        text = "must be a mapping of keys to values"
    text = re.sub("^(Input|String) should", "must", text)
    if path[-1] == "[key]":
        return f"{_dotted(path[:-1])}: the key {text}"
    if "api_key" in path:
        return f"{_dotted(path)}: {text}"
    value = raw
    for part in where:
        value = value[part]
    return f"{_dotted(path)}: {text}, not {_shown(value)}"


def _keys_at(section: type[Section], path: tuple[str, ...]) -> list[str]:
    """The keys that are allowed at `path`."""
    steps = iter(path)
    for step in steps:
        inner = _inner(section.model_fields[step].annotation)
        assert inner is not None
        section, is_mapping = inner
        if is_mapping:
            next(steps, None)  # the pattern
    return list(section.model_fields)


def _inner(annotation: Any) -> tuple[type[Section], bool] | None:
    """The section in a field's type, and whether a mapping of sections is meant; None for a plain value."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, Section):
            return part, get_origin(annotation) is dict
    return None


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(part if re.fullmatch(r"\w+", part) else json.dumps(part) for part in path) or "the file"


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


# --- the README's table


def table() -> str:
    """All keys as a Markdown table."""
    lines = ["| key | default | what it says |", "|---|---|---|"]
    lines += [f"| `{key}` | {default} | {text} |" for key, default, text in _rows(Settings, "")]
    return "\n".join(lines) + "\n"


def _rows(section: type[Section], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in section.model_fields.items():
        text = " ".join((field.description or "").split())
        inner = _inner(field.annotation)
        plain = isinstance(field.default, str | int | float) and field.default != ""
        yield f"{prefix}{name}", f"`{str(field.default).lower()}`" if plain else "", text
        if inner and not (prefix and name == "summarizer"):  # a model's summarizer has the same keys
            yield from _rows(inner[0], f"{prefix}{name}.{'PATTERN.' if inner[1] else ''}")


if __name__ == "__main__":
    sys.stdout.write(table())
