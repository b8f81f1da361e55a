"""A simulated trainer: asks, reports, rewinds, forks, and checks every answer against the truth."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bots_service.core.belief.kinds import KINDS
from bots_service.core.draw.selection import SelectRequest
from bots_service.core.receipt import Receipt
from bots_service.errors import (
    InvalidTasksError,
    RunHasHistoryError,
    StaleEpochError,
    TaskExistsError,
    UnknownStepError,
)
from bots_service.ports.records import IdempotencyKey, Selection
from bots_service.usecases import UseCases
from bots_service.usecases.begin_run import ForkFrom
from bots_service.usecases.describe import RunDescription
from bots_service.usecases.report_outcomes import Outcome, ReportRequest
from tests.simulator.world import POOL, TASKS, World, block, known_state, stream

MOST_CHANGES = TASKS - 6  # of the dataset, so that enough tasks are left to select
SETTINGS: list[dict[str, Any]] = [
    {"tasks_per_step": 3},
    {"tasks_per_step": None},
    {"target": 0.7},
    {"seed": 7},
    {"lease_seconds": 20.0},
]
BOTS_SETTINGS: list[dict[str, Any]] = [{"forgetting": 0.5}, {"implicit_weight": 0.4}]


@dataclass
class Doubt:
    """A report that nobody acknowledged yet."""

    run: str
    news: ReportRequest
    once: IdempotencyKey
    epoch: int | None


@dataclass
class Client:
    """One trainer."""

    world: World
    name: str
    selections: list[tuple[str, Selection]] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)

    async def work(self, calls: int) -> None:
        rng = self.world.rng
        acts = [self.select, self.report, self.rewind, self.fork, self.change, self.describe, self.history]
        acts += [self.snapshot, self.put, self.append_tasks, self.retire, self.restore]
        changes = rng.choice([0, 1, 10])  # of the dataset
        for _ in range(calls):
            await asyncio.sleep(rng.uniform(0.0, 0.4))
            [act] = rng.choices(acts, [30, 40, 4, 2, 4, 4, 2, 2, 1, changes, changes, changes])
            await act()

    # --- select ------------------------------------------------------------------------------------------------------

    async def select(self) -> None:
        world, rng = self.world, self.world.rng
        run, count = world.a_run(), rng.randint(1, 5)
        known = sorted(world.appended)
        request = SelectRequest(
            POOL, count, run, exclude=tuple(f"t{task}" for task in rng.sample(known, min(1, len(known))))
        )
        call = f"select-{world.number()}"
        once = IdempotencyKey(call, repr(request)) if rng.random() < 0.6 else None
        floor, retired, began = world.of(run).floor, set(world.retired), world.now
        answer = await self._ask(request, once)
        if answer is None:
            return
        selection = answer[0]
        world.network.note(
            f"{self.name} has selection {selection.id[:-13]} of {run}: {selection.tasks.tolist()}"
            f"{' degraded' * selection.degraded} reused {selection.reused}"
        )
        assert world.of(run).made_for.setdefault(selection.id, call) == call, f"{selection.id} was made twice"
        self._check(run, selection, count, floor)
        gone = (retired - world.restored) & set(selection.tasks.tolist())
        assert selection.id in world.hot.local or not gone, f"{run}: tasks {gone} were retired before the select"
        self._check_shared(run, selection, began)
        self.selections.append((run, selection))
        if once is not None and rng.random() < 0.3:
            await self._select_again(request, once, selection, began)

    async def _ask(self, request: SelectRequest, once: IdempotencyKey | None) -> Any:
        world = self.world
        return await world.patiently(
            f"{self.name} selects {request.count} of {request.run} under {once and once.key}",
            lambda use: use.select_tasks(request, once),
            attempts=6,
            selects=request.run,
        )

    def _check(self, run: str, selection: Selection, count: int, floor: int) -> None:
        state, pool = self.world.truth.state(run, selection.seq), self.world.truth.pool()
        assert (state.epoch, state.step) == (selection.epoch, selection.step)
        assert len(set(selection.tasks.tolist())) == count
        means = state.belief.distributions(pool, selection.tasks).mean
        np.testing.assert_array_equal(selection.means, means, f"means of {selection.id}")
        assert selection.id in self.world.hot.local or selection.seq >= floor, (
            f"{run}: a selection from state {selection.seq}, after entry {floor} was acknowledged"
        )

    def _check_shared(self, run: str, selection: Selection, began: float) -> None:
        """No two trainers work on one task while others are free."""
        world = self.world
        if selection.id in world.hot.local:
            return
        held = world.of(run).held
        seconds = world.truth.state(run, selection.seq).settings.lease_seconds
        mine = set(selection.tasks.tolist())
        for other_began, other_answered, other in held:
            if other.id == selection.id or selection.reused or other.reused:
                continue
            since, until = min(began, other_began), max(world.now, other_answered)
            if until - since >= seconds:
                continue
            for task in mine & set(other.tasks.tolist()):
                is_told = selection.degraded or other.degraded
                assert any(
                    span.touches(run, task, since, until) and (is_told or not span.is_loss) for span in world.lost
                ), f"{run}: task {task} is in selections {other.id} and {selection.id} at the same time"
        held.append((began, world.now, selection))

    async def _select_again(self, request: SelectRequest, once: IdempotencyKey, first: Selection, began: float) -> None:
        world = self.world
        await asyncio.sleep(world.rng.uniform(0.0, 2.0))
        answer = await self._ask(request, once)
        if answer is None:
            return
        again: Selection = answer[0]
        forgotten = any(
            span.run in (None, request.run) and span.tasks is None and span.end >= began for span in world.lost
        )
        is_alone = world.hot.local & {first.id, again.id}
        if not (is_alone or forgotten or world.now - began > 800):
            assert again.id == first.id, f"{once.key} gave {first.id}, then {again.id}"
            assert again.tasks.tolist() == first.tasks.tolist()
            assert answer[2]

    # --- report ------------------------------------------------------------------------------------------------------

    async def report(self) -> None:
        world, rng = self.world, self.world.rng
        run, selection = world.a_run(), None
        tasks = rng.sample(range(TASKS), rng.choice([0, 1, 2, 3]))
        if self.selections and rng.random() < 0.7:
            place = rng.randrange(len(self.selections))
            run, selection = self.selections[place]
            if rng.random() < 0.8:  # else its tasks are reported in parts, or twice
                del self.selections[place]
            tasks = selection.tasks.tolist()
            tasks = tasks if rng.random() < 0.8 else tasks[: rng.randint(0, len(tasks))]
        outcomes = [Outcome(f"t{task}", successes=float(rng.randint(0, 8)), trials=8.0) for task in tasks]
        close = rng.choice([None, None, None, False, True])
        news = ReportRequest(POOL, outcomes, run, None if selection is None else selection.id, close)
        once = IdempotencyKey(f"report-{world.number()}", repr(news))
        doubt = Doubt(run, news, once, None if selection is None else selection.epoch)
        deliveries = 2 if rng.random() < 0.15 else 1
        ended = world.others_forget(run, set(tasks))
        done = await asyncio.gather(*(self.send(doubt, 5) for _ in range(deliveries)))
        if not any(done):
            self.doubts.append(doubt)
            return
        if deliveries == 1:
            ended.end = world.now
        if rng.random() < 0.15:
            await asyncio.sleep(rng.uniform(0.0, 3.0))
            again = world.others_forget(run, set(tasks))
            if await self.send(doubt, 3):
                again.end = world.now

    async def send(self, doubt: Doubt, attempts: int) -> bool:
        """Send a report; say whether its sender knows what became of it."""
        world, run = self.world, doubt.run
        what = f"{self.name} reports {doubt.once.key} to {run} {doubt.news.selection_id or ''} {doubt.news.close_step}"
        try:
            answer = await world.patiently(
                what, lambda use: use.report_outcomes(doubt.news, doubt.once), attempts=attempts
            )
        except StaleEpochError as error:
            world.network.note(f"{what}: refused, {error}")
            self._check_refusal(doubt)
            return True
        if answer is None:
            return False
        self._check_receipt(doubt, answer.receipt)
        if not answer.degraded:
            world.of(run).floor = max(world.of(run).floor, answer.receipt.seq)
        world.network.note(f"{doubt.once.key} is entry {answer.receipt.seq}{' degraded' * answer.degraded}")
        return True

    def _check_refusal(self, doubt: Doubt) -> None:
        table = self.world.sql.runs[doubt.run]
        assert doubt.epoch != table.row.epoch, f"{doubt.once.key} is refused, although nothing was rewound"
        assert doubt.once.key not in table.keys, f"{doubt.once.key} is refused, and counts"

    def _check_receipt(self, doubt: Doubt, receipt: Receipt) -> None:
        table = self.world.sql.runs[doubt.run]
        assert doubt.once.key in table.keys, f"{doubt.once.key} was acknowledged, and is not in the journal"
        entry = table.keys[doubt.once.key][1]
        assert entry.seq == receipt.seq
        assert doubt.epoch in (None, entry.epoch), f"{doubt.once.key} of epoch {doubt.epoch} counts in {entry.epoch}"
        assert receipt == self.world.truth.replay(doubt.run).receipts[receipt.seq]

    # --- the rest ----------------------------------------------------------------------------------------------------

    async def _told(self, what: str, run: str, make: Any, refusals: tuple[type[Exception], ...] = ()) -> Any:
        """Return a described run, checked; None if nobody answered or it was refused."""
        world = self.world
        losses = world.network.losses
        floor = world.promises[run].floor if run in world.promises else 0
        try:
            answer = await world.patiently(f"{self.name} {what} {run}", make, attempts=3)
        except refusals as error:
            world.network.note(f"{what} {run}: {type(error).__name__} {error}")
            return None
        if answer is None:
            return None
        told = answer[0] if isinstance(answer, tuple) else answer
        world.assert_told(told)
        if losses == world.network.losses:  # else it may tell of an older state, as it must for a select
            assert told.seq >= floor, f"{what} {run} tells of state {told.seq}, after {floor}"
        world.of(run)
        return told

    async def rewind(self) -> None:
        world = self.world
        run = world.a_run()
        closings = world.truth.replay(run).closings[-1]
        step, epoch = world.rng.choice(sorted(closings)), world.sql.runs[run].row.epoch
        once = IdempotencyKey(f"rewind-{world.number()}", f"{run} {step}")
        ended, losses = world.others_forget(run), world.network.losses
        try:
            told = await self._told(
                f"rewinds to {step}", run, lambda use: use.rewind_run(POOL, run, step, once), (UnknownStepError,)
            )
        finally:
            is_refused = epoch != world.sql.runs[run].row.epoch
        if told is None:
            assert is_refused or step in world.truth.replay(run).closings[-1]
            return
        ended.end = world.now
        table = world.sql.runs[run]
        assert once.key in table.keys
        if losses == world.network.losses:
            assert told.epoch >= table.keys[once.key][1].epoch
            world.of(run).floor = max(world.of(run).floor, table.keys[once.key][1].seq)

    async def change(self) -> None:
        run = self.world.a_run()
        is_bots = self.world.sql.runs[run].row.settings.belief == "bots"
        values = self.world.rng.choice(SETTINGS + BOTS_SETTINGS if is_bots else SETTINGS)
        once = IdempotencyKey(f"change-{self.world.number()}", repr(values))
        await self._told("changes", run, lambda use: use.change_settings(POOL, run, values, once))

    async def describe(self) -> None:
        run = self.world.a_run()

        async def described(use: UseCases) -> RunDescription:
            self.world.assert_true(run, await known_state(use, run))
            return await use.describe_run(POOL, run)

        await self._told("describes", run, described)

    async def fork(self) -> None:
        world = self.world
        parent, name = world.a_run(), f"fork-{world.number()}"
        step = world.rng.choice([None, *sorted(world.truth.replay(parent).closings[-1])])
        told = await self._told(
            f"forks {parent} at {step} as",
            name,
            lambda use: use.put_run(POOL, name, {}, ForkFrom(parent, step), None),
            (RunHasHistoryError, UnknownStepError),
        )
        assert told is None or name in world.sql.runs

    async def put(self) -> None:
        name = f"own-{self.world.number()}"
        values = {"belief": self.world.rng.choice(sorted(KINDS)), "tasks_per_step": 2, "lease_seconds": 15.0}
        await self._told("puts", name, lambda use: use.put_run(POOL, name, values, None, None))

    async def snapshot(self) -> None:
        run = self.world.a_run()
        await self.world.patiently(
            f"{self.name} stores {run}", lambda use: use.take_snapshot(POOL, run, None), attempts=2
        )

    async def history(self) -> None:
        world, run = self.world, self.world.a_run()
        first = world.sql.runs[run].row.head
        rows = await world.patiently(
            f"{self.name} reads history of {run}", lambda use: use.read_history(POOL, run, 0, 10_000), attempts=2
        )
        if rows is not None:
            replay = world.truth.replay(run)
            told = [row.receipt for row in rows]
            assert any(told == present(replay, seq) for seq in range(first, len(replay.states))), f"history of {run}"

    async def append_tasks(self) -> None:
        world = self.world
        world.changes += 1
        losses = world.network.losses

        async def appended(use: UseCases) -> Any:
            assert world.sql.dataset is not None
            return await use.append_tasks(POOL, stream(block(world.sql.dataset.facts.size, 2)), lambda: None)

        try:
            result = await world.patiently(f"{self.name} appends tasks", appended, attempts=1)
        except (TaskExistsError, InvalidTasksError) as error:
            world.network.note(f"{error}")
            return
        if result is not None and losses == world.network.losses:  # else some replicas hear of it within seconds only
            world.appended |= {result.row.facts.size - 2, result.row.facts.size - 1}

    async def retire(self) -> None:
        world = self.world
        if world.changes >= MOST_CHANGES:
            return
        world.changes += 1
        task, losses = world.rng.randrange(TASKS), world.network.losses
        row = await world.patiently(
            f"{self.name} retires t{task}", lambda use: use.retire_tasks(POOL, [f"t{task}"], None), attempts=2
        )
        if row is not None and losses == world.network.losses:
            world.retired.add(task)

    async def restore(self) -> None:
        world = self.world
        if world.changes >= MOST_CHANGES or not world.retired:
            return
        world.changes += 1
        task = world.rng.choice(sorted(world.retired))
        world.restored.add(task)
        await world.patiently(
            f"{self.name} restores t{task}", lambda use: use.restore_tasks(POOL, [f"t{task}"], None), attempts=2
        )


def present(replay: Any, seq: int) -> list[Receipt]:
    """Return the receipts of the closed steps of the history that was present after entry `seq`."""
    closed = [replay.receipts[closing] for _, closing in sorted(replay.closings[seq].items())]
    return [receipt for receipt in closed if receipt is not None and receipt.closed]
