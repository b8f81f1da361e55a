"""Every call of the client against the real service."""

import io

import pytest
from pyarrow import csv

import bots_client
from bots_client import Client, ConflictError, NotFoundError, Outcome, StaleEpochError, Task
from tests.serving import running_service

POOL = [
    Task(f"t{task}", [task % 17 / 16, min(1.0, task % 17 / 16 + 0.25)], ["even"] * (task % 2 == 0))
    for task in range(60)
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def client(service):
    with Client(service.url) as client:
        yield client


@pytest.fixture
def pool(client, request):
    name = request.node.name[:128]
    client.create_dataset(name, POOL, reference_models=["weak", "strong"], description="of a test")
    return name


def outcomes_of(selection, successes=8):
    return [Outcome.counts(task, successes=successes, trials=16) for task in selection.ids]


def test_datasets_are_made_shown_listed_changed_and_deleted(client, pool):
    made = client.dataset(pool)
    assert (made.tasks, made.retired, made.tags, made.description) == (60, 0, {"even": 30}, "of a test")
    with pytest.raises(ConflictError):
        client.create_dataset(pool, POOL[:1], reference_models=["weak", "strong"])
    assert client.append_tasks(pool, [Task("late", [0.5, 0.75])]).tasks == 61
    assert client.retire_tasks(pool, ["t0", "t1"]).tasks == 59
    assert pool in [dataset.name for dataset in client.datasets(limit=1)]
    client.delete_dataset(pool)
    with pytest.raises(NotFoundError):
        client.dataset(pool)


def test_runs_are_trained_read_forked_changed_rewound_and_stored(client, pool):
    client.create_run(pool, "default", belief="bots")
    for step in range(3):
        selection = client.select(pool, 8, tags=["even"], exclude=["t0"], idempotency_key=f"select-{step}")
        assert client.select(pool, 8, tags=["even"], exclude=["t0"], idempotency_key=f"select-{step}") == selection
        client.report(pool, outcomes_of(selection)[:4], selection=selection, close_step=False)
        rest = [*outcomes_of(selection)[4:7], Outcome.aborted(selection.ids[7])]
        receipts = [client.report(pool, rest, selection=selection, idempotency_key=f"report-{step}") for _ in "ab"]
        assert [(one.duplicate, one.step, one.reported) for one in receipts] == [
            (False, step + 1, 7),
            (True, step + 1, 7),
        ]
    assert [row.effective_task_ratio for row in client.history(pool)] == [1.0] * 3
    table = csv.read_csv(io.BytesIO(b"".join(client.tasks_csv(pool))))
    assert table.column("alpha").to_pylist() == [belief.alpha for belief in client.tasks(pool)]
    assert [belief.id for belief in client.tasks(pool, ids=["t3", "t4"])] == ["t3", "t4"]
    old = client.select(pool, 2)
    fork = client.create_run(pool, "other", fork_run="default", fork_step=2, seed=5)
    assert (fork.step, fork.settings.seed, fork.forked_from.run) == (2, 5, "default")
    assert client.update_run(pool, "other", target=0.2).settings.target == 0.2
    assert (client.rewind(pool, 1).step, client.run(pool).epoch) == (1, 1)
    with pytest.raises(StaleEpochError):
        client.report(pool, outcomes_of(old), selection=old)
    client.delete_run(pool, "other")
    assert [run.run for run in client.runs(pool)] == ["default"]


def test_the_service_tells_what_it_is(client):
    assert client.is_live()
    assert client.is_ready()
    assert client.version().version == bots_client.__version__
