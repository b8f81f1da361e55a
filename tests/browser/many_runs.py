"""Two thousand runs in a service's database, written there while it is stopped: training them would take hours."""

import time
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Connection, create_engine, delete, insert, select

from bots_service.storage.sql.tables import datasets, journal, runs
from tests.serving import ServiceProcess

AT_WORK_S = 3600.0
DATASETS, RUNS_OF_EACH = 20, 100
STEPS, TASKS, TRIALS = 3, 8, 8  # of each run; tasks of a step


def name_of(run: int) -> str:
    """Return a run's name. run: from 0, in its dataset."""
    return f"run-{run:03}"


def effective_of(run: int) -> int:
    """Return how many of a step's tasks were effective in a run."""
    return run % (TASKS + 1)


def prepare(folder: Path) -> ServiceProcess:
    """Return a stopped service with RUNS_OF_EACH runs in each of DATASETS datasets; the first steps are newest."""
    service = ServiceProcess(folder)
    service.start()
    with httpx.Client(base_url=service.url, timeout=60) as http:
        for place in range(DATASETS):
            tasks = [{"id": f"t{number}"} for number in range(TASKS)]
            http.put(f"/datasets/pool-{place:02}", json={"tasks": tasks}).raise_for_status()
        outcomes = [{"task": f"t{number}", "successes": 4, "trials": TRIALS} for number in range(TASKS)]
        for _ in range(STEPS):
            http.post("/report", json={"dataset": "pool-00", "outcomes": outcomes}).raise_for_status()
    service.stop()
    engine = create_engine(f"sqlite:///{folder / 'bots.db'}")
    with engine.begin() as connection:
        multiply(connection)
    engine.dispose()
    return service


def multiply(connection: Connection) -> None:
    """Put copies of the one run that has steps in place of all runs; their effective tasks and times differ."""

    def rows_of(statement: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(statement).mappings()]

    (run,) = rows_of(select(runs).where(runs.c.head == STEPS))
    entries = rows_of(select(journal).where(journal.c.run_id == run.pop("id")))
    owners = connection.scalars(select(datasets.c.id).order_by(datasets.c.name)).all()
    connection.execute(delete(runs))
    now, first = time.time(), 1000  # an id beyond those that were given out
    ids = {(place, number): first + place * RUNS_OF_EACH + number for place, number in pairs()}
    copies = [
        {
            **run,
            "id": ids[place, number],
            "uid": f"{place}-{number}",
            "dataset_id": owners[place],
            "name": name_of(number),
        }
        for place, number in pairs()
    ]
    connection.execute(insert(runs), copies)
    rows = [(pair, row) for pair in pairs() for row in entries]
    connection.execute(
        insert(journal), [{**row, "run_id": ids[pair], **changes(pair[1], row, now)} for pair, row in rows]
    )


def pairs() -> list[tuple[int, int]]:
    """Return the places of all runs: of the dataset, and in it."""
    return [(place, number) for place in range(DATASETS) for number in range(RUNS_OF_EACH)]


def changes(number: int, entry: dict[str, Any], now: float) -> dict[str, Any]:
    """Return what of an entry differs between runs: their last steps are a minute apart, the first run's is to come.

    So it is at work however long a test takes, and the others are not.
    """
    last, effective = now + AT_WORK_S if number == 0 else now - 60 * number, effective_of(number)
    return {
        "created_at": last - (STEPS - entry["seq"]),
        "effective": effective,
        "total_effective": effective * entry["step"],
    }
