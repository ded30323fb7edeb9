"""How the parts of the engine belong together, whatever ports they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.core.coding import CODINGS, Codings
from proxy.engine.advertised import Advertised
from proxy.engine.background import Background
from proxy.engine.bill import Accounts
from proxy.engine.checkpoints import Checkpoints
from proxy.engine.compactor import Compactor
from proxy.engine.decider import Decider
from proxy.engine.engine import Engine
from proxy.engine.hooks import Hooks
from proxy.engine.jobs import Jobs
from proxy.engine.knowledge import Knowledge
from proxy.engine.narrator import Narrator
from proxy.engine.preparer import Preparer
from proxy.engine.prudence import Prudence
from proxy.engine.reader import Reader
from proxy.engine.tolerant import TolerantStore
from proxy.engine.windows import Windows
from proxy.ports import Catalogue, Clock, Hook, Store, Summariser, Upstream
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
    background: Background
    compactor: Compactor
    advertised: Advertised
    store: TolerantStore
    accounts: Accounts

    async def aclose(self) -> None:
        """Stop what runs in the background, and write what waits for it; the ports stay open."""
        await self.advertised.aclose()
        await self.engine.aclose()
        await self.background.aclose()
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
    hooks: Sequence[Hook] = (),
) -> Assembly:
    """Raises `ConfigError` for addresses that cannot be used. `count`: tokens of a text; `secret`: of this install."""
    router = Router(settings, pseudonym(settings, secret))
    tolerant = TolerantStore(store, clock)
    checkpoints = Checkpoints(tolerant)
    knowledge = Knowledge(tolerant, clock)
    advertised = Advertised(upstream, clock)
    windows = Windows(knowledge, advertised, catalogue)
    prudence = Prudence(clock)
    accounts = Accounts(catalogue)
    narrator = Narrator(summariser, prudence, count)
    told = Hooks(hooks, settings.hooks.timeout)
    compactor = Compactor(checkpoints, tolerant, narrator, prudence, told, accounts, clock, count)
    decider = Decider(
        settings=settings, reader=Reader(count), checkpoints=checkpoints, knowledge=knowledge, windows=windows
    )
    jobs = Jobs(router=router, knowledge=knowledge, windows=windows)
    background = Background(
        enabled=settings.background, decider=decider, jobs=jobs, compactor=compactor, prudence=prudence, clock=clock
    )
    preparer = Preparer(
        router=router,
        decider=decider,
        checkpoints=checkpoints,
        jobs=jobs,
        background=background,
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
        background=background,
        checkpoints=checkpoints,
        knowledge=knowledge,
        accounts=accounts,
        clock=clock,
        codings=codings,
    )
    return Assembly(
        engine, decider, checkpoints, knowledge, prudence, background, compactor, advertised, tolerant, accounts
    )
