"""A million tasks come in as one file, in bounded memory."""

import json
from pathlib import Path

import numpy as np

from bots_client import Client, Outcome
from tests.serving import ServiceProcess, running_service

TASKS = 1_000_000
LIMIT_BYTES = 1.5 * 2**30


def write_pool(path):
    rng = np.random.default_rng(7)
    rates = np.sort(rng.integers(0, 17, (TASKS, 2)) / 16, axis=1).tolist()
    tags = (["even"], ["odd", "late"])
    with path.open("w", encoding="ascii") as lines:
        for task in range(TASKS):
            row = {"id": f"task-{task:07d}", "reference_pass_rates": rates[task], "tags": tags[task % 2]}
            lines.write(json.dumps(row) + "\n")


def most_bytes(service: ServiceProcess) -> int:
    """Return how much memory the service held at most, from Linux's own account."""
    status = Path(f"/proc/{service.process.pid}/status").read_text("ascii").splitlines()
    line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_a_million_tasks_load_select_and_report_below_one_and_a_half_gibibytes(tmp_path):
    write_pool(tmp_path / "pool.ndjson")
    with running_service(tmp_path / "service") as service, Client(service.url, deadline_s=120) as client:
        dataset = client.create_dataset("large", tmp_path / "pool.ndjson", reference_models=("weak", "strong"))
        selection = client.select("large", 512, tags=["even"])
        receipt = client.report("large", [Outcome.counts(task, successes=8, trials=16) for task in selection.ids])
        most = most_bytes(service)

    assert (dataset.tasks, dataset.profiles) == (TASKS, 2 * 17 * 18 // 2)
    assert dataset.offset_tags == ("even", "late")  # the same tasks are odd
    assert dataset.tags == {"even": TASKS // 2, "odd": TASKS // 2, "late": TASKS // 2}
    assert all(int(task.removeprefix("task-")) % 2 == 0 for task in selection.ids)
    assert receipt.reported == len(set(selection.ids)) == 512
    assert most < LIMIT_BYTES
