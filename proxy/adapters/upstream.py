"""The upstream over aiohttp, made to change nothing: no redirects, no cookies, no .netrc, no header of its own."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from http import HTTPStatus
from io import BytesIO
from typing import Any

import aiohttp
import certifi
from multidict import CIMultiDict
from yarl import URL

from proxy.adapters.opaque import opaque_request
from proxy.adapters.proxies import Proxies
from proxy.adapters.switched import Switched, switched
from proxy.errors import BadRequest, ConfigError, Unreachable, UpstreamTimeout
from proxy.ports import Call, Headers

# aiohttp would add these where the client sent none.
AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
# Seconds an idle connection is kept: shorter than the 5 s after which uvicorn (vLLM, LiteLLM) and Node close theirs.
KEEPALIVE = 4.0
AT_ONCE = 1.0  # seconds: a few round trips; no model answers, or fails, as fast
STALE_MOST = 3  # dead connections out of the pool that one request may meet
IN_ONE_WRITE = 1024 * 1024  # bytes; more in one write would hold up the event loop, and aiohttp warns of it
MAX_FIELD = 64 * 1024  # bytes of one header field of an answer; aiohttp's own 8 KiB are less than some policies take


class AiohttpUpstream:
    """Implements `Upstream`. The session is made with the first request, in the event loop that sends it.

    `environ` is looked at once for HTTP(S)_PROXY, ALL_PROXY, NO_PROXY (any case), SSL_CERT_FILE and SSL_CERT_DIR.
    """

    def __init__(self, *, connect_timeout: float = 10.0, environ: Mapping[str, str] | None = None) -> None:
        environ = environ or {}
        self._ssl = _ssl_context(environ)
        self._proxies = Proxies(environ)
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self._address = lru_cache(maxsize=64)(self._parse)  # a few addresses make up nearly all requests
        self._session: aiohttp.ClientSession | None = None

    async def send(self, call: Call) -> AiohttpAnswer | Switched:
        session = self._session or self._open()
        url, proxy, proxy_headers = self._address(call.url)
        fields = _fields(call.headers)
        if proxy_headers and url.scheme == "http":  # no tunnel: the proxy reads the request itself
            fields.update(proxy_headers)
        if call.upgrade is not None:
            fields.update({"Connection": "Upgrade", "Upgrade": call.upgrade})
        connection = _Connection()
        try:
            async with asyncio.timeout(call.head_timeout):
                while True:
                    try:
                        response = await session.request(
                            call.method,
                            url,
                            headers=fields,
                            data=_body(call),
                            allow_redirects=False,
                            proxy=proxy,
                            proxy_headers=proxy_headers,
                            timeout=self._timeout,
                            trace_request_ctx=connection,
                        )
                        break
                    except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                        if not connection.stale() or not isinstance(call.body, bytes):
                            raise
        except (aiohttp.ServerTimeoutError, TimeoutError):
            raise UpstreamTimeout("the upstream did not answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(_reason(error)) from None
        except ValueError:  # control bytes in a header field: aiohttp refuses to write them, before it connects
            raise BadRequest("a header field contains bytes that may not be forwarded") from None
        if response.status == HTTPStatus.SWITCHING_PROTOCOLS and call.upgrade is not None:
            return switched(response, call.upgrade, _once(call.body))
        return AiohttpAnswer(response)

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_reuseconn.append(_reused)
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=0, keepalive_timeout=KEEPALIVE)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=AUTO_HEADERS,
            trace_configs=[tracing],
            request_class=opaque_request,  # type: ignore[arg-type]  # aiohttp only ever calls it
            max_line_size=MAX_FIELD,
            max_field_size=MAX_FIELD,
        )
        return self._session

    def _parse(self, url: str) -> tuple[URL, str | None, CIMultiDict[str] | None]:
        proxy, proxy_headers = self._proxies.choose(url)
        return URL(url, encoded=True), proxy, proxy_headers


class _Connection:
    """Whether a request went out on a connection that had been used before, since when, and how often it was dead."""

    __slots__ = ("_tries", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        self._tries = 0

    def stale(self) -> bool:
        """Closed while it lay idle, as it seems: used before, and gone at once without a byte of an answer (llama.cpp
        closes after every stream, without a word). Then the request is sent again, as browsers do. A server that
        took its time has perhaps acted on it."""
        since, self.since = self.since, None
        self._tries += 1
        return since is not None and time.monotonic() - since < AT_ONCE and self._tries <= STALE_MOST


async def _reused(_: aiohttp.ClientSession, context: Any, __: Any) -> None:
    context.trace_request_ctx.since = time.monotonic()


class AiohttpAnswer:
    """Implements `Answer`.

    aiohttp (3.14) tells the reader of a body when it is cut off, but not when its chunks are malformed: it closes the
    connection, and a reader that waits then waits for ever. So the end of the connection is watched.
    """

    __slots__ = ("_response", "_waiting")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._waiting = False

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.raw_headers

    async def chunks(self) -> AsyncIterator[bytes]:
        content = self._response.content
        connection = self._response.connection  # None: all of the body is here
        closed = connection.protocol.closed if connection is not None and connection.protocol is not None else None
        if closed is not None:
            closed.add_done_callback(self._connection_closed)
        try:
            while True:
                self._waiting = True
                chunk = await content.readany()
                self._waiting = False
                if not chunk:
                    return
                yield chunk
        except (aiohttp.ClientError, OSError, RuntimeError) as error:  # RuntimeError: nothing left, connection closed
            raise Unreachable(_reason(error)) from None
        finally:
            if closed is not None:
                closed.remove_done_callback(self._connection_closed)

    def _connection_closed(self, _: object) -> None:
        content = self._response.content
        if self._waiting and not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError())

    async def aclose(self) -> None:
        self._response.close()  # at its end the body has given the connection back already

    def __repr__(self) -> str:
        return f"AiohttpAnswer({self.status})"


def _ssl_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    file, directory = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not file and not directory:
        file = certifi.where()
    try:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        raise ConfigError(f"SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error.strerror}") from None


def _fields(headers: Headers) -> CIMultiDict[str]:
    return CIMultiDict([(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in headers])


def _body(call: Call) -> Any:
    """aiohttp states a length of 0 for POST and its like only when there is no body object at all."""
    if call.upgrade is not None:
        return None  # it is said later, in the other protocol
    if isinstance(call.body, bytes):
        return BytesIO(call.body) if len(call.body) > IN_ONE_WRITE else call.body or None
    return _once(call.body)


async def _once(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    async for chunk in body:
        if chunk:  # an empty chunk would end a chunked body
            yield chunk


def _reason(error: Exception) -> str:
    """What happened, in a few words, without addresses or text of ours."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return "no secure connection to the upstream could be made"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the upstream cannot be reached: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = isinstance(error.os_error, ConnectionRefusedError)
        return f"the upstream cannot be reached{': it refused the connection' if refused else ''}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the upstream broke off in the middle of its answer"
    return "the connection to the upstream was lost"
