"""The table of README: what choosing gains in recorded, simulated and real training."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from examples.finetune.course import registered_runs
from examples.finetune.measures import arms_of, differences, mean_accuracy
from examples.finetune.plan import BASE
from studies.results import Result
from studies.tables import Interval, difference_of, interval_of

# The paper's belief and strategy, and what new runs get.
HEADS = ("evidence", "what is compared", "seeds", "BOTS", "tracker, `pass`")


@dataclass(frozen=True, slots=True)
class Methods:
    """What a study calls the methods of a row.

    by: the label that tells them apart; base: what the others are compared with; others: in the columns' order.
    """

    by: str
    base: str
    others: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Studied:
    """A row of a study.

    kind: of evidence; text: what is compared; study, measure: their names; labels: those that all its cells have.
    """

    kind: str
    text: str
    study: str
    measure: str
    labels: dict[str, str]
    methods: Methods

    def cells(self, results: Iterable[Result]) -> list[str]:
        """Return how many seeds there are, and what each method has more than the base."""
        mine = [one for one in results if one.study == self.study and self.labels.items() <= one.labels.items()]
        base, *others = (
            [one for one in mine if one.labels[self.methods.by] == name]
            for name in (self.methods.base, *self.methods.others)
        )
        return [str(len(base)), *(shown(difference_of(other, base, self.measure), 3) for other in others)]


@dataclass(frozen=True, slots=True)
class Trained:
    """A row of a registered comparison: the mean held-out accuracy over the course, less that of a shuffled pass.

    text: what is compared; comparison: its name; arms: in the columns' order; None: there was none.
    """

    text: str
    comparison: str
    arms: tuple[str | None, str]

    kind = "trained"

    def cells(self, results: Iterable[Result]) -> list[str]:  # noqa: ARG002 - those of studies
        """Return how many seeds there are, and what each arm has more than a shuffled pass."""
        arms = arms_of(record.course for record in registered_runs(self.comparison))
        found = [differences(arms, arm, mean_accuracy) if arm else [] for arm in self.arms]
        return [str(len(found[-1])), *(shown(interval_of(values) if values else None, 4) for values in found)]


def shown(interval: Interval | None, digits: int) -> str:
    """Return a difference; nothing where there is none."""
    return "" if interval is None else interval.shown(digits, signed=True)


REPLAYED = {"pool": "recorded run", "model": "as measured"}
BELIEFS = Methods("run", "uniform", ("BOTS", "tracker"))
ROWS: tuple[Studied | Trained, ...] = (
    Studied(
        "recorded",
        "[a GRPO run of a model of 1.5 billion weights, replayed](docs/studies/beliefs.md) with its 678 problems that "
        "have two references: share of the selected tasks that are effective, minus uniform sampling",
        "beliefs",
        "effective_task_ratio",
        REPLAYED,
        BELIEFS,
    ),
    Studied(
        "recorded",
        "the same: log loss of the predictions for all tasks, minus uniform sampling; less is better",
        "beliefs",
        "pool_log_loss",
        REPLAYED,
        BELIEFS,
    ),
    Studied(
        "simulated",
        "[a made-up model that repetition harms](docs/studies/methods.md#pools-that-learn): held-out accuracy at the "
        "end, minus a shuffled pass",
        "methods",
        "last_accuracy",
        {"pool": "interference"},
        Methods("method", BASE, ("BOTS", "tracker, pass")),
    ),
    Trained(
        "[GRPO of a tiny model on additions](docs/studies/finetuning.md): held-out accuracy, mean over the course, "
        "minus a shuffled pass; with two references",
        "additions",
        ("bots-r2", "pass-r2"),
    ),
    Trained("the same, nothing known beforehand", "additions", ("bots", "pass")),
    Trained(
        "[again, on new seeds](examples/finetune/results/APPENDIX.md#the-same-on-new-seeds): nothing known beforehand",
        "replication",
        (None, "pass"),
    ),
    Trained("the same, with tags", "replication", (None, "pass-tags")),
    Trained("the same, with two references", "replication", (None, "pass-r2")),
    Trained(
        "[eight families of tasks](examples/finetune/results/APPENDIX.md#a-second-kind-of-task), some noise, some "
        "labelled wrong; with two references",
        "families",
        ("bots-r2", "pass-r2"),
    ),
    Trained(
        "[a model of 25 million weights](docs/studies/finetuning.md#a-larger-model), before `pass` got its lower "
        "bound; nothing known beforehand",
        "large-unbounded",
        (None, "pass"),
    ),
    Trained("the same, with tags", "large-unbounded", (None, "pass-tags")),
    Trained("the same, with two references", "large-unbounded", ("bots-r2", "pass-r2")),
    Trained("the same, at a higher learning rate; nothing known beforehand", "large-faster", (None, "pass")),
)


def evidence_table(results: Sequence[Result]) -> str:
    """Return the table in Markdown; links are from the repository's root.

    Args:
        results: of the studies, those that the repository keeps.
    """
    lines = [f"| {' | '.join(HEADS)} |", "|---|---|---:|---:|---:|"]
    lines += [f"| {' | '.join([row.kind, row.text, *row.cells(results)])} |" for row in ROWS]
    return "\n".join(lines)
