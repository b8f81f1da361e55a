"""Generators with a client that survives: seeds from the service, and its own ones where it samples itself."""

import pytest

from bots_client import ResilientClient, Task

LEVELS = ["easy", "medium", "hard"]


@pytest.fixture
def generators(service, request):
    """A dataset of three generators on the live service."""
    name = request.node.name.replace("_", "-")
    with ResilientClient(service.url).direct as bots:
        made = bots.create_dataset(name, [Task(level) for level in LEVELS], generators=True)
        assert made.generators
        assert bots.dataset(name).generators
    return name


def test_seeds_come_from_the_service_and_for_replaced_tasks_from_the_client(connect, service, generators):
    bots = connect(service)
    first = bots.select(generators, 9, ids=LEVELS)
    assert len({(task.id, task.seed) for task in first.tasks}) == 9
    replaced = bots.select(generators, 9, ids=LEVELS[:2])
    assert set(replaced.ids) == {"easy", "medium"}
    assert all(isinstance(task.seed, int) for task in replaced.tasks)
    assert len({task.seed for task in replaced.tasks}) == 9


def test_replaced_tasks_of_a_plain_dataset_have_no_seeds(connect, service, dataset):
    selection = connect(service).select(dataset, 5, ids=["t1", *(f"other-{n}" for n in range(4))])
    assert {task.seed for task in selection.tasks} == {None}


def test_a_client_without_a_service_makes_seeds_that_its_own_seed_fixes(connect):
    told = [connect("http://127.0.0.1:9", seed=1).select("sums", 7, ids=LEVELS, generators=True) for _ in range(2)]
    assert told[0].tasks == told[1].tasks
    assert told[0].is_local
    seeds = [task.seed for task in told[0].tasks]
    assert len(set(seeds)) == 7
    assert all(isinstance(seed, int) and 0 <= seed < 2**53 for seed in seeds)
