"""Runs: select tasks, report outcomes, change and rewind; and the newest state of each.

A change of a run is folded into the newest state and stored with its receipt: by `Runs._append_next` in one guarded
statement where this process alone changes the run, else by `Runs._commit` in a transaction that locks it. So what is
acknowledged is durable and folded, and an entry that does not fold is never kept.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import structlog
from msgspec import Meta, Struct
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from bots_service.access import Caller
from bots_service.background import repeating
from bots_service.core.arrays import NO_TASKS, Tasks, united
from bots_service.core.checks import Name
from bots_service.core.codec import encode_state
from bots_service.core.draw import SelectRequest
from bots_service.core.entries import Body, Entry, Probe, Report, Rewind, SettingsChange
from bots_service.core.guard import Streak
from bots_service.core.mixing import MixShare, mix_shares
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt, Totals, added
from bots_service.core.run_settings import RunSettings, SomeSettings, settings_asked
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.summary import (
    Coverage,
    UniformEstimate,
    coverage,
    estimate_after,
    facts_of,
    findings_of,
    is_due,
    outlook,
)
from bots_service.datasets import Datasets, OpenRun
from bots_service.errors import (
    BotsError,
    BusyError,
    Flaw,
    InvalidInputError,
    InvalidSettingsError,
    InvalidTasksError,
    RunHasHistoryError,
    StaleEpochError,
    StorageUnavailableError,
    UnknownRunError,
    UnknownStepError,
)
from bots_service.metrics import TrainingMetrics
from bots_service.outcomes import ReportRequest, read_report
from bots_service.records import DatasetRow, Head, IdempotencyKey, LeaseTtls, OpenDataset, Parent, RunRow, Selection
from bots_service.replay import SMALL_STATE_NUMBERS, Replay, largest_task
from bots_service.selections import drawn, named_tasks
from bots_service.storage.live import BEGIN, KeptState, Live, Look, Previous, newly_leased, version_of
from bots_service.storage.sql.journal import (
    FoldedEntry,
    append,
    calibrations_of,
    entries_between,
    estimate_at,
    locked_head,
    receipt_under,
)
from bots_service.storage.sql.runs import Fork
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sql.tables import calibration_in

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

KEPT_ROWS = 65_536  # about 30 MB
STATE_BYTES = 4096  # of a state without its arrays, about
# Outcomes of changes that are folded together in the event loop: some 8 ms. In a thread they take far longer while
# others want the interpreter's lock.
QUICK_OUTCOMES = 2048
SIZED_EVERY = 1024  # reported groups between two looks at a state's size; they take some 100 kB
CHANGES_AT_ONCE = 64  # of a run in one transaction; more would make the first wait long for the last
TAIL = 100  # entries of other replicas that are folded inside a transaction; with more they are folded before it
ALONE = 4  # times that a process appends to a run in a row before it folds ahead, lest replicas fold in vain
KEEP_EVERY = 32  # entries between two states that are kept for other replicas
ATTEMPTS = 10  # at a change; each fails only if another replica changed the run or its dataset within milliseconds
# A selection is drawn again for this long and this often where other replicas change the run. Then it is leased in this
# process alone. Clients give up after 10 s by default, some after 5 s.
PATIENCE_S, LEAST_ATTEMPTS = 2.0, 3
PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.03  # longer each time, so that replicas that collide draw apart
FOLLOW_EVERY_S, FOLLOW_ALL_EVERY_S = 1.0, 60.0
BATCH = 500  # rows looked through at once where most may belong to others
CALIBRATED = 200  # steps whose predictions are compared with what came
LONGEST_REASON = 300  # characters of why a report was refused; a longer one is cut


def _groups(state: RunState) -> int:
    return state.totals.reported + len(state.open_step.evidence) + len(state.unfinished)


class OwnEntry(NamedTuple):
    """The last entry of a run, which this process appended.

    uniform: the estimate of uniform sampling after it; key: its idempotency key; at: when it was appended.
    alone: how many times in a row this process appended without finding another's entry in between.
    """

    uniform: UniformEstimate
    key: IdempotencyKey | None
    at: float
    alone: int


class StateCache:
    """The newest known states of runs, within a number of bytes; the least recently used are evicted."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        # With their bytes, and what this process appended last, unless another one came in between.
        self._states: OrderedDict[tuple[int, str], tuple[RunState, int, OwnEntry | None]] = OrderedDict()

    def get(self, run: RunRow) -> RunState | None:
        known = self._states.get((run.id, run.uid))
        if known is None:
            return None
        self._states.move_to_end((run.id, run.uid))
        return known[0]

    def own(self, run: RunRow) -> OwnEntry | None:
        """Return the last entry that leads to the newest state, if this process appended it."""
        return self._states.get((run.id, run.uid), (None, 0, None))[2]

    def keep(self, run: RunRow, state: RunState, own: OwnEntry | None = None) -> None:
        """Keep a state that was committed, unless a newer one is known. own: the last entry, as `own` returns it."""
        known, size, _ = self._states.get((run.id, run.uid), (None, 0, None))
        if known is not None and version_of(known) >= version_of(state):
            return
        self.drop(run)
        if known is None or _groups(known) // SIZED_EVERY != _groups(state) // SIZED_EVERY:  # else it has hardly grown
            size = STATE_BYTES + state.nbytes
        self._states[run.id, run.uid] = state, size, own
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._states) > 1:
            _, (_, size, _) = self._states.popitem(last=False)
            self._bytes -= size

    def drop(self, run: RunRow) -> None:
        _, size, _ = self._states.pop((run.id, run.uid), (None, 0, None))
        self._bytes -= size


Make = Callable[[OpenRun, RunState], Body]
"""Returns an entry's body, given the run as it stands and its newest state; or raises why the change can't be."""


class Committed(NamedTuple):
    """A change that was made.

    receipt: what folding its entry did.
    duplicate: the same request had made it before.
    state: after it, and after others that were committed with it.
    degraded: other replicas may not see it yet.
    """

    receipt: Receipt
    duplicate: bool
    state: RunState
    degraded: bool


@dataclass(slots=True, eq=False)
class _Change:
    """A change that waits for its transaction. base: the state that it goes back to; outcomes: how many it reports."""

    make: Make
    key: IdempotencyKey | None
    base: RunState | None
    outcomes: int
    done: asyncio.Future[Committed]

    def fail(self, error: Exception) -> None:
        self.done.set_exception(error)
        self.done.exception()  # its caller may have stopped waiting


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Work:
    """What is under way with a run in this process.

    selecting: lock around each draw, so that the second knows what the first took; selects: how many draw or wait.
    look: what the one before left to the next, so that those who wait together look once.
    folding: lock around the fold of other replicas' entries.
    waiting: changes for the next transaction; writer: commits them, one transaction after another.
    """

    selecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    selects: int = 0
    look: Look | None = None
    folding: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Change] = field(default_factory=list)
    writer: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def in_line(self) -> AsyncIterator[None]:
        self.selects += 1
        try:
            async with self.selecting:
                yield
        finally:
            self.selects -= 1


class _OutdatedError(Exception):
    """Other replicas changed the dataset, or appended more than a transaction should fold."""


class ForkFrom(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run starts: another run, at a step that closed there.

    step: the step of the other run; left out, the last that closed.
    """

    run: Name
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class Run(Struct, frozen=True):
    """The present state of a run.

    settings: those in use; left out are those that its kind of belief doesn't have: see docs/api.md.
    estimates: what the belief estimates about the model in training, by name; empty if nothing is known yet. The first
        tells where the model stands: `capability` with the belief `bots`, `ability` with `tracker` (docs/tracker.md
        explains all of its estimates).
    uniform_effective_task_ratio: what the belief expects uniform sampling to have now; null where all tasks are
        retired.
    rollouts_per_task: in use: the setting, or learned from what was reported; null before the first report.
    pending: tasks with evidence in the open step.
    unfinished_groups: groups of rollouts that were reported in part; each counts when it is whole.
    aborting_tasks: tasks that were aborted three times in a row or more. They rest, and are tried again now and then.
    leased: tasks in flight.
    degraded: the shared store is unreachable, so other replicas may know a newer state and more tasks in flight.
    totals: sums over all closed steps; tokens and seconds as far as outcomes say what they cost.
    coverage: how the visits spread over the pool; a visit is a step that reported the task.
    mix: the tags of the run's mix, by name; empty without one.
    forked_from: the run that it continues; null if none.
    alarms: those of the verifier guard that stand, the whole run's first.
    """

    dataset: str
    run: str
    settings: SomeSettings
    epoch: int
    step: int
    seq: int
    estimates: dict[str, float]
    uniform_effective_task_ratio: float | None
    rollouts_per_task: float | None
    pending: int
    unfinished_groups: int
    aborting_tasks: int
    leased: int
    degraded: bool
    totals: Totals
    coverage: Coverage
    mix: tuple[MixShare, ...]
    forked_from: Parent | None
    created_at: datetime
    alarms: tuple[Streak, ...]

    @classmethod
    def of(cls, run: OpenRun, state: RunState, *, leased: int, degraded: bool) -> Self:
        row, pool = run.row, run.dataset.pool
        return cls(
            dataset=run.dataset.row.name,
            run=row.name,
            settings=state.settings.in_use(),
            epoch=state.epoch,
            step=state.step,
            seq=state.seq,
            estimates=state.belief.estimates(pool),
            uniform_effective_task_ratio=outlook(state, pool).ratio,
            rollouts_per_task=state.rollouts_per_task,
            pending=state.open_step.tasks,
            unfinished_groups=state.unfinished.groups,
            aborting_tasks=len(state.aborts.always_aborted),
            leased=leased,
            degraded=degraded,
            totals=state.totals,
            coverage=coverage(state, pool),
            mix=mix_shares(state.settings.mix, state.mix),
            forked_from=row.parent,
            created_at=datetime.fromtimestamp(row.created_at, UTC),
            alarms=state.guard.alarms,
        )


class Runs:
    """All that can be done with runs.

    Names that are not known, and a run that was deleted or replaced meanwhile, raise UnknownDatasetError or
    UnknownRunError; a step that the present history has not, UnknownStepError; an idempotency key
    that came with another request before, KeyReusedError; BusyError comes where others change the same again and again.
    """

    def __init__(
        self,
        store: SqlStores,
        datasets: Datasets,
        live: Live,
        replay: Replay,
        metrics: TrainingMetrics,
        *,
        cache_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Know no run yet. cache_bytes: memory limit of states; clock: seconds since 1970, UTC."""
        self.store, self.datasets, self.live, self.replay = store, datasets, live, replay
        self.metrics, self.states, self._clock = metrics, StateCache(cache_bytes), clock
        self._rows: OrderedDict[tuple[int, str], RunRow] = OrderedDict()
        self._used: set[tuple[str, str]] = set()  # since they were followed: dataset and run
        self._invalidations, self._all_followed = 0, 0.0
        self._work: WeakValueDictionary[tuple[int, str], _Work] = WeakValueDictionary()  # while a caller holds it

    # --- select ------------------------------------------------------------------------------------------------------

    async def select(self, request: SelectRequest, once: IdempotencyKey | None) -> tuple[Selection, OpenDataset, bool]:
        """Choose tasks from the newest state, and lease them.

        Returns:
            The selection, its dataset, and whether it is the first answer to the same key, given again.

        Raises InvalidSelectionError: a tag or a task is unknown, or the count is not clear; PoolTooSmallError: the pool
        has fewer such tasks.
        """
        selection, dataset, again = await self.using(
            request.dataset, request.run, lambda run: self._select(run, request, once)
        )
        return selection, dataset, again

    async def _select(
        self, run: OpenRun, request: SelectRequest, once: IdempotencyKey | None
    ) -> tuple[Selection, OpenDataset, bool]:
        work, attempts, pause_s, is_current = self._work_of(run.row), 0, 0.0, self.live.is_exact
        give_up = asyncio.get_running_loop().time() + PATIENCE_S
        async with work.in_line():
            while True:
                run, state, look = await self._looked(run, None if once is None else once.key, work)
                if attempts >= LEAST_ATTEMPTS and asyncio.get_running_loop().time() > give_up:
                    # Two jobs may then train on one task; that costs less than a job that waits.
                    look = replace(look, local=True, degraded=True)
                if look.previous is not None and once is not None:
                    return (*await self._again(run, look.previous, once), True)
                try:
                    named = named_tasks(request, run.dataset)
                    within = run if request.subset is None else await self.datasets.within(run, request.subset)
                    with self.metrics.draw_seconds.time():
                        selection = await drawn(request, within, state, look, named)
                except InvalidInputError:
                    if is_current:
                        raise
                    run, is_current = await self.datasets.current(run), True  # another replica may have changed it
                    continue
                leased = await self.live.lease(run.row, selection, look, once, lease_s=state.settings.lease_seconds)
                if isinstance(leased, Previous) and once is not None:
                    return (*await self._again(run, leased, once), True)
                if leased is True:
                    work.look = look.after(selection)
                    if run.row.finished_seq == state.seq:
                        await self._resume(run)
                    in_flight = len(look.leased) + len(newly_leased(selection, look))
                    self.metrics.selected(request.dataset, request.run, in_flight, degraded=selection.degraded)
                    return selection, run.dataset, False
                attempts += 1
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s + PAUSE_S, LONGEST_PAUSE_S)

    async def _looked(self, run: OpenRun, key: str | None, work: _Work) -> tuple[OpenRun, RunState, Look]:
        """Return the run with its newest dataset, its newest state, and what a selection from it is drawn with.

        An older belief is better than a job that waits: where SQL is away, the newest state in this process will do.
        """

        def is_newest(look: Look) -> bool:
            return (look.head, look.dataset_version) == (version_of(known), run.dataset.row.version)

        known = self.states.get(run.row) or await self.state_of(run)
        left, work.look = work.look, None
        if left is not None and is_newest(left):
            return await self.datasets.matching(run, known), known, left
        for _ in range(LEAST_ATTEMPTS):
            look = await self.live.look(
                run.row, version_of(known), key, lease_s=known.settings.lease_seconds, selects=work.selects
            )
            if self.live.is_exact or is_newest(look):
                break
            # The store knows other versions, or none: SQL decides.
            try:
                known = await self.state_of(run)
                run = await self.datasets.matching(run, known)
            except StorageUnavailableError:
                look = replace(look, local=True, degraded=True)
                break
            if look.local or is_newest(look):
                break
            if look.head is not None and look.head > version_of(known):
                await self.live.delete(run.row)  # the database was restored to an earlier time
            await self.live.dataset_changed(run.row.dataset_id, run.dataset.row.version)
            await self.live.moved(run.row, version_of(known))
        else:
            look = replace(look, local=True, degraded=True)
        return await self.datasets.matching(run, known), known, look

    async def _resume(self, run: OpenRun) -> None:
        """Note that a finished run trains again; where SQL is away, its next report says so."""
        with suppress(StorageUnavailableError):
            await self.store.runs.resume(run.row)
            self.invalidate(run.row.dataset_id, run.row.name)

    async def _again(self, run: OpenRun, previous: Previous, once: IdempotencyKey) -> tuple[Selection, OpenDataset]:
        once.require_same(previous.fingerprint)
        selection = previous.selection
        if selection.tasks.max(initial=-1) >= len(run.dataset.ids):  # of tasks that another replica appended
            run = await self.datasets.current(run)
        return selection, run.dataset

    # --- report and other changes ------------------------------------------------------------------------------------

    async def report(self, request: ReportRequest, key: IdempotencyKey | None) -> Committed:
        """Record what rollouts showed; once this returns, it is durable and folded.

        Raises InvalidOutcomesError: an outcome can't be true; InvalidSelectionError: the selection was not made by this
        run; StaleEpochError: the selection was made before the run was rewound.
        """
        now = self._clock()

        def make(run: OpenRun, state: RunState) -> Report:
            return read_report(request, run, state, now)

        try:
            record = partial(self._append, make=make, key=key, outcomes=len(request.outcomes))
            done = await self.using(request.dataset, request.run, record)
        except StaleEpochError:
            self.metrics.fenced(request.dataset, request.run)
            raise
        self.metrics.reported(
            request.dataset, request.run, done.receipt, duplicate=done.duplicate, degraded=done.degraded
        )
        return done

    async def change_settings(
        self, dataset: str, run: str, values: dict[str, Any], key: IdempotencyKey | None
    ) -> tuple[Run, bool]:
        """Change some settings; the others stay.

        Returns:
            The run as it stands now, and whether the same request had changed it before.

        Raises InvalidSettingsError: a setting is out of range, the mix names a tag that no task carries, or belief or
        prior would change.
        """

        def make(opened: OpenRun, state: RunState) -> SettingsChange:
            settings = settings_asked(values, base=state.settings)
            if "mix" in values:
                require_known_tags(settings, opened.dataset.pool)
            return SettingsChange(values)

        return await self.using(dataset, run, lambda opened: self._changed(opened, make, key))

    async def put_probe(
        self, dataset: str, run: str, values: dict[str, float], key: IdempotencyKey | None
    ) -> tuple[Run, bool]:
        """Put what a probe says of tasks, by id, in place of all that one said before.

        values: finite; not all of them equal.

        Returns:
            The run as it stands now, and whether the same request had put it before.

        Raises InvalidTasksError: a task is unknown, or all values are equal; InvalidSettingsError: the run's kind of
        belief makes no use of a probe.
        """

        def make(opened: OpenRun, state: RunState) -> Probe:  # noqa: ARG001 - others need the state
            ids, numbers = list(values), np.array(list(values.values()))
            tasks = opened.dataset.ids.find(ids)
            unknown = (
                Flaw(("values", ids[place][:80]), "no such task") for place in np.flatnonzero(tasks < 0).tolist()
            )
            InvalidTasksError.refuse(f"dataset {dataset!r} has no such tasks", unknown)
            if (numbers == numbers[0]).all():
                raise InvalidTasksError("all values are equal, so they tell no task from another")
            return Probe.of(tasks, numbers)

        return await self.using(dataset, run, lambda opened: self._changed(opened, make, key, outcomes=len(values)))

    async def rewind(self, dataset: str, run: str, step: int, key: IdempotencyKey | None) -> tuple[Run, bool]:
        """Go back to an earlier step. History stays; the epoch rises, so evidence from before is refused.

        Returns:
            The run as it stands now, and whether the same request had taken it back before.
        """
        return await self.using(dataset, run, lambda opened: self._rewind(opened, step, key))

    async def _rewind(self, run: OpenRun, step: int, key: IdempotencyKey | None) -> tuple[Run, bool]:
        attempts = 0
        while True:
            if key is not None:
                under = partial(receipt_under, run=run.row, key=key)
                if await self.store.database.read(under) is not None:
                    return await self.describe_open(run), True
            state = await self.state_of(run)
            seq = await self._closing(run, step, state)
            base = await self.replay.state_at(run, seq)

            def make(opened: OpenRun, newest: RunState, *, epoch: int = state.epoch, seq: int = seq) -> Rewind:
                if newest.epoch != epoch:
                    raise BusyError(f"run {opened.row.name!r} was rewound by another request at the same time")
                return Rewind(seq, step)

            try:
                # Nobody draws here meanwhile; what other replicas drew from an older state is refused.
                async with self._work_of(run.row).selecting:
                    return await self._changed(run, make, key, base=base)
            except BusyError:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise

    async def _changed(
        self, run: OpenRun, make: Make, key: IdempotencyKey | None, *, base: RunState | None = None, outcomes: int = 0
    ) -> tuple[Run, bool]:
        done = await self._append(run, make, key, base=base, outcomes=outcomes)
        return await self.describe_open(run), done.duplicate

    async def evaluate(
        self, dataset: str, run: str, step: int | None, values: Mapping[str, float], key: IdempotencyKey | None
    ) -> None:
        """Keep what was measured at a step, None for the last closed one, in place of what is there of these names."""
        evaluate = self.store.runs.evaluate
        await self.using(dataset, run, lambda opened: evaluate(key, opened.row, step, values))

    async def finish(self, dataset: str, run: str, key: IdempotencyKey | None) -> None:
        """Note that training ended; the next selection or report takes that back."""

        async def finish(opened: OpenRun) -> None:
            await self.store.runs.finish(key, opened.row)
            self.invalidate(opened.row.dataset_id, run)  # so that a selection here knows it

        await self.using(dataset, run, finish)

    async def _append(
        self, run: OpenRun, make: Make, key: IdempotencyKey | None, *, base: RunState | None = None, outcomes: int = 0
    ) -> Committed:
        """Append an entry; what was begun is done to the end even if the caller stops waiting.

        key: the request's; the entry that was appended under it before is the result.
        base: the state that a rewind goes back to; outcomes: how many the entry brings.
        """
        work = self._work_of(run.row)
        change = _Change(make, key, base, outcomes, asyncio.get_running_loop().create_future())
        work.waiting.append(change)
        if work.writer is None or work.writer.done():
            # Not in the request's context: it outlives the request.
            work.writer = asyncio.create_task(self._write(run, work), context=Context())
        return await asyncio.shield(change.done)

    async def _write(self, run: OpenRun, work: _Work) -> None:
        while work.waiting:
            batch, work.waiting = work.waiting[:CHANGES_AT_ONCE], work.waiting[CHANGES_AT_ONCE:]
            try:
                batch = batch[await self._append_next(run, batch) :]  # those before are settled, whatever comes
                if batch:
                    await self._commit(run, batch)
            except Exception as error:
                if self.live.is_exact:  # otherwise SQL is asked before a state is believed
                    self.states.drop(run.row)  # what was committed of it, if anything, is not known
                for change in batch:
                    change.fail(error if len(batch) == 1 else copy(error))  # one raised twice tangles its traceback

    async def _append_next(self, run: OpenRun, batch: list[_Change]) -> int:
        """Fold changes and append them, unless other processes change the run; return how many: the first so many.

        Where this process alone changes a run, that is all of them but those that are refused, that were made before,
        that go back to another state, or that raise an alarm.
        """
        before, own = self.states.get(run.row), self.states.own(run.row)
        if before is None or own is None or (own.alone < ALONE and not self.live.is_exact):
            return 0
        run, now = await self.datasets.matching(run, before), self._clock()
        outcomes, shown = sum(each.outcomes for each in batch), b""
        is_quick = outcomes <= QUICK_OUTCOMES and before.fold_numbers <= SMALL_STATE_NUMBERS
        if any(map(is_due, range(before.step, before.step + len(batch)))):
            earlier = partial(calibrations_of, run_id=run.row.id, after_step=before.step - CALIBRATED)
            shown = await self.store.database.read(earlier)
        fold = partial(self._folded_ahead, run, before, own.uniform, batch, shown)
        made = fold() if is_quick else await asyncio.to_thread(fold)
        folded = [one for _, one in made]
        stored = await self.store.journal.append_next(run.row, folded, (own.key, own.at), now) if made else 0
        if stored:
            folded, state = folded[:stored], made[stored - 1][0]
            self.states.keep(run.row, state, OwnEntry(folded[-1].uniform, folded[-1].key, now, own.alone + 1))
            receipts = [(one.receipt, False) for one in folded]
            await self._settle(run, before, state, batch[:stored], receipts, folded, now)
        return stored

    def _folded_ahead(
        self, run: OpenRun, state: RunState, uniform: UniformEstimate, batch: list[_Change], shown: bytes
    ) -> list[tuple[RunState, FoldedEntry]]:
        """Return the states and entries of as many changes as fold without another look at SQL.

        shown: calibrations of the steps before, where it is time to look at the run.
        """
        made: list[tuple[RunState, FoldedEntry]] = []
        for change in batch:
            if change.key is None or change.base is not None:
                break
            try:
                with self.metrics.fold_seconds.time():
                    after, one = _folded(run, state, change)
            except Exception:  # it is judged again, from what SQL says
                break
            if after.guard.alarms != state.guard.alarms:
                break
            one = self._looked_at(run, uniform, state, after, one, lambda: shown, [one for _, one in made])
            state, uniform = after, one.uniform
            made.append((state, one))
        return made

    async def _commit(self, run: OpenRun, batch: list[_Change]) -> None:
        for _ in range(ATTEMPTS):
            before = self.states.get(run.row) or await self.state_of(run)
            run = await self.datasets.matching(run, before)
            now = self._clock()
            try:
                write = partial(self._fold, run, before, batch, now)
                state, outcomes, folded = await self.store.database.write(write)
                break
            except _OutdatedError:
                run = await self.datasets.current(run)
                await self.state_of(run)
        else:
            raise BusyError(f"run {run.row.name!r} is changed by others all the time; try again")
        last, own = self.states.own(run.row), None
        if folded:
            alone = 0 if last is None or folded[0].entry.seq > before.seq + 1 else last.alone + 1
            own = OwnEntry(folded[-1].uniform, folded[-1].key, now, alone)
        self.states.keep(run.row, state, own)
        await self._settle(run, before, state, batch, outcomes, folded, now)

    async def _settle(
        self,
        run: OpenRun,
        before: RunState,
        state: RunState,
        batch: list[_Change],
        outcomes: Sequence[tuple[Receipt, bool] | Exception],
        folded: list[FoldedEntry],
        now: float,
    ) -> None:
        """Tell the live store and the callers what was committed.

        before, state: before and after it; outcomes: as `_fold` returns them; folded: what was stored.
        """
        degraded, leased = not self.live.is_exact and not self.live.is_shared, None
        if folded:
            if folded[0].entry.seq == 1:
                await self.live.moved(run.row, BEGIN, begins=True)
            done = [_done(one.entry.body, state) for one in folded]
            kept = KeptState(state, now) if before.seq // KEEP_EVERY != state.seq // KEEP_EVERY else None
            leased = await self.live.moved(run.row, version_of(state), done=united(*done), kept=kept)
            degraded = leased is None
            if state.epoch != before.epoch:
                # Before the answer: other replicas go on from the snapshot, for folding a rewind takes long.
                await self.replay.save_if_due(run.row, before, state)
        for change, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                change.fail(outcome)
            else:
                change.done.set_result(Committed(*outcome, state, degraded))
        if folded:
            findings = next((one.findings for one in reversed(folded) if one.findings is not None), None)
            self.metrics.moved(run.dataset.row.name, run.row.name, state, folded[-1].uniform, findings, leased)
        if state.epoch == before.epoch:
            await self.replay.save_if_due(run.row, before, state)

    def _fold(
        self, run: OpenRun, state: RunState, batch: list[_Change], now: float, connection: Connection
    ) -> tuple[RunState, list[tuple[Receipt, bool] | Exception], list[FoldedEntry]]:
        """Fold changes into the newest state and store them; in a transaction, in a thread.

        Returns:
            The state; of each change its receipt and whether it is a duplicate, or why it was refused; and what was
            stored.

        Raises _OutdatedError: the dataset is not the newest, or the state is too old.
        """
        row, pool = run.row, run.dataset.pool
        head, known = locked_head(connection, row, [one.key.key for one in batch if one.key is not None])
        uniform = head.uniform
        if head.dataset_version != run.dataset.row.version or state.seq < head.seq - TAIL:
            raise _OutdatedError
        for entry in entries_between(connection, row.id, state.seq, head.seq, TAIL) if head.seq > state.seq else ():
            is_rewind = isinstance(entry.body, Rewind)
            if is_rewind or entry.profiles > pool.profiles or largest_task(entry) >= len(pool):
                raise _OutdatedError
            state, _ = advance(state, entry, pool)
        if state.seq != head.seq:
            raise _OutdatedError
        outcomes: list[tuple[Receipt, bool] | Exception] = []
        folded: list[FoldedEntry] = []
        shown = cache(partial(calibrations_of, connection, row.id, state.step - CALIBRATED))
        for change in batch:
            try:
                first = self._first(connection, row, change.key, known, folded)
                if first is None:
                    with self.metrics.fold_seconds.time():
                        after, one = _folded(run, state, change)
                    if isinstance(one.entry.body, Rewind):
                        uniform = estimate_at(connection, row.id, one.entry.body.to_seq)
                    one = self._looked_at(run, uniform, state, after, one, shown, folded)
                    state, uniform = after, one.uniform
                    folded.append(one)
                outcomes.append((folded[-1].receipt, False) if first is None else (first, True))
            except SQLAlchemyError:  # concerns the whole transaction
                raise
            except Exception as error:
                outcomes.append(error)
        append(connection, row.id, folded, now)
        return state, outcomes, folded

    @staticmethod
    def _looked_at(
        run: OpenRun,
        uniform: UniformEstimate,
        before: RunState,
        after: RunState,
        entry: FoldedEntry,
        shown: Callable[[], bytes],
        earlier: list[FoldedEntry],
    ) -> FoldedEntry:
        """Return an entry with what it says of uniform sampling and against the run, where it is time to look.

        A defect here costs what people would see, and no report.
        uniform: after the entry before. shown: calibrations of the last steps that are stored. earlier: entries that
            are stored with this one.
        """
        pool, findings = run.dataset.pool, None
        try:
            uniform = estimate_after(uniform, before, entry.receipt, pool)
            if entry.receipt.closed and (is_due(before.step) or after.guard.alarms != before.guard.alarms):
                new = [one.receipt.calibration for one in (*earlier, entry) if one.receipt.calibration is not None]
                expected = uniform if uniform.distribution else outlook(before, pool)
                findings = findings_of(facts_of(after, pool, added([calibration_in(shown()), *new]), expected))
        except SQLAlchemyError:
            raise
        except Exception:
            log.exception("run_not_looked_at", run=run.row.name, seq=entry.entry.seq)
        return entry._replace(uniform=uniform, findings=findings)

    @staticmethod
    def _first(
        connection: Connection, run: RunRow, key: IdempotencyKey | None, known: set[str], folded: list[FoldedEntry]
    ) -> Receipt | None:
        """Return the receipt of the entry that has the key already, in SQL or in this transaction."""
        if key is None:
            return None
        for one in folded:
            if one.key is not None and one.key.key == key.key:
                key.require_same(one.key.fingerprint)
                return one.receipt
        return receipt_under(connection, run, key) if key.key in known else None

    # --- states ------------------------------------------------------------------------------------------------------

    async def state_of(self, run: OpenRun) -> RunState:
        known = self.states.get(run.row)
        if known is not None and self.live.is_exact:
            return known
        head = await self.store.journal.head(run.row)
        self.datasets.invalidate_older(run.dataset.row, head.dataset_version)
        return await self._caught_up(run, head)

    async def newest_or_known(self, run: OpenRun) -> tuple[RunState, bool]:
        """Return the newest state, or while SQL is away an older one of this process; and whether it may be older."""
        try:
            return await self.state_of(run), False
        except StorageUnavailableError:
            known = self.states.get(run.row)
            if known is None:
                raise
            return known, True

    async def _closing(self, run: OpenRun, step: int, newest: RunState) -> int:
        """Return the seq of the entry that closed `step` in the run's present history."""
        seq = await self.store.history.closing(run.row, step)
        if seq is None:
            began = f"it began with step {run.row.origin_step} and is at step {newest.step}"
            raise UnknownStepError(f"run {run.row.name!r} has no step {step} in its current history; {began}")
        return seq

    async def _caught_up(self, run: OpenRun, head: Head) -> RunState:
        """Return a state up to the head, folding what this process lacks."""
        async with self._work_of(run.row).folding:
            state = self.states.get(run.row)
            if state is not None and version_of(state) > (head.epoch, head.seq):
                # Entries may have come since the head was read. Otherwise the database was restored to an earlier time.
                head = await self.store.journal.head(run.row)
                if version_of(state) > (head.epoch, head.seq):
                    self.states.drop(run.row)
                    state = None
            if state is None or head.seq - state.seq > KEEP_EVERY or state.epoch != head.epoch:
                state = await self.replay.nearest(run, head, state, await self.live.state(run.row))
            if state.seq < head.seq:
                state = await self.replay.to(run, state, head.seq)
            self.states.keep(run.row, state)
            return state

    def _work_of(self, run: RunRow) -> _Work:
        work = self._work.get((run.id, run.uid))
        if work is None:
            work = self._work[run.id, run.uid] = _Work()
        return work

    # --- open runs ---------------------------------------------------------------------------------------------------

    async def open(self, dataset_name: str, run_name: str) -> OpenRun:
        """Return the run as this process knows it; another replica may have changed, replaced or deleted it."""
        dataset = await self.datasets.open(dataset_name)
        key = (dataset.row.id, run_name)
        while key not in self._rows:
            invalidations = self._invalidations
            row = replace(await self.store.runs.get(*key), evaluations={})  # only the overview reads them
            if invalidations == self._invalidations:  # otherwise read again: a run was deleted or replaced meanwhile
                self._rows[key] = row
                if len(self._rows) > KEPT_ROWS:
                    self._rows.popitem(last=False)
        self._used.add((dataset_name, run_name))
        return self.datasets.of(dataset, self._rows[key])

    async def fresh(self, dataset_name: str, run_name: str) -> OpenRun:
        dataset = await self.datasets.fresh(dataset_name)
        return self.datasets.of(dataset, await self.store.runs.get(dataset.row.id, run_name))

    async def using(self, dataset_name: str, run_name: str, work: Callable[[OpenRun], Awaitable[Result]]) -> Result:
        """Return the result of `work` on the run; repeat it if another replica replaced the run or its dataset."""
        run = None
        try:
            run = await self.open(dataset_name, run_name)
            return await work(run)
        except UnknownRunError:
            dataset = await self.datasets.fresh(dataset_name)
            self.invalidate(dataset.row.id if run is None else run.row.dataset_id, run_name)
            again = await self.open(dataset_name, run_name)
            if run is not None and (again.row.id, again.row.uid) == (run.row.id, run.row.uid):
                raise
            return await work(again)

    def invalidate(self, dataset_id: int, run_name: str) -> None:
        """Forget a run's row, because it was deleted or replaced."""
        self._rows.pop((dataset_id, run_name), None)
        self._invalidations += 1

    def follow_replicas(self) -> AbstractAsyncContextManager[None]:
        """Compare the runs in use with SQL in the background, for changes that the live store could not tell of."""
        every_s = FOLLOW_EVERY_S if self.live.is_shared else FOLLOW_ALL_EVERY_S
        return repeating(self.follow_once, every_s=every_s, failure_event="replicas_not_followed")

    async def follow_once(self) -> None:
        """Tell where the runs stand that were used since the last call, and once a minute all that have metrics."""
        used, self._used = self._used, set()
        if abs(self._clock() - self._all_followed) >= FOLLOW_ALL_EVERY_S:
            used, self._all_followed = used | self.metrics.runs.names(), self._clock()
        known = [(dataset, run) for name, run in used if (dataset := self.datasets.known(name)) is not None]
        runs = [(dataset, row) for dataset, run in known if (row := self._rows.get((dataset.row.id, run))) is not None]
        heads = await self.store.journal.heads([row.id for _, row in runs]) if runs else {}
        for dataset, row in runs:
            try:
                await self._follow(dataset, row, heads.get(row.id))
            except BotsError as error:  # affects this run only: it was just deleted, or its journal is damaged
                log.warning("run_not_followed", run=row.name, reason=str(error))

    async def _follow(self, dataset: OpenDataset, row: RunRow, head: Head | None) -> None:
        if head is None or head.uid != row.uid:
            self.invalidate(row.dataset_id, row.name)
            self.metrics.runs.forget(dataset.row.name, row.name)
            return
        self.datasets.invalidate_older(dataset.row, head.dataset_version)
        known = self.states.get(row)
        if known is None or known.seq < head.seq:
            run = self.datasets.of(await self.datasets.open(dataset.row.name), row)
            known = await self._caught_up(run, head)
        leased = await self.live.moved(row, version_of(known))
        if (dataset.row.name, row.name) in self.metrics.runs.names():
            self.metrics.moved(dataset.row.name, row.name, known, head.uniform, None, leased)

    # --- create, describe, delete ------------------------------------------------------------------------------------

    async def put(
        self, dataset: str, name: str, values: dict[str, Any], origin: ForkFrom | None, key: IdempotencyKey | None
    ) -> tuple[Run, bool]:
        """Create a run, on its own or as a fork; or replace the settings of one whose journal is empty.

        values: settings that differ from the defaults, or from those of the run that it forks.

        Returns:
            The run, and whether it is new.

        Raises InvalidSettingsError: a setting is out of range, or can't be with this origin; RunHasHistoryError: the
        run's journal is not empty, and its settings are others.
        """
        opened = await self.datasets.fresh(dataset)
        state, start = await self._begun(opened, origin, values)
        require_known_tags(state.settings, opened.pool)

        def result_of(row: RunRow, before: RunRow | None) -> tuple[Run, bool]:
            return Run.of(OpenRun(opened, row), state, leased=0, degraded=False), before is None

        async def write() -> tuple[RunRow, RunRow | None]:
            row, before = await self.store.runs.put(
                opened.row.id,
                name,
                state.settings if start is None else start.source.settings,
                fork=start,
                idempotency_key=key,
                result_of=result_of,
            )
            self.invalidate(opened.row.id, name)
            if before != row:
                if before is not None:  # replicas must not continue with the run that was replaced
                    await self.live.delete(before)
                await self.live.moved(row, BEGIN, begins=True)
            return row, before

        try:
            # To the end even if the caller stops waiting, or what is replaced would stay in memory.
            row, before = await asyncio.shield(write())
        except RunHasHistoryError:
            standing = await self.describe(dataset, name)
            if start is not None or standing.settings != state.settings.in_use():
                raise
        else:
            if before != row:
                return result_of(row, before)
            standing = await self.describe(dataset, name)
        return await self.store.answers.keep(key, (standing, False))

    async def _begun(
        self, opened: OpenDataset, origin: ForkFrom | None, values: dict[str, Any]
    ) -> tuple[RunState, Fork | None]:
        if origin is None:
            return fresh_state(settings_asked(values), opened.pool), None
        run = await self.open(opened.row.name, origin.run)
        base = await self.state_of(run)
        if origin.step is not None:
            base = await self.replay.state_at(run, await self._closing(run, origin.step, base))
        settings_asked(values, base=base.settings)
        uniform = await self.store.database.read(lambda connection: estimate_at(connection, run.row.id, base.seq))
        bodies: list[Body] = [Rewind(base.seq, base.step)]
        if values:
            bodies.append(SettingsChange(values))
        state, folded = base, list[FoldedEntry]()
        for body in bodies:
            entry = Entry(state.seq + 1, base.epoch + 1, opened.pool.profiles, body)
            state, receipt = advance(state, entry, opened.pool, base=base)
            folded.append(FoldedEntry(entry, receipt, uniform=uniform))
        blob = await asyncio.to_thread(encode_state, state)
        return state, Fork(run.row, base.step, folded, blob)

    async def describe(self, dataset: str, run: str) -> Run:
        return await self.using(dataset, run, self.describe_open)

    async def describe_open(self, run: OpenRun) -> Run:
        state, is_older = await self.newest_or_known(run)
        leases = await self.live.leases(run.row)
        matching = await self.datasets.matching(run, state)
        degraded = is_older or leases.degraded
        described = partial(Run.of, leased=len(leases.tasks), degraded=degraded)
        return await asyncio.to_thread(described, matching, state)  # a look at each task that was ever tried

    async def datasets_reached(self, caller: Caller, after: str, limit: int) -> list[DatasetRow]:
        """Return up to `limit` datasets that the caller reaches by name, after `after`."""
        found: list[DatasetRow] = []
        asked, rows = limit, await self.store.datasets.after(after, limit)
        while True:
            found += [row for row in rows if caller.reaches(row.name)]
            if len(found) >= limit or len(rows) < asked:
                return found[:limit]
            asked, rows = BATCH, await self.store.datasets.after(rows[-1].name, BATCH)

    async def leases(self, dataset: str, run: str) -> tuple[OpenDataset, LeaseTtls]:
        """Return the tasks in flight, and the dataset that has them."""

        async def read(opened: OpenRun) -> tuple[OpenDataset, LeaseTtls]:
            await self.newest_or_known(opened)  # notices where another replica replaced the run
            leased = await self.live.leases(opened.row)
            if leased.tasks.max(initial=-1) >= len(opened.dataset.ids):
                opened = await self.datasets.current(opened)
            return opened.dataset, leased

        return await self.using(dataset, run, read)

    async def count_refused_report(self, dataset: str, run: str, error: InvalidInputError) -> None:
        """Count a refused report with its run: a trainer trains on after a refusal, and nobody reads its log."""

        async def count(opened: OpenRun) -> None:
            await self.store.runs.note_refused_report(opened.row, reason_of(error))

        await self.using(dataset, run, count)

    async def delete(self, dataset: str, run: str, key: IdempotencyKey | None) -> None:
        """Delete a run with its journal and snapshots; a `default` run is there again at once, empty."""
        opened = await self.fresh(dataset, run)
        await asyncio.shield(self._delete(opened, key))

    async def _delete(self, run: OpenRun, key: IdempotencyKey | None) -> None:
        await self.store.runs.delete(key, run.row)
        self.invalidate(run.row.dataset_id, run.row.name)
        self.states.drop(run.row)
        self.metrics.runs.forget(run.dataset.row.name, run.row.name)
        await self.live.delete(run.row)
        with suppress(UnknownRunError):  # a `default` run is there again
            await self.live.moved(await self.store.runs.get(run.row.dataset_id, run.row.name), BEGIN, begins=True)


def _folded(run: OpenRun, state: RunState, change: _Change) -> tuple[RunState, FoldedEntry]:
    body, pool = change.make(run, state), run.dataset.pool
    entry = Entry(state.seq + 1, state.epoch + isinstance(body, Rewind), pool.profiles, body)
    after, receipt = advance(state, entry, pool, base=change.base)
    return after, FoldedEntry(entry, receipt, change.key)


def _done(body: Body, state: RunState) -> Tasks:
    """Return the tasks of a report that may be selected again: not those whose groups wait for more rollouts."""
    if not isinstance(body, Report):
        return NO_TASKS
    parts = body.parts.tasks
    if len(parts):
        parts = np.setdiff1d(parts, state.unfinished.tasks)
    return united(body.evidence.tasks, body.aborted, parts)


def require_known_tags(settings: RunSettings, pool: Pool) -> None:
    """Raise InvalidSettingsError if the mix names a tag that no task carries."""
    flaws = (Flaw(("mix", tag), f"no task has the tag {tag!r}") for tag in settings.mix if tag not in pool.tags)
    InvalidSettingsError.refuse("these settings can't be used with this dataset", flaws)


def reason_of(error: InvalidInputError) -> str:
    """Return why a report was refused: the first flaw and its field, or the message of an error without flaws."""
    if not error.flaws:
        return str(error)[:LONGEST_REASON]
    flaw = error.flaws[0]
    is_of_field = isinstance(flaw.where[-1], str) and flaw.where[-1] != "body"
    place = f"{'.'.join(map(str, flaw.where[1:]))}: " if is_of_field else ""
    return f"{place}{flaw.what}"[:LONGEST_REASON]
