"""Every key of the configuration: its type, its default, its meaning."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

CLIENT = "client"
"""As an `api_key`: the client's own credentials are passed on."""
ANYONE = "anyone"
"""As `clients`: nobody is asked for a key."""

PLACEHOLDERS = ("words",)
"""What may stand in a prompt, in braces, to be replaced; `core/summary.py` does that."""


def _url(text: str) -> str:
    """An absolute http(s) address without its trailing slashes."""
    allowed = "must be an http:// or https:// address"
    if not re.fullmatch(r"[!-\[\]-~]+", text):  # printable ASCII, no space, no backslash
        raise ValueError(f"{allowed} in ASCII, without spaces or backslashes")
    parts = urlsplit(text)  # a ValueError of its own for a broken IPv6 host
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(allowed)
    if "@" in parts.netloc:
        raise ValueError(f"{allowed} without user name or password (use api_key)")
    if "?" in text or "#" in text:
        raise ValueError(f"{allowed} without query or fragment")
    if parts.port == 0:  # reading the port raises ValueError where it is no number up to 65535
        raise ValueError(f"{allowed} with a port from 1 to 65535")
    return text.rstrip("/")


def _place(text: str) -> str:
    """An address, or what may be the name of one; whether there is one of that name, `Settings` knows."""
    return text if re.fullmatch(_UPSTREAM_NAME, text) else _url(text)


_UPSTREAM_NAME = "[a-z0-9-]+"
_NO_SUCH_UPSTREAM = "must be an http:// or https:// address or the name of one of `upstreams`"
_PATHS = ("v1", "healthz")  # what the proxy itself answers to at the place of a name


def _upstream_name(text: str) -> str:
    if text in _PATHS or not re.fullmatch(_UPSTREAM_NAME, text):
        raise ValueError(f"must be of the letters a to z, digits and hyphens, and neither {' nor '.join(_PATHS)}")
    return text


def _tenant(text: str) -> str:
    if text in ("credential", "shared") or re.fullmatch(r"header [!#$%&'*+.^_`|~0-9A-Za-z-]+", text):
        return text
    raise ValueError("must be credential, shared, or header NAME")


def _store(text: str) -> str:
    path = text.removeprefix("sqlite:")
    if text in ("", "memory:") or (path != text and path.strip() and not path.startswith(":") and "\0" not in path):
        return text
    raise ValueError("must be sqlite:PATH or memory:")


def _key(secret: SecretStr | None) -> SecretStr | None:
    """An empty key is none: `${KEY:-}` makes a key optional. Others must be fit for a header field."""
    text = secret.get_secret_value() if secret else ""
    if not re.fullmatch(r"[!-~]*", text):
        raise ValueError("must be printable ASCII without spaces")
    return secret if text else None


def _prompt(text: str) -> str:
    unknown = sorted(set(re.findall(r"(?<![{$])\{(\w+)\}(?!\})", text)) - set(PLACEHOLDERS))
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"must have no other placeholder than {known}; there is {{{unknown[0]}}}")
    return text


Mode = Literal["compact", "observe", "passthrough"]
Seconds = Annotated[float, Field(gt=0)]
Tokens = Annotated[int, Field(ge=256)]
Url = Annotated[str, AfterValidator(_url)]
Place = Annotated[str, AfterValidator(_place)]
UpstreamName = Annotated[str, AfterValidator(_upstream_name)]
TenantRule = Annotated[str, AfterValidator(_tenant)]
StoreName = Annotated[str, BeforeValidator(lambda text: "" if text is None else text), AfterValidator(_store)]
Key = Annotated[SecretStr | None, AfterValidator(_key)]
Name = Annotated[str, Field(min_length=1)]
Prompt = Annotated[str, Field(min_length=1), AfterValidator(_prompt)]


class Section(BaseModel):
    """Frozen, and strict about keys: a misspelt key is an error, not a default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class SummarizerSettings(Section):
    """Who writes summaries. Without a `model` the request's own model does."""

    model: Name | None = None
    """The model that writes summaries; unset: the model of the request."""
    upstream: Place | None = None
    """Where that model is served, an address or a name of `upstreams`; unset: where the request goes."""
    api_key: Key = None
    """The key for its `upstream`, or for that of the section around it where it has none; the word `client` passes the
    client's own on; unset: that of the named upstream, else what the request's own upstream gets, if their origin is
    the same."""
    window: Tokens | None = None
    """The summarizer's context window in tokens; unset: as for any model of its name."""
    wait: Annotated[float, Field(ge=0)] = 20
    """Seconds a request waits for its summary, chunks and retries together; then it goes out with one made without a
    model, and the summary serves the next turn."""
    silence: Seconds = 180
    """Seconds a summary call may say nothing."""
    total: Seconds = 600
    """Seconds a summary call may take."""
    max_tokens: Annotated[int, Field(ge=64)] | None = None
    """The output limit of a summary call; unset: chosen from the size of what is to be written."""
    calls_per_hour: Annotated[int, Field(ge=1)] = 120
    """The most summary calls in an hour, of each process; beyond it summaries are made without a model."""
    fallbacks: tuple[Name, ...] = ()
    """Models to ask, in this order, when `model` fails; served at the same place."""
    instructions: Name | None = None
    """What to tell the summarizer beside its task; a text, or `file:PATH` (relative to this file)."""
    prompt: Prompt | None = None
    """The task in your words, in place of the built-in sections and rules; `{words}` in it is replaced by how many
    words a summary may have. A text, or `file:PATH` (relative to this file)."""


class ModelSettings(Section):
    """What is known of the models that a pattern matches; the first matching pattern wins."""

    window: Tokens | None = None
    """The context window in tokens; unset: found out, at the latest from the upstream's first refusal."""
    compact_at: Tokens | None = None
    """Compact above so many tokens already, though the window would hold more."""
    upstream: Place | None = None
    """Where these models are served, an address or a name of `upstreams`; unset: at the common `upstream`."""
    upstream_model: Name | None = None
    """The model's name there; unset: the name the client uses."""
    api_key: Key = None
    """The key for this `upstream`; the word `client` passes the client's own on; unset: that of the named upstream, or
    none if it is not of the common one's origin."""
    summarizer: SummarizerSettings | None = None
    """Who summarizes for these models, in place of the common section (the keys are the same)."""
    mode: Mode | None = None
    """As the common `mode`, for these models."""
    timeout: Seconds | None = None
    """Seconds to the first byte of an answer; unset: no limit."""
    failover: Name | None = None
    """A model with a larger window: it gets the client's own request when compaction cannot help."""


class UpstreamSettings(Section):
    """A provider beside the common one; clients reach it under its name."""

    url: Url
    """The server, its path up to and including `/v1`. Clients reach it at `http://host:port/NAME/v1`."""
    api_key: Key = None
    """The key for it, sent instead of the client's own; unset, or the word `client`: a client that uses the address
    above passes its own on, to requests that a model brings here only the word does."""
    summarizer: SummarizerSettings | None = None
    """Who summarizes what goes there, in place of the common section (the keys are the same); that of a model wins."""


class ClientSettings(Section):
    """One key that clients may use, and whose it is."""

    key: Key = None
    """The key itself."""
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")] | None = None
    """Its SHA-256 in hex digits, in place of the key: for keys that are long and random."""
    tenant: Name
    """Whose key it is. Clients with one name see the same compactions; several keys may have the same."""

    @model_validator(mode="after")
    def _one_of_both(self) -> ClientSettings:
        if (self.key is None) == (self.sha256 is None):
            raise ValueError("must have either a key or a sha256")
        return self

    def digest(self) -> bytes:
        """The SHA-256 of the key."""
        if self.key is not None:
            return hashlib.sha256(self.key.get_secret_value().encode()).digest()
        return bytes.fromhex(self.sha256 or "")


class HookSettings(Section):
    """Whom to ask before a compaction and to tell after it."""

    webhook: Url | None = None
    """An address that gets each event as a signed POST; the messages that are replaced go there."""
    secret: Key = None
    """What signs them (Standard Webhooks; `whsec_` and base64, or any text without spaces). A `webhook` needs one."""
    python: Name | None = None
    """A Python hook: `module:function`, or the name of an entry point of the group `compaction_proxy.hooks`."""
    options: dict[str, Any] = {}
    """The keyword arguments that its function is called with, once, at the start."""
    timeout: Seconds = 5
    """Seconds that a hook has for its answer; a request that waits for its summary waits for that, too."""

    @model_validator(mode="after")
    def _signed(self) -> HookSettings:
        if self.webhook is not None and self.secret is None:
            raise ValueError("a webhook must have a secret")
        return self

    @field_validator("secret")
    @classmethod
    def _decodable(cls, secret: SecretStr | None) -> SecretStr | None:
        text = secret.get_secret_value() if secret is not None else ""
        if text.startswith("whsec_"):
            try:
                base64.b64decode(text.removeprefix("whsec_"), validate=True)
            except ValueError:
                raise ValueError("what follows whsec_ must be base64") from None
        return secret


def _clients(value: Any) -> Any:
    """One problem of a list or of the word, where a union would name one for each of its members."""
    if value is None or value == ANYONE:
        return value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"must be a list of at least one client, or the word {ANYONE}")
    clients = TypeAdapter(tuple[ClientSettings, ...]).validate_python(value)
    if len({client.digest() for client in clients}) < len(clients):
        raise ValueError("must not have a key twice")
    return clients


Clients = Annotated[Literal["anyone"] | tuple[ClientSettings, ...] | None, PlainValidator(_clients)]


class Settings(Section):
    upstream: Url = "https://api.openai.com/v1"
    """The OpenAI-compatible server, its path up to and including `/v1`."""
    api_key: Key = None
    """The key for `upstream`, sent instead of the client's own; unset: the client's key is passed on."""
    upstreams: dict[UpstreamName, UpstreamSettings] = {}
    """More providers, each under a name of its own, which is the first part of its path here."""
    models: dict[Name, ModelSettings] = {}
    """What is known of which models: a section for each pattern (`*` and `?` stand for any text and any character);
    the first that matches the model's name wins."""
    summarizer: SummarizerSettings = SummarizerSettings()
    """Who writes summaries."""
    hooks: HookSettings = HookSettings()
    """What of yours is asked before a compaction and told after it."""
    clients: Clients = None
    """Who may use this proxy: a list of keys, each with a tenant. A request without one of them gets a 401, and they
    are never passed on: upstreams get their `api_key` or nothing. Unset, or the word `anyone`: nobody is asked. With an
    `api_key` anywhere in this file it must be set where the proxy listens to more than its own machine."""
    tenant: TenantRule = "credential"
    """Whose conversations are kept apart: those of every `credential`, of every value of a `header NAME` (whoever can
    set it can claim to be anybody), or nobody's: `shared`. The tenant that `clients` names for a key wins."""
    store: StoreName = ""
    """Where compactions are kept: `sqlite:PATH` (relative to this file, in a directory that is there) or `memory:`;
    unset: `compaction.db` in the user's data directory."""
    mode: Mode = "compact"
    """`compact`, `observe` (plan, count and report, change nothing) or `passthrough` (touch nothing, not even after an
    overflow)."""
    clearing: bool = True
    """Clear old tool results before anything is summarized."""
    background: bool = True
    """Make a compaction that will soon be needed after an answer, before the next request could have to wait for it."""
    keepalive_after: Seconds | None = 10
    """Seconds after which a streaming client that waits for a summary gets a comment line; null: never."""
    connect_timeout: Seconds = 10
    """Seconds to make a connection to an upstream."""
    max_body: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    """Bytes; a larger request body passes through unread."""

    @model_validator(mode="after")
    def _names_exist(self) -> Settings:
        lines = [
            InitErrorDetails(type=PydanticCustomError("no_such_upstream", _NO_SUCH_UPSTREAM), loc=where, input=place)
            for where, place in self._places()
            if place is not None and "://" not in place and place not in self.upstreams
        ]
        if lines:
            raise ValidationError.from_exception_data(type(self).__name__, lines)
        return self

    def _places(self) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """Whatever may be a name of `upstreams`, and where it stands."""
        yield ("summarizer", "upstream"), self.summarizer.upstream
        for name, upstream in self.upstreams.items():
            if upstream.summarizer is not None:
                yield ("upstreams", name, "summarizer", "upstream"), upstream.summarizer.upstream
        for pattern, model in self.models.items():
            yield ("models", pattern, "upstream"), model.upstream
            if model.summarizer is not None:
                yield ("models", pattern, "summarizer", "upstream"), model.summarizer.upstream

    def spends(self) -> bool:
        """Whether there is an `api_key` in it, so that a client costs the operator money."""
        upstreams, models = self.upstreams.values(), self.models.values()
        keys = [self.api_key, *(upstream.api_key for upstream in upstreams), *(model.api_key for model in models)]
        own = [*(upstream.summarizer for upstream in upstreams), *(model.summarizer for model in models)]
        keys += [writer.api_key for writer in (self.summarizer, *own) if writer is not None]
        return any(key.get_secret_value() != CLIENT for key in keys if key is not None)
