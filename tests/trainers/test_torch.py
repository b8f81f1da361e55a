import itertools
import math
import pickle
from collections import Counter

import pytest
import torch
from accelerate import skip_first_batches
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import Client, Outcome, ResilientClient, Selector, Task
from bots_client.integrations.torch import SelectedTasks, SelectorSampler, from_rank_zero

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


def test_a_sampler_asks_once_per_chunk_and_gives_the_positions_of_the_chosen(selector):
    positions = list(SelectorSampler(selector, count=8, length=16))
    assert asked(selector) == 2
    assert len(set(positions)) == 16, "the second choice leaves out what is in flight"
    assert selector.client.direct.run(selector.dataset).leased == 16


def test_a_sampler_repeats_each_position_and_each_chunk_as_grpo_wants_it(selector):
    positions = list(SelectorSampler(selector, count=2, copies=3, passes=2, length=24))
    for chunk in (positions[:12], positions[12:]):
        a, b = chunk[0], chunk[3]
        assert chunk == [a, a, a, b, b, b] * 2
    assert asked(selector) == 2


def test_a_sampler_is_as_long_as_the_whole_chunks_of_the_rows(selector):
    assert len(SelectorSampler(selector, count=12, copies=2, passes=3)) == 3 * 12 * 2 * 3


def test_positions_are_those_of_the_ids_that_the_sampler_was_given(new_selector):
    backwards = SelectorSampler(new_selector(tags=["first"]), ids=IDS[::-1], count=5, length=5)
    assert sorted(backwards) == [35, 36, 37, 38, 39]


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


def test_each_iteration_begins_with_a_choice_of_its_own(selector):
    sampler = SelectorSampler(selector, count=8, length=16)
    assert len(list(itertools.islice(sampler, 3))) == 3
    assert len(list(sampler)) == 16
    assert asked(selector) == 1 + 2


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


def test_a_sampler_asks_for_nothing_that_a_resumed_trainer_skips(selector):
    sampler = SelectorSampler(selector, count=8, length=24)
    loader = DataLoader(IDS, batch_size=4, sampler=sampler)
    sampler.skip(16)
    batches = list(skip_first_batches(loader, 4))
    assert asked(selector) == 1
    assert len({task for batch in batches for task in batch}) == 8
    assert len(list(loader)) == 6, "only the next iteration skips"


def test_a_chunk_that_is_skipped_in_part_is_asked_for(selector):
    sampler = SelectorSampler(selector, count=8, length=16)
    sampler.skip(4)
    assert len(set(sampler)) == 16
    assert asked(selector) == 2


def test_a_sampler_can_be_pickled_in_the_middle(selector):
    sampler = SelectorSampler(selector, count=8, length=8)
    positions = iter(sampler)
    begun = [next(positions) for _ in range(3)]
    copy = pickle.loads(pickle.dumps(sampler))  # noqa: S301 - what was just written
    copy.load_state_dict(sampler.state_dict())
    assert len(set(begun + list(copy))) == 8
    assert asked(selector) == 1


def test_a_stream_gives_rows_with_their_task_and_selection(selector):
    rows = list(SelectedTasks(selector, ROWS, count=4, length=8))
    assert all(row["question"] == ROWS[IDS.index(row["task_id"])]["question"] for row in rows)
    assert sorted(Counter(row["selection_id"] for row in rows).values()) == [4, 4]
    for row in rows:
        selector.observe(row["task_id"], [1, 0], selection=row["selection_id"])
    selector.step()
    run = selector.client.direct.run(selector.dataset)
    assert (run.leased, run.totals.reported) == (0, 8)


def test_a_stream_without_a_length_has_no_end(selector):
    assert len(list(itertools.islice(SelectedTasks(selector, ROWS, count=40), 100))) == 100


def test_a_stateful_loader_goes_on_with_a_stream_where_it_was(selector):
    def loader():
        return StatefulDataLoader(SelectedTasks(selector, ROWS, count=8, length=16), batch_size=4)

    before = loader()
    batches = iter(before)
    next(batches)
    state = before.state_dict()
    second = next(batches)
    after = loader()
    after.load_state_dict(state)
    batches = list(after)
    assert batches[0] == second
    assert len(batches) == 3
    assert asked(selector) == 1 + 1


def test_a_stream_asks_for_nothing_that_is_skipped(selector):
    tasks = SelectedTasks(selector, ROWS, count=8, length=16)
    tasks.skip(8)
    rows = list(tasks)
    assert asked(selector) == 1
    assert [row["selection_id"] for row in rows[:8]] == [""] * 8
    assert all(row["selection_id"] for row in rows[8:])


def test_a_stream_says_that_it_cannot_be_read_by_workers(selector):
    with pytest.raises(RuntimeError, match="in a loader's worker; set num_workers=0"):
        list(DataLoader(SelectedTasks(selector, ROWS, count=4, length=8), num_workers=1))


def test_one_process_just_asks():
    assert from_rank_zero(lambda: "the answer") == "the answer"


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (torch.tensor(0.5, requires_grad=True), (0.5,)),
        (torch.tensor([1, 0.5], dtype=torch.bfloat16, requires_grad=True), (1, 0.5)),
        ([torch.tensor(1), torch.tensor([0.0], dtype=torch.float16)], (1, 0)),
        (torch.tensor([True, False]), (1, 0)),
        (torch.tensor([1.0, math.nan, -math.inf]), (1,)),
    ],
)
def test_rewards_may_be_tensors(rewards, expected):
    assert Outcome.rewards("a", rewards).as_wire()["rewards"] == expected
