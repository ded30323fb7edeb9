"""The command `compaction-proxy`."""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from uvicorn.supervisors import Multiprocess

from proxy.core.checkpoint import Checkpoint
from proxy.demo.play import run_demo
from proxy.demo.serving import serve_in_thread
from proxy.errors import ConfigError, ProxyError
from proxy.ports import Records
from proxy.settings import ANYONE, CONFIG_VARIABLE, Settings, doubts, load, load_store
from proxy.show import told, totals, written
from proxy.web.app import App, serve_options
from proxy.wiring import build, check, configure_logging, open_records

log = logging.getLogger("compaction_proxy")

T = TypeVar("T")

BACKLOG = 2048  # connections waiting to be accepted; uvicorn's own default
MODEL_WINDOW = "the context window, in tokens, of the models that the configuration names none for"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code. What the operator has to mend is one line on stderr each, and 2."""
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except ProxyError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"compaction-proxy: {line}\n")
        return 2
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells count
    except BrokenPipeError:  # whoever read has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        return 141  # 128 + SIGPIPE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compaction-proxy",
        description="An OpenAI-compatible reverse proxy that compacts long conversations.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the proxy", description="Run the proxy until it is stopped.")
    serve.add_argument("--config", type=Path, metavar="FILE", help=f"configuration (default: ${CONFIG_VARIABLE})")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=_number(0, 65535), default=8080, help="default: %(default)s; 0: any free one")
    serve.add_argument("--upstream", metavar="URL", help="where requests go (default: https://api.openai.com/v1)")
    serve.add_argument("--window", type=int, metavar="N", help=MODEL_WINDOW)
    serve.add_argument("--workers", type=_number(1, 256), default=1, metavar="N", help="processes (default: 1)")
    serve.set_defaults(run=_serve)

    show = commands.add_parser(
        "show",
        help="what was done to a request",
        description="What was done to a request: the record of a compaction, and what stands for the old messages.",
    )
    show.add_argument("checkpoint", help="the id in the x-compaction-checkpoint header of the answer")
    show.add_argument("--config", type=Path, metavar="FILE", help=f"configuration (default: ${CONFIG_VARIABLE})")
    show.set_defaults(run=_show)

    listing = commands.add_parser(
        "list", help="the last compactions", description="The last compactions, the newest first, and what they cost."
    )
    listing.add_argument("--config", type=Path, metavar="FILE", help=f"configuration (default: ${CONFIG_VARIABLE})")
    listing.add_argument("-n", type=_number(1, 10_000), default=20, metavar="N", help="how many (default: 20)")
    listing.set_defaults(run=_list)

    demo = commands.add_parser(
        "demo",
        help="play a long conversation against a small window",
        description="Play a long conversation through the proxy against a small window: offline before a fake "
        "upstream, or before the one named here. The key for that is taken from $OPENAI_API_KEY.",
    )
    demo.add_argument("--upstream", metavar="URL", help="a real server in place of the fake one, ending in /v1")
    demo.add_argument("--model", metavar="NAME", help="the model to ask for there")
    demo.set_defaults(run=_demo)
    return parser


def _number(least: int, most: int) -> Any:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a number from {least} to {most}, not {text!r}")
        return int(text)

    return number


def _version() -> str:
    try:
        return version("compaction-proxy")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "(not installed)"


# --- serve


def _serve(args: argparse.Namespace) -> int:
    configure_logging()
    settings = load(args.config, os.environ, upstream=args.upstream, window=args.window)
    family, address = _resolve(args.host, args.port)
    _check(settings, args.host, address, args.workers)
    with _listen(args.host, family, address) as listener:
        if args.workers == 1:
            server = uvicorn.Server(uvicorn.Config(build(settings, os.environ), **serve_options()))
            _announce(settings, listener)
            server.run(sockets=[listener])
        else:
            asyncio.run(check(settings))
            app = functools.partial(_worker, settings)
            supervisor = Multiprocess(
                uvicorn.Config(app, factory=True, workers=args.workers, **serve_options()), sockets=[listener]
            )
            _close_on_exit(listener, lambda: len(supervisor.processes) == args.workers)
            _announce(settings, listener)
            supervisor.run()
    return 0


def _worker(settings: Settings) -> App:
    """The application in a process of its own, which starts with nothing but the settings."""
    configure_logging()
    _end_with(multiprocessing.parent_process())
    return build(settings, os.environ)


def _end_with(parent: Any) -> None:
    """A parent that is killed cannot stop its workers; they would go on serving a port that nobody looks after."""

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    if parent is not None:
        threading.Thread(target=wait, name="parent", daemon=True).start()


def _close_on_exit(listener: socket.socket, started: Callable[[], bool]) -> None:
    """While workers finish what is in flight, their parent must not take connections that nobody will answer.

    Until all have `started` it has to keep what it hands them.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        supervise = signal.getsignal(number)
        assert callable(supervise)  # the supervisor's, which only takes note

        def handle(sent: int, frame: FrameType | None, supervise: Callable[..., Any] = supervise) -> None:
            if started():
                listener.close()
            supervise(sent, frame)

        signal.signal(number, handle)


Address = tuple[str, int]


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Address]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(host, port, error) from error
    return family, (str(address[0]), port)


def _listen(host: str, family: socket.AddressFamily, address: Address) -> socket.socket:
    """A socket that takes connections already: whoever reads our lines may connect."""
    try:
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise _cannot_listen(host, address[1], error) from error
    listener.set_inheritable(True)
    return listener


def _cannot_listen(host: str, port: int, error: Exception) -> ProxyError:
    number = getattr(error, "errno", None) or 0
    reason = os.strerror(number) if number > 0 else "no such address"
    return ProxyError(f"cannot listen on {host} port {port}: {reason}")


def _check(settings: Settings, host: str, address: Address, workers: int) -> None:
    """Raises `ConfigError` where strangers could spend the operator's keys and no setting says that they may; tells of
    what can hardly be meant.
    """
    if settings.clients is None and settings.spends() and not ip_address(address[0]).is_loopback:
        raise ConfigError(
            f"clients: must list the keys of those who may use the api_key of this configuration, or say `{ANYONE}`, "
            f"because {host} can be reached from other machines"
        )
    for doubt in doubts(settings):
        log.warning("%s", doubt)
    if settings.store == "memory:" and workers > 1:
        log.warning("store: memory: is not shared by workers: each makes summaries of its own")


def _announce(settings: Settings, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    lines = (
        f"compaction-proxy {_version()} listens on {_address(host, port)}",
        f"and forwards to {settings.upstream}. In a client:",
        f"export OPENAI_BASE_URL={_address(here, port)}/v1",
        *(f"or {_address(here, port)}/{name}/v1 for {other.url}" for name, other in settings.upstreams.items()),
    )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- show, list


def _show(args: argparse.Namespace) -> int:
    async def look(store: Records) -> Checkpoint | None:
        return await store.checkpoint(args.checkpoint)

    found = _looked(args.config, look)
    if found is None:
        raise ProxyError(f"show: there is no compaction {args.checkpoint!a}; `list` names the last ones")
    _print(written(found))
    return 0


def _list(args: argparse.Namespace) -> int:
    async def look(store: Records) -> list[Checkpoint]:
        return await store.latest(args.n)

    found = _looked(args.config, look)
    _print("\n".join([*map(told, found), totals(found)]))
    return 0


def _looked(config: Path | None, look: Callable[[Records], Awaitable[T]]) -> T:
    """What `look` finds in the store of a configuration."""
    configure_logging()
    name = load_store(config, os.environ)

    async def looked() -> T:
        store = open_records(name)
        try:
            return await look(store)
        finally:
            await store.aclose()

    return asyncio.run(looked())


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


# --- demo


def _demo(args: argparse.Namespace) -> int:
    if (args.upstream is None) != (args.model is None):
        raise ProxyError("demo: --upstream and --model go together")
    api_key = os.environ.get("OPENAI_API_KEY") if args.upstream else None
    return run_demo(upstream=args.upstream, model=args.model, serve=_serve_aside, api_key=api_key)


@contextmanager
def _serve_aside(upstream: str, window: int) -> Iterator[str]:
    """The proxy in a thread, with nothing kept; yields its base URL."""
    settings = load(None, {}, upstream=upstream, window=window).model_copy(update={"store": "memory:"})
    options = serve_options() | {"timeout_graceful_shutdown": 1}
    with serve_in_thread(build(settings, os.environ), **options) as address:
        yield f"{address}/v1"


if __name__ == "__main__":
    sys.exit(main())
