"""uvicorn, set up for a proxy: its options, and two guards against what its parser does to requests."""

from __future__ import annotations

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

UPGRADE = b"x-compaction-upgrade"
"""What an `Upgrade` field is called when the application sees it; no upstream does, for it has our prefix."""

_FIELD = re.compile(rb"(?<=\r\n)upgrade(?=[ \t]*:)", re.IGNORECASE)


class HttpProtocol(HttpToolsProtocol):
    """Requests that ask for an upgrade keep their body, and trailers do not become header fields.

    With an `Upgrade` field httptools takes what follows the head for the other protocol, and the body is lost. Java's
    own client asks for h2c with the first request of every plain connection, and its chats would arrive empty. We
    upgrade to nothing (RFC 9110, 7.8: a server may ignore the field), so the field is renamed before it is parsed. A
    field that is cut in two by the network is not: the application refuses its request then.
    """

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or not self.cycle.more_body:
            end = data.find(b"\r\n\r\n")
            head = data if end < 0 else data[:end]
            if _FIELD.search(head):
                data = _FIELD.sub(UPGRADE, head) + data[len(head) :]
        super().data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        # The parser reports trailers like headers. They must not be merged (RFC 9110, 6.5.1): a trailer could name a
        # credential that nobody in front of us has seen. The list that the application has is left alone from here on.
        self.headers = []


def serve_options() -> dict[str, Any]:
    """Keyword arguments for `uvicorn.Config`.

    No header of the server's own (the upstream's `Date` and `Server` pass), no logging of its own making, and idle
    connections kept longer than clients keep theirs (httpx 5 s, Node 4 s, nginx 60 s): otherwise a request may meet a
    connection that is being closed.
    """
    return {
        "http": HttpProtocol,
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 30,
    }
