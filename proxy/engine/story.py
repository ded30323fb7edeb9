"""What is known of one request so far, and one attempt at answering it."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.core.checkpoint import Checkpoint
from proxy.core.envelope import Envelope
from proxy.core.plan import View
from proxy.engine.knowledge import Target
from proxy.engine.reader import Reading
from proxy.forward import Incoming
from proxy.routing import Route
from proxy.settings import Mode

Outcome = tuple[str, str]
"""What was done and why: a key of `core.plan.OUTCOMES`."""


@dataclass
class Story:
    """One request. `reading`, `view` and `keys` are there once its messages had to be looked at."""

    incoming: Incoming
    request: Envelope
    route: Route
    tenant: str
    target: Target
    mode: Mode
    force: bool
    begun: float
    deadline: float  # monotonic; until then a summary may be waited for
    reading: Reading | None = None
    view: View | None = None
    keys: list[str] = field(default_factory=list)
    fetched: bool = False  # whether the store has been asked

    @property
    def scope(self) -> str:
        """Tenant, model and head: whose summaries are counted together."""
        return f"{self.tenant} {self.target} {self.reading.head_id if self.reading else ''}"

    def __repr__(self) -> str:
        return f"Story({self.request!r} for {self.target})"


@dataclass(frozen=True)
class Sending:
    """One attempt: the bytes, what they are, and our count of their prompt (None: not counted)."""

    body: bytes
    outcome: Outcome
    counted: int | None = None
    checkpoint: Checkpoint | None = None
    would: str | None = None  # in observe mode: what would have been done, as the header says it
    route: Route | None = None  # where it goes, if not where the story's own route leads

    @property
    def form(self) -> str:
        """What stands for a part of the conversation: a checkpoint's id, or "" where nothing does."""
        return self.checkpoint.id if self.checkpoint is not None else ""

    def __repr__(self) -> str:
        return f"Sending({'; '.join(self.outcome)}, {len(self.body)} bytes)"
