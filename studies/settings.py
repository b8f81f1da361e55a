"""Study: how far the settings of BOTS matter: forgetting, implicit weight and target."""

from functools import partial
from typing import Any

from studies.public_pools import POOLS, varied
from studies.replaying import replayed
from studies.study import Cell, Labels, Study, StudyChart, StudyTable, unique
from studies.trial import Measures

FORGETTING = ("0", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
IMPLICIT_WEIGHT = ("0", "0.05", "0.1", "0.2", "0.5", "1")
TARGETS = ("0.3", "0.4", "0.5", "0.6", "0.7")
BOTS, TRACKER = "bots", "tracker"
# The service's own, by name: a table compares with them.
DEFAULTS = {"forgetting": "0.1", "implicit weight": "0.1", "target": "0.5"}
NO_SETTING = "none"  # of the tracker, which has none of these


def trial(pool: str, settings: dict[str, Any], seed: int, quick: bool) -> Measures:
    """Make one trial."""
    return replayed(varied(pool, None), seed, quick, **settings)


def bots(pool: str, **chosen: str) -> Cell:
    """Return a cell of BOTS with some settings that are not the defaults; their names have `_` for a space."""
    labels: Labels = {**DEFAULTS, **{name.replace("_", " "): value for name, value in chosen.items()}}
    settings = {
        "belief": BOTS,
        "forgetting": float(labels["forgetting"]),
        "implicit_weight": float(labels["implicit weight"]),
        "target": float(labels["target"]),
    }
    return Cell({"pool": pool, "belief": BOTS, **labels}, partial(trial, pool, settings))


def tracker(pool: str, target: str) -> Cell:
    """Return a cell of the tracker with Thompson sampling; `pass`, its own strategy, has no target."""
    labels = {"pool": pool, "belief": TRACKER, **dict.fromkeys(DEFAULTS, NO_SETTING), "target": target}
    return Cell(labels, partial(trial, pool, {"belief": TRACKER, "strategy": "thompson", "target": float(target)}))


def cells_of(pool: str) -> list[Cell]:
    """Return the cells of one pool: one setting at a time varied, the others as they are by default."""
    cells = [bots(pool, forgetting=kept) for kept in FORGETTING]
    cells += [bots(pool, implicit_weight=trust) for trust in IMPLICIT_WEIGHT]
    cells += [each(pool, target=target) for each in (bots, tracker) for target in TARGETS]
    return unique(cells)


SETTINGS = Study(
    name="settings",
    title="How far do the settings of BOTS matter?",
    claim="Forgetting matters most: less of it finds more effective tasks, and too little of it predicts worse.",
    cells=tuple(cell for pool in POOLS for cell in cells_of(pool)),
    tables=(
        StudyTable(
            "forgetting",
            ("pool", "forgetting"),
            ("effective_task_ratio", "pool_log_loss"),
            where={
                "belief": (BOTS,),
                "implicit weight": (DEFAULTS["implicit weight"],),
                "target": (DEFAULTS["target"],),
            },
        ),
        StudyTable(
            "target",
            ("pool", "belief"),
            ("last_chosen",),
            where={
                "forgetting": (DEFAULTS["forgetting"], NO_SETTING),
                "implicit weight": (DEFAULTS["implicit weight"], NO_SETTING),
            },
            across="target",
        ),
    ),
    charts=(
        StudyChart(
            "implicit",
            "Share of effective tasks by implicit weight",
            x="implicit weight",
            y="effective_task_ratio",
            lines=("pool",),
            where={"belief": (BOTS,), "forgetting": (DEFAULTS["forgetting"],), "target": (DEFAULTS["target"],)},
        ),
    ),
)
