"""The samplers, streams and loaders for torch: what they ask for, and how they resume."""

from collections import Counter

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import Client, ResilientClient, Selector, Task
from bots_client.integrations.torch import SelectedTasks, SelectorSampler, from_rank_zero, selected
from tests.trainers.recipes import BATCH, POOL, task_ids

IDS = [f"task-{number}" for number in range(40)]
ROWS = [{"question": f"{number} + {number}"} for number in range(40)]
FIRST = IDS[:5]


@pytest.fixture
def new_selector(url, tmp_path, request):
    dataset = request.node.name.partition("[")[0]
    with Client(url) as direct:
        direct.create_dataset(dataset, [Task(name, tags=["first"] if name in FIRST else []) for name in IDS])
    with ResilientClient(url, spool=tmp_path) as client:
        yield lambda **more: Selector(client, dataset, ids=IDS, share=from_rank_zero, **more)


@pytest.fixture
def selector(new_selector):
    return new_selector()


def asked(selector):
    return selector.client.health.selects


def test_a_sampler_repeats_each_position_and_each_chunk_as_grpo_wants_it(selector):
    positions = list(SelectorSampler(selector, count=2, copies=3, passes=2, length=24))
    for chunk in (positions[:12], positions[12:]):
        a, b = chunk[0], chunk[3]
        assert chunk == [a, a, a, b, b, b] * 2
    assert asked(selector) == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"count": 41}, "41 tasks can't be selected from 40 rows"),
        ({"count": 0}, "0 tasks can't be selected"),
        ({"count": 2, "ids": ["task-0", "task-0"]}, "'task-0' twice"),
        ({"count": 2, "ids": IDS[1:]}, "no row has the id 'task-0'"),
    ],
)
def test_a_sampler_that_could_not_work_is_refused(selector, arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        SelectorSampler(selector, **arguments)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stateful_loader_goes_on_where_it_was_and_asks_for_nothing_again(selector, workers):
    def loader():
        return StatefulDataLoader(
            IDS, batch_size=4, sampler=SelectorSampler(selector, count=8, length=24), num_workers=workers
        )

    before = loader()
    batches = iter(before)
    next(batches)
    state = before.state_dict()
    second = next(batches)
    given = asked(selector)
    del batches

    after = loader()
    after.load_state_dict(state)
    batches = list(after)
    assert batches[0] == second, "what was left of the chunk"
    assert len(batches) == 5
    assert asked(selector) - given == 2


def test_a_stream_gives_rows_with_their_task_and_selection(selector):
    rows = list(SelectedTasks(selector, ROWS, count=4, length=8))
    assert all(row["question"] == ROWS[IDS.index(row["task_id"])]["question"] for row in rows)
    assert sorted(Counter(row["selection_id"] for row in rows).values()) == [4, 4]
    for row in rows:
        selector.observe(row["task_id"], [1, 0], selection=row["selection_id"])
    selector.step()
    run = selector.client.direct.run(selector.dataset)
    assert (run.leased, run.totals.reported) == (0, 8)


NUMBERED = [{"number": number} for number in range(POOL)]


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
    bots.create_dataset(dataset, map(Task, task_ids()))
    selector = Selector(None, dataset, ids=task_ids())

    def loader():
        if kind == "tasks":
            tasks = SelectedTasks(selector, NUMBERED, count=BATCH, length=POOL, saves_run=True)
            return StatefulDataLoader(tasks, BATCH, collate_fn=numbers_of)
        rows = StatefulDataLoader(NUMBERED, BATCH, collate_fn=numbers_of, drop_last=True)
        return selected(rows, selector, count=BATCH)

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
