"""Names for secrets are found, and what nobody would make up is told from what has a name."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.credentials import BEGINNINGS, Demand, folded, meant, mixed, names, opaque

NAMES = {  # what a value behind it must look like
    "password": Demand.NOTHING,
    "DB_PASSWORD": Demand.NOTHING,
    "apiKey": Demand.NOTHING,
    "x-api-key": Demand.NOTHING,
    "Mot de passe": Demand.NOTHING,
    "κωδικός": Demand.NOTHING,
    "API key": Demand.DIGIT,
    "recovery code": Demand.DIGIT,
    "密钥": Demand.DIGIT,
    "STRIPE_KEY": Demand.OPAQUE,
    "licenseKey": Demand.OPAQUE,
    "tokens": Demand.OPAQUE,
    "SECRET_KEY_BASE": Demand.OPAQUE,
    "tokenValue": Demand.OPAQUE,
}


@pytest.mark.parametrize("text", NAMES)
def test_names_and_what_they_demand(text: str) -> None:
    """The surer the name, the less is asked of the value."""
    found = list(names(text, folded(text), BEGINNINGS))
    assert (found[-1].end, found[-1].demand) == (len(text), NAMES[text])


@pytest.mark.parametrize("text", ["key", "primary_key", "sortKey", "the key", "monkey", "keyboard", "ordinary", "spin"])
def test_what_is_no_name(text: str) -> None:
    """Keys of tables and of pianos."""
    assert list(names(text, folded(text), BEGINNINGS)) == []


@given(st.uuids(version=4), st.binary(min_size=16, max_size=32))
def test_ids_and_hashes_are_opaque(value: uuid.UUID, data: bytes) -> None:
    """Unless they are digits alone, or letters alone."""
    assert opaque(str(value))
    assert opaque(data.hex()) == (not data.hex().isdigit() and not data.hex().isalpha())


@pytest.mark.parametrize(
    "value",
    ["getUserTokenFromRequest", "user-message-selector-2", "/srv/9f8e7d6c5b4a3928", "required", "python3.11", ""],
)
def test_what_has_a_name_is_not_opaque(value: str) -> None:
    """Code, files, versions."""
    assert not opaque(value)


def test_what_is_meant_depends_on_the_name() -> None:
    """Placeholders and types never are; a word behind `password:` is; a digit may be asked for."""
    assert meant("hunter", Demand.NOTHING) and not meant("hunter", Demand.DIGIT) and meant("hunter2", Demand.DIGIT)
    assert not meant("hunter2", Demand.OPAQUE)
    assert not any(meant(value, Demand.NOTHING) for value in ("string", "None", "${TOKEN}", "[redacted]", "load("))
    assert meant("strong1", Demand.NOTHING) and meant("nonesuch", Demand.NOTHING)
    assert mixed("hunter2") and not mixed("hunter") and not mixed("123456") and not mixed("./a1b2c3")


@given(st.text())
def test_folding_moves_nothing(text: str) -> None:
    """Places in the folded text are places in the text."""
    assert len(folded(text)) == len(text)
