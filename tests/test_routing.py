from __future__ import annotations

from typing import Any

import pytest

from proxy.errors import LoopDetected
from proxy.ports import Headers
from proxy.routing import Router, origin, tenant
from proxy.settings import Settings

CLIENT: Headers = (
    (b"authorization", b"Bearer client"),
    (b"cookie", b"a=b"),
    (b"openai-organization", b"org"),
    (b"x-api-key", b"client-x"),
    (b"user-agent", b"test"),
)
OWN = {b"authorization": b"Bearer client", b"cookie": b"a=b", b"openai-organization": b"org", b"x-api-key": b"client-x"}
NONE: dict[bytes, bytes] = {}


def key(text: str) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + text.encode()}


def settings(**values: Any) -> Settings:
    return Settings.model_validate(values)


def credentials(headers: Headers) -> dict[bytes, bytes]:
    return {name: value for name, value in headers if name not in (b"user-agent", b"via")}


MODELS: dict[str, dict[str, Any]] = {
    "same-origin": {"upstream": "https://default.example/other"},
    "same-origin-key": {"upstream": "https://default.example:443/v1", "api_key": "same"},
    "key-only": {"api_key": "only"},
    "other": {"upstream": "http://other.example:8000/v1/"},
    "other-key": {"upstream": "http://other.example:8000/v1", "api_key": "theirs", "upstream_model": "theirs-7b"},
    "other-client": {"upstream": "http://other.example:8000/v1", "api_key": "client"},
    "http-is-another-origin": {"upstream": "http://default.example/v1"},
    "a-*": {"window": 1000},
    "a-b*": {"window": 2000},
    "[xy]?": {"window": 3000},
}
DEFAULT = "https://default.example/v1"
OTHER = "http://other.example:8000/v1"

ROUTES = [
    # model, default api_key -> address, credentials
    (None, None, DEFAULT, OWN),
    ("unknown", None, DEFAULT, OWN),
    ("unknown", "default", DEFAULT, key("default")),
    ("unknown", "client", DEFAULT, OWN),
    (None, "default", DEFAULT, key("default")),
    ("same-origin", None, "https://default.example/other", OWN),
    ("same-origin", "default", "https://default.example/other", key("default")),
    ("same-origin-key", "default", "https://default.example:443/v1", key("same")),
    ("key-only", None, DEFAULT, key("only")),
    ("other", None, OTHER, NONE),
    ("other", "default", OTHER, NONE),
    ("other-key", "default", OTHER, key("theirs")),
    ("other-client", "default", OTHER, OWN),
    ("http-is-another-origin", None, "http://default.example/v1", NONE),
]


@pytest.mark.parametrize(("model", "default_key", "address", "expected"), ROUTES)
def test_where_and_with_whose_credentials(
    model: str | None, default_key: str | None, address: str, expected: dict[bytes, bytes]
) -> None:
    """A request goes where its model says, with the credentials meant for that origin and no others."""
    router = Router(settings(upstream=DEFAULT + "/", api_key=default_key, models=MODELS))
    route = router.route(model, CLIENT)
    assert route.base_url == address
    assert credentials(route.headers) == expected
    assert (b"user-agent", b"test") in route.headers
    assert (b"via", b"1.1 compaction-proxy") in route.headers
    assert route.upstream_model == ("theirs-7b" if model == "other-key" else None)


@pytest.mark.parametrize(
    ("model", "kept"), [(None, True), ("other-client", True), ("other", False), ("key-only", False)]
)
def test_a_key_among_subprotocols_goes_where_the_others_go(model: str | None, kept: bool) -> None:
    """It is the client's like any other: only where that is passed on does it reach the upstream."""
    field = (b"sec-websocket-protocol", b"realtime, openai-insecure-api-key.sk-1")
    sent = Router(settings(upstream=DEFAULT, models=MODELS)).route(model, (field,)).headers
    assert sent[0] == (field if kept else (field[0], b"realtime"))


@pytest.mark.parametrize(
    ("model", "window"),
    [("a-x", 1000), ("a-bc", 1000), ("xa", 3000), ("xab", None), ("A-x", None), ("a-\nx\ud800", 1000), (None, None)],
)
def test_the_first_matching_pattern_wins(model: str | None, window: int | None) -> None:
    """Patterns are tried in their order, in exact case, against the whole name; without a name none is."""
    assert Router(settings(models=MODELS)).route(model, ()).policy.window == window
    catch_all = Router(settings(models={"*": {"window": 4000}}))
    assert catch_all.route("anything", ()).policy.window == 4000
    assert catch_all.route(None, ()).policy.window is None


SUMMARISERS = [
    # model, summariser -> address, credentials
    (None, {}, DEFAULT, OWN),
    (None, {"api_key": "sum"}, DEFAULT, key("sum")),
    (None, {"upstream": "https://default.example/v2"}, "https://default.example/v2", OWN),
    (None, {"upstream": OTHER}, OTHER, NONE),
    (None, {"upstream": OTHER + "/", "api_key": "sum"}, OTHER, key("sum")),
    (None, {"upstream": OTHER, "api_key": "client"}, OTHER, OWN),
    ("other", {}, OTHER, NONE),
    ("other-key", {}, OTHER, key("theirs")),
    ("other-client", {}, OTHER, OWN),
    ("other-key", {"upstream": DEFAULT}, DEFAULT, NONE),
    ("other-key", {"upstream": DEFAULT, "api_key": "sum"}, DEFAULT, key("sum")),
    ("key-only", {}, DEFAULT, key("only")),
]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("model", "summariser", "address", "expected"), SUMMARISERS)
def test_a_summariser_gets_what_is_meant_for_it(
    model: str | None, summariser: dict[str, str], address: str, expected: dict[bytes, bytes], own: bool
) -> None:
    """At the request's origin the same credentials, elsewhere a configured key or none, wherever the setting stands."""
    models = MODELS | ({model: MODELS[model] | {"summarizer": summariser}} if own and model else {})
    values: dict[str, Any] = {"upstream": DEFAULT, "models": models}
    if not (own and model):
        values["summarizer"] = summariser
    router = Router(settings(**values))
    route = router.route(model, CLIENT)
    assert router.summariser_url(route) == address + "/chat/completions"
    assert dict(router.summariser_headers(route, CLIENT)) == expected


def test_a_loop_is_refused() -> None:
    """A request that bears our own mark is not sent on."""
    with pytest.raises(LoopDetected):
        Router(settings()).route(None, ((b"via", b"1.1 compaction-proxy"),))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://API.openai.com/v1", "https://api.openai.com:443"),
        ("http://localhost:8000/v1", "http://localhost:8000"),
        ("http://[::1]/v1", "http://[::1]:80"),
    ],
)
def test_origin(url: str, expected: str) -> None:
    """An origin is scheme, host and port in one spelling."""
    assert origin(url) == expected


def test_reprs_show_no_keys() -> None:
    """A route can be logged."""
    assert "client" not in repr(Router(settings()).route(None, CLIENT))


def test_tenants() -> None:
    """One key is one tenant whatever else changes; other keys, secrets or none are others."""

    def of(*headers: tuple[bytes, bytes], secret: bytes = b"s") -> str:
        return tenant(headers, secret)

    mine = of((b"authorization", b"Bearer a"))
    assert len(mine) == 32
    assert int(mine, 16)
    assert mine == of((b"Authorization", b"Bearer a"), (b"cookie", b"x"), (b"user-agent", b"y"))
    others = {
        of((b"authorization", b"Bearer b")),
        of((b"api-key", b"Bearer a")),
        of((b"authorization", b"Bearer a"), (b"x-api-key", b"b")),
        of((b"authorization", b"Bearer a"), secret=b"t"),
        of((b"cookie", b"a")),
        of((b"cookie", b"b")),
        of(),
    }
    assert len(others | {mine}) == 8
    assert of() == of((b"user-agent", b"y"))
