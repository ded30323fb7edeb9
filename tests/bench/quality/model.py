"""A real model as the summariser: a llama.cpp server on this machine."""

from __future__ import annotations

from dataclasses import replace

from proxy.adapters.summariser import HttpSummariser
from proxy.adapters.upstream import AiohttpUpstream
from proxy.ports import SummaryAnswer, SummaryCall

PATIENCE = 1_800.0  # seconds; however long it takes: what is measured is what it writes


def patient(context: int) -> dict[str, float]:
    """Settings of a summarizer that knows `context` tokens and may take its time."""
    return {"window": context, "wait": PATIENCE, "total": PATIENCE / 2, "silence": PATIENCE / 2, "max_tokens": 700}


class Served:
    """`Summariser` that asks the server at `base_url`; `spent` has the texts of each call and its answer."""

    def __init__(self, base_url: str) -> None:
        self._upstream = AiohttpUpstream(connect_timeout=10, environ={})
        self._inner = HttpSummariser(self._upstream)
        self._url = f"{base_url}/chat/completions"
        self.spent: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        return f"Served({len(self.spent)} calls)"

    async def ask(self, call: SummaryCall) -> SummaryAnswer:
        read = call.system + call.user
        self.spent.append((read, ""))
        answer = await self._inner.ask(replace(call, url=self._url, headers=()))
        self.spent[-1] = (read, answer.text)
        return answer

    async def aclose(self) -> None:
        await self._upstream.aclose()
