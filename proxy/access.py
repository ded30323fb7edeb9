"""Who may come in, by which address, and whose conversations theirs are."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import islice
from urllib.parse import urlsplit

from proxy.core import wire
from proxy.forward import Caller, Incoming
from proxy.ports import Headers
from proxy.settings import Settings

AZURE = "openai"
"""Azure's addresses end in `/openai/v1` (Microsoft's documentation of its v1 API), and some clients add that part: the
common upstream is meant, unless another has this name."""

MOST_KEYS = 32
"""What a request may offer as keys, at two readings for each field; a client sends one or two. Each costs a hash."""

_ADDRESS = re.compile(rb"/([a-z0-9-]+)(/v1(?:/.*)?)", re.DOTALL)


class Access:
    """The door of this proxy, as the settings have it."""

    def __init__(self, settings: Settings) -> None:
        self._names = frozenset(settings.upstreams)
        clients = settings.clients
        self._clients = [(client.digest(), client.tenant) for client in clients] if isinstance(clients, tuple) else None
        self._open_keys = clients is None and settings.spends()
        rule, _, name = settings.tenant.partition(" ")
        self._shared = rule == "shared"
        self._header = name.lower().encode()

    def find(self, path: bytes) -> tuple[str | None, bytes] | None:
        """Which upstream a raw path names (None: the common one), and the path from `/v1` on; None: no such address."""
        if path.startswith(b"/v1/") or path == b"/v1":
            return None, path
        found = _ADDRESS.fullmatch(path)
        if found is None:
            return None
        name = found[1].decode("ascii")
        if name in self._names:
            return name, found[2]
        return (None, found[2]) if name == AZURE else None

    def trusts(self, headers: Headers) -> bool:
        """False for a page of another host, where whoever reaches this proxy may spend the operator's keys.

        A browser lets any page open a WebSocket to this machine, and send it a POST of plain text, unasked; but it
        says whose page that is (RFC 6454). A page with the same host as the address it uses is none of this machine's
        for that: names can be made to lead here (DNS rebinding).
        """
        return not self._open_keys or all(_is_local(value) for name, value in headers if name.lower() == b"origin")

    def admit(self, headers: Headers) -> Caller | None:
        """Whose request it is, and its fields as they may travel; None if it has to have an accepted key and has none.

        An accepted key is this proxy's own: no field that holds one is left.
        """
        if self._clients is None:
            return Caller(headers, self._told(headers))
        offered = list(islice(_offered(headers), MOST_KEYS + 1))
        accepted = [(key, tenant) for key in offered if (tenant := self._tenant(key)) is not None]
        if not accepted or len(offered) > MOST_KEYS:
            return None
        return Caller(_stripped(headers, [key for key, _ in accepted]), b"client " + accepted[0][1].encode())

    def _tenant(self, key: bytes) -> str | None:
        """In the same time for every key: none tells how much of it was right, or whose it is like."""
        digest = hashlib.sha256(key).digest()
        tenant = None
        for accepted, name in self._clients or ():
            if hmac.compare_digest(accepted, digest):
                tenant = name
        return tenant

    def _told(self, headers: Headers) -> bytes | None:
        if self._shared:
            return b"shared"
        values = [value for name, value in headers if name.lower() == self._header] if self._header else []
        return b"header " + b",".join(values) if values else None


def _is_local(origin: bytes) -> bool:
    """Whether an `Origin` is of this machine; `null`, which any page can bring about, is not."""
    try:
        host = urlsplit(origin.decode("ascii")).hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def _offered(headers: Headers) -> Iterator[bytes]:
    """What may be a key: in fields that hold credentials, and among subprotocols."""
    for name, value in headers:
        if wire.is_credential(name):
            yield from _readings(value, b" ")
        elif name.lower() == wire.SUBPROTOCOLS:
            for entry in value.split(b","):
                yield from _readings(entry.strip(b" \t"), b".")


def _readings(value: bytes, end: bytes) -> Iterator[bytes]:
    """A value as it stands, and without what says of which kind it is: `Bearer KEY`, `openai-insecure-api-key.KEY`."""
    yield value
    _, kind, rest = value.partition(end)
    if kind:
        yield rest.strip(b" \t")


def _stripped(headers: Headers, keys: list[bytes]) -> Headers:
    kept: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name.lower() == wire.SUBPROTOCOLS:
            kept += _without_keys((name, value), keys)
        elif wire.is_credential(name):
            kept += [] if any(key in value for key in keys) else [(name, value)]
        elif not any(reading in keys for reading in _readings(value, b" ")):
            kept.append((name, value))
    return tuple(kept)


def _without_keys(field: tuple[bytes, bytes], keys: list[bytes]) -> Headers:
    """A field of subprotocols, without those that are keys or say that the next one is, if it offers any of `keys`."""
    if not any(key in keys for key in _offered((field,))):
        return (field,)
    name = field[0]
    entries = [entry for _, value in wire.without_credentials((field,)) for entry in value.split(b", ")]
    entries = [entry for entry in entries if not any(key in keys for key in _offered(((name, entry),)))]
    return ((name, b", ".join(entries)),) if entries else ()


def tenant(incoming: Incoming, secret: bytes) -> str:
    """Whose conversation it is: an HMAC under this installation's secret, 32 hex digits. Never reversible, and
    different in every installation.

    Of what the door says of the caller; else of the client's key alone where there is one (cookies change from request
    to request); without any credential all share one tenant.
    """
    if incoming.caller is not None:
        material = b"\0" + incoming.caller  # no field's name begins so: what follows is no credential
    else:
        named = sorted((name.lower(), value) for name, value in incoming.headers if wire.is_credential(name))
        keys = [field for field in named if field[0] in wire.KEYS] or named
        material = b"\n".join(name + b":" + value for name, value in keys) or b"anonymous"
    return hmac.digest(secret, material, hashlib.sha256).hex()[:32]
