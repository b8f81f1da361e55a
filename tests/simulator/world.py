"""One simulated cluster, all from one seed: replicas, one database, one hot store, and the promises made."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import encode_state
from bots_service.core.state import RunState
from bots_service.engine.dataset_builder import DatasetHeader
from bots_service.errors import BusyError, StorageUnavailableError
from bots_service.ports.records import RunRow, Selection, TaskBlock
from bots_service.usecases import UseCases
from bots_service.usecases.describe import RunDescription
from tests.simulator.fake_hot import Hot
from tests.simulator.fake_sql import Sql
from tests.simulator.links import Network, Process
from tests.simulator.model import Truth
from tests.simulator.replica import GoneError, Replica, owned_by
from tests.simulator.virtual_loop import VirtualLoop

POOL = "pool"
TASKS = 12
TRANSIENT = (GoneError, StorageUnavailableError, BusyError)
NEVER = float("inf")


def block(first: int, count: int) -> TaskBlock:
    """Tasks `t<number>` of a few profiles, every seventh unknown."""
    numbers = np.arange(first, first + count)
    rates = np.sort(np.stack([numbers * 7 % 5 / 4, numbers // 4 * 5 % 3 / 2], axis=1), axis=1)
    rates[numbers % 7 == 6] = np.nan
    return TaskBlock([f"t{number}" for number in numbers], rates, [()] * count)


async def stream(*blocks: TaskBlock) -> AsyncIterator[TaskBlock]:
    for one in blocks:
        yield one


async def known_state(use: UseCases, run: str) -> RunState:
    """Return all that a process knows of a run."""
    describe = use.describe_run
    return (await describe.open_runs.using(POOL, run, describe.catch_up.newest_or_known)).state


@dataclass
class Span:
    """Leases that may have ended between two moments.

    run: None for all runs.
    tasks: None for all of the run.
    is_loss: the hot store lost them, and the next select says so.
    """

    run: str | None
    tasks: set[int] | None
    begin: float
    end: float = NEVER
    is_loss: bool = False

    def touches(self, run: str, task: int, begin: float, end: float) -> bool:
        is_about = self.run in (None, run) and (self.tasks is None or task in self.tasks)
        return is_about and self.begin <= end and self.end >= begin


@dataclass
class Promises:
    """What callers were told of one run.

    floor: the greatest seq of which they know that all replicas have it.
    held: selections with the moments at which they were asked for and answered.
    made_for: selection id -> the call that it answered.
    """

    floor: int = 0
    held: list[tuple[float, float, Selection]] = field(default_factory=list)
    made_for: dict[str, str] = field(default_factory=dict)


class World:
    """The cluster at work."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = VirtualLoop()
        self.loop.owned_by = owned_by
        self.network = Network(self.loop, self.rng)
        self.sql = Sql()
        self.truth = Truth(self.sql)
        self.hot = Hot(self.loop.time, self.published, self.taken)
        every = self.rng.choice([1, 2, 3, 5, 8, 50])
        self.belief = self.rng.choice(sorted(KINDS))  # of the default run
        names = "ABC"[: self.rng.choice([2, 2, 3])]
        self.replicas = [Replica(name, self.network, self.sql, self.hot, snapshot_every=every) for name in names]
        self.promises: dict[str, Promises] = {"default": Promises()}
        self.lost: list[Span] = []  # spans in which leases may have ended
        self.changes = 0  # of the dataset
        self.retired: set[int] = set()  # tasks of which all replicas know that they are retired
        self.restored: set[int] = set()  # those that somebody asked to restore: some replicas may know of it
        self.appended: set[int] = set()  # tasks of which all replicas know that they are there
        self.ready: set[tuple[int, str, int]] = set()  # process, run, generation: what can select without SQL
        self.processes: list[Process] = []  # keeps their ids from being used again
        self.numbers = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    @property
    def now(self) -> float:
        return self.loop.now

    def of(self, run: str) -> Promises:
        return self.promises.setdefault(run, Promises())

    def a_run(self) -> str:
        return self.rng.choice(sorted(self.promises))

    def others_forget(self, run: str | None, tasks: set[int] | None = None, *, is_loss: bool = False) -> Span:
        """Note that leases may end from now on; the caller sets when that was over."""
        span = Span(run, tasks, self.now, is_loss=is_loss)
        self.lost.append(span)
        return span

    async def create(self) -> None:
        """Import the dataset before anything can go wrong."""

        async def imported(use: UseCases) -> None:
            await use.import_dataset(POOL, DatasetHeader(("weak", "strong")), stream(block(0, TASKS)), lambda: None)
            await use.put_run(POOL, "default", {"belief": self.belief}, None, None)

        await self.replicas[0].call(imported, 60)

    # --- what must always be so --------------------------------------------------------------------------------------

    def published(self, run: RunRow, state: RunState) -> None:
        self.assert_true(run.name, state)

    def assert_true(self, run: str, state: RunState) -> None:
        """A state that anybody sees is the replay of the journal up to its seq, bit for bit."""
        assert state.seq <= self.sql.runs[run].row.head, f"{run}: state {state.seq} is ahead of the journal"
        assert encode_state(state) == self.truth.blob(run, state.seq), (
            f"{run}: state {state.seq} is not a replay of its journal"
        )

    def assert_told(self, told: RunDescription) -> None:
        """What anybody is told of a run is so after the replay of the journal up to its seq."""
        run = told.row.name
        assert told.seq <= self.sql.runs[run].row.head, f"{run}: told of entry {told.seq}, which is not in the journal"
        state = self.truth.state(run, told.seq)
        assert (told.epoch, told.step, told.settings, told.pending, told.totals, told.estimates) == (
            state.epoch,
            state.step,
            state.settings,
            state.open_step.tasks,
            state.totals,
            state.belief.estimates(self.truth.pool()),
        ), f"{run}: what was told of entry {told.seq} is not so"

    def taken(self, run: RunRow, selection: Selection, leased: int, reuse: bool) -> None:
        if reuse and not self.changes:
            assert TASKS - leased < len(selection.tasks), f"{run.name}: reuses tasks while {TASKS - leased} are free"

    # --- calls -------------------------------------------------------------------------------------------------------

    async def patiently(
        self,
        what: str,
        make: Callable[[UseCases], Coroutine[Any, Any, Any]],
        *,
        attempts: int,
        selects: str | None = None,
    ) -> Any:
        """Return what some replica answers, trying others; None if nobody did in so many attempts."""
        for attempt in range(attempts):
            replica = self.rng.choice(self.replicas)
            process = replica.process
            is_ready = self._is_ready(process, selects)
            try:
                answer = await replica.call(make, self.rng.choice([0.05, 2.0, 10.0, 10.0]))
            except TRANSIENT as error:
                self.network.note(f"{what} at {replica.name}, attempt {attempt + 1}: {type(error).__name__} {error}")
                needs_sql = isinstance(error, StorageUnavailableError)
                still = is_ready and self._is_ready(replica.process, selects)
                assert not (needs_sql and still), f"{what} at {replica.name} needs SQL, although the hot store is there"
                await asyncio.sleep(self.rng.uniform(0.0, 0.5))
            else:
                self.network.note(f"{what} at {replica.name}: answered")
                if replica.process is process:  # else the answer may be from before it died
                    self._note_ready(process, selects, answer)
                return answer
        return None

    def _note_ready(self, process: Process, run: str | None, answer: Any) -> None:
        if run is not None and answer[0].id not in self.hot.local:
            self.processes.append(process)
            self.ready.add((id(process), run, self.hot.generation))

    def _is_ready(self, process: Process, run: str | None) -> bool:
        """Say whether a select of this run can be answered by what process and hot store hold, whatever SQL does."""
        has_lost = process.lost["hot"] > 0 or self.changes > 0
        return run is not None and not has_lost and (id(process), run, self.hot.generation) in self.ready
