"""Groups whose rollouts come in parts: however they are cut, delayed and ordered, they count as whole ones do."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from bots_service.core.receipt import Receipt
from bots_service.errors import InvalidOutcomesError, StaleEpochError
from bots_service.outcomes import Outcome
from bots_service.records import Selection
from bots_service.runs import ForkFrom
from tests.sizes import size
from tests.usecases.world import POOL, World, evidence_bytes, outcomes_of

SIZE = 4


def part(task: str, *rewards: float | None, of: int = SIZE, **more: Any) -> Outcome:
    return Outcome(task, rewards=list(rewards), group_size=of, **more)


def aborted(task: str) -> Outcome:
    return Outcome(task, status="aborted")


def less_seq(receipt: Receipt) -> Receipt:
    return replace(receipt, seq=0)


# --- any schedule ----------------------------------------------------------------------------------------------------


@dataclass
class Group:
    """A selected task's rollouts: None for one that is aborted, and how they are cut into parts."""

    task: str
    rollouts: list[float | None]
    cuts: list[list[float | None]]
    origin: tuple[str, str]  # the selection of the run that gets parts, and that of the other

    def whole(self) -> Outcome:
        return Outcome(self.task, rewards=self.rollouts)

    def next_part(self) -> Outcome:
        rollouts = self.cuts.pop(0)
        return part(self.task, *rollouts, of=len(self.rollouts))


def a_group(rng: np.random.Generator, task: str, origin: tuple[str, str]) -> Group:
    size = int(rng.integers(1, 7))
    levels = rng.choice([0.0, 0.25, 0.5, 1.0], 2)
    rollouts: list[float | None] = [float(rng.choice(levels)) for _ in range(size)]
    rollouts = [None if rng.random() < 0.1 else one for one in rollouts]
    order = [rollouts[place] for place in rng.permutation(size)]
    ends = sorted({int(one) for one in rng.integers(1, size + 1, rng.integers(1, size + 1))} | {size})
    cuts = [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return Group(task, rollouts, cuts, origin)


async def follow_a_schedule(services: tuple[World, World], rng: np.random.Generator, name: str) -> None:
    """Report the groups of some selections in parts to one run, and whole to another, each when it is whole."""
    settings: dict[str, Any] = {
        "belief": ["tracker", "bots"][rng.integers(2)],
        "strategy": "pass",
        "tasks_per_step": [None, 3, 5][rng.integers(3)],
        "seed": int(rng.integers(100)),
    }
    runs = (f"{name}-parts", f"{name}-whole")
    for run in runs:
        await services[0].put_run(run, **settings)
    ids = (await services[0].opened(runs[0])).dataset.ids
    waiting: list[Group] = []
    to_select = int(rng.integers(2, 5))
    while to_select or waiting:
        here = services[rng.integers(2)]
        if to_select and (not waiting or rng.random() < 0.25):
            to_select -= 1
            both = [await here.select(4, run) for run in runs]
            assert both[0].tasks.tolist() == both[1].tasks.tolist()
            origin = (both[0].id, both[1].id)
            waiting += [a_group(rng, ids[task], origin) for task in both[0].tasks.tolist()]
            continue
        origin = waiting[rng.integers(len(waiting))].origin
        own = [group for group in waiting if group.origin == origin]
        picked = [own[place] for place in rng.permutation(len(own))[: rng.integers(1, len(own) + 1)]]
        parts = [group.next_part() for group in picked]
        key = f"{rng.integers(2**60)}"
        receipt = await here.report(*parts, run=runs[0], selection_id=origin[0], key=key)
        if rng.random() < 0.2:
            again = await services[rng.integers(2)].report(*parts, run=runs[0], selection_id=origin[0], key=key)
            assert again == receipt
        whole = [group for group in picked if not group.cuts]
        if whole:
            outcomes = [group.whole() for group in whole]
            expected = await here.report(*outcomes, run=runs[1], selection_id=origin[1])
            assert less_seq(receipt) == less_seq(expected)
        waiting = [group for group in waiting if group.cuts]
    await assert_alike(services, runs)


async def assert_alike(services: tuple[World, World], runs: tuple[str, str]) -> None:
    states = [await world.state(run) for world, run in zip(services, runs, strict=True)]
    assert evidence_bytes(states[0]) == evidence_bytes(states[1])
    await services[0].assert_is_a_replay(runs[0])
    summaries = [await services[0].describe(run) for run in runs]
    assert summaries[0].leased == summaries[1].leased == 0
    assert summaries[0].totals == summaries[1].totals
    tables = [await services[0].use.insight.tags(POOL, run, 10) for run in runs]
    assert tables[0].tags == tables[1].tags


@pytest.mark.parametrize("seed", range(size(2, 10)))
async def test_parts_in_any_cut_delay_and_order_count_as_whole_groups(services: tuple[World, World], seed: int):
    rng = np.random.default_rng(seed)
    await services[0].import_pool()
    for number in range(size(10, 50)):
        await follow_a_schedule(services, rng, f"run-{number}")


async def test_a_tasks_history_lists_the_parts_that_came(world: World):
    selection = await world.select(1)
    (task,) = task_ids(selection)
    await world.report(part(task, 1.0, 1.0), selection_id=selection.id)
    await world.report(part(task, None), selection_id=selection.id)
    await world.report(part(task, 0.0), selection_id=selection.id)
    page = await world.use.insight.task_history(POOL, "default", task, None, 10)
    told = [(one.successes, one.trials, one.group_size) for one in page.visits]
    assert told == [(0.0, 1.0, 4.0), (2.0, 2.0, 4.0)]
    entries = await world.use.insight.entries(POOL, "default", None, 10, [])
    assert [(entry.tasks, entry.rollouts) for entry in entries] == [(1, 1.0), (1, 0.0), (1, 2.0)]


# --- what ends a group -----------------------------------------------------------------------------------------------


async def test_a_part_is_acknowledged_closes_no_step_and_keeps_its_lease(world: World):
    selection = await world.select(2)
    first, second = task_ids(selection)
    receipt = await world.report(part(first, 1.0, 0.0, 1.0), selection_id=selection.id)
    assert (receipt.step, receipt.closed, receipt.tally.reported) == (0, False, 0)
    about = await world.describe()
    assert (about.leased, about.totals.reported, about.unfinished_groups) == (2, 0, 1)
    receipt = await world.report(part(first, 0.0), part(second, 0.0), selection_id=selection.id)
    assert (receipt.step, receipt.closed, receipt.tally.rollouts, receipt.tally.effective) == (1, True, 4.0, 1)
    about = await world.describe()
    assert (about.leased, about.totals.reported, about.unfinished_groups) == (1, 1, 1)


@pytest.mark.parametrize(
    ("last", "rollouts"), [(lambda task: Outcome(task, rewards=[0.0]), 3), (aborted, 2)], ids=["whole", "aborted"]
)
async def test_the_trainers_word_ends_a_group(world: World, last: Callable[[str], Outcome], rollouts: int):
    selection = await world.select(1)
    (task,) = task_ids(selection)
    await world.report(part(task, 1.0, 1.0, of=8), selection_id=selection.id)
    receipt = await world.report(last(task), selection_id=selection.id, close_step=True)
    state = await world.state()
    assert (receipt.tally.reported, receipt.tally.rollouts, receipt.tally.effective) == (1, rollouts, rollouts == 3)
    assert (len(state.unfinished), len(state.aborts), (await world.describe()).leased) == (0, 0, 0)
    await world.assert_is_a_replay()


async def test_the_last_word_about_the_size_of_a_group_holds(world: World):
    selection = await world.select(1)
    (task,) = task_ids(selection)
    await world.report(part(task, 1.0, 1.0, of=8), selection_id=selection.id)
    receipt = await world.report(part(task, 0.0, of=3), selection_id=selection.id)
    assert (receipt.closed, receipt.tally.rollouts) == (True, 3.0)


async def test_a_group_whose_lease_ran_out_counts_as_it_is(world: World, at: list[float]):
    await world.put_run("short", lease_seconds=60.0)
    selection = await world.select(2, "short")
    first, second = task_ids(selection)
    await world.report(part(first, 1.0, 0.0, of=8), run="short", selection_id=selection.id)
    at[0] += 59.0
    assert not (await world.report(part(second, 1.0), run="short", selection_id=selection.id)).closed
    at[0] += 2.0
    receipt = await world.report(run="short")
    assert (receipt.closed, receipt.tally.reported, receipt.tally.rollouts) == (True, 1, 2.0)
    state = await world.state("short")
    assert (len(state.unfinished), state.attempts.whole.visits.tolist()) == (1, [1])
    await world.assert_is_a_replay("short")


async def test_a_rewind_and_a_fork_forget_what_can_not_be_finished(world: World):
    await world.report(Outcome("t0", successes=1, trials=4))
    selection = await world.select(1)
    (task,) = task_ids(selection)
    await world.report(part(task, 1.0), selection_id=selection.id)
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    assert len((await world.state("fork")).unfinished) == 0
    await world.rewind(1)
    assert len((await world.state()).unfinished) == 0
    with pytest.raises(StaleEpochError):
        await world.report(part(task, 1.0), selection_id=selection.id)
    await world.assert_is_a_replay()


async def test_the_pass_goes_on_when_the_first_of_its_groups_is_whole(world: World):
    selection = await world.select(1)
    (task,) = task_ids(selection)
    before = (await world.state()).walks
    for _ in range(SIZE - 1):
        await world.report(part(task, 1.0), selection_id=selection.id)
        assert (await world.state()).walks == before
    await world.report(part(task, 0.0), selection_id=selection.id)
    assert [walk.place > 0 for walk in (await world.state()).walks.walks] == [True]


async def test_without_a_selection_the_parts_of_a_task_are_one_group_after_the_other(world: World):
    receipts = [await world.report(part("t1", reward, of=2)) for reward in (1.0, 0.0, 1.0, 1.0, 1.0)]
    assert [receipt.closed for receipt in receipts] == [False, True, False, True, False]
    assert [receipt.tally.effective for receipt in receipts if receipt.closed] == [1, 0]


async def test_parts_cost_when_they_come(world: World):
    await world.report(part("t1", 1.0, of=2, tokens=100.0))
    receipt = await world.report(part("t1", 0.0, of=2, tokens=50.0, seconds=2.0))
    assert receipt.costs == (150.0, 2.0)


async def test_only_so_many_parts_wait(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.core.groups.MOST_PARTS", 5)
    for number in range(7):
        await world.report(part(f"t{number}", 1.0))
    state = await world.state()
    assert (state.step, state.totals.reported, len(state.unfinished)) == (2, 2, 5)


@pytest.mark.parametrize(
    "flawed",
    [
        part("t1", 1.0, 0.0, of=1),
        part("t1", 1.0, effective=True),
        part("t1", 1.5),
        part("t1", math.nan),
        Outcome("t1", group_size=4),
        Outcome("t1", status="aborted", group_size=4),
        Outcome("t1", successes=1, trials=2, rewards=[1.0, None], group_size=4),
    ],
)
async def test_parts_that_can_not_be_true_are_refused(world: World, flawed: Outcome):
    with pytest.raises(InvalidOutcomesError):
        await world.report(flawed)
    assert (await world.state()).seq == 0


# --- aborts ----------------------------------------------------------------------------------------------------------


async def test_aborts_are_counted_and_a_task_that_always_aborts_rests(world: World):
    await world.put_run("run", strategy="shuffle")
    dead = {"t3", "t4"}
    met = []
    for _ in range(60):
        selection = await world.select(8, "run")
        tasks = task_ids(selection)
        met.append(len(dead & set(tasks)))
        await world.report(
            *(aborted(task) if task in dead else Outcome(task, successes=1, trials=4) for task in tasks),
            run="run",
            selection_id=selection.id,
        )
    aborts = (await world.state("run")).aborts
    assert aborts.tasks.tolist() == [3, 4]
    assert aborts.aborts.tolist() == aborts.in_a_row.tolist()
    assert aborts.aborts.sum() == sum(met) <= 2 * (3 + 2)
    await world.assert_is_a_replay("run")


async def test_tasks_that_rest_are_selected_where_others_are_too_few(world: World):
    for _ in range(3):
        await world.report(aborted("t3"))
    assert len(set(task_ids(await world.select(40)))) == 40
    await world.rewind(0)
    for _ in range(3):
        await world.report(aborted("t3"))
    others = tuple(f"t{number}" for number in range(40) if number != 3)
    assert task_ids(await world.select(1, exclude=others)) == ["t3"]


async def test_a_task_that_aborted_by_chance_begins_anew(world: World):
    for _ in range(2):
        await world.report(aborted("t3"))
    await world.report(Outcome("t3", successes=1, trials=4))
    await world.report(aborted("t3"))
    aborts = (await world.state()).aborts
    assert (aborts.aborts.tolist(), aborts.in_a_row.tolist()) == ([3], [1])
    assert len(aborts.resting(1)) == 0


async def test_a_group_in_parts_all_of_which_were_aborted_is_one_abort(world: World):
    selection = await world.select(1)
    (task,) = task_ids(selection)
    for _ in range(SIZE):
        await world.report(part(task, None), selection_id=selection.id)
    state = await world.state()
    assert (state.step, state.aborts.aborts.tolist(), len(state.unfinished)) == (0, [1], 0)
    assert (await world.describe()).leased == 0


# --- helpers ---------------------------------------------------------------------------------------------------------


def task_ids(selection: Selection) -> list[str]:
    return [one.task for one in outcomes_of(selection)]


@pytest.fixture
def at(world: World) -> list[float]:
    """The time that reports are taken at, which a test can put forward."""
    now = [1e9]
    world.runs._clock = lambda: now[0]
    return now
