"""The package's map."""

from __future__ import annotations

import pkgutil

import proxy.demo


def test_the_map_names_every_module() -> None:
    """Whoever opens the package finds each module in its docstring."""
    named = [line.split()[0] for line in (proxy.demo.__doc__ or "").splitlines() if "  " in line]
    assert sorted(named) == sorted(module.name for module in pkgutil.iter_modules(proxy.demo.__path__))
