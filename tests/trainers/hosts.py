"""What the tests of the adapters for Trinity-RFT, slime and prime-rl have in common."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bots_client import Client, Task
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
FORGETTING = 0.1  # a run's, unless set
SHOWN_URL = "http://127.0.0.1:8000"  # where the pages say that the service is


def create_pool(bots: Client, name: str, ids: Sequence[str], *, first: Sequence[str] = ()) -> None:
    """Create a dataset of tasks without references; with `first`, its run selects those first and in this order."""
    rates = {task: (len(first) - place) / (len(first) + 1) for place, task in enumerate(first)}
    bots.create_dataset(name, [Task(task, [rates.get(task, 0.0)]) for task in ids], reference_models=["m"])
    strategy = "easy_to_hard" if first else "thompson"
    bots.create_run(name, "default", belief="bots", implicit_weight=0, strategy=strategy)


def evidence_of(bots: Client, dataset: str, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the successes and failures that a run of BOTS believes in, less its prior; not of tasks that have none."""
    found: dict[str, tuple[float, float]] = {}
    for belief in bots.tasks(dataset, ids=ids):
        assert belief.alpha is not None
        assert belief.beta is not None
        found[belief.id] = (belief.alpha - 1, belief.beta - 1)
    return {task: counts for task, counts in found.items() if any(counts)}


def blocks(page: str, language: str) -> list[str]:
    """Return the code of a language in a page of docs/trainers."""
    text = (ROOT / "docs" / "trainers" / page).read_text("utf-8")
    return [block.code for block in blocks_of(text, page) if block.language == language and block.not_run is None]


def run_blocks(page: str, url: str) -> dict[str, Any]:
    """Run the python blocks of a page in order, as a reader would; return the names that they leave."""
    session: dict[str, Any] = {"__name__": "__main__"}
    for code in blocks(page, "python"):
        exec(compile(code.replace(SHOWN_URL, url), page, "exec"), session)
    return session


def write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as JSON, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
