"""What a configuration says, and its author hardly means."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from proxy.settings.fields import Settings

_ENDPOINT = "/chat/completions"


def doubts(settings: Settings) -> Iterator[str]:
    """One line for each."""
    for key, url in _addresses(settings):
        path = urlsplit(url).path
        if path.endswith(_ENDPOINT):
            yield f"{key}: {url} should end before {_ENDPOINT}: the path of a request is put behind it"
        elif not path:
            yield f"{key}: {url} has no path, and most servers want one that ends in /v1"
    if (settings.hooks.webhook or settings.hooks.python) and settings.hooks.timeout >= settings.summarizer.wait > 0:
        yield (
            f"hooks.timeout: {settings.hooks.timeout:g} s are not less than summarizer.wait: a request that a slow "
            "hook holds up goes out with a summary made without a model"
        )
    earlier: list[str] = []
    for pattern, model in settings.models.items():
        if model.window is not None and model.compact_at is not None and model.compact_at > model.window:
            yield f"models.{pattern}.compact_at: {model.compact_at} is above the window {model.window}: it says nothing"
        wider = next((other for other in earlier if _covers(other, pattern)), None)
        if wider is not None:
            yield f"models.{pattern}: never used, because {wider} stands before it and matches all that it matches"
        earlier.append(pattern)


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    """Whatever is an address and not the name of one, and its key."""
    found: list[tuple[str, str | None]] = [("upstream", settings.upstream)]
    found += [(f"upstreams.{name}.url", upstream.url) for name, upstream in settings.upstreams.items()]
    found.append(("summarizer.upstream", settings.summarizer.upstream))
    for name, upstream in settings.upstreams.items():
        if upstream.summarizer is not None:
            found.append((f"upstreams.{name}.summarizer.upstream", upstream.summarizer.upstream))
    for pattern, model in settings.models.items():
        found.append((f"models.{pattern}.upstream", model.upstream))
        if model.summarizer is not None:
            found.append((f"models.{pattern}.summarizer.upstream", model.summarizer.upstream))
    return ((key, url) for key, url in found if url is not None and "://" in url)


def _covers(wide: str, narrow: str) -> bool:
    """Whether a pattern surely matches whatever another one does. As a text, `narrow` stands for all that it matches
    if only the stars of `wide` can take in its wildcards.
    """
    if set(wide) == {"*"}:
        return True
    literal = not set("*?[") & set(narrow)
    return (literal or not set("?[") & set(wide + narrow)) and fnmatchcase(narrow, wide)
