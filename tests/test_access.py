"""The door: addresses, keys of clients, and what tells conversations apart."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.access import MOST_KEYS, Access, tenant
from proxy.forward import Incoming
from proxy.ports import Headers
from proxy.settings import Settings

NAMES = {"openrouter": {"url": "https://openrouter.example/api/v1"}, "a-1": {"url": "http://a.example/v1"}}
CLIENTS = [
    {"key": "key-of-team-a", "tenant": "team-a"},
    {"key": "second-key-of-team-a", "tenant": "team-a"},
    {"sha256": hashlib.sha256(b"key-of-team-b").hexdigest(), "tenant": "team-b"},
]
SUBPROTOCOL = b"sec-websocket-protocol"


def access(**values: Any) -> Access:
    return Access(Settings.model_validate(values))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/v1", (None, b"/v1")),
        (b"/v1/", (None, b"/v1/")),
        (b"/v1/chat/completions", (None, b"/v1/chat/completions")),
        (b"/v1/v1/models", (None, b"/v1/v1/models")),
        (b"/v1/openrouter/v1", (None, b"/v1/openrouter/v1")),
        (b"/openrouter/v1", ("openrouter", b"/v1")),
        (b"/openrouter/v1/", ("openrouter", b"/v1/")),
        (b"/openrouter/v1/chat/completions", ("openrouter", b"/v1/chat/completions")),
        (b"/a-1/v1/a%2Fb//\n", ("a-1", b"/v1/a%2Fb//\n")),
        (b"/openai/v1/models", (None, b"/v1/models")),
        (b"/openrouter/v1x", None),
        (b"/openrouter/v2/models", None),
        (b"/openrouter", None),
        (b"/OpenRouter/v1/models", None),
        (b"/open%72outer/v1/models", None),
        (b"/other/v1/models", None),
        (b"//openrouter/v1/models", None),
        (b"/x/openrouter/v1/models", None),
        (b"/openrouter/v1/../../v1", ("openrouter", b"/v1/../../v1")),  # whatever follows is checked where it is sent
        (b"/healthz", None),
        (b"/healthz/v1", None),
        (b"/", None),
        (b"", None),
    ],
)
def test_an_address_names_an_upstream(path: bytes, expected: tuple[str | None, bytes] | None) -> None:
    """Its name, letter for letter, before `/v1`; Azure's prefix is the common one's."""
    assert access(upstreams=NAMES).find(path) == expected


def test_an_upstream_may_be_called_like_azures_prefix() -> None:
    """Then that is meant."""
    named = access(upstreams={"openai": {"url": "https://azure.example/openai/v1"}})
    assert named.find(b"/openai/v1/models") == ("openai", b"/v1/models")


KEY = b"key-of-team-a"
OTHER = b"key-of-team-b"
ADMITTED = [
    # what a client sends -> whose it is, what is left of it
    ([(b"authorization", b"Bearer " + KEY)], b"client team-a", []),
    ([(b"Authorization", b"bearer  " + KEY)], b"client team-a", []),
    ([(b"authorization", KEY)], b"client team-a", []),
    ([(b"authorization", b"Bearer second-key-of-team-a")], b"client team-a", []),
    ([(b"authorization", b"Bearer " + OTHER)], b"client team-b", []),
    ([(b"api-key", KEY)], b"client team-a", []),
    ([(b"X-API-Key", KEY)], b"client team-a", []),
    (
        [(b"x-api-key", KEY), (b"authorization", b"Bearer sk-own")],
        b"client team-a",
        [(b"authorization", b"Bearer sk-own")],
    ),
    ([(b"x-api-key", KEY), (b"api-key", OTHER), (b"authorization", b"Bearer " + KEY)], b"client team-a", []),
    ([(b"api-key", KEY), (b"cookie", b"a=" + KEY), (b"x-copy", KEY)], b"client team-a", []),
    ([(SUBPROTOCOL, b"realtime, openai-insecure-api-key." + KEY)], b"client team-a", [(SUBPROTOCOL, b"realtime")]),
    ([(SUBPROTOCOL, b"bearer," + KEY + b", x")], b"client team-a", [(SUBPROTOCOL, b"x")]),
    ([(SUBPROTOCOL, b"realtime, " + KEY)], b"client team-a", [(SUBPROTOCOL, b"realtime")]),
    ([(SUBPROTOCOL, KEY)], b"client team-a", []),
    ([(SUBPROTOCOL, b"realtime"), (b"api-key", KEY)], b"client team-a", [(SUBPROTOCOL, b"realtime")]),
    ([(b"api-key", KEY), (b"x-note", b"about " + KEY[:8])], b"client team-a", [(b"x-note", b"about " + KEY[:8])]),
    ([(b"authorization", b"Bearer " + KEY + b"x")], None, []),
    ([(b"authorization", b"Bearer " + KEY[:-1])], None, []),
    ([(b"authorization", b"Bearer " + KEY.upper())], None, []),
    ([(b"authorization", b"Bearer " + hashlib.sha256(OTHER).hexdigest().encode())], None, []),
    ([(b"authorization", b"Bearer ")], None, []),
    ([(b"authorization", b"")], None, []),
    ([(b"user-agent", KEY)], None, []),
    ([(b"x-compaction", KEY)], None, []),
    ([(b"api-key", b"%d" % n) for n in range(MOST_KEYS)] + [(b"authorization", KEY)], None, []),
    ([(SUBPROTOCOL, b"a," * MOST_KEYS + KEY)], None, []),
    ([], None, []),
]


@pytest.mark.parametrize("plain", [((b"user-agent", b"x"), (b"content-type", b"application/json")), ()])
@pytest.mark.parametrize(("sent", "name", "left"), ADMITTED)
def test_only_accepted_keys_come_in_and_none_goes_out(
    sent: list[tuple[bytes, bytes]], name: bytes | None, left: list[tuple[bytes, bytes]], plain: Headers
) -> None:
    """Wherever a key can stand, and whatever else the client sends; other fields stay as they are."""
    caller = access(clients=CLIENTS).admit((*plain, *sent))
    if name is None:
        assert caller is None
    else:
        assert caller is not None
        assert (caller.name, caller.headers) == (name, (*plain, *left))


def test_a_short_key_takes_no_other_field_along() -> None:
    """A field that merely contains its letters is none."""
    headers: Headers = ((b"content-type", b"application/json"), (b"api-key", b"a"))
    caller = access(clients=[{"key": "a", "tenant": "t"}]).admit(headers)
    assert caller is not None
    assert caller.headers == headers[:1]


names = st.sampled_from(
    [b"authorization", b"api-key", b"x-api-key", b"cookie", SUBPROTOCOL, b"x-other-token", b"accept"]
)
pieces = st.sampled_from([b"Bearer ", KEY, OTHER, b"sk-1", b",", b", ", b".", b" ", b"bearer", b"realtime", b"a="])
fields = st.tuples(names, st.lists(pieces, max_size=6).map(b"".join))


@given(st.lists(fields, max_size=6))
def test_whatever_is_left_is_accepted_nowhere(headers: list[tuple[bytes, bytes]]) -> None:
    """What travels on would not open this door a second time, and nothing is invented."""
    door = access(clients=CLIENTS)
    caller = door.admit(tuple(headers))
    if caller is not None:
        assert door.admit(caller.headers) is None
        assert {name for name, _ in caller.headers} <= {name for name, _ in headers}


@pytest.mark.parametrize("clients", [None, "anyone"])
def test_without_a_list_everybody_comes_in_unchanged(clients: str | None) -> None:
    """With or without a key."""
    for headers in ((), ((b"authorization", b"Bearer " + KEY),)):
        caller = access(clients=clients).admit(headers)
        assert caller is not None
        assert (caller.headers, caller.name) == (headers, None)


def test_reprs_show_no_keys() -> None:
    """A caller can be logged."""
    assert repr(access(tenant="header x-user").admit(((b"x-user", b"me"),))) == "Caller(1 headers)"


# --- tenants


def of(*headers: tuple[bytes, bytes], secret: bytes = b"s", **values: Any) -> str:
    """The tenant of a request that has come through the door."""
    caller = access(**values).admit(headers)
    assert caller is not None
    return tenant(Incoming("POST", b"", b"", caller.headers, caller=caller.name), secret)


def test_tenants() -> None:
    """One key is one tenant whatever else changes; other keys, secrets or none are others."""
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


A, B, X = (b"authorization", b"Bearer a"), (b"authorization", b"Bearer b"), (b"X-User", b"x")


@pytest.mark.parametrize(
    ("rule", "one", "other", "same"),
    [
        ("credential", (A,), (B,), False),
        ("credential", (A,), (A, X), True),
        ("shared", (A,), (B, X), True),
        ("shared", (A,), (), True),
        ("header x-user", (A, X), (B, X), True),
        ("header X-User", (A, X), (A, (b"x-user", b"x")), True),
        ("header x-user", (A, X), (A, (b"x-user", b"y")), False),
        ("header x-user", (A, X), (A,), False),
        ("header x-user", (A,), (B,), False),
        ("header x-user", (A,), (A, (b"x-other", b"y")), True),
        ("header x-user", (A, X), (A, X, X), False),
        ("header authorization", (A,), (A, X), True),
    ],
)
def test_what_tells_conversations_apart(rule: str, one: Headers, other: Headers, same: bool) -> None:
    """The credential, a header and without it the credential, or nothing."""
    assert (of(*one, tenant=rule) == of(*other, tenant=rule)) is same


@pytest.mark.parametrize("rule", ["credential", "shared", "header x-user"])
def test_the_tenant_of_a_clients_key_wins(rule: str) -> None:
    """Two keys of one team see the same; another team never does; whatever the rule and the header say."""
    keys = (b"key-of-team-a", b"second-key-of-team-a", b"key-of-team-b")
    first, second, other = [of((b"api-key", key), (b"x-user", key), tenant=rule, clients=CLIENTS) for key in keys]
    assert first == second != other


def test_no_tenant_can_pass_for_another() -> None:
    """What a client writes into its key or a header is never what another rule makes."""
    claims = [b"client team-a", b"header x", b"shared", b"\0client team-a", b"\0shared"]
    by_key = {of((b"authorization", claim)) for claim in claims}
    by_header = {of((b"x-user", claim), tenant="header x-user") for claim in claims}
    real = {of((b"api-key", KEY), clients=CLIENTS), of(tenant="shared"), of((b"x-user", b"x"), tenant="header x-user")}
    assert len(by_key | by_header | real) == 13


KEYED: dict[str, Any] = {"api_key": "sk-operator"}


@pytest.mark.parametrize(
    ("origin", "trusted"),
    [
        (b"http://localhost:3000", True),
        (b"https://app.localhost", True),
        (b"http://127.0.0.1:8080", True),
        (b"http://127.8.9.1", True),
        (b"http://[::1]:8080", True),
        (b"HTTP://LOCALHOST", True),
        (b"https://evil.example", False),
        (b"http://127.0.0.1.evil.example", False),
        (b"http://localhost.evil.example", False),
        (b"http://evil.example/localhost", False),
        (b"http://192.168.1.5", False),
        (b"http://[::", False),
        (b"http://\xff", False),
        (b"localhost", False),
        (b"null", False),
        (b"", False),
    ],
)
def test_pages_of_other_hosts_do_not_spend_the_operators_keys(origin: bytes, trusted: bool) -> None:
    """Nor those of none; where nothing is spent, or who may come is said, they are clients like any other."""
    headers = ((b"Host", b"evil.example"), (b"Origin", origin))
    assert access(**KEYED).trusts(headers) is trusted
    assert access(summarizer=KEYED).trusts(headers) is trusted
    assert access(**KEYED).trusts((*headers, (b"origin", b"http://localhost"))) is trusted
    assert access().trusts(headers) and access(api_key="client").trusts(headers)
    assert access(**KEYED, clients="anyone").trusts(headers)
    assert access(**KEYED, clients=CLIENTS).trusts(headers)


def test_without_an_origin_it_is_no_page() -> None:
    """Command lines and SDKs say none."""
    assert access(**KEYED).trusts(((b"host", b"127.0.0.1:8080"), (b"authorization", b"Bearer x")))
