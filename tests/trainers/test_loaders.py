"""A trainer that saves its loader's state saves the run's with it."""

import json

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import Selector, Task
from bots_client.integrations.torch import SelectedTasks, selected
from tests.trainers.recipes import BATCH, POOL, create_pool, task_ids

ROWS = [{"number": number} for number in range(POOL)]


def numbers_of(rows):
    return [row["number"] for row in rows]


def state_of(state):
    """Return the sampler's or the tasks' own state, wherever the loader keeps it."""
    if isinstance(state, dict):
        if "left" in state:
            return state
        found = (state_of(inner) for inner in state.values())
        return next((one for one in found if one is not None), None)
    return None


def train(selector, batches, steps):
    """Observe and close so many steps; returns the batches."""
    seen = []
    for _ in range(steps):
        seen.append(next(batches))
        for number in seen[-1]:
            selector.observe(f"t{number}", [1, 0])
        selector.step()
    return seen


@pytest.mark.parametrize("kind", ["sampler", "tasks"])
def test_loading_a_loader_takes_the_run_back_and_asks_for_nothing_that_was_trained_on(bots, kind):
    dataset = f"loader-{kind}"
    create_pool(bots, dataset)
    selector = Selector(None, dataset, ids=task_ids())

    def loader():
        if kind == "tasks":
            tasks = SelectedTasks(selector, ROWS, count=BATCH, length=POOL, saves_run=True)
            return StatefulDataLoader(tasks, BATCH, collate_fn=numbers_of)
        return selected(StatefulDataLoader(ROWS, BATCH, collate_fn=numbers_of, drop_last=True), selector, count=BATCH)

    first = loader()
    assert len(first) == POOL // BATCH
    batches = iter(first)
    train(selector, batches, 1)
    state = first.state_dict()
    train(selector, batches, 2)
    assert bots.run(dataset).step == 3

    second = loader()
    second.load_state_dict(state)
    assert len(train(selector, iter(second), POOL // BATCH - 1)) == POOL // BATCH - 1
    run = bots.run(dataset)
    assert (run.step, run.epoch, selector.client.health.selects) == (3, 1, 3 + 2)
    selector.client.close()


def test_tasks_without_an_end_have_no_length(bots):
    create_pool(bots, "endless")
    tasks = SelectedTasks(Selector(None, "endless", ids=task_ids()), ROWS, count=BATCH)
    with pytest.raises(TypeError, match="length="):
        len(tasks)


LARGE = 40  # rows that are edited
EDITS = {
    "reversed": range(LARGE)[::-1],
    "rows removed": range(0, LARGE, 2),
    "rows added and moved": [*range(LARGE, 2 * LARGE), *range(LARGE)[::-1]],
    "none of them left": range(LARGE, 2 * LARGE),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", ["sampler", "tasks"])
def test_a_trainer_whose_rows_were_edited_resumes_with_the_tasks_that_are_left(bots, kind, edit, caplog):
    dataset, count = f"edited-{kind}-{edit.replace(' ', '-')}", 2 * BATCH
    bots.create_dataset(dataset, [Task(f"t{number}") for number in range(2 * LARGE)])

    def loader(numbers):
        rows = [{"number": number} for number in numbers]
        selector = Selector(None, dataset, ids=[f"t{number}" for number in numbers])
        selector.register()
        if kind == "tasks":
            tasks = SelectedTasks(selector, rows, count=count, length=LARGE, saves_run=True)
            return selector, StatefulDataLoader(tasks, BATCH, collate_fn=numbers_of)
        return selector, selected(StatefulDataLoader(rows, BATCH, collate_fn=numbers_of), selector, count=count)

    selector, first = loader(range(LARGE))
    train(selector, iter(first), 1)
    state = first.state_dict()
    rest = [task for task, _ in state_of(state)["left"]]
    assert len(rest) == BATCH
    selector.client.close()

    selector, second = loader(EDITS[edit])
    caplog.clear()
    second.load_state_dict(state)
    batches = iter(second)
    trained = [number for _ in range(2) for number in next(batches)]

    kept = [int(task[1:]) for task in rest if int(task[1:]) in EDITS[edit]]
    assert trained[: len(kept)] == kept, "in the order in which they were selected"
    assert set(trained) <= set(EDITS[edit])
    gone = [record.args[0] for record in caplog.records if "passed over" in record.getMessage()]
    assert gone == ([BATCH - len(kept)] if len(kept) < BATCH else [])
    assert (selector.client.health.replaced, selector.client.health.local_selects) == (0, 0)
    selector.client.close()


@pytest.mark.parametrize("tasks", [POOL, 50 * POOL])
def test_a_loaders_state_has_the_size_of_what_was_handed_out(bots, tasks):
    dataset = f"state-of-{tasks}"
    ids = [f"t{number:06}" for number in range(tasks)]
    selector = Selector(None, dataset, ids=ids)
    selector.register()
    loader = selected(StatefulDataLoader(ids, BATCH), selector, count=2 * BATCH)
    next(iter(loader))
    held = {task for task, _ in state_of(loader.state_dict())["left"]}
    assert len(held) == BATCH
    assert set(state_of(loader.state_dict())["selector"]["in_flight"]) <= {*held, *selector._in_flight.tasks}
    assert len(json.dumps(state_of(loader.state_dict()))) < 4000
    selector.client.close()
