"""Study: which belief finds effective tasks and predicts all tasks, on pools whose model does not react."""

from functools import partial
from typing import Any

from studies.public_pools import MODEL_CASES, POOLS, varied
from studies.replaying import replayed
from studies.study import Cell, Study, StudyTable
from studies.trial import Measures

AS_MEASURED = "as measured"
BOTS, TRACKER, TAGGED = "BOTS", "tracker", "tracker, domains as tags"
ARMS: dict[str, dict[str, Any]] = {
    "uniform": {"belief": "bots", "strategy": "uniform"},
    BOTS: {"belief": "bots"},
    "BOTS, capability: paper": {"belief": "bots", "capability": "paper"},
    "tracker, Thompson sampling": {"belief": "tracker", "strategy": "thompson"},
    TRACKER: {"belief": "tracker"},
    TAGGED: {"belief": "tracker", "with_tags": True},
}


def trial(pool: str, case: str, arm: str, seed: int, quick: bool) -> Measures:
    """Make one trial."""
    return replayed(varied(pool, None if case == AS_MEASURED else case), seed, quick, **ARMS[arm])


def cell(pool: str, case: str, arm: str) -> Cell:
    """Return one cell."""
    return Cell({"pool": pool, "model": case, "run": arm}, partial(trial, pool, case, arm))


def arms_of(pool: str) -> list[str]:
    """Return the runs that are made on a pool as it was measured: only reasoning gym has tags."""
    return [arm for arm in ARMS if arm != TAGGED or pool == "reasoning gym"]


BELIEFS = Study(
    name="beliefs",
    title="Which belief finds effective tasks, and which predicts best?",
    claim="The tracker: by Thompson sampling it finds the most effective tasks, by `pass` it predicts best.",
    cells=(
        *(cell(pool, AS_MEASURED, arm) for pool in POOLS for arm in arms_of(pool)),
        *(
            cell(pool, case, arm)
            for pool in POOLS
            for case in MODEL_CASES
            for arm in (BOTS, "tracker, Thompson sampling", TRACKER)
        ),
    ),
    tables=(
        StudyTable(
            "measured",
            ("pool", "run"),
            ("effective_task_ratio", "pool_log_loss", "calibration_slope", "distinct_tasks"),
            where={"model": (AS_MEASURED,)},
        ),
        StudyTable(
            "models",
            ("pool", "model"),
            ("pool_log_loss",),
            where={"run": (BOTS, "tracker, Thompson sampling", TRACKER)},
            across="run",
        ),
    ),
)
