"""Which tasks are in flight, and until when."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.arrays import frozen
from bots_service.core.pool import Pool
from bots_service.core.task_ids import TaskIds
from bots_service.errors import UnknownRunError
from bots_service.insight import IDS_PER_LEASE, LeaseGroup, grouped
from bots_service.records import DatasetFacts, DatasetRow, LeaseTtls, OpenDataset
from bots_service.retention import LEASE_S
from tests.usecases.replicas import Replica
from tests.usecases.world import POOL, World, block, never, outcome, stream

NOW = 1_700_000_000.0
SIZE = 30
DATASET = OpenDataset(
    DatasetRow(1, POOL, 1, 0, 0.0, DatasetFacts("", (), (), (), SIZE, 1, {}, "")),
    TaskIds.of(f"t{task}" for task in range(SIZE)),
    Pool(np.empty((1, 0)), np.zeros(SIZE, np.int32)),
)


async def in_flight(world: World, limit: int = 100, run: str = "default") -> tuple[int, list[LeaseGroup]]:
    return await replace(world.use.read_leases, clock=lambda: NOW)(POOL, run, limit)


@given(st.dictionaries(st.integers(0, SIZE - 1), st.sampled_from([0.5, 30.0, 1800.0, 3600.0])), st.integers(1, 5))
def test_tasks_are_grouped_by_when_their_leases_end(ends: dict[int, float], limit: int):
    tasks = sorted(ends)
    leased = LeaseTtls(frozen(np.array(tasks, np.int32)), frozen(np.array([ends[task] for task in tasks], float)))
    expected = []
    for left_s in sorted(set(ends.values())):
        together = [task for task in tasks if ends[task] == left_s]
        expected.append(LeaseGroup(NOW + left_s, len(together), [f"t{task}" for task in together[:IDS_PER_LEASE]]))
    assert grouped(leased, DATASET, NOW, limit) == expected[:limit]


async def test_the_tasks_of_a_selection_are_in_flight_until_its_lease_ends_or_they_are_reported(world: World):
    assert await in_flight(world) == (0, [])
    await world.put_run("slow", lease_seconds=7200)
    first, second = await world.select(7), await world.select(3)
    await world.select(2, "slow")

    count, groups = await in_flight(world)
    assert (count, [group.tasks for group in groups]) == (10, [7, 3])
    chosen = [sorted(selection.tasks.tolist()) for selection in (first, second)]
    assert [group.first for group in groups] == [[f"t{task}" for task in tasks[:IDS_PER_LEASE]] for tasks in chosen]
    assert [group.expires_at for group in groups] == pytest.approx([NOW + LEASE_S] * 2, abs=60)
    assert groups[0].expires_at < groups[1].expires_at
    count, groups = await in_flight(world, 1)
    assert (count, [group.tasks for group in groups]) == (10, [7])
    _, (slow,) = await in_flight(world, run="slow")
    assert slow.expires_at == pytest.approx(NOW + 7200, abs=60)

    await world.report(*(outcome(f"t{task}") for task in first.tasks))
    assert [group.tasks for group in (await in_flight(world))[1]] == [3]


async def test_what_another_replica_leased_is_told_here(replicas: tuple[Replica, Replica]):
    one, other = replicas
    await in_flight(other)
    await one.use.datasets.append(POOL, stream(block(40, 2)), never)
    await one.use.datasets.retire(POOL, [f"t{task}" for task in range(40)], None)
    await one.select(2)

    count, (group,) = await in_flight(other)

    assert (count, group.tasks, group.first) == (2, 2, ["t40", "t41"])
    assert group.expires_at == pytest.approx(NOW + LEASE_S, abs=60)


async def test_a_run_that_another_replica_replaced_has_its_new_leases_only(replicas: tuple[Replica, Replica]):
    one, other = replicas
    await one.select(3)
    assert (await in_flight(other))[0] == 3
    await one.put_run("default", lease_seconds=600)
    assert await in_flight(other) == (0, [])
    with pytest.raises(UnknownRunError):
        await in_flight(other, run="none")
