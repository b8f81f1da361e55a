"""Sentences of the studies' pages, with the figures that they must have."""

from typing import Any

Figure = tuple[str, str, dict[str, str]]  # study, measure, labels of the cell
ETR, LOSS, DISTINCT, SLOPE = "effective_task_ratio", "pool_log_loss", "distinct_tasks", "calibration_slope"
RECORDED, REASONING = "recorded run", "reasoning gym"
BOTS, TRACKER, THOMPSON, PAPER = "BOTS", "tracker", "tracker, Thompson sampling", "BOTS, capability: paper"
DEFAULTS = {
    "belief": "bots",
    "forgetting": "0.1",
    "implicit_weight": "0.1",
    "capability": "least_squares",
    "target": "0.5",
}

NOT_THE_TRACKERS = ("forgetting", "implicit_weight", "capability")


def belief(measure: str, pool: str, run: str, model: str = "as measured") -> Figure:
    """A figure of the study of beliefs."""
    return "beliefs", measure, {"pool": pool, "run": run, "model": model}


def refer(measure: str, pool: str, references: str, run: str = BOTS) -> Figure:
    """A figure of the study of references."""
    return "references", measure, {"pool": pool, "references": references, "run": run}


def setting(measure: str, pool: str, **chosen: str) -> Figure:
    """A figure of the study of settings."""
    return "settings", measure, {"pool": pool, **DEFAULTS, **chosen}


def both(kind: Any, measure: str, *labels: str, **chosen: str) -> list[Figure]:
    """The same figure on both pools."""
    return [kind(measure, pool, *labels, **chosen) for pool in (RECORDED, REASONING)]


SENTENCES: list[tuple[str, str, list[Figure]]] = [
    (
        "beliefs.md",
        "On the recorded run {:.3f} of the tasks that it then selects are effective, with BOTS {:.3f}, and "
        "with uniform choice {:.3f}; on reasoning gym {:.3f}, {:.3f} and {:.3f}.",
        [belief(ETR, pool, run) for pool in (RECORDED, REASONING) for run in (THOMPSON, BOTS, "uniform")],
    ),
    (
        "beliefs.md",
        "Then {:.3f} and {:.3f} of the tasks are effective, but its log loss is the lowest: {:.3f} and "
        "{:.3f}, where BOTS has {:.3f} and {:.3f}.",
        [
            *both(belief, ETR, TRACKER),
            *both(belief, LOSS, TRACKER),
            *both(belief, LOSS, BOTS),
        ],
    ),
    (
        "beliefs.md",
        "`pass` tried {:.0f} of 678 and {:.0f} of 4,490 tasks, Thompson sampling with the tracker's belief "
        "{:.0f} and {:.0f}, BOTS {:.0f} and {:.0f}.",
        [*both(belief, DISTINCT, TRACKER), *both(belief, DISTINCT, THOMPSON), *both(belief, DISTINCT, BOTS)],
    ),
    (
        "beliefs.md",
        "With the paper's rule of capability, BOTS predicts worse on both pools ({:.3f} and {:.3f}); it "
        "finds fewer effective tasks on the recorded run ({:.3f}) and more on reasoning gym ({:.3f}).",
        [*both(belief, LOSS, PAPER), *both(belief, ETR, PAPER)],
    ),
    (
        "beliefs.md",
        "With the domains as tags, the tracker's log loss on reasoning gym is {:.3f} instead of {:.3f}.",
        [belief(LOSS, REASONING, run) for run in ("tracker, domains as tags", TRACKER)],
    ),
    (
        "beliefs.md",
        "the slope is {:.1f} on the recorded run and {:.1f} on reasoning gym.",
        both(belief, SLOPE, BOTS),
    ),
    (
        "settings.md",
        "With 0.02, {:.3f} of the tasks are effective on the recorded run and {:.3f} on reasoning gym; with "
        "the default, 0.1, {:.3f} and {:.3f}; with 0.5, {:.3f} and {:.3f}.",
        [figure for kept in ("0.02", "0.1", "0.5") for figure in both(setting, ETR, forgetting=kept)],
    ),
    (
        "settings.md",
        "On reasoning gym the log loss rises from {:.3f} to {:.3f} if nothing is forgotten.",
        [setting(LOSS, REASONING), setting(LOSS, REASONING, forgetting="0")],
    ),
    (
        "settings.md",
        "Without implicit evidence {:.3f} and {:.3f} of the tasks are effective; from 0.1 to 1 the share "
        "stays between {:.3f} and {:.3f} on the recorded run and between {:.3f} and {:.3f} on reasoning "
        "gym.",
        [
            *both(setting, ETR, implicit_weight="0"),
            setting(ETR, RECORDED),
            setting(ETR, RECORDED, implicit_weight="0.5"),
            setting(ETR, REASONING),
            setting(ETR, REASONING, implicit_weight="0.5"),
        ],
    ),
    (
        "settings.md",
        "In the last quarter, with the target 0.5, their mean success is {:.3f} and {:.3f}; with the tracker's "
        "belief it is {:.3f} and {:.3f}.",
        [
            *both(setting, "last_chosen"),
            *both(setting, "last_chosen", belief="tracker", **dict.fromkeys(NOT_THE_TRACKERS, "none")),
        ],
    ),
    (
        "references.md",
        "Without references {:.3f} of BOTS' tasks are effective on the recorded run and {:.3f} on reasoning "
        "gym; with the pool's two references {:.3f} and {:.3f}.",
        [*both(refer, ETR, "none"), *both(refer, ETR, "as measured")],
    ),
    (
        "references.md",
        "Four attempts at each task give nearly as much: {:.3f} and {:.3f}.",
        both(refer, ETR, "as measured, 4 attempts"),
    ),
    (
        "references.md",
        "The pass rate of the model itself before training, of 16 attempts, gives more: {:.3f} and {:.3f}.",
        [refer(ETR, RECORDED, "the weaker alone"), refer(ETR, REASONING, "the model itself, before training")],
    ),
    (
        "references.md",
        "With permuted references its log loss is {:.3f} and {:.3f}, where it has {:.3f} and {:.3f} without "
        "any; with inverted ones {:.3f} and {:.3f}.",
        [figure for name in ("permuted", "none", "inverted") for figure in both(refer, LOSS, name)],
    ),
    (
        "references.md",
        "Its share of effective tasks is {:.3f} without references and {:.3f} with them on the recorded "
        "run, and {:.3f} and {:.3f} on reasoning gym; with permuted ones it is {:.3f} and {:.3f}.",
        [
            *[refer(ETR, pool, name, TRACKER) for pool in (RECORDED, REASONING) for name in ("none", "as measured")],
            *both(refer, ETR, "permuted", TRACKER),
        ],
    ),
    (
        "references.md",
        "{:.3f} instead of {:.3f}.",
        [refer(LOSS, REASONING, "the model itself, before training"), refer(LOSS, REASONING, "none")],
    ),
]
