"""Registering in large datasets: the script runs, and the page shows the figures that were kept."""

import json
from pathlib import Path

from benchmarks import registering
from benchmarks.registering import RegisteredPool

ROOT = Path(__file__).parents[2]


def test_trainers_register_and_select_and_the_page_shows_the_figures_that_were_kept():
    found = list(registering.registered(tasks=4000))
    assert [one.trainer_tasks for one in found] == [4000, 4000, 2000, 40, 4400, 4000]
    assert all(min(one.first_select_ms, one.select_ms) > 0 for one in found)
    lines = (ROOT / "benchmarks/results/registering.ndjson").read_text("utf-8").splitlines()
    kept = [RegisteredPool(**json.loads(line)) for line in lines]
    assert registering.table(kept) in (ROOT / "docs/trainers/README.md").read_text("utf-8")
