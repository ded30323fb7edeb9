"""How the parts of the engine belong together, whatever ports they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proxy.core.coding import CODINGS, Codings
from proxy.engine.advertised import Advertised
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.compactor import Compactor
from proxy.engine.decider import Decider
from proxy.engine.engine import Engine
from proxy.engine.knowledge import Knowledge
from proxy.engine.narrator import Narrator
from proxy.engine.preparer import Preparer
from proxy.engine.prudence import Prudence
from proxy.engine.reader import Reader
from proxy.engine.tolerant import TolerantStore
from proxy.engine.windows import Windows
from proxy.ports import Catalogue, Clock, Store, Summariser, Upstream
from proxy.routing import Router, pseudonym
from proxy.settings import Settings


@dataclass(frozen=True)
class Assembly:
    """The engine, and those of its parts that somebody may want to look at or has to stop."""

    engine: Engine
    decider: Decider
    checkpoints: Checkpoints
    knowledge: Knowledge
    prudence: Prudence
    compactor: Compactor
    advertised: Advertised
    store: TolerantStore

    async def aclose(self) -> None:
        """Stop what runs in the background, and write what waits for it; the ports stay open."""
        await self.advertised.aclose()
        await self.compactor.aclose()
        await self.store.flush()


def assemble(
    settings: Settings,
    *,
    secret: bytes,
    upstream: Upstream,
    summariser: Summariser,
    store: Store,
    clock: Clock,
    catalogue: Catalogue,
    count: Callable[[str], int],
    codings: Codings = CODINGS,
) -> Assembly:
    """Raises `ConfigError` for addresses that cannot be used. `count`: tokens of a text; `secret`: of this install."""
    router = Router(settings, pseudonym(settings, secret))
    tolerant = TolerantStore(store, clock)
    checkpoints = Checkpoints(tolerant)
    knowledge = Knowledge(tolerant, clock)
    advertised = Advertised(upstream, clock)
    windows = Windows(knowledge, advertised, catalogue)
    prudence = Prudence(clock)
    compactor = Compactor(
        checkpoints=checkpoints,
        store=tolerant,
        narrator=Narrator(summariser, prudence, count),
        prudence=prudence,
        clock=clock,
        count=count,
    )
    decider = Decider(
        settings=settings, reader=Reader(count), checkpoints=checkpoints, knowledge=knowledge, windows=windows
    )
    preparer = Preparer(
        router=router,
        decider=decider,
        checkpoints=checkpoints,
        knowledge=knowledge,
        windows=windows,
        compactor=compactor,
        prudence=prudence,
        clock=clock,
    )
    engine = Engine(
        settings=settings,
        secret=secret,
        upstream=upstream,
        router=router,
        decider=decider,
        preparer=preparer,
        checkpoints=checkpoints,
        knowledge=knowledge,
        clock=clock,
        codings=codings,
    )
    return Assembly(engine, decider, checkpoints, knowledge, prudence, compactor, advertised, tolerant)
