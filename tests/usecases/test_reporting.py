"""Reports: what is refused changes nothing; what counts, counts once; late ones find their step; parts make groups."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.attempts import NO_ABORTS
from bots_service.core.codec import encode_state
from bots_service.core.receipt import Receipt
from bots_service.errors import InvalidOutcomesError, KeyReusedError, StaleEpochError, StorageUnavailableError
from bots_service.outcomes import Outcome, ReportRequest, read_outcomes
from bots_service.records import IdempotencyKey, Selection
from bots_service.runs import ForkFrom
from tests.sizes import size
from tests.usecases.world import POOL, TASKS, Clock, World, evidence_bytes, flaws_of, outage, outcome, outcomes_of

REFUSED = [
    outcome("t1", 17, 16),
    outcome("t1", 0, 4097),
    outcome("t40"),
    outcome(""),
    outcome("\ud800"),
    outcome("t" * 10_000),
]


async def test_a_refused_outcome_says_where_it_stands_and_changes_nothing(world: World):
    await world.report(outcome("t1"), outcome("t2"))
    await world.report(outcome("t3"), close_step=False)
    before = encode_state(await world.state())
    for wrong in REFUSED:
        (where,) = await flaws_of(world.report(outcome("t5"), wrong, outcome("t6"), key="key"))
        assert where[:3] == ("body", "outcomes", 1)
    for wrong in (outcome("none"), outcome("t1", 17, 16)):
        assert [where[2] for where in await flaws_of(world.report(*[wrong] * 30))] == list(range(20))
    assert encode_state(await world.state()) == before
    assert (await world.report(outcome("t5"), key="key")).seq == 3  # the key was not used up


async def test_rewards_are_mapped_from_the_runs_range(world: World):
    await world.put_run("signed", reward_range=[-1, 3])
    await world.put_run("plain")
    signed = await world.report(Outcome("t1", rewards=[-1, 3, 1, 0]), run="signed")
    plain = await world.report(outcome("t1", 0 + 1 + 0.5 + 0.25, 4), run="plain")
    assert signed == plain
    one, other = await world.state("signed"), await world.state("plain")
    assert evidence_bytes(replace(one, settings=other.settings)) == evidence_bytes(other)
    with pytest.raises(InvalidOutcomesError):
        await world.report(Outcome("t1", rewards=[3.1]), run="signed")


numbers = st.sampled_from([0, 1, 2, 2.5, -1, 1.2, math.nan, math.inf])
forms = st.fixed_dictionaries(
    {},
    optional={
        "successes": numbers,
        "trials": numbers,
        "rewards": st.lists(numbers, max_size=3),
        "effective": st.booleans(),
        "status": st.just("aborted"),
    },
)


def what_is_right(form: dict[str, Any]) -> tuple[float, float, bool] | str:
    """Return the successes, failures and flag of an outcome by the words of docs/api.md, "aborted", or "refused"."""
    given = form.keys() - {"effective"}
    if form == {"status": "aborted"}:
        return "aborted"
    rewards, (solved, trials) = form.get("rewards", []), (form.get("successes", 0), form.get("trials", 1))
    if given == {"rewards"}:
        is_right = len(rewards) > 0 and all(0 <= reward <= 1 for reward in rewards)
        solved, trials = sum(rewards), len(rewards)
    else:
        fits = "rewards" not in form or (len(rewards) == trials and all(map(math.isfinite, rewards)))
        is_right = {"successes", "trials"} <= given <= {"successes", "trials", "rewards"} and fits
        is_right = is_right and 0 < trials < math.inf and 0 <= solved <= trials
    if not is_right:
        return "refused"
    differ = len(set(rewards)) > 1 if "rewards" in form else 0 < solved < trials
    return solved, trials - solved, form.get("effective", differ)


@given(forms)
def test_every_form_of_an_outcome_is_read_as_documented_or_refused(form: dict[str, Any]):
    wanted, tasks, outcomes = what_is_right(form), np.array([7], np.int32), [Outcome("t7", **form)]
    if wanted == "refused":
        with pytest.raises(InvalidOutcomesError):
            read_outcomes(tasks, outcomes, (0.0, 1.0))
        return
    evidence, aborted, _ = read_outcomes(tasks, outcomes, (0.0, 1.0))
    assert aborted.tolist() == ([7] if wanted == "aborted" else [])
    columns = (evidence.tasks, evidence.successes, evidence.failures, evidence.effective)
    assert [tuple(row) for row in zip(*columns, strict=True)] == ([] if wanted == "aborted" else [(7, *wanted)])
    assert not any(column.flags.writeable for column in columns)  # the journal shares them with its readers


async def test_aborted_tasks_count_for_nothing_but_aborts(world: World):
    only = await world.report(Outcome("t1", status="aborted"))
    assert (only.closed, only.step, only.reported) == (False, 0, 0)
    receipt = await world.report(Outcome("t1", status="aborted"), outcome("t2", 4))
    assert (receipt.closed, receipt.reported, receipt.rollouts) == (True, 1, 16)
    await world.put_run("plain")
    await world.report(outcome("t2", 4), run="plain")
    state = await world.state()
    assert (state.aborts.tasks.tolist(), state.aborts.aborts.tolist()) == ([1], [2])
    assert evidence_bytes(replace(state, aborts=NO_ABORTS)) == evidence_bytes(await world.state("plain"))


async def test_a_report_that_would_be_refused_by_now_gets_its_first_receipt(world: World):
    await world.put_run("wide", reward_range=[0, 10])
    told = ReportRequest(POOL, [Outcome("t1", rewards=[0, 10, 5])], "wide")
    first = await world.runs.report(told, IdempotencyKey("key", "same"))
    await world.runs.change_settings(POOL, "wide", {"reward_range": [0, 1]}, None)
    again = await world.runs.report(told, IdempotencyKey("key", "same"))
    assert (again.receipt, again.duplicate) == (first.receipt, True)
    with pytest.raises(KeyReusedError):
        await world.runs.report(told, IdempotencyKey("key", "other"))
    with pytest.raises(InvalidOutcomesError):
        await world.runs.report(told, IdempotencyKey("another key", "same"))


async def test_a_reports_retry_ends_no_lease_of_a_later_selection(world: World):
    await world.report(outcome("t1"), key="key")
    await world.select(TASKS)
    await world.report(outcome("t1"), key="key")
    assert (await world.describe()).leased == TASKS


async def test_a_report_while_sql_is_away_is_refused_and_comes_later_under_its_key(world: World):
    await world.state()
    with outage(world.database, "write"):
        with pytest.raises(StorageUnavailableError):
            await world.report(outcome("t1"), key="key")
        world = world.beside()
        await world.state()
        assert len((await world.select(3)).tasks) == 3  # selections go on
    assert (await world.report(outcome("t1"), key="key")).seq == 1


def reported(*worlds: World) -> float:
    """Return how many reported tasks were counted, in all processes together."""
    return sum(world.shown("reported_tasks_total") or 0.0 for world in worlds)


async def test_what_replicas_report_at_once_counts_once(replicas: tuple[World, World]):
    await replicas[0].runs.change_settings(POOL, "default", {"tasks_per_step": 4}, None)
    pairs = [(f"t{number}", f"t{number + 1}") for number in range(0, TASKS, 2)]
    await asyncio.gather(*(replicas[place % 2].report(*map(outcome, pair)) for place, pair in enumerate(pairs)))
    assert (await replicas[0].state()).totals.reported == TASKS
    assert reported(*replicas) == TASKS


# --- groups whose rollouts come in parts -----------------------------------------------------------------------------


SIZE = 4


def part(task: str, *rewards: float | None, of: int = SIZE, **more: Any) -> Outcome:
    return Outcome(task, rewards=list(rewards), group_size=of, **more)


def aborted(task: str) -> Outcome:
    return Outcome(task, status="aborted")


def less_seq(receipt: Receipt) -> Receipt:
    return structs.replace(receipt, seq=0)


def task_ids(selection: Selection) -> list[str]:
    return [one.task for one in outcomes_of(selection)]


@pytest.fixture
async def selected(world: World) -> tuple[str, str]:
    """A task, and the id of the selection that it is in flight with."""
    selection = await world.select(1)
    return task_ids(selection)[0], selection.id


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


@pytest.mark.parametrize("seed", range(size(1, 10)))
async def test_parts_in_any_cut_delay_and_order_count_as_whole_groups(services: tuple[World, World], seed: int):
    rng = np.random.default_rng(seed)
    await services[0].import_pool()
    for number in range(size(6, 50)):
        await follow_a_schedule(services, rng, f"run-{number}")


async def test_the_journal_tells_the_parts_that_came(world: World, selected: tuple[str, str]):
    task, selection_id = selected
    await world.report(part(task, 1.0, 1.0), selection_id=selection_id)
    await world.report(part(task, None), selection_id=selection_id)
    await world.report(part(task, 0.0), selection_id=selection_id)
    entries = await world.use.insight.entries(POOL, "default", None, 10, [])
    assert [(entry.tasks, entry.rollouts) for entry in entries] == [(1, 1.0), (1, 0.0), (1, 2.0)]


# --- what ends a group -----------------------------------------------------------------------------------------------


async def test_a_part_is_acknowledged_closes_no_step_and_keeps_its_lease(world: World):
    selection = await world.select(2)
    first, second = task_ids(selection)
    receipt = await world.report(part(first, 1.0, 0.0, 1.0), selection_id=selection.id)
    assert (receipt.step, receipt.closed, receipt.reported) == (0, False, 0)
    about = await world.describe()
    assert (about.leased, about.totals.reported, about.unfinished_groups) == (2, 0, 1)
    receipt = await world.report(part(first, 0.0), part(second, 0.0), selection_id=selection.id)
    assert (receipt.step, receipt.closed, receipt.rollouts, receipt.effective) == (1, True, 4.0, 1)
    about = await world.describe()
    assert (about.leased, about.totals.reported, about.unfinished_groups) == (1, 1, 1)


@pytest.mark.parametrize(
    ("last", "rollouts"),
    [
        (lambda task: Outcome(task, rewards=[0.0]), 3),
        (lambda task: part(task, 0.0, of=3), 3),  # the last word about the size of a group holds
        (aborted, 2),
    ],
)
async def test_the_trainers_word_ends_a_group(
    world: World, selected: tuple[str, str], last: Callable[[str], Outcome], rollouts: int
):
    task, selection_id = selected
    await world.report(part(task, 1.0, 1.0, of=8), selection_id=selection_id)
    receipt = await world.report(last(task), selection_id=selection_id, close_step=True)
    state = await world.state()
    assert (receipt.reported, receipt.rollouts, receipt.effective) == (1, rollouts, rollouts == 3)
    assert (state.unfinished.groups, len(state.aborts), (await world.describe()).leased) == (0, 0, 0)
    await world.assert_is_a_replay()


async def test_a_group_whose_lease_ran_out_counts_as_it_is(world: World):
    clock = world.runs._clock = Clock()
    await world.put_run("short", lease_seconds=60.0)
    selection = await world.select(2, "short")
    first, second = task_ids(selection)
    await world.report(part(first, 1.0, 0.0, of=8), run="short", selection_id=selection.id)
    clock.now += 59.0
    assert not (await world.report(part(second, 1.0), run="short", selection_id=selection.id)).closed
    clock.now += 2.0
    receipt = await world.report(run="short")
    assert (receipt.closed, receipt.reported, receipt.rollouts) == (True, 1, 2.0)
    state = await world.state("short")
    assert (state.unfinished.groups, state.attempts.whole.visits.tolist()) == (1, [1])
    await world.assert_is_a_replay("short")


async def test_a_rewind_and_a_fork_forget_what_can_not_be_finished(world: World):
    await world.report(Outcome("t0", successes=1, trials=4))
    selection = await world.select(1)
    (task,) = task_ids(selection)
    await world.report(part(task, 1.0), selection_id=selection.id)
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    assert (await world.state("fork")).unfinished.groups == 0
    await world.rewind(1)
    assert (await world.state()).unfinished.groups == 0
    with pytest.raises(StaleEpochError):
        await world.report(part(task, 1.0), selection_id=selection.id)
    await world.assert_is_a_replay()


async def test_without_a_selection_the_parts_of_a_task_are_one_group_after_the_other(world: World):
    parts = [part("t1", reward, of=2, tokens=100.0) for reward in (1.0, 0.0, 1.0, 1.0, 1.0)]
    receipts = [await world.report(one) for one in parts]
    assert [receipt.closed for receipt in receipts] == [False, True, False, True, False]
    closed = [receipt for receipt in receipts if receipt.closed]
    assert [(receipt.effective, receipt.tokens) for receipt in closed] == [(1, 200.0), (0, 200.0)]


async def test_only_so_many_parts_wait(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.core.entries.MOST_PARTS", 5)
    for number in range(7):
        await world.report(part(f"t{number}", 1.0))
    state = await world.state()
    assert (state.step, state.totals.reported, state.unfinished.groups) == (2, 2, 5)


@pytest.mark.parametrize(
    "flawed",
    [
        part("t1", 1.0, 0.0, of=1),
        part("t1", 1.0, effective=True),
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
