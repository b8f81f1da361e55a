"""Every call of the client against the real service."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bots_client
from bots_client import (
    Client,
    ConflictError,
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    Retries,
    StaleEpochError,
    Task,
    UnreachableError,
)
from tests.serving import free_port, running_service

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
    """Make a dataset of its own for the test."""
    name = request.node.name[:128]
    client.create_dataset(name, POOL, reference_models=["weak", "strong"], description="of a test")
    return name


def outcomes_of(selection, successes=8):
    return [Outcome.counts(task, successes=successes, trials=16) for task in selection.ids]


def test_a_dataset_is_made_shown_listed_changed_and_deleted(client, pool):
    made = client.dataset(pool)
    assert (made.tasks, made.retired, made.tags, made.description) == (60, 0, {"even": 30}, "of a test")
    assert client.create_dataset(pool, POOL, reference_models=["weak", "strong"], description="of a test") == made
    with pytest.raises(ConflictError):
        client.create_dataset(pool, POOL[:1], reference_models=["weak", "strong"])
    assert client.append_tasks(pool, [Task("late", [0.5, 0.75])]).tasks == 61
    assert client.retire_tasks(pool, ["t0", "t1"]).tasks == 59
    assert pool in [dataset.name for dataset in client.datasets(limit=1)]
    client.delete_dataset(pool)
    with pytest.raises(NotFoundError):
        client.dataset(pool)


def test_steps_are_selected_and_reported(client, pool):
    selection = client.select(pool, 8, tags=["even"], exclude=["t0"])
    assert len(set(selection.ids)) == 8
    assert "t0" not in selection.ids
    open_receipt = client.report(pool, outcomes_of(selection)[:4], selection=selection, close_step=False)
    receipt = client.report(
        pool, [*outcomes_of(selection)[4:7], Outcome.aborted(selection.ids[7])], selection=selection
    )
    assert (open_receipt.closed, open_receipt.step) == (False, 0)
    assert (receipt.closed, receipt.step, receipt.reported, receipt.effective) == (True, 1, 7, 7)
    run = client.run(pool)
    assert (run.step, run.seq, run.totals.rollouts, run.leased) == (1, 2, 7 * 16, 0)
    assert [row.effective_task_ratio for row in client.history(pool)] == [1.0]


def test_a_key_makes_a_call_happen_once(client, pool):
    first, again = (client.select(pool, 4, idempotency_key="select-1") for _ in range(2))
    assert again == first
    receipts = [
        client.report(pool, outcomes_of(first), selection=first.selection_id, idempotency_key="k") for _ in "ab"
    ]
    assert [receipt.duplicate for receipt in receipts] == [False, True]
    assert receipts[0].seq == receipts[1].seq == client.run(pool).seq
    with pytest.raises(InvalidRequestError, match="key"):
        client.report(pool, outcomes_of(first, successes=3), idempotency_key="k")


def test_beliefs_come_by_page_and_as_a_whole(client, pool):
    client.create_run(pool, "default", belief="bots")
    client.report(pool, [Outcome.rewards("t5", [1, 0, 0.5, 1])])
    listed = list(client.tasks(pool, sort="-attempts", limit=7))
    assert len(listed) == 7
    assert (listed[0].id, listed[0].attempts, listed[0].last_step) == ("t5", 4, 1)
    assert listed[0].alpha == pytest.approx(1 + 2.5)
    table = pa.ipc.open_stream(io.BytesIO(b"".join(client.tasks_arrow(pool)))).read_all()
    every = list(client.tasks(pool))
    assert table.column("alpha").to_pylist() == [belief.alpha for belief in every]
    assert [belief.id for belief in client.tasks(pool, ids=["t3", "t4"])] == ["t3", "t4"]


def test_runs_are_forked_changed_rewound_and_stored(client, pool):
    for _ in range(3):
        client.report(pool, outcomes_of(client.select(pool, 6)))
    old = client.select(pool, 2)
    fork = client.create_run(pool, "other", fork_run="default", fork_step=2, seed=5)
    assert (fork.step, fork.settings.seed, fork.forked_from.run) == (2, 5, "default")
    assert client.update_run(pool, "other", target=0.2).settings.target == 0.2
    assert [run.run for run in client.runs(pool)] == ["default", "other"]
    rewound = client.rewind(pool, 1)
    assert (rewound.step, rewound.epoch) == (1, 1)
    with pytest.raises(StaleEpochError):
        client.report(pool, outcomes_of(old), selection=old)
    with pytest.raises(NotFoundError):
        client.rewind(pool, 3)
    stored = client.snapshot(pool)
    assert stored in client.snapshots(pool)
    client.delete_run(pool, "other")
    assert [run.run for run in client.runs(pool)] == ["default"]


def test_pools_are_uploaded_from_ndjson_and_parquet_alike(client, tmp_path):
    rows = [
        {"id": task.id, "reference_pass_rates": list(task.reference_pass_rates), "tags": list(task.tags)}
        for task in POOL
    ]
    (tmp_path / "pool.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pool.parquet")
    digests = set()
    for kind in ("ndjson", "parquet"):
        made = client.upload_dataset(kind, tmp_path / f"pool.{kind}", reference_models=["weak", "strong"])
        digests.add(made.digest)
        assert made.tasks == len(POOL)
    assert len(digests) == 1


def test_the_service_tells_what_it_is(client):
    assert client.is_live()
    assert client.is_ready()
    assert client.version().version == bots_client.__version__


def test_nobody_at_home_is_an_error_that_says_where():
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, retries=Retries(attempts=2, first_wait_s=0)) as client:
        with pytest.raises(UnreachableError, match=url) as caught:
            client.dataset("guru")
        assert not isinstance(caught.value, DeadlineExceededError)
        assert not client.is_live()
