"""CPU per request of the proxy against a bare pass-through: `python -m tests.bench.speed [--rounds N]`.

Four processes on real sockets: a trivial upstream, a starlette route over the same HTTP client (`bare`), the proxy
(`ours`), and this one, which loads them in turns within one run. CPU is the kernel's own account of each process
(/proc/PID/task/*/schedstat, in nanoseconds), so it counts what the process cost and not how fast the machine was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import aiohttp
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from proxy.adapters.upstream import AUTO_HEADERS
from proxy.settings import Settings
from proxy.web.app import serve_options
from proxy.wiring import build, configure_logging

CONNECTIONS = 32
SIZES = {1: 1000, 100: 600, 600: 200}  # KB of body -> requests of one turn
LIMITS = {1: 1.5, 100: 2.0, 600: 2.5}  # what ours may cost, in bare pass-throughs
WINDOW = 200_000  # tokens: all bodies fit, but the largest has more bytes than that and must be counted
MESSAGE = 1500  # bytes of text in one message of the bodies
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 40}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140},
    }
).encode()


# -- the application under test ------------------------------------------------------------------------------------
def served_app(upstream: str) -> Any:
    """THE SERVED APP: what `compaction-proxy serve` runs before this upstream; the warm-up makes its history known."""
    settings = {"upstream": upstream, "models": {"*": {"window": WINDOW}}, "store": "memory:"}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its log lines are part of what it costs, but not of the table
    configure_logging()
    return build(Settings.model_validate(settings), {})


# ------------------------------------------------------------------------------------------------------------------
def bare_app(upstream: str) -> Any:
    """The yardstick: a starlette route that passes a request on with the session settings of `AiohttpUpstream`."""
    sessions: list[aiohttp.ClientSession] = []
    dropped = ("host", "content-length", "transfer-encoding", "connection")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None, connect=10)
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=AUTO_HEADERS,
            timeout=timeout,
        ) as session:
            sessions.append(session)
            yield

    async def chat(request: Request) -> StreamingResponse:
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in dropped}
        answer = await sessions[0].post(f"{upstream}/chat/completions", data=body, headers=headers)
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in dropped}
        return StreamingResponse(answer.content.iter_any(), answer.status, kept)

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])], lifespan=lifespan)


class TrivialUpstream(asyncio.Protocol):
    """Answers every request with the same bytes as soon as its body is complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._missing = 0
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}\r\n\r\n"
        self._answer = head.encode() + ANSWER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            self._buffer += data
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            lines = bytes(head).lower().split(b"\r\n")
            self._missing = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            data = bytes(rest)
            self._buffer.clear()
        self._missing -= len(data)
        if self._missing == 0:
            self._transport.write(self._answer)


def serve_upstream(sock: socket.socket) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(TrivialUpstream, sock=sock)
        await server.serve_forever()

    uvloop.run(main())


def serve_app(factory: Callable[[str], Any], upstream: str, sock: socket.socket) -> None:
    uvicorn.Server(uvicorn.Config(factory(upstream), **serve_options())).run(sockets=[sock])


def start(target: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, int]:
    """A process that serves on a socket of its own, and its port."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    process = multiprocessing.get_context("fork").Process(target=target, args=(*arguments, sock), daemon=True)
    process.start()
    port: int = sock.getsockname()[1]
    sock.close()
    return process, port


def cpu(pid: int | None) -> float:
    """Seconds of CPU that a process has used in all its threads."""
    times = [path.read_text().split()[0] for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(map(int, times)) / 1e9


def chat_request(size: int) -> bytes:
    """A whole request whose body is a conversation of about `size` KB."""
    text = "The quick brown fox jumps over the lazy dog, again. "
    count = max(1, size * 1024 // (MESSAGE + 40))
    content = (text * (MESSAGE // len(text) + 1))[: min(MESSAGE, size * 1024 - 100)]
    roles = ["user" if index % 2 == (count - 1) % 2 else "assistant" for index in range(count)]
    messages = [{"role": role, "content": f"{index} {content}"} for index, role in enumerate(roles)]
    body = json.dumps({"model": "bench", "messages": messages}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: proxy\r\nuser-agent: bench\r\naccept: application/json\r\n"
        "authorization: Bearer sk-0123456789abcdef0123456789abcdef\r\ncontent-type: application/json\r\n"
        f"accept-encoding: gzip, deflate\r\nx-stainless-lang: python\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: int, request: bytes, count: int) -> None:
    """Send `count` requests over `CONNECTIONS` connections, each waiting for its answer."""

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(number):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"unexpected answer: {head!r}")
            if b"chunked" in head:
                await reader.readuntil(b"0\r\n\r\n")
            else:
                await reader.readexactly(len(ANSWER))
        writer.close()
        await writer.wait_closed()

    share, more = divmod(count, CONNECTIONS)
    await asyncio.gather(*(client(share + (index < more)) for index in range(CONNECTIONS)))


def measure(rounds: int) -> dict[int, dict[str, float]]:
    """CPU milliseconds per request, median over the rounds: size in KB -> server -> figure."""
    upstream, upstream_port = start(serve_upstream)
    address = f"http://127.0.0.1:{upstream_port}/v1"
    servers = {"bare": start(serve_app, bare_app, address), "ours": start(serve_app, served_app, address)}
    samples: dict[int, dict[str, list[float]]] = {size: {name: [] for name in servers} for size in SIZES}
    try:
        for number in range(rounds + 1):
            for size, count in SIZES.items():
                request = chat_request(size)
                for name, (process, port) in servers.items():
                    before = cpu(process.pid)
                    uvloop.run(load(port, request, count))
                    if number:  # the first round warms up
                        samples[size][name].append((cpu(process.pid) - before) * 1000 / count)
    finally:
        for process, _ in (*servers.values(), (upstream, 0)):
            process.kill()
            process.join()
    return {size: {name: statistics.median(values) for name, values in row.items()} for size, row in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    figures = measure(parser.parse_args().rounds)
    lines = ["   KB   bare ms   ours ms   ratio   limit"]
    for size, row in figures.items():
        ratio = row["ours"] / row["bare"]
        lines.append(f"{size:5}{row['bare']:10.3f}{row['ours']:10.3f}{ratio:8.2f}{LIMITS[size]:8.1f}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if all(row["ours"] <= row["bare"] * LIMITS[size] for size, row in figures.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
