from __future__ import annotations

from typing import Any

import pytest

from proxy.errors import LoopDetected
from proxy.ports import Headers
from proxy.routing import Router, origin, pseudonym
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
    assert dict(sent)[field[0]] == (field[1] if kept else b"realtime")


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


UPSTREAMS = {
    "open": {"url": "https://open.example/api/v1/"},
    "keyed": {"url": "https://keyed.example/v1", "api_key": "named"},
    "asks": {"url": "https://asks.example/v1", "api_key": "client"},
    "near": {"url": "https://default.example/near/v1"},
    "same": {"url": DEFAULT},
}
OPEN, KEYED, ASKS = "https://open.example/api/v1", "https://keyed.example/v1", "https://asks.example/v1"
NEAR = "https://default.example/near/v1"
BY_NAME: dict[str, dict[str, Any]] = {
    "open": {"upstream": "open", "upstream_model": "theirs", "window": 1000},
    "open-key": {"upstream": "open", "api_key": "pattern", "upstream_model": "theirs", "window": 1000},
    "open-client": {"upstream": "open", "api_key": "client", "window": 1000},
    "open-address": {"upstream": OPEN, "window": 1000},
    "keyed": {"upstream": "keyed", "window": 1000},
    "keyed-key": {"upstream": "keyed", "api_key": "pattern", "window": 1000},
    "keyed-address": {"upstream": KEYED, "window": 1000},
    "asks": {"upstream": "asks", "window": 1000},
    "near": {"upstream": "near", "window": 1000},
    "common": {"api_key": "pattern", "upstream_model": "theirs", "window": 1000},
}

ADDRESSES = [
    # address, model, default api_key -> where, credentials, the model's name there
    ("open", None, "default", OPEN, OWN, None),
    ("open", "unknown", "default", OPEN, OWN, None),
    ("keyed", "unknown", None, KEYED, key("named"), None),
    ("asks", "unknown", None, ASKS, OWN, None),
    ("near", None, "default", NEAR, OWN, None),
    ("same", None, "default", DEFAULT, OWN, None),
    # a model brings it there
    (None, "open", None, OPEN, NONE, "theirs"),
    (None, "open", "default", OPEN, NONE, "theirs"),
    (None, "open-key", None, OPEN, key("pattern"), "theirs"),
    (None, "open-client", None, OPEN, OWN, None),
    (None, "open-address", None, OPEN, NONE, None),
    (None, "keyed", "default", KEYED, key("named"), None),
    (None, "keyed-key", None, KEYED, key("pattern"), None),
    (None, "keyed-address", None, KEYED, NONE, None),
    (None, "asks", "default", ASKS, OWN, None),
    (None, "near", None, NEAR, OWN, None),
    (None, "near", "default", NEAR, key("default"), None),
    # both: the address wins
    ("keyed", "open", None, KEYED, key("named"), None),
    ("keyed", "open-client", None, KEYED, key("named"), None),
    ("open", "keyed-key", None, OPEN, OWN, None),
    ("open", "common", "default", OPEN, OWN, None),
    # both, and they agree
    ("open", "open", None, OPEN, OWN, "theirs"),
    ("open", "open-key", None, OPEN, key("pattern"), "theirs"),
    ("keyed", "keyed", None, KEYED, key("named"), None),
    ("keyed", "keyed-key", None, KEYED, key("pattern"), None),
    ("same", "common", "default", DEFAULT, key("pattern"), "theirs"),
]


@pytest.mark.parametrize("clients", [None, "anyone"])
@pytest.mark.parametrize(("upstream", "model", "default_key", "address", "expected", "there"), ADDRESSES)
def test_a_named_upstream_is_an_address_of_its_own(
    upstream: str | None,
    model: str | None,
    default_key: str | None,
    address: str,
    expected: dict[bytes, bytes],
    there: str | None,
    clients: str | None,
) -> None:
    """The address that the client chose wins over the model's, and what is known of the model holds everywhere."""
    values = {"upstream": DEFAULT, "api_key": default_key, "upstreams": UPSTREAMS, "models": BY_NAME}
    route = Router(settings(**values, clients=clients)).route(model, CLIENT, upstream)
    assert route.base_url == address
    assert credentials(route.headers) == expected
    assert route.upstream_model == there
    assert route.policy.window == (1000 if model in BY_NAME else None)


@pytest.mark.parametrize(
    ("upstream", "model", "default_key", "expected"),
    [
        (None, None, None, NONE),
        (None, None, "default", key("default")),
        (None, None, "client", OWN),
        ("open", None, "default", NONE),
        ("asks", None, None, OWN),
        ("keyed", None, None, key("named")),
        (None, "open", None, NONE),
        (None, "open-client", None, OWN),
        (None, "near", None, NONE),
        (None, "near", "default", key("default")),
    ],
)
def test_where_clients_must_have_keys_of_ours_theirs_stay_here(
    upstream: str | None, model: str | None, default_key: str | None, expected: dict[bytes, bytes]
) -> None:
    """An upstream gets its configured key or nothing, but where the configuration names the client's."""
    values = {"upstream": DEFAULT, "api_key": default_key, "upstreams": UPSTREAMS, "models": BY_NAME}
    router = Router(settings(**values, clients=[{"key": "k", "tenant": "t"}]))
    assert credentials(router.route(model, CLIENT, upstream).headers) == expected


NAMED_SUMMARISERS = [
    # address, model, its summariser, the common one -> where, credentials
    ("open", None, None, {}, OPEN, OWN),
    ("keyed", None, None, {}, KEYED, key("named")),
    ("open", None, None, {"upstream": "keyed"}, KEYED, key("named")),
    ("open", None, None, {"upstream": "keyed", "api_key": "sum"}, KEYED, key("sum")),
    ("keyed", None, None, {"upstream": "open"}, OPEN, NONE),
    (None, None, None, {"upstream": "open"}, OPEN, NONE),
    (None, None, None, {"upstream": "near"}, NEAR, OWN),
    # a key without an address is for the section's own place
    ("open", None, None, {"api_key": "sum"}, OPEN, OWN),
    (None, "open", None, {"api_key": "sum"}, OPEN, NONE),
    (None, "keyed", None, {"api_key": "sum"}, KEYED, key("named")),
    (None, "keyed", {"api_key": "sum"}, {}, KEYED, key("sum")),
    ("open", "keyed", {"api_key": "sum"}, {}, OPEN, OWN),
    ("keyed", "keyed", {"api_key": "sum"}, {}, KEYED, key("sum")),
    ("near", None, None, {"api_key": "sum"}, NEAR, key("sum")),
]


@pytest.mark.parametrize(("upstream", "model", "own", "common", "address", "expected"), NAMED_SUMMARISERS)
def test_a_summariser_behind_a_name(
    upstream: str | None,
    model: str | None,
    own: dict[str, str] | None,
    common: dict[str, str],
    address: str,
    expected: dict[bytes, bytes],
) -> None:
    """No key goes to a place that it was not written for, whatever address a client chooses."""
    models = BY_NAME | ({model: BY_NAME[model] | {"summarizer": own}} if model and own else {})
    router = Router(settings(upstream=DEFAULT, upstreams=UPSTREAMS, models=models, summarizer=common))
    route = router.route(model, CLIENT, upstream)
    assert router.summariser_url(route) == address + "/chat/completions"
    assert dict(router.summariser_headers(route, CLIENT)) == expected


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


OF_UPSTREAM = [
    # address, model, its summariser, that of the upstream -> model that summarises, where, credentials
    ("open", None, None, {"model": "far"}, "far", OPEN, OWN),
    ("keyed", None, None, {"model": "far"}, "far", KEYED, key("named")),
    ("open", None, None, {"model": "far", "api_key": "sum"}, "far", OPEN, key("sum")),
    ("open", None, None, {"model": "far", "upstream": "keyed"}, "far", KEYED, key("named")),
    (None, "open", None, {"model": "far", "api_key": "sum"}, "far", OPEN, key("sum")),
    (None, None, None, {"model": "far", "api_key": "sum"}, "common", DEFAULT, OWN),
    ("near", None, None, {"model": "far", "api_key": "sum"}, "common", NEAR, OWN),
    ("open", "keyed", {"model": "model's", "api_key": "x"}, {"model": "far", "api_key": "sum"}, "model's", OPEN, OWN),
]


@pytest.mark.parametrize(("upstream", "model", "own", "theirs", "writer", "address", "expected"), OF_UPSTREAM)
def test_an_upstream_may_have_a_summariser_of_its_own(
    upstream: str | None,
    model: str | None,
    own: dict[str, str] | None,
    theirs: dict[str, str],
    writer: str,
    address: str,
    expected: dict[bytes, bytes],
) -> None:
    """For whatever goes there, by address or by model; the model's own wins."""
    named = UPSTREAMS | {name: UPSTREAMS[name] | {"summarizer": theirs} for name in ("open", "keyed")}
    models = BY_NAME | ({model: BY_NAME[model] | {"summarizer": own}} if model and own else {})
    router = Router(settings(upstream=DEFAULT, upstreams=named, models=models, summarizer={"model": "common"}))
    route = router.route(model, CLIENT, upstream)
    assert router.summariser_settings(route).model == writer
    assert router.summariser_url(route) == f"{router.summariser_base(route)}/chat/completions"
    assert router.summariser_base(route) == address
    assert dict(router.summariser_headers(route, CLIENT)) == expected


@pytest.mark.parametrize(
    ("query", "carried"),
    [
        (b"", ""),
        (b"api-version=2024-10-21", "?api-version=2024-10-21"),
        (b"a=b&api-version=preview&key=secret", "?api-version=preview"),
        (b"my-api-version=1", ""),
        (b"api-version=", ""),
        (b"api-version=1%2F..", ""),
        (b"api-version=1#x", ""),
        (b"api-version=" + b"1" * 65, ""),
    ],
)
def test_a_summary_asks_for_the_clients_version_of_the_interface(query: bytes, carried: str) -> None:
    """At the request's own upstream, and of all the query that alone."""
    router = Router(settings(upstream=DEFAULT))
    assert router.summariser_url(router.route(None, CLIENT), query) == f"{DEFAULT}/chat/completions{carried}"
    router = Router(settings(upstream=DEFAULT, summarizer={"upstream": OTHER}))
    assert router.summariser_url(router.route(None, CLIENT), query) == f"{OTHER}/chat/completions"


def test_a_loop_is_refused() -> None:
    """A request that bears our own mark is not sent on."""
    with pytest.raises(LoopDetected):
        Router(settings()).route(None, ((b"via", b"1.1 compaction-proxy"),))


def test_each_proxy_has_a_name_of_its_own() -> None:
    """All processes of one have the same; another installation, and one with other addresses, have another."""
    values = {"upstream": DEFAULT, "upstreams": UPSTREAMS, "models": MODELS}
    name = pseudonym(settings(**values), b"secret")
    assert name == pseudonym(settings(**values), b"secret")
    others = [
        pseudonym(settings(**values), b"another"),
        pseudonym(settings(**values | {"upstream": "http://127.0.0.1:8080/v1"}), b"secret"),
        pseudonym(settings(**values | {"upstreams": {}, "models": {}}), b"secret"),
    ]
    assert len({name, *others}) == 4
    first, second = Router(settings(**values), name), Router(settings(), others[0])
    passed = second.route(None, first.route(None, CLIENT).headers).headers
    assert [value for field, value in passed if field == b"via"] == [b"1.1 " + name, b"1.1 " + others[0]]
    for router in (first, second):
        with pytest.raises(LoopDetected):
            router.route(None, passed)


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
