"""Which keys there are: for the error that names them, and for the README's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from proxy.settings.fields import Section, Settings

_ITEMS = {"models": "PATTERN", "upstreams": "NAME", "clients": "N"}
"""What stands between a key and those of its sections, where it holds several."""


def keys_at(section: type[Section], path: tuple[str, ...]) -> list[str]:
    """The keys that are allowed at `path`."""
    steps = iter(path)
    for step in steps:
        inner = _inner(section.model_fields[step].annotation)
        assert inner is not None
        section = inner
        if step in _ITEMS:
            next(steps, None)
    return list(section.model_fields)


def _inner(annotation: Any) -> type[Section] | None:
    """The section in a field's type; None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner(part))), None)


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
        if inner and not (prefix and name == "summarizer"):  # that of a model or an upstream has the same keys
            yield from _rows(inner, f"{prefix}{name}.{_ITEMS[name] + '.' if name in _ITEMS else ''}")
