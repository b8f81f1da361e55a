"""The 100 recorded exchanges: what the Python client and a live service said to each other in one training course.

    python -m tests.languages.recording      records them anew, into examples/languages/exchanges.ndjson

The course is the one that every program in examples/languages goes through: it is killed while its 47th request, a
select, is under way, and goes on from its checkpoint of step 20 to step 45. Same seed, same journal, same calls give
the same selections; so a program in another language has the same exchanges, but for its keys.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bots_client import Client, Outcome, Task
from tests.languages.recording_proxy import Exchange, RecordingProxy
from tests.serving import running_service

PROGRAMS = Path(__file__).parents[2] / "examples/languages"
RECORDED = PROGRAMS / "exchanges.ndjson"
KILLED_DURING = 47  # the number of that exchange: the dataset, the run, 22 steps, and the next step's select
RESUMED_FROM = 20
STEPS = 45

UNDETERMINED = {"created_at", "settings"}  # the service's clock; and a run's settings, of which there may be more
DIGITS = 6  # processors may differ in the last ones


def determined(exchange: Exchange) -> dict[str, Any]:
    """Return what is the same in every recording of the same course."""
    path, body = exchange.path, exchange.body
    if isinstance(body, bytes):  # the client uploads tasks as lines, the programs the same as one object
        header, *tasks = map(json.loads, body.splitlines())
        body = {**header, "tasks": tasks}
    said = {"method": exchange.method, "path": path, "body": body}
    kept: dict[str, Any] = _kept({**said, "status": exchange.status, "answer": exchange.answer})
    return kept


def recorded() -> list[dict[str, Any]]:
    """Return the exchanges that are kept."""
    return [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _of_run(name, _kept(each)) for name, each in value.items() if name not in UNDETERMINED}
    if isinstance(value, list):
        return [_kept(each) for each in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _of_run(name: str, value: Any) -> Any:
    # The last part of a selection's id is a check that differs between runs: epoch-step-seq-ordinal-check.
    return value.rpartition("-")[0] if name == "selection_id" else value


def solved(skill: int, level: int) -> int:
    """Return how many of 16 rollouts solve a level: what the programs compute, too."""
    return min(16, max(0, skill - level))


def begin(bots: Client) -> None:
    """Make the dataset and its run."""
    levels = range(100)
    tasks = [Task(f"level-{level}", [solved(20, level) / 16, solved(60, level) / 16]) for level in levels]
    bots.create_dataset("levels", tasks, reference_models=["weak", "strong"])


def go_through_the_course(bots: Client) -> None:
    """Do what the programs do, killed and resumed, with the Python client."""
    begin(bots)
    bots.create_run("levels", "default", seed=7)
    _train(bots, 0, 22)
    bots.select("levels", 8)  # here they are killed
    begin(bots)
    bots.rewind("levels", RESUMED_FROM)
    _train(bots, RESUMED_FROM, STEPS)
    bots.run("levels")


def _train(bots: Client, first_step: int, last_step: int) -> None:
    for step in range(first_step, last_step):
        selection = bots.select("levels", 8)
        outcomes = [Outcome.counts(task, solved(20 + step, int(task.split("-")[1])), 16) for task in selection.ids]
        bots.report("levels", outcomes, selection=selection)


def main() -> int:
    """Record the course."""
    with (
        TemporaryDirectory() as folder,
        running_service(Path(folder)) as service,
        RecordingProxy(service.url) as proxy,
        Client(proxy.url) as bots,
    ):
        go_through_the_course(bots)
    lines = [json.dumps(determined(exchange), sort_keys=True) for exchange in proxy.exchanges]
    RECORDED.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
