"""The product before the shipped fake, shown one shape at a time: with a window that holds it, and with one that does
not."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from proxy.core.replacement import OPENING, SEPARATOR
from proxy.demo import wording
from proxy.demo.record import Recorded
from proxy.demo.upstream import FakeUpstream
from proxy.demo.wording import Worded
from proxy.settings import Settings
from tests.e2e.test_promises import LONG, SYSTEM, Reply, answer, chat, post, prose, question, talk
from tests.servers import Peer, RawUpstream, Request, run_raw
from tests.stage import Stage, proxy, stage

__all__ = [
    "LONG",
    "SYSTEM",
    "Peer",
    "RawUpstream",
    "Reply",
    "Stage",
    "answer",
    "chat",
    "post",
    "prose",
    "question",
    "talk",
]

Message = dict[str, Any]

WIDE, SMALL = 100_000, 4_000  # tokens: a window that holds everything here, and one that does not


def calls(*ids: str, name: str = "read", arguments: str = "{}", content: Any = None, **more: Any) -> Message:
    """An assistant message that calls `name` once for each id."""
    made = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": made, **more}


def result(identity: str, content: Any = "42 cranes") -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def said(content: Any, **more: Any) -> Message:
    return {"role": "assistant", "content": content, **more}


def loop(rounds: int, sentences: int = 10) -> list[Message]:
    """So many rounds of a tool loop, each of some 200 tokens."""
    return [m for i in range(rounds) for m in (calls(f"c{i}"), result(f"c{i}", prose(f"r{i}", sentences)))]


def early(*shape: Message, exchanges: int = LONG) -> list[Message]:
    """A conversation beyond the small window that begins with `shape`: it gets compacted."""
    return [SYSTEM, *shape, *talk(exchanges)[1:]]


def late(*shape: Message, exchanges: int = LONG) -> list[Message]:
    """A conversation beyond the small window that ends with `shape`: it stays."""
    return [*talk(exchanges)[:-1], *shape]


def lenient(window: int = SMALL, **options: Any) -> FakeUpstream:
    """A fake that takes any list of messages within its window."""
    fake = FakeUpstream(window=window, **options)

    def judge(record: Recorded) -> Worded | None:
        if record.summary:
            return None
        size = fake.tokenizer.prompt(record.messages, ())
        record.prompt_tokens = size.total
        return wording.overflow("openai", window, size, None) if size.total > window else Worded(200, completion())

    fake.intercept = judge
    return fake


def completion(content: Any = "fine", **usage: int) -> Message:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **({"usage": usage} if usage else {})}


@dataclass
class Shown:
    """What the client got, and what the upstream saw in the end."""

    reply: Reply
    sent: Recorded
    fake: FakeUpstream

    @property
    def messages(self) -> list[Any]:
        return self.sent.messages

    @property
    def replacement(self) -> str:
        """The text that stands for the compacted messages; empty if none does."""
        found = [text for m in self.messages for text in texts(m) if text.startswith(OPENING)]
        return found[0].partition(SEPARATOR)[0] if found else ""


def texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [p["text"] for p in content or () if isinstance(p, Mapping) and isinstance(p.get("text"), str)]


def fits(messages: list[Any] | bytes, fake: FakeUpstream | None = None, **fields: Any) -> Shown:
    """Send what fits: the client's own bytes go out, once, and the upstream's own answer comes back."""
    fake = fake or FakeUpstream(window=WIDE)
    body = bytes(messages) if isinstance(messages, bytes) else json.dumps(chat([*messages], **fields)).encode()
    with stage(fake, models={"*": {"window": WIDE}}) as s:
        direct = post(s.direct, body)
        fake.requests.clear()
        reply = post(s.url, body)
    assert [r.body for r in fake.requests] == [body]
    assert reply.status == direct.status
    assert without_cached(reply.body) == without_cached(direct.body)
    assert reply.decision == "pass; fits"
    return Shown(reply, fake.requests[0], fake)


def without_cached(body: bytes) -> bytes:
    """An answer but for the number that depends on what the fake was asked before."""
    return re.sub(rb'"cached_tokens": ?\d+', b"", body)


def squeezed(
    messages: Sequence[Message],
    fake: FakeUpstream | None = None,
    *,
    window: int = SMALL,
    settings: Any = None,
    **fields: Any,
) -> Shown:
    """Send what does not fit: it is rewritten, answered, and everything holds that must hold of a rewritten request."""
    fake = fake or FakeUpstream(window=window)
    given = list(messages)
    with stage(fake, **{"models": {"*": {"window": window}}, **(settings or {})}) as s:
        reply = post(s.url, chat(given, **fields))
    assert reply.status == 200, reply.body
    assert reply.decision.split(";")[0] in ("compact", "reuse")
    sent = fake.chats[-1]
    assert len(sent.body) < len(json.dumps(chat(given, **fields)))
    check_sound(given, sent.messages)
    return Shown(reply, sent, fake)


def check_sound(given: Sequence[Message], sent: Sequence[Message]) -> None:
    """What holds of any rewritten list, whatever the client sent."""
    head = len(list(itertools.takewhile(lambda m: m.get("role") in ("system", "developer"), given)))
    assert sent[:head] == list(given[:head])
    body = list(sent[head:])
    assert body and body[0]["role"] in ("user", given[head].get("role"))
    mine = [i for i, m in enumerate(body) if any(t.startswith(OPENING) for t in texts(m))]
    assert mine in ([], [0])
    assert (body[0]["role"] == "user") or not mine
    kept, own = body[len(mine) :], list(given[head:])
    for client, ours in zip(own[len(own) - len(kept) :], kept, strict=True):
        assert ours == client or (
            client["role"] in ("tool", "function")
            and {**ours, "content": 0} == {**client, "content": 0}
            and texts(ours) != [""]
        )
    if mine and given[-1] not in kept:  # merged: the last message's own words come last
        assert texts(body[0])[-1].endswith((texts(given[-1]) or [""])[-1])
    assert len(sent) < len(given) or any("removed" in t or "left out" in t for m in body for t in texts(m))


def paired(messages: Sequence[Message]) -> bool:
    """Whether every call has exactly its results right behind it, by position, and every result its call."""
    index = 0
    while index < len(messages):
        block = list(itertools.takewhile(lambda m: m["role"] == "tool", messages[index + 1 :]))
        if messages[index]["role"] == "tool":
            return False
        ids = [c["id"] for c in messages[index].get("tool_calls") or ()]
        if Counter(ids) != Counter(m.get("tool_call_id") for m in block):
            return False
        index += 1 + len(block)
    return True


def slow_summary(peer: Peer, seconds: float) -> bool:
    """Refuse a call that asks for a summary after a while: what waits for it hears comments. Whether it was one."""
    asked = b"You condense conversations" in peer.request.body
    if asked:
        time.sleep(seconds)
        peer.answer(b"{}", b"503 Service Unavailable", b"content-type: application/json\r\n")
    return asked


@contextmanager
def raw(handler: Callable[[Peer], object], **settings: Any) -> Iterator[tuple[str, RawUpstream]]:
    """A server of raw bytes with the proxy before it: the proxy's base URL, and the server. `handler` and the list of
    requests have the chat requests alone; whoever asks for anything else hears that there is no such thing."""
    asked: list[Request] = []

    def serve(peer: Peer) -> object:
        if not peer.request.line.startswith(b"POST /v1/chat/completions "):
            peer.answer(status=b"404 Not Found")
            return None
        asked.append(peer.request)
        return handler(peer)

    with run_raw(serve) as upstream:
        common = {"upstream": f"{upstream.url}/v1", "store": "memory:"}
        with proxy(Settings.model_validate({**common, **settings})) as url:
            yield url, RawUpstream(upstream.url, asked)
