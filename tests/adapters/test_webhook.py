"""The webhook over real sockets: what it sends, how a receiver knows it, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from proxy.adapters.upstream import AiohttpUpstream
from proxy.adapters.webhook import ANSWER_MOST, Webhook, signature
from proxy.errors import ConfigError, HookError
from proxy.ports import Event
from tests.packed import gz
from tests.servers import Peer, Request, run_raw

RAW = b'{ "role":"user", "content":"\xc3\xbc \\ud83d" }'
EVENT = Event("before_compaction", {"id": "evt_1", "tenant": "ab"}, (RAW,))
SECRET = "a long enough text"
NOW = 1_700_000_000.9


def told(
    handler: Callable[[Peer], object], environ: Mapping[str, str] | None = None, event: Event = EVENT
) -> tuple[Any, list[Request]]:
    """What the hook answers, and what it was asked."""
    with run_raw(handler) as server:

        async def story() -> Any:
            upstream = AiohttpUpstream(connect_timeout=5, environ=environ or {})
            try:
                return await Webhook(upstream, f"{server.url}/hook", SECRET, lambda: NOW).tell(event)
            finally:
                await upstream.aclose()

        return asyncio.run(story()), server.requests


def verified(request: Request, secret: bytes, now: float) -> bool:
    """What the README tells a receiver to do, with the standard library alone."""
    name, time, signatures = (
        request.values(f"webhook-{part}".encode())[0] for part in ("id", "timestamp", "signature")
    )
    if abs(now - int(time)) > 300:
        return False
    expected = base64.b64encode(hmac.digest(secret, b".".join((name, time, request.body)), hashlib.sha256))
    return any(hmac.compare_digest(each, b"v1," + expected) for each in signatures.split(b" "))


def test_an_event_is_a_signed_post() -> None:
    """The messages byte for byte, no credential, and a signature over id, time and body."""
    answer, (request,) = told(lambda peer: peer.answer(b'{"instructions": "go on"}'))
    assert answer == {"instructions": "go on"}
    assert request.line == b"POST /hook HTTP/1.1"
    assert RAW in request.body
    assert json.loads(request.body) == {"event": "before_compaction", **EVENT.fields, "messages": [json.loads(RAW)]}
    assert request.values(b"content-type") == [b"application/json"]
    names = {name.lower() for name, _ in request.headers}
    assert not names & {b"authorization", b"api-key", b"cookie", b"proxy-authorization"}
    assert verified(request, SECRET.encode(), NOW)


def test_what_is_forged_or_old_is_no_event() -> None:
    """Another body, another secret, another time, or the same event much later."""
    _, (request,) = told(Peer.answer)
    assert not verified(request, b"another", NOW)
    assert not verified(request, SECRET.encode(), NOW + 301)
    for name, value in [(b"webhook-id", b"evt_2"), (b"webhook-timestamp", b"1700000001")]:
        changed = [(key, value if key.lower() == name else old) for key, old in request.headers]
        assert not verified(Request(request.line, changed, request.body), SECRET.encode(), NOW)
    assert not verified(Request(request.line, request.headers, request.body + b" "), SECRET.encode(), NOW)


def test_the_signature_is_the_standards() -> None:
    """The numbers that its authors' own library gives for a secret in base64."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    name, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    assert signature(secret, name, "1614265330", body) == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    hook = Webhook(None, "http://h/x", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", lambda: 0.0)  # type: ignore[arg-type]
    assert hook._secret == secret and "whsec" not in repr(hook)
    with pytest.raises(ConfigError, match=r"hooks\.secret"):
        Webhook(None, "http://h/x", "whsec_no base64", lambda: 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "headers"), [(b"", b""), (b" \n", b""), (b"null", b""), (gz(b"null"), b"Content-Encoding: gzip\r\n")]
)
def test_no_answer_is_none(body: bytes, headers: bytes) -> None:
    """Nothing, or null."""
    assert told(lambda peer: peer.answer(body, headers=headers))[0] is None


def test_what_nobody_asked_for_is_not_read() -> None:
    """A receiver that is told of a compaction may say `ok`, as many do."""
    after = Event("after_compaction", EVENT.fields, EVENT.messages)
    assert told(lambda peer: peer.answer(b"ok"), event=after)[0] is None


def broken(peer: Peer) -> bool:
    peer.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"skip"')
    return False


WRONG: list[tuple[Callable[[Peer], object], str]] = [
    (lambda peer: peer.answer(b"{}", b"500 Oops"), "status 500"),
    (lambda peer: peer.answer(b"{}", b"401 No"), "status 401"),
    (lambda peer: peer.answer(b"thanks"), "no JSON"),
    (lambda peer: peer.answer(b"[" * 100_000), "no JSON"),
    (lambda peer: peer.answer(b'"' + b"x" * ANSWER_MOST + b'"'), "too long"),
    (lambda peer: peer.answer(gz(b" " * 50_000_000), headers=b"Content-Encoding: gzip\r\n"), "cannot be decoded"),
    (broken, "broke off"),
    (lambda peer: False, "cannot be reached"),
]


@pytest.mark.parametrize(("handler", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_an_answer_that_is_none(handler: Callable[[Peer], object], reason: str) -> None:
    """Each is a failure with a reason that has no text of it."""
    with pytest.raises(HookError, match=reason):
        told(handler)


def test_a_redirect_is_not_followed() -> None:
    """The text goes where the configuration says, and nowhere else."""
    with run_raw() as elsewhere:

        def redirect(peer: Peer) -> None:
            peer.answer(b"", b"307 Elsewhere", b"Location: %s/x\r\n" % elsewhere.url.encode())

        with pytest.raises(HookError, match="status 307"):
            told(redirect)
        assert not elsewhere.requests
