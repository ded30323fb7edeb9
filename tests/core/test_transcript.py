"""Reading messages of any shape, and writing them out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import transcript
from proxy.core.transcript import callers, calls, chunk, leaves, ration, render, shorten, source, text
from tests.core.wild import called, size, wild

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "text", "text": "see"}, IMAGE]}, "see\n[image]"),
        ({"content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]}, "[audio]"),
        ({"content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}}]}, "[file a.pdf]"),
        ({"content": [{"type": "thinking", "thinking": "hidden"}, {"type": "text", "text": "said"}]}, "said"),
        ({"content": [{"type": "tool_result", "content": [{"type": "text", "text": "deep"}]}]}, "deep"),
        ({"content": [{"type": "brand_new", "payload": 1}]}, "[brand_new]"),
        ({"content": None, "refusal": "I will not"}, "I will not"),
        ({"content": "a", "reasoning_content": "hidden"}, "a"),
        ({"content": 7}, "7"),
        ({"content": "a\ud800b"}, "a\ufffdb"),
    ],
)
def test_text_of_a_message(message: dict[str, Any], words: str) -> None:
    """Text is read from every shape, media become placeholders, thinking is left out."""
    assert text(message) == words


def test_calls_of_every_kind_are_read() -> None:
    """Function calls, custom calls and the legacy field are one list."""
    message = {
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "custom", "custom": {"name": "g", "input": "raw"}},
            "nonsense",
            {"id": 3, "function": {"name": None, "arguments": {"x": 1}}},
        ],
        "function_call": {"name": "h", "arguments": ""},
    }
    assert [(c.id, c.name, c.arguments) for c in calls(message)] == [
        ("a", "f", "{}"),
        ("b", "g", "raw"),
        ("", "tool", '{"x":1}'),
        ("", "h", ""),
    ]


def test_arguments_are_taken_apart() -> None:
    """Nested arguments give their leaves with the key each stands under; unreadable ones are a leaf themselves."""
    assert leaves('{"a": {"b": ["x", 2]}, "c": "y", "d": null}') == [("b", "x"), ("b", "2"), ("c", "y")]
    assert leaves("not json") == [("", "not json")]
    assert leaves("") == []


def test_results_are_paired_by_position_within_their_round() -> None:
    """An id that recurs from round to round names the call of its own round."""
    messages = [*called("read", path="a"), *called("write", path="b")]
    assert [call.name if call else None for call in callers(messages)] == [None, "read", None, "write"]


def test_parallel_results_find_their_calls_in_any_order() -> None:
    """By id, the first of several with one id first; the rest in order. As quick as there are many."""
    ids = [f"c{i // 2}" for i in range(20_000)]
    made = [{"id": id_, "function": {"name": f"n{i}", "arguments": "{}"}} for i, id_ in enumerate(ids)]
    results = [{"role": "tool", "tool_call_id": id_, "content": "x"} for id_ in [*reversed(ids[:-2]), "none", None]]
    names = [call.name for call in callers([{"role": "assistant", "tool_calls": made}, *results]) if call]
    assert names[:4] == ["n19996", "n19997", "n19994", "n19995"] and names[-4:] == ["n0", "n1", "n19998", "n19999"]


def test_a_result_without_a_known_id_answers_the_first_open_call() -> None:
    """Servers that change ids do not lose the names of their tools."""
    first, second = called("read", path="a")
    assert callers([first, {**second, "tool_call_id": "other"}])[1] == calls(first)[0]
    assert callers([{"role": "tool", "name": "lost", "content": "x"}])[0] is not None


def test_a_block_has_label_text_and_calls() -> None:
    """Numbers go on from `start`, calls show their arguments, results the tool they came from."""
    one, two, three = render([{"role": "user", "content": "hi"}, *called("read", "data", path="a.py")], 5)
    assert one == "[5 user]\nhi"
    assert two == "[6 assistant]\n-> read(path=a.py)"
    assert three == "[7 tool read]\ndata"


@pytest.mark.parametrize("last", ["all went well", "Error: disk full"])
def test_a_long_result_keeps_its_head_and_an_error_at_its_end(last: str) -> None:
    """2,000 characters of a result stay; half of them from the tail when it tells of an error."""
    result = "first line\n" + "x" * 9_000 + "y" * 600 + "\n" + last
    short = shorten(result, 2_000)
    assert len(short) <= 2_000
    assert short.startswith("first line") and short.endswith(last)
    assert (short.count("y") == 600) == last.startswith("Error")


def test_any_message_is_capped_and_base64_is_none_of_it() -> None:
    """No block is longer than the cap and its label; base64 in running text becomes a placeholder."""
    blocks = render(
        [{"role": "user", "content": "a b " * 90_000}, {"role": "user", "content": "see " + "QUJD" * 9_000}]
    )
    assert all(len(block) <= transcript.MESSAGE_CAP + 100 for block in blocks)
    assert blocks[1] == "[1 user]\nsee [data, 36000 characters]"


@given(wild())
def test_no_message_is_too_odd(messages: list[dict[str, Any]]) -> None:
    """One encodable block per message whatever it is, the same every time."""
    blocks = render(messages)
    assert len(blocks) == len(messages) == len(callers(messages))
    "".join(blocks).encode("utf-8")
    source(messages).encode("utf-8")
    assert blocks == render(messages)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 60)), max_size=12), st.integers(5, 80))
def test_chunks_tile_the_blocks(shape: list[tuple[int, int]], budget: int) -> None:
    """Ranges are in order, without gap or overlap, within the budget, and split no round that would fit."""
    blocks: list[str] = []
    rounds = []
    for length, letters in shape:
        rounds.append((len(blocks), len(blocks) + length))
        blocks += ["a" * letters] * length
    ranges = chunk(blocks, rounds, budget, size)
    assert [i for first, last in ranges for i in range(first, last)] == list(range(len(blocks)))
    sizes = [sum(size(block) + 1 for block in blocks[first:last]) for first, last in ranges]
    assert all(total <= budget or last - first == 1 for total, (first, last) in zip(sizes, ranges, strict=True))
    edges = {first for first, _ in ranges}
    for first, last in rounds:
        if sum(size(block) + 1 for block in blocks[first:last]) <= budget:
            assert not edges & set(range(first + 1, last))


def test_source_holds_everything_uncut() -> None:
    """What a summary is checked against includes arguments and the middle of long results."""
    whole = source(called("bash", "x" * 5_000 + "needle" + "y" * 5_000, command="ls -l"))
    assert "needle" in whole and "command: ls -l" in whole and "bash" in whole


def test_chunks_of_the_newest_rounds_alone() -> None:
    """What is not in the rounds is neither in a range nor counted."""
    counted: list[str] = []

    def count(block: str) -> int:
        counted.append(block)
        return size(block)

    assert chunk(["a" * 40, "b" * 40, "c" * 40], [(1, 2), (2, 3)], 50, count) == [(1, 3)]
    assert counted == ["b" * 40, "c" * 40]
    assert chunk([], [], 50, count) == []


@given(st.lists(st.integers(0, 200), max_size=30), st.integers(0, 2_000))
def test_the_longest_share_what_the_short_ones_leave(lengths: list[int], most: int) -> None:
    """The limit keeps all together within the bound, and one more would not, unless nothing is cut."""
    limit = ration(lengths, most)
    assert sum(min(length, limit) for length in lengths) <= most or limit == 0
    if limit < max(lengths, default=0):
        assert sum(min(length, limit + 1) for length in lengths) > most


def test_a_giant_text_is_cut_before_it_is_searched() -> None:
    """Its head and its tail are shown as ever."""
    giant = "first " + "QUJD" * 500_000 + " in between " * 60_000 + "last"
    block = render([{"role": "user", "content": giant}])[0]
    assert block.startswith("[0 user]\nfirst [data, ") and block.endswith("last")
    assert leaves("[" + "1," * 600_000 + "1]") == [("", "[" + "1," * 600_000 + "1]")]


def test_a_note_in_the_middle_of_a_long_result_stays() -> None:
    """The lines that are least like the others are kept between head and tail, in their order, within the limit."""
    rows = [f"  row {i}: status ok, took {i % 7} ms" for i in range(400)]
    rows[150] = "maintenance window agreed with the harbour office"
    rows[250] = "backups are kept in the cellar of the annex"
    short = shorten("\n".join(rows), 2_000)
    assert len(short) <= 2_000
    places = [short.index(rows[i]) for i in (0, 150, 250, 399)]
    assert places == sorted(places)
    assert "characters left out" in short


@given(st.text(), st.integers(0, 3_000), st.integers(0, 80))
def test_a_shortened_result_keeps_to_its_limit(text: str, limit: int, times: int) -> None:
    """Whatever it holds, and however small the limit."""
    result = f"{text}\n" * times
    assert len(shorten(result, limit)) <= max(limit, 0)
    assert shorten(result, len(result)) == result
