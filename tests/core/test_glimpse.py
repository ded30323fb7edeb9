"""The model's name in bodies that nobody reads: where it stands in them, and where it only seems to."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.glimpse import END, SMALL, model
from tests.packed import gz

NAME = b'"model": "m-1"'
LONG = b'"' + b"x" * SMALL + b'"'

BODIES: list[tuple[str, bytes, str | None]] = [
    ("plain", b"{" + NAME + b', "messages": []}', "m-1"),
    ("last", b'{"messages": [], ' + NAME + b"}", "m-1"),
    ("not at all", b'{"messages": []}', None),
    ("null", b'{"model": null}', None),
    ("a number", b'{"model": 5}', None),
    ("a list", b"[{" + NAME + b"}]", None),
    ("escaped", b'{"model": "m\\u002d1"}', "m-1"),
    ("twice: parsers take the last", b'{"model": "m-0", ' + NAME + b"}", "m-1"),
    ("only deeper", b'{"messages": [{' + NAME + b"}]}", None),
    ("only in a text", b'{"a": "{\\"model\\": \\"m-1\\"}"}', None),
    ("as a value", b'{"a": "model", "b": "m-1"}', None),
    ("trailing comma", b"{" + NAME + b', "messages": [1,],}', "m-1"),
    ("trailing comma, last", b'{"messages": [1,], ' + NAME + b"}", "m-1"),
    ("BOM", b"\xef\xbb\xbf {" + NAME + b"}", "m-1"),
    ("cut off behind it", b"{" + NAME + b', "messages": [{"content": "x', "m-1"),
    ("cut off in it", b'{"model": "m-', None),
    ("cut off before its end, and only deeper", b'{"messages": [{' + NAME, None),
    ("invalid UTF-8 elsewhere", b'{"a": "\xff", ' + NAME + b"}", "m-1"),
    ("invalid UTF-8 in it", b'{"model": "\xff"}', None),
    ("large, first", b"{" + NAME + b', "a": ' + LONG + b"}", "m-1"),
    ("large, last", b'{"a": ' + LONG + b", " + NAME + b', "tools": [{"x": "}"}]}', "m-1"),
    ("large, deeper at both ends", b'{"a": {' + NAME + b'}, "b": ' + LONG + b', "c": {' + NAME + b"}}", None),
    ("large, in the middle", b'{"a": ' + LONG + b", " + NAME + b', "b": ' + LONG + b"}", None),
    ("large, twice", b'{"model": "m-0", "a": ' + LONG + b", " + NAME + b"}", "m-1"),
    ("large, then something else", b'{"a": ' + LONG + b", " + NAME + b"} {}", None),
    ("large, in a text", b'{"a": ' + LONG[:-1] + b'{\\"model\\": \\"m-1\\"}"}', None),
    ("no JSON", b"model=m-1", None),
    ("empty", b"", None),
]


@pytest.mark.parametrize(("body", "name"), [c[1:] for c in BODIES], ids=[c[0] for c in BODIES])
def test_what_a_body_asks_for(body: bytes, name: str | None) -> None:
    """Of its outermost object, in whatever state."""
    assert model(body, None, whole=True) == name


@pytest.mark.parametrize(("body", "name"), [c[1:] for c in BODIES], ids=[c[0] for c in BODIES])
@pytest.mark.parametrize(("coding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
def test_what_a_compressed_body_asks_for(
    body: bytes, name: str | None, coding: bytes, pack: Callable[[bytes], bytes]
) -> None:
    """As much as one that is not; of a large one the beginning."""
    assert model(pack(body), coding, whole=True) in (name, model(body, None, whole=False))


@pytest.mark.parametrize("coding", [None, b"gzip"])
def test_what_the_beginning_of_a_body_tells(coding: bytes | None) -> None:
    """All of it may be on its way still."""
    body = b'{"stream": true, ' + NAME + b', "messages": ["' + bytes(range(35, 92)) * 100
    known = gz(body)[:-20] if coding else body
    assert model(known, coding, whole=False) == "m-1"
    assert model(known[:4], coding, whole=False) is None


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        (b"gzip", gz(b"{" + NAME + b', "a": "' + b"a" * 60_000_000 + b'"}')),
        (b"gzip", gz(b"{" + NAME + b', "a": "' + b"a" * 90_000 + b'"}')),
    ],
)
def test_dense_bodies_are_unpacked_no_further_than_to_the_name(coding: bytes, body: bytes) -> None:
    """What is refused as a bomb tells where it wanted to go."""
    assert model(body, coding, whole=True) == "m-1"


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"x, y, z, a, b", b"identity, gzip"])
def test_what_cannot_be_unpacked_tells_nothing(coding: bytes) -> None:
    """Damaged or unknown."""
    assert model(b"{" + NAME + b"}", coding, whole=True) is None


@given(st.binary(max_size=60), st.text('{}[]":,\\model ', max_size=60), st.booleans())
def test_nothing_is_too_odd(noise: bytes, text: str, whole: bool) -> None:
    """No bytes raise."""
    for body in (noise, text.encode(), b"{" + text.encode() + noise):
        model(body, None, whole=whole)
        model(body * (1 + SMALL // max(1, len(body))), None, whole=whole)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8) | st.just("model"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["model", "a", '"model": "'],
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["model", "b", "c"]), VALUES, max_size=3), st.integers(0, 3))
def test_no_name_that_parsers_would_not_find(request: dict[str, object], at: int) -> None:
    """In a large body a glimpse may miss it, and never finds another."""
    items = list(request.items())
    items.insert(at, ("pad", "x" * (SMALL + END)))
    body = json.dumps(dict(items)).encode()
    true = request.get("model")
    assert model(body, None, whole=True) in (None, true if isinstance(true, str) else None)
