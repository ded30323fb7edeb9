"""Everything that can go wrong, split by whose fault it is.

Library errors are translated into this tree at the edge (``adapters/``); nothing above catches a library's own
exception. A leaf that a client may see carries the HTTP status it is answered with and OpenAI's error ``type``.
"""

from __future__ import annotations


class ProxyError(Exception):
    """Root of the tree. `status` is what the client gets when nothing above handles the error."""

    status: int = 500
    type: str = "proxy_error"


class ConfigError(ProxyError):
    """The operator's fault: a configuration that cannot be used. Raised before anything listens."""


class BadRequest(ProxyError):
    """The client's fault: a request that must not be forwarded (never: one we merely cannot read)."""

    status = 400
    type = "invalid_request_error"


class LoopDetected(BadRequest):
    """The request has been through this proxy already (RFC 9110, 15.5.9 is not about this; 508 is RFC 5842, 7.2)."""

    status = 508


class UpstreamError(ProxyError):
    """The upstream's fault: no answer at all could be had."""

    status = 502
    type = "upstream_error"


class Unreachable(UpstreamError):
    """Refused, reset, no such host, TLS failure, or gone in the middle of an answer."""


class UpstreamTimeout(UpstreamError):
    """The connection could not be made in time, or a configured timeout ran out before the first byte."""

    status = 504


NO_SUMMARY = {
    "resting": "not asked: it failed just now",
    "calls_per_hour": "not asked: it had its calls of this hour",
    "no_use": "not asked: a compaction of this conversation was of no use just now",
    "unused": "not asked: no request used the summaries of this conversation",
    "skipped": "not asked: a hook said so",
    "late": "it was not there in time, and serves a later request",
    "failed": "something broke inside the proxy",
    "overflow": "the transcript was too long for the summarizer",
    "http_4xx": "the summarizer refused the call",
    "http_5xx": "the summarizer answered with an error",
    "rate_limited": "the summarizer had too many calls",
    "timeout": "the summary took too long",
    "silent": "the summarizer said nothing for too long",
    "unreachable": "no connection to the summarizer",
    "malformed": "its answer is no chat completion",
    "tool_call": "it called a tool",
    "empty": "it said next to nothing",
    "unfinished": "it was cut off",
    "refusal": "it refused",
    "continuation": "it went on with the conversation",
    "tool_syntax": "it wrote a tool call as text",
    "loop": "it repeated itself",
    "echo": "it repeated the transcript",
    "unchanged": "it told the summary before it over again",
    "html": "it is a web page",
    "no_reduction": "it is hardly shorter than the transcript",
}
"""Why there is no summary, as one table: every reason of a `SummaryError` and of a record; logs have the words."""


class SummaryError(ProxyError):
    """The summariser's fault: no usable summary. Never reaches a client; the next rung answers.

    `reason` is one of `NO_SUMMARY`; never message text. An overflow says by what factor the prompt was too long, where
    the summariser stated it; a refused call, with which status and code (`status 401, invalid_api_key`).
    """

    def __init__(self, reason: str, excess: float | None = None, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.excess = excess
        self.detail = detail


class StoreError(ProxyError):
    """The store's fault. Costs summaries, never requests."""


class HookError(ProxyError):
    """The fault of one of the operator's hooks. Costs what it might have said, never a request. No message text."""
