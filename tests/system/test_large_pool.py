"""A million tasks come in as one Parquet file, in bounded memory; a file that stands for more is refused."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bots_client import Client, InvalidRequestError, Outcome, Task
from tests.serving import ServiceProcess, running_service

TASKS = 1_000_000
LIMIT_BYTES = 1.5 * 2**30


def write_pool(path):
    rng = np.random.default_rng(7)
    rates = np.sort(rng.integers(0, 17, (TASKS, 2)) / 16, axis=1)
    offsets = np.arange(0, 2 * TASKS + 1, 2, dtype=np.int32)
    table = pa.table(
        {
            "id": [f"task-{task:07d}" for task in range(TASKS)],
            "reference_pass_rates": pa.ListArray.from_arrays(offsets, rates.ravel()),
            "tags": [["even"] if task % 2 == 0 else ["odd", "late"] for task in range(TASKS)],
        }
    )
    pq.write_table(table, path)


def most_bytes(service: ServiceProcess) -> int:
    """Return how much memory the service held at most, from Linux's own account."""
    status = Path(f"/proc/{service.process.pid}/status").read_text("ascii").splitlines()
    line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_a_million_tasks_load_select_and_report_below_one_and_a_half_gibibytes(tmp_path):
    write_pool(tmp_path / "pool.parquet")
    with running_service(tmp_path / "service") as service, Client(service.url, deadline_s=120) as client:
        dataset = client.create_dataset("large", tmp_path / "pool.parquet", reference_models=("weak", "strong"))
        selection = client.select("large", 512, tags=["even"])
        receipt = client.report("large", [Outcome.counts(task, successes=8, trials=16) for task in selection.ids])
        most = most_bytes(service)

    assert (dataset.tasks, dataset.profiles) == (TASKS, 2 * 17 * 18 // 2)
    assert dataset.offset_tags == ("even", "late")  # the same tasks are odd
    assert dataset.tags == {"even": TASKS // 2, "odd": TASKS // 2, "late": TASKS // 2}
    assert all(int(task.removeprefix("task-")) % 2 == 0 for task in selection.ids)
    assert receipt.reported == len(set(selection.ids)) == 512
    assert most < LIMIT_BYTES


def write_bomb(path, rows: int) -> None:
    ids = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["x"]))
    pq.write_table(pa.table({"id": ids}), path, row_group_size=2**25, write_statistics=False)


def test_sixty_million_equal_ids_are_refused_at_once_in_little_memory(tmp_path):
    write_bomb(tmp_path / "bomb.parquet", 60_000_000)
    # No limit refuses it by its rows: the repeats do.
    with running_service(tmp_path / "service", max_tasks="100000000") as service, Client(service.url) as client:
        client.create_dataset("warm", [Task("t")])
        began = time.monotonic()
        with pytest.raises(InvalidRequestError):
            client.create_dataset("bomb", tmp_path / "bomb.parquet")
        took_s, most = time.monotonic() - began, most_bytes(service)

    assert took_s < 2
    assert most < 500 * 2**20
