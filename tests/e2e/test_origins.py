"""Where text and keys go: every header and body at every origin is on record."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from proxy.demo.serving import serve_in_thread
from proxy.demo.upstream import SUMMARIZER, FakeUpstream
from proxy.settings import Settings
from tests.e2e.test_promises import LONG, chat, post, talk
from tests.stage import proxy

CLIENT = {
    "authorization": "Bearer secret-of-the-client",
    "x-api-key": "secret-of-the-client-2",
    "cookie": "session=secret-of-the-client-3",
    "openai-organization": "org-secret-of-the-client",
}


class World:
    """Two origins and a proxy between them and a client."""

    def __init__(self, stack: ExitStack, settings: Any) -> None:
        self.here, self.there = FakeUpstream(), FakeUpstream()
        urls = [f"{stack.enter_context(serve_in_thread(fake))}/v1" for fake in (self.here, self.there)]
        self.url = stack.enter_context(proxy(Settings.model_validate(settings(*urls))))

    def ask(self, *, name: str = "", headers: dict[str, str] = CLIENT, **more: Any) -> None:
        url = self.url.removesuffix("/v1") + (f"/{name}/v1" if name else "/v1")
        reply = post(url, chat(talk(LONG), **more), headers=headers)
        assert reply.status == 200

    @staticmethod
    def seen(fake: FakeUpstream) -> str:
        """Everything that reached an origin, as one text."""
        return "\n".join(
            f"{b'; '.join(name + b': ' + value for name, value in r.headers)!r}\n{r.body!r}" for r in fake.requests
        )


def window(**more: Any) -> dict[str, Any]:
    return {"store": "memory:", "models": {"*": {"window": 4_000}}, **more}


def test_without_a_summariser_of_its_own_everything_stays_at_one_origin() -> None:
    """The request's own upstream writes the summary, with the request's own credentials."""
    with ExitStack() as stack:
        world = World(stack, lambda here, there: window(upstream=here))
        world.ask()
    assert len(world.here.summaries) == 1 and not world.there.requests
    sent = {name.lower(): value for name, value in world.here.summaries[0].headers}
    assert sent[b"authorization"] == b"Bearer secret-of-the-client"


@pytest.mark.parametrize("key", [None, "key-of-the-operator"])
def test_another_summariser_gets_text_and_its_own_key_only(key: str | None) -> None:
    """Never the client's: not its key, not its cookies, not its organisation."""
    with ExitStack() as stack:
        world = World(
            stack,
            lambda here, there: window(
                upstream=here, summarizer={"upstream": there, "model": SUMMARIZER, "api_key": key}
            ),
        )
        world.ask()
    assert world.there.summaries and not world.there.chats
    seen = world.seen(world.there)
    assert "secret-of-the-client" not in seen
    assert ("key-of-the-operator" in seen) is (key is not None)
    assert "key-of-the-operator" not in world.seen(world.here)


@pytest.mark.parametrize(
    ("key", "expected"), [(None, None), ("operator-key", "operator-key"), ("client", "secret-of-the-client")]
)
def test_a_routed_upstream_gets_the_key_that_is_meant_for_it(key: str | None, expected: str | None) -> None:
    """The client's own only where the configuration says so; summaries go where the request goes."""
    with ExitStack() as stack:
        world = World(
            stack,
            lambda here, there: window(
                upstream=here, models={"far-*": {"window": 4_000, "upstream": there, "api_key": key}}
            ),
        )
        world.ask(model="far-away")
    assert not world.here.requests
    assert world.there.summaries
    for record in world.there.requests:
        sent = {name.lower(): value for name, value in record.headers}
        assert sent.get(b"authorization") == (f"Bearer {expected}".encode() if expected else None)
    if key != "client":
        assert "secret-of-the-client" not in world.seen(world.there)


def test_an_operators_key_takes_the_place_of_the_clients() -> None:
    """At the default upstream too."""
    with ExitStack() as stack:
        world = World(stack, lambda here, there: window(upstream=here, api_key="operator-key"))
        world.ask()
    assert "secret-of-the-client" not in world.seen(world.here)
    assert world.seen(world.here).count("Bearer operator-key") == len(world.here.requests)


def test_a_named_address_takes_conversation_summary_and_keys_to_one_origin() -> None:
    """The client's own key, and nothing of it at the common upstream."""
    with ExitStack() as stack:
        world = World(stack, lambda here, there: window(upstream=here, api_key="k", upstreams={"far": {"url": there}}))
        world.ask(name="far")
    assert not world.here.requests
    assert len(world.there.summaries) == 1 and len(world.there.chats) == 1
    assert world.seen(world.there).count("Bearer secret-of-the-client") == 2


def test_a_proxy_may_stand_before_another() -> None:
    """No loop; and what the client sees is what the one it talks to did."""
    with ExitStack() as stack:
        world = World(stack, lambda here, there: {"upstream": here, "store": "memory:"})
        outer = stack.enter_context(proxy(Settings.model_validate(window(upstream=world.url))))
        reply = post(outer, chat(talk(LONG)))
    assert (reply.status, reply.decision) == (200, "compact; over-limit")
    assert len(world.here.chats) == 1


@pytest.mark.parametrize("name", ["", "far"])
def test_client_keys_of_the_proxy_reach_no_origin(name: str) -> None:
    """Summaries included; and what one team had compacted another has to have compacted anew."""
    clients = [{"key": f"secret-of-the-client-{team}", "tenant": team} for team in ("a", "b")]
    clients.append({"key": "secret-of-the-client-a2", "tenant": "a"})
    with ExitStack() as stack:
        world = World(
            stack,
            lambda here, there: window(
                upstream=here, upstreams={"far": {"url": there, "api_key": "operator-key"}}, clients=clients
            ),
        )
        fake = world.there if name else world.here
        made = []
        for key in ("a", "a2", "b", "a"):
            world.ask(name=name, headers=CLIENT | {"authorization": f"Bearer secret-of-the-client-{key}"})
            made.append(len(fake.summaries))
    assert made == [1, 1, 2, 2]
    assert "secret-of-the-client" not in world.seen(fake)
    assert world.seen(fake).count("Bearer operator-key") == (len(fake.requests) if name else 0)
