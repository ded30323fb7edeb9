"""The configuration: what a file may say, what an error tells, and what never leaves it."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigError
from proxy.settings import (
    ClientSettings,
    HookSettings,
    ModelSettings,
    Section,
    Settings,
    SummarizerSettings,
    UpstreamSettings,
    load,
    load_store,
    table,
)

HOME = {"HOME": "/home/somebody"}


def loaded(tmp_path: Path, text: str, env: dict[str, str] | None = None, **overrides: object) -> Settings:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, HOME | (env or {}), **overrides)  # type: ignore[arg-type]


def problems(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> list[str]:
    """The lines of the error, without the file's name that each must open with."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, env)
    start = f"{tmp_path / 'config.yaml'}: "
    lines = str(caught.value).replace(f"{start[:-2]}:", start[:-1]).splitlines()
    assert all(line.startswith(start) for line in lines)
    return [line.removeprefix(start) for line in lines]


def test_the_example_of_the_readme_means_what_it_says(tmp_path: Path) -> None:
    """Every section, with quoted patterns, numbers from the environment and an empty model."""
    settings = loaded(
        tmp_path,
        """
        upstream: https://api.example.com/v1/
        api_key: ${KEY}
        models:
          gpt-4o-mini: {window: 128000}
          "qwen*": {window: "${WINDOW}", compact_at: 24000, upstream: "http://localhost:8000/v1",
                    summarizer: {model: qwen2.5-3b, fallbacks: [a, b]}}
          "*": {}
        summarizer: {model: gpt-4o-mini, wait: 5}
        store: sqlite:compaction.db
        mode: observe
        keepalive_after: null
        """,
        {"KEY": "sk-1", "WINDOW": "32768"},
    )
    assert settings.upstream == "https://api.example.com/v1"
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "sk-1"
    assert list(settings.models) == ["gpt-4o-mini", "qwen*", "*"]
    assert settings.models["qwen*"].window == 32768
    assert settings.models["qwen*"].summarizer is not None
    assert settings.models["qwen*"].summarizer.fallbacks == ("a", "b")
    assert settings.models["*"] == ModelSettings()
    assert settings.summarizer.wait == 5
    assert settings.store == f"sqlite:{tmp_path / 'compaction.db'}"
    assert settings.mode == "observe"
    assert settings.keepalive_after is None


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "---\n"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    """A file with nothing in it is as good as none."""
    assert loaded(tmp_path, text) == load(None, HOME)


UNKNOWN = (
    "upstream, api_key, upstreams, models, summarizer, hooks, clients, tenant, store, mode, clearing, background, "
    "keepalive_after, connect_timeout, max_body"
)
NAME = "must be of the letters a to z, digits and hyphens, and neither v1 nor healthz"
PLACE = "must be an http:// or https:// address or the name of one of `upstreams`"
LIST = "must be a list of at least one client, or the word anyone"

WRONG = [
    ("modle: x", [f"modle: unknown key, did you mean mode? (allowed: {UNKNOWN})"]),
    ("xyz: {api_key: 1}", [f"xyz: unknown key (allowed: {UNKNOWN})"]),
    ("mode: fast", ["mode: must be 'compact', 'observe' or 'passthrough', not 'fast'"]),
    ("models: {'qwen*': {window: 100}}", ['models."qwen*".window: must be greater than or equal to 256, not 100']),
    ("models: {m: null}", ["models.m: must be a mapping of keys to values, not empty"]),
    ("models: [a]", ["models: must be a mapping of keys to values, not a list"]),
    ("models: {4: {}}", ["models.4: the key must be a valid string"]),
    ("models: {'': {}}", ['models."": the key must have at least 1 character']),
    ("store: compaction.db", ["store: must be sqlite:PATH or memory:, not 'compaction.db'"]),
    ("store: 'sqlite:'", ["store: must be sqlite:PATH or memory:, not 'sqlite:'"]),
    ("store: 'sqlite::memory:'", ["store: must be sqlite:PATH or memory:, not 'sqlite::memory:'"]),
    ("keepalive_after: .inf", ["keepalive_after: must be a finite number, not inf"]),
    ("connect_timeout: 0", ["connect_timeout: must be greater than 0, not 0"]),
    ("clearing: perhaps", ["clearing: must be a valid boolean, unable to interpret input, not 'perhaps'"]),
    ("summarizer: {fallbacks: [a, 3]}", ["summarizer.fallbacks.1: must be a valid string, not 3"]),
    (
        "models: {m: {summarizer: {wait: -1, modell: x}}}",
        [
            "models.m.summarizer.wait: must be greater than or equal to 0, not -1",
            "models.m.summarizer.modell: unknown key, did you mean model? (allowed: model, upstream, api_key, window, "
            "wait, silence, total, max_tokens, calls_per_hour, fallbacks, instructions, prompt)",
        ],
    ),
    ("upstreams: {v1: {url: 'http://h/v1'}}", [f"upstreams.v1: the key {NAME}"]),
    ("upstreams: {healthz: {url: 'http://h/v1'}}", [f"upstreams.healthz: the key {NAME}"]),
    ("upstreams: {Open: {url: 'http://h/v1'}}", [f"upstreams.Open: the key {NAME}"]),
    ("upstreams: {a/b: {url: 'http://h/v1'}}", [f'upstreams."a/b": the key {NAME}']),
    ("upstreams: {'': {url: 'http://h/v1'}}", [f'upstreams."": the key {NAME}']),
    ("upstreams: {a: {}}", ["upstreams.a.url: must be set"]),
    ("upstreams: {a: {url: b}}", ["upstreams.a.url: must be an http:// or https:// address, not 'b'"]),
    ("upstreams: {a: {uri: 'http://h/v1', url: 'http://h/v1'}}", ["upstreams.a.uri: unknown key, did you mean url? (allowed: url, api_key, summarizer)"]),
    ("upstream: openrouter", ["upstream: must be an http:// or https:// address, not 'openrouter'"]),
    (
        "{models: {'q*': {upstream: open, summarizer: {upstream: b}}}, summarizer: {upstream: c}, upstreams: {a: {url: 'http://h/v1'}}}",
        [f"summarizer.upstream: {PLACE}, not 'c'", f'models."q*".upstream: {PLACE}, not \'open\'', f'models."q*".summarizer.upstream: {PLACE}, not \'b\''],
    ),
    ("? \n: 1", ["None: the key must be a text"]),
    ("hooks: {webhook: 'http://h/hook'}", ["hooks: a webhook must have a secret"]),
    ("hooks: {webhook: 'http://h/hook', secret: '${NO:-}'}", ["hooks: a webhook must have a secret"]),
    ("hooks: {secret: 'whsec_%%'}", ["hooks.secret: what follows whsec_ must be base64"]),
    ("hooks: {python: ''}", ["hooks.python: must have at least 1 character, not ''"]),
    ("hooks: {options: [sk-private]}", ["hooks.options: must be a mapping of keys to values"]),
    ("hooks: {timeout: 0}", ["hooks.timeout: must be greater than 0, not 0"]),
    ("summarizer: {prompt: 'In {word} words.'}", ["summarizer.prompt: must have no other placeholder than {words}; there is {word}"]),
    ("summarizer: {prompt: ''}", ["summarizer.prompt: must have at least 1 character"]),
    ("upstreams: {a: {url: 'http://h/v1', summarizer: {upstream: b}}}", [f"upstreams.a.summarizer.upstream: {PLACE}, not 'b'"]),
    ("clients: nobody", [f"clients: {LIST}"]),
    ("clients: []", [f"clients: {LIST}"]),
    ("clients: {key: a, tenant: t}", [f"clients: {LIST}"]),
    ("clients: [{key: a}]", ["clients.0.tenant: must be set"]),
    ("clients: [{key: a, tenant: t}, {tenant: t}]", ["clients.1: must have either a key or a sha256"]),
    ("clients: [{key: '${NO:-}', tenant: t}]", ["clients.0: must have either a key or a sha256"]),
    (f"clients: [{{key: a, sha256: {'a' * 64}, tenant: t}}]", ["clients.0: must have either a key or a sha256"]),
    (f"clients: [{{sha256: {'a' * 63}, tenant: t}}]", ["clients.0.sha256: must be 64 hex digits"]),
    (f"clients: [{{sha256: {'1' * 64}, tenant: t}}]", ["clients.0.sha256: must be 64 hex digits, in quotes"]),
    ("clients: [{key: a b, tenant: t}]", ["clients.0.key: must be printable ASCII without spaces"]),
    ("clients: [{key: a, tenant: ''}]", ["clients.0.tenant: must have at least 1 character"]),
    ("clients: [{key: a, tennant: t, tenant: t}]", ["clients.0.tennant: unknown key, did you mean tenant? (allowed: key, sha256, tenant)"]),
    ("clients: [a]", ["clients.0: must be a mapping of keys to values"]),
    ("clients: [{key: a, tenant: t}, {key: a, tenant: u}]", ["clients: must not have a key twice"]),
    ("tenant: everybody", ["tenant: must be credential, shared, or header NAME, not 'everybody'"]),
    ("tenant: header", ["tenant: must be credential, shared, or header NAME, not 'header'"]),
    ("tenant: 'header a b'", ["tenant: must be credential, shared, or header NAME, not 'header a b'"]),
    ("mode: ${NOWHERE}", ["mode: the environment variable NOWHERE is not set (or empty)"]),
    ("mode: ${A B}", ["mode: ${...} must be ${NAME} or ${NAME:-default}"]),
    ("mode: ${MODE}", ["mode: must be 'compact', 'observe' or 'passthrough', not '${MODE}'"]),
    ("- a\n- b\n", ["must be a mapping of keys to values, not a list"]),
    ("mode: compact\nmode: observe\n", ["mode: stands twice (again in line 2)"]),
    ("models:\n  m: {window: 300,\n    window: 400}\n  m: {}", ["models.m.window: stands twice (again in line 3)",
                                                               "models.m: stands twice (again in line 4)"]),
    ("models: &a\n  m: *a\n", ["models.m: refers to itself"]),
    ("mode: [", ["line 1, column 8: not valid YAML: expected the node content, but found '<stream end>'"]),
    ("a: 1\n b: 2", ["line 2, column 3: not valid YAML: mapping values are not allowed here"]),
    ("? [a]\n: b", ["line 1, column 3: not valid YAML: found unhashable key"]),
    ("a: 2024-99-99", ["not valid YAML (ValueError)"]),
    ("a: b\n---\nc: d", ["line 2, column 1: not valid YAML: but found another document"]),
    ("a: \x01", ["not valid YAML (ReaderError)"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=[text.splitlines()[0] for text, _ in WRONG])
def test_an_error_names_file_key_value_and_what_is_allowed(tmp_path: Path, text: str, expected: list[str]) -> None:
    """One line per problem, all of them at once."""
    assert problems(tmp_path, text, {"MODE": "fast"}) == expected


@pytest.mark.parametrize(
    "place",
    [
        "upstream: URL",
        "models: {m: {upstream: URL}}",
        "summarizer: {upstream: URL}",
        "upstreams: {upstream: {url: URL}}",
    ],
)
@pytest.mark.parametrize(
    "url",
    [
        "api.openai.com/v1",
        "ftp://host/v1",
        "http:///v1",
        "http://user:hunter2@host/v1",
        "http://host/v1?key=1",
        "http://host/v1?",
        "http://host/v1#part",
        "http://host:0/v1",
        "http://host:99999/v1",
        "http://host:port/v1",
        "http://[::1/v1",
        "http://ho st/v1",
        "http://host\\\\v1",
        "http://höst/v1",
        "",
    ],
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, place: str, url: str) -> None:
    """Wherever an address stands it must be plain http or https, and nothing secret in it is repeated."""
    (problem,) = problems(tmp_path, place.replace("URL", f'"{url}"'))
    assert re.search(r"upstream(\.url)?: ", problem)
    assert "hunter2" not in problem
    assert "key=1" not in problem


@pytest.mark.parametrize(
    "url", ["http://localhost:8080/v1", "https://[::1]:8443/openai/v1", "HTTP://HOST", "http://h/a%20b"]
)
def test_an_address_keeps_its_spelling(tmp_path: Path, url: str) -> None:
    """Addresses are checked, never rewritten, but for slashes at the end."""
    assert loaded(tmp_path, f'upstream: "{url}//"').upstream == url


@pytest.mark.parametrize(
    "text",
    [
        "api_key: [sk-private]",
        "api_key: {a: sk-private}",
        "api_key: sk-private with spaces",
        "api_key: sk-private\\\u00e9",
        "apikey: sk-private",
        "models: {m: {api_key: [sk-private]}}",
        "summarizer: {api_key: 'sk-private x', api_ky: sk-private}",
        "upstream: https://sk-private@host/v1",
        "mode: ${SECRET}",
        "clients: sk-private",
        "clients: [sk-private]",
        "clients: [{key: sk-private}]",
        "clients: [{key: [sk-private], tenant: t}]",
        "clients: [{sha256: sk-private, tenant: t}]",
        "clients: [{key: sk-private, tenant: t}, {key: sk-private, tenant: t}]",
        "upstreams: {a: {url: 'http://h', api_key: sk-private x}}",
        "hooks: {webhook: 'http://h', secret: sk-private x}",
        "hooks: {secret: whsec_sk-private}",
        "hooks: {options: {token: [sk-private], 4: sk-private}}",
        "api_key: sk-private: x",
        "api_key: 'sk-private",
    ],
)
def test_a_key_is_in_no_error(tmp_path: Path, text: str) -> None:
    """Not under its own key, not under a misspelt one, not where a variable's value went to the wrong place."""
    assert "sk-private" not in "\n".join(problems(tmp_path, text, {"SECRET": "sk-private"}))


def test_a_key_is_in_no_repr(tmp_path: Path) -> None:
    """Settings may be logged."""
    clients = "clients: [{key: sk-private, tenant: t}]\nupstreams: {a: {url: 'http://h', api_key: sk-private}}"
    settings = loaded(tmp_path, f"api_key: sk-private\nmodels: {{m: {{api_key: sk-private}}}}\n{clients}")
    assert "sk-private" not in f"{settings!r} {settings} {settings.models!r} {settings.clients!r}"


@pytest.mark.parametrize("place", ["PLACE", "models: {m: {PLACE}}", "upstreams: {a: {url: 'http://h', PLACE}}"])
def test_the_texts_of_a_summarizer_may_stand_in_files(tmp_path: Path, place: str) -> None:
    """Beside the configuration; a variable in such a text is none."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "coding.txt").write_text("Ünder {words} words, with ${HOME}.\n", encoding="utf-8")
    texts = "summarizer: {prompt: 'file:prompts/coding.txt', instructions: 'Name the ${WHAT}.'}"
    settings = loaded(tmp_path, place.replace("PLACE", texts), {"WHAT": "ships"})
    own = [model.summarizer for model in settings.models.values()]
    own += [upstream.summarizer for upstream in settings.upstreams.values()]
    (written,) = own or [settings.summarizer]
    assert written is not None
    assert (written.prompt, written.instructions) == ("Ünder {words} words, with ${HOME}.\n", "Name the ships.")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe", "is no text in UTF-8"),
        (b"{previous}", "must have no other placeholder than {words}; there is {previous}"),
        (b"", "must have at least 1 character"),
    ],
)
def test_a_text_that_cannot_be_used_is_told_at_the_start(tmp_path: Path, content: bytes | None, expected: str) -> None:
    """Its file, or what is wrong in it."""
    file = tmp_path / "p.txt"
    if content is not None:
        file.write_bytes(content)
    (problem,) = problems(tmp_path, "summarizer: {prompt: 'file:p.txt'}")
    assert problem.replace(f"{file} ", "") == f"summarizer.prompt: {expected}"


def test_upstreams_have_names_that_stand_for_addresses(tmp_path: Path) -> None:
    """Wherever an address of a model or a summarizer may stand."""
    settings = loaded(
        tmp_path,
        """
        upstreams: {open-1: {url: "https://open.example/api/v1/", api_key: "${KEY:-}"}, "2": {url: "http://two/v1"}}
        models: {"*": {upstream: open-1, summarizer: {upstream: "2"}}}
        summarizer: {upstream: open-1}
        """,
    )
    assert settings.upstreams["open-1"] == UpstreamSettings(url="https://open.example/api/v1")
    assert settings.models["*"].upstream == "open-1"


def test_clients_are_known_by_the_hashes_of_their_keys(tmp_path: Path) -> None:
    """A key and its hash mean the same; a word stands for everybody; unset, nothing is said."""
    digest = hashlib.sha256(b"sk-a").hexdigest()
    settings = loaded(
        tmp_path, f"clients: [{{key: '${{A}}', tenant: a}}, {{sha256: {'ab' * 32}, tenant: b}}]", {"A": "sk-a"}
    )
    assert isinstance(settings.clients, tuple)
    assert [(client.digest().hex(), client.tenant) for client in settings.clients] == [(digest, "a"), ("ab" * 32, "b")]
    assert ClientSettings(sha256=digest.upper(), tenant="a").digest().hex() == digest
    assert loaded(tmp_path, "clients: anyone").clients == "anyone"
    assert loaded(tmp_path, "clients: null").clients is None
    problem = f"clients: [{{key: sk-a, tenant: a}}, {{sha256: '{digest}', tenant: b}}]"
    assert problems(tmp_path, problem) == ["clients: must not have a key twice"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("api_key: k", True),
        ("api_key: client", False),
        ("api_key: '${NO:-}'", False),
        ("summarizer: {api_key: k}", True),
        ("models: {m: {}, n: {api_key: k}}", True),
        ("models: {m: {api_key: client}}", False),
        ("models: {m: {summarizer: {api_key: k}}}", True),
        ("upstreams: {a: {url: 'http://h'}}", False),
        ("upstreams: {a: {url: 'http://h', api_key: k}}", True),
        ("upstreams: {a: {url: 'http://h', summarizer: {api_key: k}}}", True),
    ],
)
def test_whether_a_client_can_spend_the_operators_money(tmp_path: Path, text: str, expected: bool) -> None:
    """Wherever a key may stand."""
    assert loaded(tmp_path, text).spends() is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "a"),
        ("x${A}y${B}z", "xaybz"),
        ("${NO:-d}", "d"),
        ("${NO:-}", ""),
        ("${EMPTY:-d}", "d"),
        ("${A:-d}", "a"),
        ("$${A}", "${A}"),
        ("$A ${ $", "$A ${ $"),
        ("${NO:-a:-b}", "a:-b"),
        ("${NESTED}", "${A}"),
    ],
)
def test_variables(tmp_path: Path, text: str, expected: str) -> None:
    """`${NAME}` and `${NAME:-default}` anywhere in a string, once; `$${` is a plain `${`."""
    env = {"A": "a", "B": "b", "EMPTY": "", "NESTED": "${A}"}
    model = loaded(tmp_path, f"summarizer: {{model: 'm {text}'}}", env).summarizer.model
    assert model == f"m {expected}"


def test_a_key_that_is_empty_is_none(tmp_path: Path) -> None:
    """`${KEY:-}` makes a key optional."""
    assert loaded(tmp_path, "api_key: ${KEY:-}").api_key is None


def test_variables_are_no_yaml(tmp_path: Path) -> None:
    """What a variable holds cannot add keys to the file."""
    settings = loaded(tmp_path, "summarizer: {model: '${M}'}", {"M": "m, wait: 1}\nmode: observe"})
    assert settings.summarizer.model == "m, wait: 1}\nmode: observe"
    assert settings.mode == "compact"


def test_the_variable_names_the_file(tmp_path: Path) -> None:
    """In containers `COMPACTION_PROXY_CONFIG` says which file; the command line says it louder."""
    named, other = tmp_path / "named.yaml", tmp_path / "other.yaml"
    named.write_text("mode: observe")
    other.write_text("mode: passthrough")
    env = HOME | {"COMPACTION_PROXY_CONFIG": str(named)}
    assert load(None, env).mode == "observe"
    assert load(other, env).mode == "passthrough"
    assert load(None, HOME | {"COMPACTION_PROXY_CONFIG": ""}).mode == "compact"


def test_openai_base_url_is_not_read() -> None:
    """It points at ourselves."""
    env = HOME | {"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}
    assert load(None, env).upstream == "https://api.openai.com/v1"


@pytest.mark.parametrize("name", ["missing.yaml", ""])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """A missing file and a directory are one clean line."""
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        load(tmp_path / name, HOME)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("platform", "env", "expected"),
    [
        ("linux", {"HOME": "/h"}, "/h/.local/share/compaction-proxy/compaction.db"),
        ("linux", {"HOME": "/h", "XDG_DATA_HOME": "/data"}, "/data/compaction-proxy/compaction.db"),
        ("linux", {"HOME": "/h", "XDG_DATA_HOME": "data"}, "/h/.local/share/compaction-proxy/compaction.db"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/compaction-proxy/compaction.db"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/compaction-proxy/compaction.db"),
    ],
)
def test_the_store_is_in_the_users_data_directory(platform: str, env: dict[str, str], expected: str) -> None:
    """Where each system wants what an application keeps."""
    assert load(None, env, platform=platform).store == f"sqlite:{expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory:", "memory:"),
        ("sqlite:sub/c.db", "sqlite:{folder}/sub/c.db"),
        ("sqlite:/tmp/c.db", "sqlite:/tmp/c.db"),
        ("sqlite:~/c.db", "sqlite:{folder}/home/c.db"),
        ("sqlite:${DIR}/c.db", "sqlite:{folder}/home/c.db"),
    ],
)
def test_a_store_is_relative_to_its_file(tmp_path: Path, text: str, expected: str) -> None:
    """A relative path means the same wherever the command is run, and whether all keys are asked for or this one."""
    home = tmp_path / "home"
    for folder in (home, tmp_path / "sub"):
        folder.mkdir()
    env = {"DIR": str(home), "HOME": str(home)}
    settings = loaded(tmp_path, f"store: '{text}'", env)
    assert settings.store == load_store(tmp_path / "config.yaml", env) == expected.replace("{folder}", str(tmp_path))


@pytest.mark.parametrize("text", ["", "store: null", "store: ''"])
def test_a_store_that_is_not_named_is_the_users(tmp_path: Path, text: str) -> None:
    """Its directory may be new, as on every first start."""
    assert loaded(tmp_path, text).store.endswith("/compaction-proxy/compaction.db")


def test_a_stores_directory_is_there(tmp_path: Path) -> None:
    """A misspelt one is not made: the old compactions would be looked for in vain."""
    assert problems(tmp_path, "store: sqlite:tpyo/c.db") == [f"store: there is no directory {tmp_path / 'tpyo'}"]
    assert not (tmp_path / "tpyo").exists()


def test_the_store_alone_needs_no_keys(tmp_path: Path) -> None:
    """Whoever looks at it has another shell than the server; what it says of the store must be right even so."""
    file = tmp_path / "config.yaml"
    file.write_text("api_key: ${NOWHERE}\nsummarizer: {prompt: 'file:gone.txt'}\nstore: sqlite:c.db\n")
    assert load_store(file, HOME) == f"sqlite:{tmp_path / 'c.db'}"
    assert load_store(None, HOME | {"COMPACTION_PROXY_CONFIG": str(file)}) == f"sqlite:{tmp_path / 'c.db'}"
    for text, problem in (("store: 'sqlite:${NOWHERE}'", "NOWHERE is not set"), ("[]", "must be a mapping")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            load_store(file, HOME)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("api_key: $OPENAI_API_KEY", "api_key"),
        ("models: {m: {api_key: $OPENAI_API_KEY}}", "models.m.api_key"),
        ("clients: [{key: $OPENAI_API_KEY, tenant: t}]", "clients.0.key"),
        ("hooks: {secret: $OPENAI_API_KEY}", "hooks.secret"),
    ],
)
def test_a_variable_without_braces_is_none(tmp_path: Path, text: str, key: str) -> None:
    """It would go out as it stands, and fail at the first request."""
    said = f"{key}: $OPENAI_API_KEY is no variable, did you mean ${{OPENAI_API_KEY}}?"
    assert problems(tmp_path, text, {"OPENAI_API_KEY": "sk-private"}) == [said]


def test_what_a_variable_holds_may_begin_with_a_dollar(tmp_path: Path) -> None:
    """Only what stands in the file is looked at."""
    key = loaded(tmp_path, "api_key: ${KEY}", {"KEY": "$ecret"}).api_key
    assert key is not None and key.get_secret_value() == "$ecret"


def test_the_command_lines_upstream_replaces_the_files(tmp_path: Path) -> None:
    """And only that; it is checked like any other."""
    settings = loaded(tmp_path, "upstream: http://a/v1\nmode: observe", upstream="http://b/v1/")
    assert (settings.upstream, settings.mode) == ("http://b/v1", "observe")
    with pytest.raises(ConfigError, match=r"^command line: upstream: must be an http"):
        load(None, HOME, upstream="b/v1")


def test_the_command_lines_window_is_that_of_every_other_model(tmp_path: Path) -> None:
    """It fills in where the file names no window, replaces that of `*`, and leaves a pattern's own alone."""
    assert load(None, HOME, window=4000).models == {"*": ModelSettings(window=4000)}
    settings = loaded(tmp_path, "models: {a: {window: 500}, b: {mode: observe}}", window=4000)
    assert list(settings.models) == ["a", "b", "*"]
    assert [model.window for model in settings.models.values()] == [500, 4000, 4000]
    assert settings.models["b"].mode == "observe"
    assert loaded(tmp_path, "models: {'*': {window: 500}}", window=4000).models["*"].window == 4000
    with pytest.raises(ConfigError, match="command line: window: must be greater than or equal to 256, not 100"):
        load(None, HOME, window=100)


SECTIONS: tuple[type[Section], ...] = (
    Settings,
    ModelSettings,
    UpstreamSettings,
    ClientSettings,
    HookSettings,
    SummarizerSettings,
)
keys = st.sampled_from(
    [*(name for section in SECTIONS for name in section.model_fields), "wait", "fallbacks", "a", "*"]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["${A}", "memory:"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=5))
def test_any_document_is_settings_or_a_config_error(document: dict[str, object]) -> None:
    """Whatever stands in a file, nothing but a `ConfigError` comes of it, and each of its lines names the file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "c.yaml")
        file.write_bytes(yaml.safe_dump(document, allow_unicode=False).encode())
        try:
            assert isinstance(load(file, HOME), Settings)
        except ConfigError as error:
            assert all(line.startswith(str(file)) for line in str(error).splitlines())


@given(st.binary(max_size=200))
def test_any_bytes_are_settings_or_a_config_error(content: bytes) -> None:
    """A file that is no text at all is an error like any other."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "c.yaml")
        file.write_bytes(content)
        try:
            assert isinstance(load(file, HOME), Settings)
        except ConfigError as error:
            assert str(error).startswith(str(file))


def test_the_table_has_a_row_with_a_meaning_for_every_key() -> None:
    """No setting without a sentence; the README holds this very table."""
    rows = [line.strip("| ").split(" | ") for line in table().splitlines()[2:]]
    names = [row[0].strip("`") for row in rows]
    assert len(names) == len(set(names))
    assert {name for name in names if "." not in name} == set(Settings.model_fields)
    sections: dict[str, type[Section]] = {
        "models.PATTERN": ModelSettings,
        "upstreams.NAME": UpstreamSettings,
        "clients.N": ClientSettings,
        "hooks": HookSettings,
        "summarizer": SummarizerSettings,
    }
    for prefix, section in sections.items():
        assert {f"{prefix}.{name}" for name in section.model_fields} <= set(names)
    assert all(line.rstrip("| ").endswith((".", ")", "same")) for line in table().splitlines()[2:])
