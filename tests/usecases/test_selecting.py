"""Selections: the same ones for the same calls, no task twice in flight, and ids that only their run understands."""

import asyncio
import time
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from scipy.stats import betabinom

from bots_service.core.belief import KINDS
from bots_service.core.draw import SelectRequest
from bots_service.core.pool import Pool
from bots_service.core.run_settings import StrategyName, settings_from
from bots_service.errors import InvalidSelectionError, KeyReusedError, PoolTooSmallError
from bots_service.insight import IDS_PER_LEASE, Insight, Lease
from bots_service.records import IdempotencyKey, RunRow, Selection
from bots_service.retention import LEASE_S
from bots_service.selections import QUICK_NUMBERS, Origin, is_quick, read_id
from bots_service.storage.live import Look, Previous
from tests.core.journals import replay, report_of
from tests.core.pools import beta_parameters
from tests.usecases.world import (
    POOL,
    TASKS,
    World,
    block,
    flaws_of,
    meanwhile,
    never,
    new_profiles,
    outcome,
    outcomes_of,
    stream,
)


async def in_flight(world: World) -> int:
    return (await world.describe()).leased


@pytest.mark.parametrize("strategy", get_args(StrategyName))
async def test_the_same_calls_give_the_same_tasks_in_two_databases(folder, strategy: StrategyName):
    told: list[list[list[Any]]] = []
    for name in ("one", "other"):
        world = World.open(folder(name))
        await world.import_pool()
        await world.put_run("run", strategy=strategy, seed=7)
        told.append([])
        for turn in range(6):
            first = await world.select(5, "run", tags=("odd", "even"))
            second = await world.select(5, "run", exclude=("t3",))
            for one in (first, second):
                arrays = (one.tasks, one.draws, one.means, one.effective)
                told[-1].append([each.tolist() for each in arrays] + [one.reused, one.id.rsplit("-", 1)[0]])
            await world.report(*outcomes_of(first, turn * 3 % 17), run="run", selection_id=first.id)
        await world.close()
    assert repr(told[0]) == repr(told[1])  # repr: NaN stands where nothing was drawn


async def test_what_is_told_of_each_task_is_what_is_believed_of_it(world: World):
    await world.put_run("default", belief="bots")
    for turn in range(3):
        await world.report(*(outcome(f"t{task}", (task + turn) % 17) for task in range(10)))
    selection = await world.select(TASKS)
    state, pool = await world.state(), (await world.opened()).dataset.pool
    alpha, beta = beta_parameters(state.belief.distributions(pool, selection.tasks))
    np.testing.assert_array_equal(selection.means, alpha / (alpha + beta))
    # On top of Jeffreys' prior instead of the run's; each report had so many rollouts.
    likely = betabinom(int(state.group_size), alpha - 0.5, beta - 0.5)
    np.testing.assert_allclose(selection.effective, 1 - likely.pmf(0) - likely.pmf(state.group_size), rtol=1e-9)
    assert (selection.epoch, selection.step, selection.seq) == (0, 3, 3)
    distances = np.abs(selection.draws - 0.5)
    assert (np.diff(distances) >= 0).all()


@pytest.mark.parametrize("strategy", ["pass", "thompson"])
@pytest.mark.parametrize("wanted", [{"count": 5}, {"want_effective": 2}])
async def test_a_draw_in_a_thread_is_the_same_draw(world: World, monkeypatch, strategy: str, wanted: dict[str, int]):
    for run in ("default", "again"):
        await world.put_run(run, strategy=strategy)
        await world.report(outcome("t1"), outcome("t2", 16), run=run)
    quick = await wish(world, **wanted)
    monkeypatch.setattr("bots_service.selections.QUICK_NUMBERS", 0)
    slow = await wish(world, run="again", **wanted)
    for name in ("tasks", "draws", "means", "effective"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(slow, name))


# What differs from five tasks for a pass over a grouped pool, and whether the draw is quick.
DRAWS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"strategy": "thompson"}, True),
    ({"strategy": "shuffle"}, False),
    ({"strategy": "uniform"}, False),
    ({"mix": {"odd": 1.0}}, False),
    ({"tags": ("odd",)}, False),
    ({"count": 5000}, False),
    ({"leased": QUICK_NUMBERS}, False),
    ({"grouped": False}, False),  # the first draw groups the whole pool
    ({"profiles": 20_000}, True),  # to a pass as many profiles as tasks make no difference
    ({"profiles": 20_000, "strategy": "thompson"}, False),
    ({"profiles": 20_000, "count": 1000}, False),
    ({"profiles": 20_000, "retired": 19_900}, False),  # a pass meets them
    ({"strategy": "thompson", "tried": 100}, True),
    ({"strategy": "thompson", "tried": 9000, "leased": 7000}, False),
]


@pytest.mark.parametrize(("facts", "quick"), DRAWS)
def test_only_an_ordinary_draw_over_few_numbers_holds_up_the_event_loop(facts: dict[str, Any], quick: bool):
    profiles, tried = facts.get("profiles", 2), facts.get("tried", 0)
    rates = np.linspace(0, 1, profiles)[np.arange(max(profiles, 9000)) % profiles, None]
    pool = Pool.of_tasks(rates, {"odd": np.arange(1, len(rates), 2, dtype=np.int32)})
    pool = replace(pool, retired=np.arange(len(pool) - facts.get("retired", 0), len(pool), dtype=np.int32))
    if facts.get("grouped", True):
        pool.part()
    settings = settings_from({"strategy": facts.get("strategy", "pass"), "mix": facts.get("mix", {})})
    state = replay(pool, [report_of(*((task, 1.0, 1.0) for task in range(tried)))] if tried else [], settings)
    request = SelectRequest(POOL, facts.get("count", 5), tags=facts.get("tags", ()))
    assert is_quick(request, state, pool, np.arange(facts.get("leased", 0), dtype=np.int32)) is quick


async def test_selections_at_once_share_no_task_while_others_are_free(world: World):
    selections = await asyncio.gather(*(world.select(6) for _ in range(6)))
    tasks = np.concatenate([selection.tasks for selection in selections])
    assert len(set(tasks.tolist())) == 36
    assert [selection.reused for selection in selections] == [0] * 6
    late = await world.select(10)
    assert late.reused == 6
    assert set(range(TASKS)) - set(tasks.tolist()) < set(late.tasks.tolist())
    assert await in_flight(world) == TASKS


async def test_a_rewind_ends_the_leases_of_draws_before_it_and_not_of_those_after(world: World):
    await world.report(outcome("t1"))
    drawn, work = asyncio.Event(), world.runs._work_of(await world.row())

    async def until_the_rewind_waits() -> None:
        drawn.set()
        while not work.selecting._waiters:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
        later.append(asyncio.create_task(world.select(7)))

    later: list[asyncio.Task[Selection]] = []
    await world.select(3)
    meanwhile(world.use.live, "lease", until_the_rewind_waits)
    before = asyncio.create_task(world.select(5))
    await drawn.wait()
    rewinding = asyncio.create_task(world.rewind(0))
    assert [(await before).epoch, (await rewinding).epoch, (await later[0]).epoch] == [0, 1, 1]
    assert await in_flight(world) == 7


async def test_the_same_key_gives_the_same_selection_and_another_request_is_refused(world: World):
    request, once = SelectRequest(POOL, 4), IdempotencyKey("key", "four")
    first, dataset, again = await world.runs.select(request, once)
    second, _, repeated = await world.runs.select(request, once)
    assert (again, repeated) == (False, True)
    assert second is first
    assert dataset.row.name == POOL
    assert await in_flight(world) == 4
    with pytest.raises(KeyReusedError):
        await world.runs.select(SelectRequest(POOL, 5), IdempotencyKey("key", "five"))
    other = await world.select(4)
    assert not set(other.tasks.tolist()) & set(first.tasks.tolist())
    alike = await asyncio.gather(*(world.select(3, key="at once") for _ in range(5)))
    assert len({id(selection) for selection in alike}) == 1


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({"count": 4, "tags": ("odd", "none")}, [("body", "tags", 1)]),
        ({"count": 4, "exclude": ("t1", "x", "t2", "y")}, [("body", "exclude", 1), ("body", "exclude", 3)]),
        ({"count": 4, "first": ("t1", "x", "t1", "y")}, [("body", "first", 1), ("body", "first", 2)]),
        ({}, [("body", "count")]),
        ({"count": 2, "want_effective": 2}, [("body", "count")]),
    ],
)
async def test_a_request_that_can_not_be_is_refused_and_leases_nothing(world: World, asked, places):
    assert await flaws_of(wish(world, **asked)) == places
    assert await in_flight(world) == 0


async def test_ids_of_other_runs_remade_runs_and_mangled_ids_are_refused(world: World):
    await world.put_run("a")
    await world.put_run("b")
    mine = await world.select(2, "a")
    before = await world.state("b")
    assert await flaws_of(world.report(outcome("t1"), run="b", selection_id=mine.id)) == [("body", "selection_id")]
    numbers, token = mine.id.rsplit("-", 1)
    mangled = ["", "-", "a-b", numbers, token, f"0-0-0-1-{token}", f"{numbers}-{token}0", f" {mine.id}", f"{mine.id} "]
    mangled += ["\ud800-0-0-0-0", f"\u0660-0-0-0-{token}", "9" * 5000, f"{mine.id}-{token}", "0-0-0-" + token]
    for wrong in mangled:
        with pytest.raises(InvalidSelectionError):
            await world.report(outcome("t1"), run="a", selection_id=wrong)
    assert (await world.state("b")) is before
    await world.runs.delete(POOL, "a", None)
    await world.put_run("a")
    with pytest.raises(InvalidSelectionError):
        await world.report(outcome("t1"), run="a", selection_id=mine.id)
    assert (await world.state("a")).seq == 0


async def test_an_id_carries_where_its_selection_was_made(world: World):
    await world.put_run("default", strategy="thompson")
    await world.report(outcome("t1"))
    await world.report(outcome("t2"))
    await world.rewind(1)
    await world.report(outcome("t2"), close_step=False)
    await world.select(1)
    selection = await world.select(2)
    assert read_id(await world.row(), selection.id) == Origin(epoch=1, step=1, seq=4, ordinal=1)


async def test_a_selection_goes_on_for_a_while_where_others_keep_taking_then_is_made_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    taken: list[np.ndarray] = []
    lease = world.use.live.lease

    async def contested(
        run: RunRow, selection: Selection, look: Look, once: None, *, lease_s: float
    ) -> Previous | bool:
        """Another replica leases the same tasks just before."""
        if len(taken) < rivals and not look.local:
            taken.append(selection.tasks)
            await lease(run, selection, look, None, lease_s=lease_s)
        return await lease(run, selection, look, once, lease_s=lease_s)

    monkeypatch.setattr(world.use.live, "lease", contested)
    monkeypatch.setattr("bots_service.runs.PATIENCE_S", 60)
    rivals = 30  # 12 draws were too few once, where reports kept coming and Redis was wiped ten times a second
    selection = await world.select(1)
    assert not set(selection.tasks.tolist()) & set(np.concatenate(taken).tolist())
    assert not selection.degraded
    taken.clear()
    rivals = TASKS
    monkeypatch.setattr("bots_service.runs.PATIENCE_S", 0.05)
    selection = await world.select(1)
    assert selection.degraded
    assert 1 < len(taken) < TASKS
    assert not set(selection.tasks.tolist()) & set(np.concatenate(taken).tolist())


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_a_selection_that_waited_while_tasks_were_appended_knows_them(world: World, belief: str):
    await world.put_run("default", belief=belief)
    await world.state()
    work = world.runs._work_of(await world.row())
    async with work.selecting:
        waiting = asyncio.create_task(world.select(44, exclude=()))
        await asyncio.sleep(0)
        await world.use.datasets.append(POOL, stream(new_profiles(4)), never)
        await world.report(outcome("t43"), outcome("t2"))
    assert sorted((await waiting).tasks.tolist()) == list(range(44))


async def wish(world: World, **wanted: Any) -> Selection:
    return (await world.runs.select(SelectRequest(POOL, **wanted), None))[0]


async def test_as_few_tasks_come_as_are_expected_to_give_the_wanted_groups(world: World):
    chosen = await wish(world, want_effective=2)
    assert chosen.expected_effective == pytest.approx(chosen.effective.sum())
    assert chosen.expected_effective >= 2 > chosen.effective[:-1].sum()
    least = await wish(world, want_effective=TASKS, tags=("odd",), exclude=("t1",))
    pool = (await world.opened()).dataset.pool
    assert len(least.tasks) == len(pool.part(("odd",))) - 1
    with pytest.raises(PoolTooSmallError):
        await wish(world, want_effective=2, tags=("rare",), exclude=("t1", "t11", "t21", "t31"))


async def leased(world: World, limit: int = 100, run: str = "default") -> tuple[int, list[Lease]]:
    return await Insight(world.runs).leases(POOL, run, limit)


async def test_the_tasks_of_a_selection_are_in_flight_until_its_lease_ends_or_they_are_reported(world: World):
    assert await leased(world) == (0, [])
    await world.put_run("slow", lease_seconds=7200)
    first, second = await world.select(7), await world.select(3)
    await world.select(2, "slow")

    count, groups = await leased(world)
    assert (count, [group.tasks for group in groups]) == (10, [7, 3])
    chosen = [sorted(selection.tasks.tolist()) for selection in (first, second)]
    assert [group.first for group in groups] == [[f"t{task}" for task in tasks[:IDS_PER_LEASE]] for tasks in chosen]
    assert [group.expires_at.timestamp() for group in groups] == pytest.approx([time.time() + LEASE_S] * 2, abs=60)
    assert groups[0].expires_at < groups[1].expires_at
    count, groups = await leased(world, 1)
    assert (count, [group.tasks for group in groups]) == (10, [7])
    _, (slow,) = await leased(world, run="slow")
    assert slow.expires_at.timestamp() == pytest.approx(time.time() + 7200, abs=60)

    await world.report(*(outcome(f"t{task}") for task in first.tasks))
    assert [group.tasks for group in (await leased(world))[1]] == [3]


async def test_what_another_replica_leased_is_told_here(replicas: tuple[World, World]):
    one, other = replicas
    await one.select(3)
    assert (await leased(other))[0] == 3
    await one.put_run("default", lease_seconds=LEASE_S + 1)
    assert await leased(other) == (0, [])
    await one.use.datasets.append(POOL, stream(block(40, 2)), never)
    await one.use.datasets.retire(POOL, [f"t{task}" for task in range(40)], None)
    await one.select(2)

    count, (group,) = await leased(other)

    assert (count, group.tasks, group.first) == (2, 2, ["t40", "t41"])
    assert group.expires_at.timestamp() == pytest.approx(time.time() + LEASE_S, abs=60)
