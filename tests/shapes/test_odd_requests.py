"""Thousands of odd requests: each gets what its upstream says, and never less than without a proxy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.demo import rules
from tests.shapes.odd import codings, odd_bodies, valid_lists
from tests.shapes.world import Faults, Got, ShapedUpstream, World, read

LENIENT = settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
STRICT = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))

windows = st.sampled_from([None, 1_000, 2_000, 4_000])
overrides = st.sampled_from([None, None, None, b"force", b"observe", b"off"])
upstreams = st.sampled_from([{"strict": True}, {"strict": False}, {"strict": True, "alternation": True}])


async def both(
    body: bytes, headers: Any, window: int | None, real: int, shape: Any, override: bytes | None
) -> tuple[Got, Got, ShapedUpstream]:
    """What a client gets without the proxy, what it gets with it, and the upstream behind it."""
    direct = ShapedUpstream(real, **shape).answer(body, headers)
    there = Got(direct.status, direct.headers, await read(direct.chunks()))
    upstream = ShapedUpstream(real, **shape)
    world = World(upstream, window)
    asked = (*headers, *([(b"x-compaction", override)] if override else ()))
    try:
        for _ in range(2):  # the second time with all that was learned from the first
            through = await world.chat(body, *asked)
            assert through.status == there.status or through.status == 200
            if through.status != 200:
                assert not through.status >= 500
    finally:
        await world.compactor.aclose()
    return there, through, upstream


@LENIENT
@given(odd_bodies(), codings(), windows, upstreams, overrides)
def test_odd_requests_get_what_the_upstream_says(
    body: bytes,
    coding: tuple[bytes | None, Callable[[bytes], bytes]],
    window: int | None,
    shape: Any,
    override: bytes | None,
) -> None:
    """An answer where the upstream has one, else the upstream's own refusal: no error of ours, no hang."""
    name, encode = coding
    headers = ((b"content-encoding", name),) if name else ()
    with Faults() as faults:
        there, through, upstream = asyncio.run(both(encode(body), headers, window, 4_000, shape, override))
    assert faults.lines == []
    if there.status == 200:
        assert through.status == 200
    elif through.status != 200 and set(upstream.bodies) == {encode(body)}:  # nothing was rewritten
        assert through.body == there.body
    assert 1 <= len(upstream.bodies) <= 10


@STRICT
@given(valid_lists(), windows, st.sampled_from([1_500, 4_000, 100_000]), overrides)
def test_what_a_strict_upstream_takes_is_never_made_worse(
    messages: list[Any], window: int | None, real: int, override: bytes | None
) -> None:
    """A valid request stays valid however it is rewritten, and is answered where it would have been."""
    body = json.dumps({"model": "m", "messages": messages}).encode()
    valid = rules.check(json.loads(body)) is None
    with Faults() as faults:
        there, through, upstream = asyncio.run(both(body, (), window, real, {"strict": True}, override))
    assert faults.lines == []
    if there.status == 200:
        assert through.status == 200
    if valid:
        assert upstream.invalid == []
