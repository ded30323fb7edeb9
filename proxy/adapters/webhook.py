"""A hook behind a web address: each event a signed POST, as the Standard Webhooks specification has it
(https://github.com/standard-webhooks/standard-webhooks, version 1), so that ready-made libraries can verify it.

`webhook-signature` is `v1,` and the base64 of HMAC-SHA256 over `ID.TIMESTAMP.BODY`: whoever verifies it, and refuses a
timestamp that is minutes old and an id that was there before, cannot be shown the same event twice.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from proxy.adapters.codings import ALL_CODINGS
from proxy.core.coding import Decoder, Undecodable
from proxy.core.wire import first
from proxy.errors import ConfigError, HookError, ProxyError
from proxy.ports import Answer, Call, Event, Headers, Upstream

ANSWER_MOST = 2 * 1024 * 1024
"""Bytes of an answer: more than all that it may say."""

PREFIX = "whsec_"


class Webhook:
    """Implements `Hook` on any `Upstream`, which follows no redirects and adds no credentials. `now`: seconds since the
    epoch. Raises `ConfigError` for a secret that says it is base64 and is not."""

    def __init__(self, upstream: Upstream, url: str, secret: str, now: Callable[[], float]) -> None:
        self._upstream = upstream
        self._url = url
        self._secret = _bytes(secret)
        self._now = now

    def __repr__(self) -> str:
        return f"Webhook({urlsplit(self._url).hostname})"

    async def tell(self, event: Event) -> Any:
        call = await asyncio.to_thread(self._call, event)
        try:
            answer = await self._upstream.send(call)
        except ProxyError:
            raise HookError("cannot be reached") from None
        try:
            if not 200 <= answer.status < 300:
                raise HookError(f"answered with status {answer.status}")
            body = await _whole(answer)
        except ProxyError as error:
            raise error if isinstance(error, HookError) else HookError("broke off") from None
        finally:
            await answer.aclose()
        try:
            return json.loads(body) if event.asks and body.strip() else None
        except (ValueError, RecursionError):
            raise HookError("its answer is no JSON") from None

    def _call(self, event: Event) -> Call:
        body, name, time = event.document(), str(event.fields["id"]), str(int(self._now()))
        headers: Headers = (
            (b"content-type", b"application/json"),
            (b"accept", b"application/json"),
            (b"accept-encoding", b"identity"),
            (b"user-agent", b"compaction-proxy"),
            (b"webhook-id", name.encode("ascii")),
            (b"webhook-timestamp", time.encode("ascii")),
            (b"webhook-signature", signature(self._secret, name, time, body)),
        )
        return Call("POST", self._url, headers, body)


def signature(secret: bytes, name: str, time: str, body: bytes) -> bytes:
    """What `webhook-signature` holds."""
    digest = hmac.digest(secret, f"{name}.{time}.".encode("ascii") + body, hashlib.sha256)
    return b"v1," + base64.b64encode(digest)


def _bytes(secret: str) -> bytes:
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ConfigError(f"hooks.secret: what follows {PREFIX} must be base64") from None


async def _whole(answer: Answer) -> bytes:
    body = bytearray()
    try:
        decoder = Decoder(first(answer.headers, b"content-encoding"), ANSWER_MOST, codings=ALL_CODINGS)
        async for chunk in answer.chunks():
            body += decoder.feed(chunk)
    except Undecodable:
        raise HookError("its answer cannot be decoded, or is too long") from None
    return bytes(body)
