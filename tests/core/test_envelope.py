"""The request's bytes: read without loss, written by splicing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import envelope
from tests.core.watching import lengths
from tests.strategies import conversations

BODIES = [
    b'{"model":"m","messages":[{"role":"user","content":"hi"}]}',
    b'  {"messages" : [ {"role":"user", "content":"hi"} , {"role":"assistant","content":"x"}]\n, "model":"m" , "x":{"messages":[]}} \n',
    b'{"x":[{"role":"user","content":"hi"}],"messages":[{"role":"user","content":"hi"}],"model":"m"}',
    b'{"mess\\u0061ges":[{"role":"user","content":"hi"}],"model":"m","big":123456789012345678901234567890}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ud800 alone"}],"seed":NaN}',
    b'{"model":"a","messages":[],"model":"m","messages":[{"role":"user","content":"twice"}]}',
    b'{"model":"m","messages":[{"role":"user","content":"-Infinity \\ud800","a":[-Infinity, Infinity,NaN]} ,{"role":"x"}]}',
    b'{"\\udfff NaN":1,"model":"m","messages":[{"role":"user","content":"\\uD83D\\uDE00 \\ud7ff"}],"model":"m"}',
    '{"モデル":"é","model":"m","messages":[{"role":"user","content":"\\ud83d 漢字 \\u00e9 é"}]}'.encode(),
]


@pytest.mark.parametrize("body", BODIES)
def test_reads_what_json_reads_and_finds_the_same_values(body: bytes) -> None:
    """Spacing, escapes in keys, duplicate keys, big integers, lone surrogates and NaN are no obstacle."""
    found = envelope.parse(body)
    assert found is not None
    expected = json.loads(body)
    assert [json.loads(m) for m in found.messages] == expected["messages"]
    assert found.model == "m"
    spans = envelope.fields(body)
    assert spans is not None and set(spans) == set(expected)
    for key, (start, end) in spans.items():
        assert json.dumps(json.loads(body[start:end])) == json.dumps(expected[key])


@pytest.mark.parametrize("body", BODIES)
def test_writing_changes_the_messages_and_nothing_else(body: bytes) -> None:
    """What stands before and behind the replaced value stays byte for byte."""
    found = envelope.parse(body)
    assert found is not None
    spans = envelope.fields(body)
    assert spans is not None
    start, end = spans["messages"]
    new = [b'{"role":"user","content":"new"}', found.messages[-1]]
    written = envelope.write(found, messages=new)
    assert written[:start] == body[:start]
    assert written.endswith(body[end:])
    assert written[start : len(written) - (len(body) - end)] == b"[" + b",".join(new) + b"]"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[1]",
        b"{}",
        b"not json",
        b'{"messages":{}}',
        b'{"messages":[]}',
        b'{"messages":["text"]}',
        b'{"messages":[{"role":"user"}]',
        b'{"messages":[{"role":"user"}]} trailing',
        b'\xff\xfe{"messages":[]}',
        b'{"messages":[{"role":"user","content":"\xff"' + b"[" * 3000,
        b'{"messages":' + b"[" * 100_000,
        b'{"messages":[{"role":"user","content":1NaN}]}',
        b'{"messages":[{"role":"user"}],"x":--Infinity}',
        b'{"messages":[{"role":"user"}],"model":1e-Infinity}',
    ],
)
def test_what_is_no_chat_request_is_none(body: bytes) -> None:
    """None means: pass it through untouched."""
    assert envelope.parse(body) is None


def test_lowers_the_output_and_renames_the_model_in_place() -> None:
    """One parameter is spliced; spaces and order stay."""
    body = b'{"max_tokens" : 900, "model":"a","messages":[{"role":"user","content":"max_tokens"}] }'
    found = envelope.parse(body)
    assert found is not None and found.output == ("max_tokens", 900)
    assert envelope.write(found, output=12, model="b") == body.replace(b"900", b"12").replace(b'"a"', b'"b"')


@given(conversations(), st.booleans(), st.sampled_from([None, 1, 2]))
def test_any_conversation_comes_back_as_its_own_bytes(
    messages: list[dict[str, object]], ascii_only: bool, indent: int | None
) -> None:
    """The slices are the messages, however the body was written."""
    text = json.dumps({"a": 1, "messages": messages, "z": "é"}, ensure_ascii=ascii_only, indent=indent)
    body = text.encode("utf-8", "surrogatepass")
    found = envelope.parse(body)
    if found is None:  # bytes that are no UTF-8 are nobody's JSON
        with pytest.raises(UnicodeDecodeError):
            body.decode("utf-8")
        return
    assert [json.loads(m.decode("utf-8", "surrogatepass")) for m in found.messages] == messages
    assert all(m in body for m in found.messages)


@given(st.binary(max_size=200))
def test_never_raises(body: bytes) -> None:
    """Whatever comes, reading it is safe."""
    envelope.parse(body)
    envelope.fields(body)


@pytest.mark.parametrize(("item", "deep"), [(1, 0), ([], 1), ({"a": [1, {"b": []}]}, 4), ([[[[]]]], 4)])
def test_depth(item: object, deep: int) -> None:
    """Nesting is counted in levels of objects and lists."""
    assert envelope.depth(item) == deep


def test_depth_is_bounded() -> None:
    """A deeper value costs no more than the bound."""
    item: list[object] = []
    for _ in range(500):
        item = [item]
    assert envelope.depth(item, 64) == 65


def test_blanks_and_odd_numbers_are_no_long_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the same length is read instead: no step in Python for each byte, however many they are."""
    steps = lengths(monkeypatch, "proxy.core.envelope._skip")
    body = b'{"seed": NaN, "model":"m","messages":[{"role":"user","content":"x"}' + b" " * 2_000_000 + b"]}"
    found = envelope.parse(body)
    assert found is not None and found.messages == (b'{"role":"user","content":"x"}',) and not steps


@pytest.mark.parametrize(("size", "read"), [(1_000, True), (envelope.SLOW_MOST, False)])
def test_a_key_that_comes_twice_is_walked_in_a_short_body_alone(size: int, read: bool) -> None:
    """A long one passes unread."""
    body = b'{"seed":NaN,"a":1,"a":2,"messages":[{"role":"user","content":"%s"}]}' % (b"x" * size)
    assert (envelope.parse(body) is not None) == read
