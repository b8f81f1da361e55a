"""POST /select: which tasks should be tried next."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Tasks
from bots_service.core.pool import Pool
from bots_service.core.selection import Selected, SelectionRequest, select_tasks
from bots_service.core.state import RunState
from bots_service.core.task_sets import united
from bots_service.errors import BusyError, Flaw, InvalidSelectionError, KeyReusedError
from bots_service.ports.hot import Leases
from bots_service.ports.records import Begun, Once, OpenDataset, Selection
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.live import LiveRuns
from bots_service.usecases.open_run import OpenRun, OpenRuns
from bots_service.usecases.selection_id import Origin, write_id

ATTEMPTS = 5  # draws before giving up, where other replicas keep leasing the same tasks


@dataclass(frozen=True, slots=True)
class Wish:
    """What a trainer asks for.

    count: how many tasks.
    tags: only tasks that carry one of these; empty for all.
    quotas: tag -> how many of the tasks must carry it.
    exclude: ids of tasks that are not wanted.
    uniform_share: the share of the tasks that is chosen uniformly, in [0, 1].
    """

    dataset: str
    run: str
    count: int
    tags: tuple[str, ...] = ()
    quotas: dict[str, int] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    uniform_share: float = 0.0


@dataclass(frozen=True, slots=True)
class SelectTasks:
    """Newest state, one draw, lease, answer."""

    open_runs: OpenRuns
    catch_up: CatchUp
    leases: Leases
    live: LiveRuns

    async def __call__(self, wish: Wish, once: Once | None) -> tuple[Selection, OpenDataset, bool]:
        """Return the selection, its dataset, and whether it is the first answer to the same key, given again.

        Raises:
            UnknownDatasetError, UnknownRunError: a name is not known.
            InvalidSelectionError: a tag or an excluded task is unknown, or the quotas exceed the count.
            PoolTooSmallError: the pool has fewer such tasks.
            KeyReusedError: the key came with another request before.
        """
        run = await self.open_runs(wish.dataset, wish.run)
        excluded = check_wish(wish, run.dataset)
        # One draw of a run at a time: the second must know what the first took.
        async with self.live(run.row.id).selecting:
            state = await self.catch_up.newest(run)
            run = await self.open_runs.again(run)  # this state may know of tasks that were appended meanwhile
            begun = await self.leases.begin(run.row, seq=state.seq, key=once.key if once else None)
            if begun.previous is not None and once is not None:
                return _again(begun.previous, once), run.dataset, True
            return await self._drawn(wish, run, state, begun, excluded, once), run.dataset, False

    async def _drawn(
        self, wish: Wish, run: OpenRun, state: RunState, begun: Begun, excluded: Tasks, once: Once | None
    ) -> Selection:
        origin = Origin(state.epoch, state.step, state.seq, begun.ordinal)
        leased = begun.leased
        for _ in range(ATTEMPTS):
            selected = await asyncio.to_thread(draw, wish, state, run.dataset.pool, leased, excluded, origin)
            selection = _selection(run, state, origin, selected)
            taken = await self.leases.take(
                run.row,
                selection,
                seconds=state.settings.lease_seconds,
                key=once.key if once else None,
                fingerprint=once.fingerprint if once else "",
                reuse=selected.reused > 0,
            )
            if len(taken) == 0 or selected.reused:
                return selection
            leased = united(leased, taken)
        raise BusyError(f"other selections of run {run.row.name!r} took the same tasks {ATTEMPTS} times; try again")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw, with what is believed of each drawn task."""

    tasks: Tasks
    draws: np.ndarray
    means: np.ndarray
    evidence: np.ndarray
    reused: int


def draw(wish: Wish, state: RunState, pool: Pool, leased: Tasks, excluded: Tasks, origin: Origin) -> Drawn:
    """Return a draw that follows from its arguments alone.

    The seed is the run's, the epoch, the seq, and the number of selections at that seq: same journal and same calls
    give the same tasks.
    """
    settings = state.settings
    request = SelectionRequest(
        count=wish.count,
        tags=wish.tags,
        quotas=wish.quotas,
        exclude=excluded,
        uniform_share=wish.uniform_share,
        strategy=settings.strategy,
        target=settings.target,
        temperature=settings.temperature,
        seed=settings.seed,
    )
    rng = np.random.default_rng([settings.seed, origin.epoch, origin.seq, origin.ordinal])
    position = state.totals.reported
    selected: Selected = select_tasks(state.belief, pool, request, leased=leased, position=position, rng=rng)
    alpha, beta = state.belief.of_tasks(pool, selected.tasks)
    evidence = alpha + beta - sum(settings.prior)
    return Drawn(selected.tasks, selected.draws, alpha / (alpha + beta), evidence, selected.reused)


def _selection(run: OpenRun, state: RunState, origin: Origin, drawn: Drawn) -> Selection:
    return Selection(
        id=write_id(run.row, origin),
        epoch=state.epoch,
        step=state.step,
        seq=state.seq,
        degraded=False,
        reused=drawn.reused,
        tasks=drawn.tasks,
        draws=drawn.draws,
        means=drawn.means,
        evidence=drawn.evidence,
    )


def check_wish(wish: Wish, dataset: OpenDataset) -> Tasks:
    """Return the excluded tasks, sorted, once the wish is possible for this dataset.

    Raises:
        InvalidSelectionError: a tag or a task is unknown, or the quotas exceed the count.
    """
    known = dataset.pool.tags
    flaws = [
        Flaw(("body", "tags", place), f"no task has the tag {tag!r}")
        for place, tag in enumerate(wish.tags)
        if tag not in known
    ]
    flaws += [Flaw(("body", "quotas", tag), f"no task has the tag {tag!r}") for tag in wish.quotas if tag not in known]
    if sum(wish.quotas.values()) > wish.count:
        flaws.append(
            Flaw(("body", "quotas"), f"the quotas add up to {sum(wish.quotas.values())}, more than count {wish.count}")
        )
    excluded = dataset.ids.find(wish.exclude)
    flaws += [
        Flaw(("body", "exclude", place), f"no task {wish.exclude[place][:80]!r}")
        for place in np.flatnonzero(excluded < 0).tolist()
    ]
    if flaws:
        raise InvalidSelectionError("the selection is not possible", tuple(flaws[:20]))
    return united(excluded)


def _again(previous: tuple[str, Selection], once: Once) -> Selection:
    fingerprint, selection = previous
    if fingerprint != once.fingerprint:
        raise KeyReusedError(f"idempotency key {once.key!r} came with another request before")
    return selection
