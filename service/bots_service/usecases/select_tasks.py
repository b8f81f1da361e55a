"""POST /select: which tasks should be tried next."""

import asyncio
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from bots_service.core.arrays import Tasks, united
from bots_service.core.draw.context import DrawContext
from bots_service.core.draw.selection import (
    GUESSES,
    LARGEST_COUNT,
    MOST_TIMES,
    DrawnTasks,
    NamedTasks,
    SelectRequest,
    enough_tasks,
    select_tasks,
)
from bots_service.core.pool import Pool
from bots_service.core.state import RunState
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.live_runs import LiveRuns
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import Flaw, InvalidInputError, InvalidSelectionError, KeyReusedError
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.hot import NO_TOKEN, KnownState, LeaseResult, Leases, LeaseTicket
from bots_service.ports.records import IdempotencyKey, OpenDataset, Selection
from bots_service.usecases.selection_id import Origin, write_id

# A selection is drawn again for this long and this often where other replicas change the run, or the hot store is wiped
# again and again. Then it is leased in this process alone. Clients give up after 10 s by default, some after 5 s.
PATIENCE_S, LEAST_ATTEMPTS = 2.0, 3
PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.03  # longer each time, so that replicas that collide draw apart
# A draw that looks at so many numbers takes but a millisecond or two. In a thread it would take far longer while others
# want the interpreter's lock: numpy lets go of it at every step, and each time must wait to get it back.
QUICK_NUMBERS = 12_000
QUICK_PER_WANTED = 10  # a task that is chosen costs as much as so many that are looked at
SAMPLED = 64  # tasks that tell how far a pass will walk; a look at them takes 0.05 ms (BOTS) or 0.13 ms (tracker)


@dataclass(frozen=True, slots=True)
class SelectTasks:
    """Newest state, one draw, lease, answer."""

    open_runs: OpenRuns
    catch_up: CatchUp
    leases: Leases
    live: LiveRuns
    metrics: TrainingMetrics

    async def __call__(
        self, request: SelectRequest, once: IdempotencyKey | None
    ) -> tuple[Selection, OpenDataset, bool]:
        """Return the selection, its dataset, and whether it is the first answer to the same key, given again.

        Raises:
            UnknownDatasetError, UnknownRunError: a name is not known.
            InvalidSelectionError: a tag or a task is unknown, or the count is not clear.
            PoolTooSmallError: the pool has fewer such tasks.
            KeyReusedError: the key came with another request before.
        """
        selection, dataset, again = await self.open_runs.using(
            request.dataset, request.run, lambda run: self._select(run, request, once)
        )
        if not again:
            self.metrics.selected(request.dataset, request.run, degraded=selection.degraded)
        return selection, dataset, again

    async def _select(
        self, run: OpenRun, request: SelectRequest, once: IdempotencyKey | None
    ) -> tuple[Selection, OpenDataset, bool]:
        live = self.live(run.row.id)
        give_up, pause_s = asyncio.get_running_loop().time() + PATIENCE_S, 0.0
        # One draw of a run at a time: the second must know what the first took.
        async with live.selecting:
            # What this process knows costs nothing; `acquire` refuses a selection from a state that is not the newest.
            known, is_sure = self.catch_up.known(run), False
            attempts = 0
            while True:
                if known is None:
                    known, is_sure = await self.catch_up.newest_or_known(run), True
                # This state may know of tasks that were appended meanwhile. The dataset is looked at after the state:
                # where another replica changes it in between, `acquire` refuses the state's token.
                run = await self.open_runs.matching(run, known.state)
                taken = await self._attempt(run, known, request, once, is_sure=is_sure)
                if taken.previous is not None and once is not None:
                    selection = _again(taken.previous, once)
                    return selection, (await self.open_runs.with_tasks(run, selection.tasks)).dataset, True
                if taken.selection is not None:
                    return taken.selection, run.dataset, False
                attempts += 1
                if attempts >= LEAST_ATTEMPTS and asyncio.get_running_loop().time() > give_up:
                    # Two jobs may then train on one task; that costs less than a job that waits.
                    known, is_sure = KnownState(known.state, NO_TOKEN), True
                elif taken.stale:
                    known = None
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s + PAUSE_S, LONGEST_PAUSE_S)

    async def _attempt(
        self, run: OpenRun, known: KnownState, request: SelectRequest, once: IdempotencyKey | None, *, is_sure: bool
    ) -> LeaseResult:
        state = known.state
        key, fingerprint = (once.key, once.fingerprint) if once else (None, "")
        ticket = await self.leases.prepare(run.row, known, key=key)
        if ticket.previous is not None:
            return LeaseResult(previous=ticket.previous)
        if ticket.local and not is_sure:
            return LeaseResult(stale=True)  # nobody would refuse the selection, so the state must be asked for
        try:
            named = named_tasks(request, run.dataset)
            within = run if request.subset is None else await self.open_runs.within(run, request.subset)
            with self.metrics.draw_seconds.time():
                selection = await _drawn(request, within, state, ticket, named)
        except InvalidInputError:
            if is_sure and await self._is_current(run, known):
                # What can't be done now may have been done, and its answer lost, before the dataset changed.
                previous = await self.leases.previous(run.row, key)
                if previous is None:
                    raise
                return LeaseResult(previous=previous)
            return LeaseResult(stale=True)  # another replica may have changed the dataset
        return await self.leases.acquire(
            run.row,
            selection,
            ticket,
            seconds=state.settings.lease_seconds,
            key=key,
            fingerprint=fingerprint,
            reuse=selection.reused > 0,
        )

    async def _is_current(self, run: OpenRun, known: KnownState) -> bool:
        """Say whether the run's dataset is the one that stands in SQL.

        Raises:
            StorageUnavailableError: nobody can say; the request may be right.
        """
        if known.degraded:
            await self.catch_up.newest(run)
        return (await self.open_runs.refreshed(run)).dataset is run.dataset


async def _drawn(
    request: SelectRequest, run: OpenRun, state: RunState, ticket: LeaseTicket, named: NamedTasks
) -> Selection:
    """Return a selection, drawn in a thread where that takes longer than the event loop may be held up."""
    if is_quick(request, state, run.dataset.pool, ticket.leased):
        return draw(request, run, state, ticket, named)
    return await asyncio.to_thread(draw, request, run, state, ticket, named)


def is_quick(request: SelectRequest, state: RunState, pool: Pool, leased: Tasks) -> bool:
    """Say whether a draw takes but a millisecond or two: the ordinary one, which never looks at the whole pool."""
    if not pool.is_grouped or request.tags:
        return False
    if state.settings.mix or state.settings.strategy not in ("thompson", "pass"):
        return False
    count, draws = (request.count, 1) if request.count else (2 * (request.want_effective or 1), GUESSES)
    looked_at = len(leased) + draws * QUICK_PER_WANTED * count
    if looked_at > QUICK_NUMBERS:
        return False
    looked_at += draws * (
        _walked(count, state, pool)
        if state.settings.strategy == "pass"
        else pool.profiles + len(state.belief.own_tasks)
    )
    return looked_at <= QUICK_NUMBERS


def _walked(count: int, state: RunState, pool: Pool) -> int:
    """Return about how many tasks a pass meets until it has taken so many.

    By a look at some of the pool: where hardly any task is still effective, a pass may walk through millions.
    """
    part = pool.part()
    if not len(part):
        return part.carrier_count
    some = part.members.order[:: -(-len(part) // SAMPLED)]
    chance = float(state.belief.distributions(pool, some).effective(state.group_size).mean())
    chance *= len(part) / part.carrier_count  # retired tasks are met, and passed over
    return part.carrier_count if chance * part.carrier_count < count else int(count / chance)


def draw(request: SelectRequest, run: OpenRun, state: RunState, ticket: LeaseTicket, named: NamedTasks) -> Selection:
    """Return a selection that follows from its arguments alone.

    The seed is the run's, the epoch, the seq, and the number of selections at that seq: same journal and same calls
    give the same tasks.
    """
    pool, repeatable = run.dataset.pool, run.dataset.row.facts.repeatable
    # Another replica may have leased tasks that it appended, and that this one has not heard of yet.
    leased = ticket.leased[ticket.leased < len(pool)]

    def select(count: int) -> DrawnTasks:
        asked, context = replace(request, count=count), context_of(state, seeded(state, ticket.ordinal))
        return select_tasks(state.belief, pool, asked, context, named=named, leased=leased, repeatable=repeatable)

    def expected(count: int) -> float:
        believed = state.belief.distributions(pool, select(count).tasks)
        return float(believed.effective(state.group_size).sum())

    count = request.count
    if count is None:
        part, wanted = pool.part(request.tags), request.want_effective or 1
        available = LARGEST_COUNT if repeatable else len(part) - len(part.keep(named.excluded))
        count = enough_tasks(expected, wanted, max(min(MOST_TIMES * wanted, LARGEST_COUNT, available), 1))
    drawn = select(count)
    believed = state.belief.distributions(pool, drawn.tasks)
    return Selection(
        id=write_id(run.row, Origin(state.epoch, state.step, state.seq, ticket.ordinal, drawn.walks)),
        epoch=state.epoch,
        step=state.step,
        seq=state.seq,
        degraded=ticket.degraded,
        reused=drawn.reused,
        tasks=drawn.tasks,
        draws=drawn.draws,
        means=believed.mean,
        effective=believed.effective(state.group_size),
        repeatable=repeatable,
    )


def seeded(state: RunState, *place: int) -> np.random.Generator:
    """Return random numbers of a run's selection; of one state each place has its own."""
    return np.random.default_rng([state.settings.seed, state.epoch, state.seq, *place])


def context_of(state: RunState, rng: np.random.Generator) -> DrawContext:
    """Return what strategies may look at in a run's state."""
    return DrawContext(
        settings=state.settings,
        position=state.totals.reported,
        rng=rng,
        walks=state.walks,
        group_size=state.group_size,
        step=state.step,
        mix=state.mix,
        aborts=state.aborts,
    )


def named_tasks(request: SelectRequest, dataset: OpenDataset) -> NamedTasks:
    """Return the tasks that the request names, once it is possible for this dataset.

    Raises:
        InvalidSelectionError: a tag or a task is unknown, or the count is not clear.
    """
    if (request.count is None) == (request.want_effective is None):
        flaw = Flaw(("body", "count"), "give either count or want_effective")
        raise InvalidSelectionError("invalid selection", (flaw,))
    flaws = [
        Flaw(("body", "tags", place), f"no task has the tag {tag!r}")
        for place, tag in enumerate(request.tags)
        if tag not in dataset.pool.tags
    ]
    wanted = tuple(dict.fromkeys(request.first))
    excluded, first = dataset.ids.find(request.exclude), dataset.ids.find(wanted)
    for name, ids, found in (("exclude", request.exclude, excluded), ("first", wanted, first)):
        flaws += [
            Flaw(("body", name, place), f"no task {ids[place][:80]!r}") for place in np.flatnonzero(found < 0).tolist()
        ]
    if flaws:
        raise InvalidSelectionError("invalid selection", tuple(flaws[:20]))
    return NamedTasks(united(excluded), first)


def _again(previous: tuple[str, Selection], once: IdempotencyKey) -> Selection:
    fingerprint, selection = previous
    if fingerprint != once.fingerprint:
        raise KeyReusedError(f"idempotency key {once.key!r} was already used with a different request")
    return selection
