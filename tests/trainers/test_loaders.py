"""A trainer that saves its loader's state saves the run's with it."""

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import Selector
from bots_client.integrations.torch import SelectedTasks, selected
from tests.trainers.recipes import BATCH, POOL, create_pool, task_ids

ROWS = [{"number": number} for number in range(POOL)]


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

    def numbers(rows):
        return [row["number"] for row in rows]

    def loader():
        if kind == "tasks":
            tasks = SelectedTasks(selector, ROWS, count=BATCH, length=POOL, saves_run=True)
            return StatefulDataLoader(tasks, BATCH, collate_fn=numbers)
        return selected(StatefulDataLoader(ROWS, BATCH, collate_fn=numbers, drop_last=True), selector, count=BATCH)

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
