"""A small study made up for tests, whose results are known."""

from functools import partial

from studies.results import Result
from studies.study import Cell, Study, StudyTable
from studies.trial import Measures


def measures(**values) -> Measures:
    known = {
        "steps": 40,
        "effective_task_ratio": 0.5,
        "pool_log_loss": 0.4,
        "batch_log_loss": 0.6,
        "calibration_slope": 1.0,
        "chosen_success": (0.4, 0.6),
        "distinct_tasks": 7,
        "most_visits": 3,
        "rollouts": 640.0,
        "accuracy": (0.1, 0.2, 0.3),
        "effective_groups": (0, 10, 20),
        "rollouts_spent": (0.0, 320.0, 640.0),
        "select_seconds": 0.02,
        "report_seconds": 0.04,
    }
    return Measures(**{**known, **values})


def trial(ratio: float, loss: float | None, seed: int, quick: bool) -> Measures:
    return measures(effective_task_ratio=ratio + 0.1 * seed, pool_log_loss=loss, steps=4 if quick else 40)


def cell(pool: str, size: str, ratio: float, loss: float | None = 0.4) -> Cell:
    return Cell({"pool": pool, "size": size}, partial(trial, ratio, loss))


MADE = Study(
    name="made",
    title="What is made up?",
    claim="All of it.",
    cells=(cell("one", "8", 0.2), cell("one", "16", 0.3), cell("two", "8", 0.4, None), cell("two", "4", 0.1)),
    tables=(StudyTable("all", ("pool", "size"), ("effective_task_ratio", "pool_log_loss"), baseline={"size": "8"}),),
)


def results(seeds: int = 3) -> list[Result]:
    return [
        Result("made", cell.labels, seed, cell.trial(seed, False).as_dict())
        for cell in MADE.cells
        for seed in range(seeds)
    ]
