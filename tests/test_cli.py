"""The command as its user meets it: processes, ports, signals, exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from proxy.adapters.sqlite import SqliteStore
from proxy.cli import main
from tests.contracts.store import checkpoint
from tests.servers import run_app

ROOT = Path(__file__).parent.parent
PATIENCE = 30.0  # seconds until a process that does not answer is called broken


class Upstream:
    """Answers everything with what it was asked; a stream pauses in the middle until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        stream = b'"stream"' in body
        kind = b"text/event-stream" if stream else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        if stream:
            await send({"type": "http.response.body", "body": b'data: {"a":1}\n\n', "more_body": True})
            await asyncio.to_thread(self.go_on.wait, PATIENCE)
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        else:
            said = {"path": scope["path"], "bytes": len(body)}
            await send({"type": "http.response.body", "body": json.dumps(said).encode()})

    @staticmethod
    async def _live(receive: Any, send: Any) -> None:
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})


@dataclass
class Running:
    """A proxy in a process of its own. `lines` is what it printed when it was ready."""

    process: subprocess.Popen[str]
    lines: list[str]

    @property
    def port(self) -> int:
        port = urlsplit(self.lines[0].split()[-1]).port
        assert port
        return port

    @contextmanager
    def answer(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Iterator[HTTPResponse]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                yield answer

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        with self.answer("GET", path) as answer:
            return answer.status, answer.read()

    def chat(self, body: bytes, **headers: str) -> int:
        """The status."""
        with self.answer("POST", "/v1/chat/completions", body, **headers) as answer:
            answer.read()
            return answer.status

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and all that went to stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


def environment(home: Path, **more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return keep | {"HOME": str(home), "PYTHONPATH": str(ROOT)} | more


@contextmanager
def serving(home: Path, *options: str, **env: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy.cli", "serve", "--port", "0", *options],
        env=environment(home, **env),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        late = threading.Timer(PATIENCE, process.kill)  # ends the reading below, too
        late.start()
        try:
            assert process.stdout
            lines = [process.stdout.readline().rstrip("\n") for _ in range(3)]
            late.cancel()
            assert all(lines), process.stderr.read() if process.stderr else ""
            yield Running(process, lines)
        finally:
            late.cancel()
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def command(home: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "proxy.cli", *arguments],
        env=environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def upstream() -> Iterator[str]:
    with run_app(Upstream()) as address:
        yield f"{address}/v1"


def health_check() -> list[str]:
    """The command of the Dockerfile."""
    found = re.search(r"HEALTHCHECK.*?CMD (\[.*?\])$", (ROOT / "Dockerfile").read_text(), re.DOTALL | re.MULTILINE)
    assert found
    words: list[str] = json.loads(found[1])
    return words


def test_serve_says_where_it_listens_and_what_a_client_needs(tmp_path: Path, upstream: str) -> None:
    """Three lines, and whoever reads them can connect; the container's health check agrees."""
    with serving(tmp_path, "--upstream", upstream) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        assert proxy.lines == [
            f"compaction-proxy {version('compaction-proxy')} listens on {address}",
            f"and forwards to {upstream}. In a client:",
            f"export OPENAI_BASE_URL={address}/v1",
        ]
        assert json.loads(proxy.get("/v1/models")[1]) == {"path": "/v1/models", "bytes": 0}
        check = [word.replace("8080", str(proxy.port)) for word in health_check()]
        assert subprocess.run([sys.executable, *check[1:]], timeout=PATIENCE, check=False).returncode == 0
    gone = subprocess.run([sys.executable, *check[1:]], timeout=PATIENCE, capture_output=True, check=False)
    assert gone.returncode != 0


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_without_options_the_store_is_private_in_the_users_directory(tmp_path: Path, upstream: str) -> None:
    """The file and the install's secret beside it, for their owner alone."""
    with serving(tmp_path, "--upstream", upstream):
        folder = tmp_path / ".local" / "share" / "compaction-proxy"
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes) >= {"compaction.db", "compaction.db.secret"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_workers_are_processes(tmp_path: Path, upstream: str) -> None:
    """They answer on one port, share the store, and all end with their parent."""
    with serving(tmp_path, "--upstream", upstream, "--workers", "2", "--window", "4000") as proxy:
        for _ in range(8):
            assert proxy.get("/v1/models")[0] == 200
        children = _children(proxy.process.pid)
        assert len(children) >= 2 or not Path("/proc/self/task").exists()
        code, errors = proxy.stop()
        assert (code, errors) == (0, "")
        _until(lambda: not [child for child in children if child.exists()])
    with pytest.raises(OSError, match="refused"):
        proxy.get("/healthz")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="who has which children is read from /proc")
def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path, upstream: str) -> None:
    """It can tell them nothing any more, and nobody else would."""
    with serving(tmp_path, "--upstream", upstream, "--workers", "2") as proxy:
        assert proxy.get("/healthz")[0] == 200
        children = _children(proxy.process.pid)
        assert len(children) >= 2
        proxy.process.kill()
        _until(lambda: _refuses(proxy.port))
        _until(lambda: not [child for child in children if child.exists()])


def _children(pid: int) -> list[Path]:
    """Where `/proc` has the children of a process; none on a system without."""
    family = Path(f"/proc/{pid}/task/{pid}/children")
    return [Path(f"/proc/{child}") for child in family.read_text().split()] if family.exists() else []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_running_stream_ends_before_the_server_does(tmp_path: Path, workers: str) -> None:
    """On SIGTERM what is in flight is finished, and nothing new is taken."""
    app = Upstream()
    with run_app(app) as address, serving(tmp_path, "--upstream", f"{address}/v1", "--workers", workers) as proxy:
        body = b'{"model":"m","messages":[],"stream":true}'
        with proxy.answer("POST", "/v1/chat/completions", body) as answer:
            assert answer.readline() == b'data: {"a":1}\n'
            proxy.process.send_signal(signal.SIGTERM)
            _until(lambda: _refuses(proxy.port))
            app.go_on.set()
            assert answer.read().endswith(b"data: [DONE]\n\n")
        assert proxy.process.wait(PATIENCE) in (0, -signal.SIGTERM)


def _until(true: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        if true():
            return
        threading.Event().wait(0.05)
    pytest.fail("it does not come true")


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def test_ctrl_c_ends_it_without_a_traceback(tmp_path: Path, upstream: str) -> None:
    """An interrupt is no error worth a page."""
    with serving(tmp_path, "--upstream", upstream) as proxy:
        code, errors = proxy.stop(signal.SIGINT)
    assert code in (0, 130)
    assert "Traceback" not in errors


def test_the_log_has_a_line_for_a_request_and_nothing_of_its_text(tmp_path: Path, upstream: str) -> None:
    """Neither keys nor messages nor what the upstream said."""
    body = json.dumps({"model": "some-model", "messages": [{"role": "user", "content": "private words"}]}).encode()
    with serving(tmp_path, "--upstream", upstream) as proxy:
        proxy.chat(body, authorization="Bearer sk-private")
        _, errors = proxy.stop()
    (line,) = [line for line in errors.splitlines() if "some-model" in line]
    assert "pass" in line
    assert "private" not in errors


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """And the exit code of a mistake that the operator can mend."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, errors = command(tmp_path, "serve", "--port", str(port))
    assert (code, out) == (2, "")
    assert re.fullmatch(
        rf"compaction-proxy: cannot listen on 127\.0\.0\.1 port {port}: Address already in use\n", errors
    )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "300.1.1.1", "a..b"])
def test_a_host_that_is_none_is_one_line(tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that lead nowhere, and names that are none."""
    config = tmp_path / "c.yaml"
    config.write_text("store: 'memory:'")
    assert main(["serve", "--config", str(config), "--host", host]) == 2
    assert capsys.readouterr().err.startswith(f"compaction-proxy: cannot listen on {host} port 8080: ")


def test_a_wrong_configuration_is_a_line_for_each_problem(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "c.yaml").write_text("modle: x\nmode: fast\n")
    code, out, errors = command(tmp_path, "serve", "--config", "c.yaml", "--port", "0")
    assert (code, out) == (2, "")
    assert [line.split(":")[:3] for line in errors.splitlines()] == [
        ["compaction-proxy", " c.yaml", " mode"],
        ["compaction-proxy", " c.yaml", " modle"],
    ]


def test_the_environment_names_the_file(tmp_path: Path, upstream: str) -> None:
    """As in a container; workers go by the same settings."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "c.yaml").write_text(f"upstream: {upstream}\nstore: sqlite:kept/c.db\n")
    with serving(tmp_path, "--workers", "2", COMPACTION_PROXY_CONFIG=str(tmp_path / "c.yaml")) as proxy:
        assert json.loads(proxy.get("/v1/x")[1])["path"] == "/v1/x"
        assert (tmp_path / "kept" / "c.db").exists()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_store_of_a_newer_version_is_refused(tmp_path: Path, workers: str) -> None:
    """It is not ours to write to."""
    with sqlite3.connect(tmp_path / "c.db") as db:
        db.execute("PRAGMA application_id = 0x63707278")
        db.execute("PRAGMA user_version = 99")
    db.close()
    (tmp_path / "c.yaml").write_text("store: sqlite:c.db\n")
    code, _, errors = command(tmp_path, "serve", "--config", "c.yaml", "--port", "0", "--workers", workers)
    assert code == 2
    assert "newer version" in errors
    assert len(errors.splitlines()) == 1


def test_a_damaged_store_costs_no_request(tmp_path: Path, upstream: str) -> None:
    """It is said once, at the start. Its secret beside it tells it from somebody else's file."""
    (tmp_path / "c.db").write_bytes(b"no database at all" * 100)
    (tmp_path / "c.db.secret").write_text("a" * 64 + "\n")
    (tmp_path / "c.yaml").write_text("store: sqlite:c.db\n")
    with serving(tmp_path, "--config", "c.yaml", "--upstream", upstream) as proxy:
        assert proxy.chat(b'{"model":"m","messages":[]}') == 200
        _, errors = proxy.stop()
    assert "file is not a database" in errors
    assert "Traceback" not in errors


def test_what_is_risky_is_said(tmp_path: Path, upstream: str) -> None:
    """A store that workers cannot share. Who is open to the network on purpose is not told so."""
    (tmp_path / "c.yaml").write_text("api_key: sk-private\nstore: 'memory:'\nclients: anyone\n")
    options = ("--config", "c.yaml", "--upstream", upstream, "--host", "0.0.0.0", "--workers", "2")
    with serving(tmp_path, *options) as proxy:
        assert proxy.lines[0].endswith(f"http://0.0.0.0:{proxy.port}")
        assert proxy.lines[2] == f"export OPENAI_BASE_URL=http://127.0.0.1:{proxy.port}/v1"
        _, errors = proxy.stop()
    assert len(errors.splitlines()) == 1
    assert "not shared by workers" in errors
    assert "sk-private" not in errors


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_proxy_that_is_its_own_upstream_says_so(tmp_path: Path, workers: str) -> None:
    """At once, whichever of its processes it meets: they have one name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    own = f"http://127.0.0.1:{port}/v1"
    with serving(tmp_path, "--port", port, "--upstream", own, "--workers", workers) as proxy:
        for _ in range(5):
            with proxy.answer("POST", "/v1/embeddings", b'{"model": "m"}') as answer:
                assert answer.status == 508
                assert len(answer.headers.get_all("via", [])) == 2  # of the two rounds there were


def test_what_is_hardly_meant_is_said(tmp_path: Path, upstream: str) -> None:
    """A line for each, and the proxy runs all the same."""
    (tmp_path / "c.yaml").write_text("store: 'memory:'\nmodels: {'*': {window: 4000, compact_at: 5000}, late: {}}\n")
    with serving(tmp_path, "--config", "c.yaml", "--upstream", upstream.removesuffix("/v1")) as proxy:
        assert proxy.get("/healthz")[0] == 200
        _, errors = proxy.stop()
    assert [line.split(" W ")[1].partition(": ")[0] for line in errors.splitlines()] == [
        "upstream",
        "models.*.compact_at",
        "models.late",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
@pytest.mark.parametrize(
    "setting", ["api_key: sk-private", "upstreams: {a: {url: 'http://h/v1', api_key: sk-private}}"]
)
def test_the_operators_key_is_not_open_to_strangers(
    tmp_path: Path, setting: str, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With it, and an address that others can reach, the configuration must say who may come: one line, and 2."""
    config = tmp_path / "c.yaml"
    config.write_text(f"store: 'memory:'\n{setting}\n")
    assert main(["serve", "--config", str(config), "--host", host, "--port", "0"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"compaction-proxy: clients: must list .* or say `anyone`, .*\n", said.err)
    assert "sk-private" not in said.err


@pytest.mark.parametrize(
    ("host", "setting"),
    [
        ("127.0.0.1", "api_key: sk-private"),
        ("localhost", "api_key: sk-private"),
        ("127.1", "api_key: sk-private"),
        ("0.0.0.0", "api_key: client"),
        ("0.0.0.0", "upstreams: {a: {url: 'http://h/v1'}}"),
        ("0.0.0.0", "api_key: sk-private\nclients: [{key: k, tenant: t}]"),
    ],
)
def test_what_is_safe_starts(tmp_path: Path, upstream: str, host: str, setting: str) -> None:
    """Loopback however it is written, no key to spend, or a list of who may come."""
    (tmp_path / "c.yaml").write_text(f"store: 'memory:'\n{setting}\n")
    with serving(tmp_path, "--config", "c.yaml", "--upstream", upstream, "--host", host) as proxy:
        assert proxy.get("/healthz")[0] == 200
        assert proxy.get("/v1/models")[0] == (401 if "clients" in setting else 200)


def test_named_upstreams_are_announced(tmp_path: Path, upstream: str) -> None:
    """With the address that a client needs, which leads there; client keys hold for workers, too."""
    named = f"upstreams: {{far: {{url: '{upstream}/far'}}}}\nclients: [{{key: k, tenant: t}}]\nstore: sqlite:c.db\n"
    (tmp_path / "c.yaml").write_text(named)
    with serving(tmp_path, "--config", "c.yaml", "--workers", "2") as proxy:
        assert proxy.process.stdout
        assert proxy.process.stdout.readline() == f"or http://127.0.0.1:{proxy.port}/far/v1 for {upstream}/far\n"
        with proxy.answer("GET", "/far/v1/x", authorization="Bearer k") as answer:
            assert json.loads(answer.read())["path"] == "/v1/far/x"
        assert proxy.get("/far/v1/x")[0] == 401


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_is_printed_as_one(tmp_path: Path, upstream: str) -> None:
    """In brackets, as a client needs it."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with serving(tmp_path, "--upstream", upstream, "--host", "::1") as proxy:
        assert proxy.lines[2] == f"export OPENAI_BASE_URL=http://[::1]:{proxy.port}/v1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: COMMAND"),
        ("fly", "invalid choice"),
        ("serve --port 70000", "must be a number from 0 to 65535, not '70000'"),
        ("serve --port x", "must be a number from 0 to 65535, not 'x'"),
        ("serve --workers 0", "must be a number from 1 to 256, not '0'"),
        ("serve --window x", "invalid int value"),
        ("show", "required: checkpoint"),
        ("list -n 0", "must be a number from 1 to 10000, not '0'"),
    ],
)
def test_arguments_that_are_none(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The parser's own words and exit code."""
    with pytest.raises(SystemExit) as caught:
        main(shlex.split(arguments))
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--window", "10"], "command line: window: must be greater than or equal to 256, not 10"),
        (["serve", "--upstream", "host/v1"], "command line: upstream: must be an http:// or https:// address"),
        (["serve", "--config", "/no/such/file"], "/no/such/file: cannot be read: No such file or directory"),
        (["demo", "--upstream", "http://host/v1"], "demo: --upstream and --model go together"),
        (["demo", "--model", "m"], "demo: --upstream and --model go together"),
    ],
)
def test_values_that_cannot_be(arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One clean line and 2."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"compaction-proxy: {message}")


def test_what_was_done_can_be_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the id in an answer's header, or in a list; whoever made it may still be running."""
    (tmp_path / "c.yaml").write_text("api_key: ${KEY_OF_THE_SERVER}\nstore: sqlite:c.db\n")
    made = checkpoint("ab", "früher \ud83d \x1b[31m gesagt", stats={"reason": "over-limit", "before": 9, "after": 4})
    config = ["--config", str(tmp_path / "c.yaml")]
    assert main(["list", *config]) == 2 and "nothing was compacted yet" in capsys.readouterr().err
    store = SqliteStore(tmp_path / "c.db")

    async def keep() -> None:
        await store.put(made)

    asyncio.run(keep())
    assert main(["show", made.id, *config]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"checkpoint {made.id}\n") and "over-limit (above the limit: " in said
    assert "früher" in said and "\x1b" not in said
    assert main(["list", "-n", "3", *config]) == 0
    line, total = capsys.readouterr().out.splitlines()
    assert line.startswith(made.id) and total.startswith("1 compaction: ")
    assert main(["show", "0" * 24, *config]) == 2
    assert capsys.readouterr().err == (
        f"compaction-proxy: show: there is no compaction '{'0' * 24}'; `list` names the last ones\n"
    )
    asyncio.run(store.aclose())


def test_whoever_reads_may_have_enough(tmp_path: Path) -> None:
    """As `head` has; that is no error worth a page."""
    arguments = [sys.executable, "-m", "proxy.cli", "list", "--config", "c.yaml"]
    (tmp_path / "c.yaml").write_text("store: sqlite:c.db\n")
    asyncio.run(_empty(tmp_path / "c.db"))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        done = subprocess.run(
            arguments, env=environment(tmp_path), cwd=tmp_path, stdout=nobody, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


async def _empty(path: Path) -> None:
    store = SqliteStore(path)
    await store.latest(0)
    await store.aclose()


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """As installed."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"compaction-proxy {version('compaction-proxy')}\n"


def test_the_demo_plays_offline_to_its_end(tmp_path: Path) -> None:
    """The README's first command: exit code 0, and nothing on stderr."""
    code, out, errors = command(tmp_path, "demo")
    assert (code, errors) == (0, ""), out
    assert "saw no error" in out and not [line for line in out.splitlines() if line.endswith("…")]
    assert list(tmp_path.iterdir()) == []  # nothing is kept
