"""What a play showed, as values and as a table no wider than 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from proxy.demo.script import Fact

WIDTH = 100
_ROW = "{turn:>4} {requests:>3} {client:>7} {sent:>7}  {decision:<26} {same:>6}  {note}"
_LEGEND = (
    "req: requests; client: tokens of the client's own history; sent: tokens the upstream counted;",
    "decision: the answer's x-compaction header (pass: as it came; compact, reuse: shortened);",
    "same: share of the prompt sent that is, byte for byte, the beginning of the request before.",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One turn. Tokens are those of its last request; None where nobody says."""

    turn: int
    requests: int
    client_tokens: int
    sent_tokens: int | None
    decision: str
    same: float | None
    note: str

    def line(self) -> str:
        text = _ROW.format(
            turn=self.turn,
            requests=self.requests,
            client=f"{self.client_tokens:,}",
            sent=_number(self.sent_tokens),
            decision=(self.decision or "-")[:26],
            same=_percent(self.same),
            note=self.note,
        )
        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


@dataclass(frozen=True, slots=True)
class Recalled:
    """A fact and what was answered when it was asked for."""

    fact: Fact
    turn: int
    answer: str

    @property
    def right(self) -> bool:
        return self.fact.value in self.answer


@dataclass
class Report:
    """Totals. What only the upstream itself knows is None where the upstream is a real one."""

    rows: list[Row] = field(default_factory=list)
    recalled: list[Recalled] = field(default_factory=list)
    requests: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    invalid: int | None = None
    overflows: int | None = None
    summary_calls: int | None = None
    waited: int | None = None
    prefix_share: float | None = None

    @property
    def answer(self) -> str:
        """The answer to the last question: the fact of the early turn."""
        return self.recalled[-1].answer if self.recalled else ""

    @property
    def fact_kept(self) -> bool:
        return bool(self.recalled) and self.recalled[-1].right

    @property
    def ok(self) -> bool:
        """The fact came back, no call failed and no list was refused for its shape."""
        return self.fact_kept and self.failed == 0 and not self.invalid

    def totals(self) -> Iterator[str]:
        """The lines under the table."""
        for item in self.recalled[-1:]:
            yield f'turn {item.fact.turn}, the user: "{item.fact.sentence}"'
            yield f'turn {item.turn}, the user: "{item.fact.question}"'
            yield f'turn {item.turn}, the model: "{_short(item.answer)}"'
            yield ""
        kept = sum(item.right for item in self.recalled)
        sent = [row.sent_tokens for row in self.rows if row.sent_tokens is not None]
        longest = max((row.client_tokens for row in self.rows), default=0)
        facts = f"facts that came back {kept} of {len(self.recalled)}"
        yield f"requests {self.requests}, failed calls {self.failed}, {facts}"
        yield (
            f"overflows upstream {_number(self.overflows)}, malformed lists {_number(self.invalid)}, "
            f"summary calls {_number(self.summary_calls)}, requests that waited for one {_number(self.waited)}"
        )
        yield (
            f"longest history {longest:,} tokens, largest prompt sent {_number(max(sent, default=None))}, "
            f"unchanged prefix {_percent(self.prefix_share)}"
        )
        for failure in dict.fromkeys(self.failures[:3]):
            yield f"failed: {failure}"[:WIDTH]

    def __repr__(self) -> str:
        upstream = f"{self.invalid} invalid, {self.overflows} overflows, {self.summary_calls} summaries"
        fate = f"same {_percent(self.prefix_share)}, fact {'kept' if self.fact_kept else 'lost'}"
        return f"Report({self.requests} requests, {self.failed} failed, {upstream}, {self.waited} waited, {fate})"


def heading() -> Iterator[str]:
    """The lines above the table."""
    yield from _LEGEND
    yield ""
    names = {"turn": "turn", "requests": "req", "client": "client", "sent": "sent", "decision": "decision"}
    yield _ROW.format(**names, same="same", note="what happened")


def _number(value: int | None) -> str:
    return "n/a" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1%}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * WIDTH else f"…{line[-2 * WIDTH :]}"
