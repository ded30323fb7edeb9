"""A YAML file with variables in it, as plain data. Errors quote no line of the file: it may hold a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from proxy.errors import ConfigError


def read(path: Path) -> Any:
    """What the YAML says, its `${...}` still in it. Raises `ConfigError`."""
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
        yield f"{dotted(path)}: refers to itself"
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _misshapen(item, (*path, str(index)), (*above, node))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarNode) else "?")
            if inner[-1] in seen:
                yield f"{dotted(inner)}: stands twice (again in line {key.start_mark.line + 1})"
            seen.add(inner[-1])
            yield from _misshapen(value, inner, (*above, node))


_VARIABLE = re.compile(r"\$(\$?)\{([^{}]*)\}")


def interpolated(value: Any, env: Mapping[str, str], path: tuple[str, ...], problems: list[str]) -> Any:
    """`value` with `${NAME}` and `${NAME:-default}` replaced in its strings; `$${` stands for `${`.

    A value that is nothing but `$NAME` is a problem: it would go out as it stands, in place of a key.
    """
    if isinstance(value, dict):
        return {key: interpolated(item, env, (*path, str(key)), problems) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item, env, (*path, str(index)), problems) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"\$[A-Za-z_]\w*", value, re.ASCII):
        problems.append(f"{dotted(path)}: {value} is no variable, did you mean ${{{value[1:]}}}?")

    def replacement(match: re.Match[str]) -> str:
        escaped, inside = match.groups()
        if escaped:
            return f"${{{inside}}}"
        name, has_default, default = inside.partition(":-")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            problems.append(f"{dotted(path)}: ${{...}} must be ${{NAME}} or ${{NAME:-default}}")
        elif not env.get(name) and not has_default:
            problems.append(f"{dotted(path)}: the environment variable {name} is not set (or empty)")
        return env.get(name) or default

    return _VARIABLE.sub(replacement, value)


def dotted(path: tuple[str, ...]) -> str:
    """A key's place, for an error."""
    return ".".join(part if re.fullmatch(r"\w+", part) else json.dumps(part) for part in path) or "the file"
