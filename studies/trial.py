"""One trial: a method chooses tasks of an environment for some steps; what it chose and predicted is measured."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from time import process_time
from typing import Any

import numpy as np

from bots_service.core.arrays import Flags, Floats
from studies.environment import Batch, Environment, batch_of, binomial
from studies.method import Method

CLIP = 1e-3  # predictions are clipped to [CLIP, 1 - CLIP]: one task that surprises must not decide a mean
READ_EVERY = 5  # steps between two readings of the whole pool's predictions
KEPT_EVERY = 20  # steps between two points of a curve
DIGITS = 5  # that are kept of a number

Rewards = Callable[[Floats, int, np.random.Generator], tuple[Floats, Floats, Flags]]


@dataclass(frozen=True, slots=True)
class Measures:
    """What one trial showed; None where it does not apply, as predictions of a method without a belief.

    steps: how many were made.
    effective_task_ratio: share of the tasks rolled out whose rewards differed, the mean over steps.
    pool_log_loss: of the predictions for all tasks before a step, in nats a rollout, expected over the rollouts; the
        mean over every fifth step.
    batch_log_loss: of the predictions for the chosen tasks, in nats a rollout, on their rollouts.
    calibration_slope: of logit p on the logit of the predicted mean, over all chosen tasks, by least squares. 1:
        calibrated; below 1: predictions are too extreme.
    chosen_success: mean success probability of the chosen tasks, in the first and in the last quarter of the steps.
    distinct_tasks: how many tasks were ever chosen.
    most_visits: how often the task came that came most often.
    rollouts: spent in all.
    accuracy: the environment's, before every 20th step, and after the last.
    effective_groups: how many groups were effective by then, from 0.
    rollouts_spent: how many rollouts there were by then, from 0.
    select_seconds, report_seconds: CPU time of all selections and all reports.
    extra: further numbers of a study of its own.
    """

    steps: int
    effective_task_ratio: float
    pool_log_loss: float | None
    batch_log_loss: float | None
    calibration_slope: float | None
    chosen_success: tuple[float, float]
    distinct_tasks: int
    most_visits: int
    rollouts: float
    accuracy: tuple[float, ...]
    effective_groups: tuple[int, ...]
    rollouts_spent: tuple[float, ...]
    select_seconds: float
    report_seconds: float
    extra: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the measures as plain values of few digits, ready for JSON."""
        return {name: shortened(value) for name, value in asdict(self).items()}


def shortened(value: Any) -> Any:
    """Return a value with its numbers rounded to so many significant digits; whole numbers stay."""
    if isinstance(value, float) and not value.is_integer():
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list | tuple):
        return [shortened(each) for each in value]
    return {name: shortened(each) for name, each in value.items()} if isinstance(value, dict) else value


def run_trial(
    environment: Environment,
    method: Method,
    *,
    steps: int,
    count: int,
    rollouts: int,
    rng: np.random.Generator,
    rewards: Rewards = binomial,
    rounds: int = 1,
) -> Measures:
    """Train for some steps; return what was measured.

    Args:
        environment: fresh.
        method: fresh.
        steps: at least 1.
        count: of tasks that each step asks for.
        rollouts: of each of them.
        rng: for the rewards.
        rewards: roll out tasks of these success probabilities.
        rounds: with more than one, DAPO's filter (arXiv:2503.14476): a step chooses and rolls out again, at most so
            often, until `count` groups are effective, and trains on these alone.
    """
    record = Record(len(environment.references))
    for _ in range(steps):
        record.look(environment, method)
        batches = [rolled_out(environment, method, record, count, lambda p: rewards(p, rollouts, rng))]
        while len(batches) < rounds and sum(int(batch.effective.sum()) for batch in batches) < count:
            batches.append(rolled_out(environment, method, record, count, lambda p: rewards(p, rollouts, rng)))
        environment.train(batches[0] if rounds == 1 else filtered(batches, count))
    return record.measures(environment)


def rolled_out(
    environment: Environment,
    method: Method,
    record: "Record",
    count: int,
    rewards: Callable[[Floats], tuple[Floats, Floats, Flags]],
) -> Batch:
    """Let the method choose tasks, roll them out, and let it learn from them."""
    begun = process_time()
    tasks = np.sort(method.select(count))
    record.select_seconds += process_time() - begun
    success = environment.success()[tasks]
    batch = batch_of(tasks, *rewards(success))
    record.keep(batch, success)
    begun = process_time()
    method.report(batch)
    record.report_seconds += process_time() - begun
    return batch


def filtered(batches: list[Batch], count: int) -> Batch:
    """Return the first `count` effective groups, each task's first; all groups of the last batch if there is none."""
    tasks = np.concatenate([batch.tasks for batch in batches])
    useful = np.flatnonzero(np.concatenate([batch.effective for batch in batches]))
    _, first = np.unique(tasks[useful], return_index=True)
    places = useful[np.sort(first)][:count]
    if not len(places):
        return batches[-1]
    places = places[np.argsort(tasks[places])]
    columns = ((getattr(batch, name) for batch in batches) for name in ("successes", "failures", "effective"))
    return batch_of(tasks[places], *(np.concatenate(list(column))[places] for column in columns))


class Record:
    """What is seen of a trial, step by step."""

    def __init__(self, tasks: int) -> None:
        """Begin with nothing seen of so many tasks."""
        self.steps = 0
        self.visits = np.zeros(tasks, np.int64)
        self.rollouts = self.select_seconds = self.report_seconds = 0.0
        self.groups = 0
        self.ratios: list[float] = []
        self.chosen: list[float] = []
        self.pool_losses: list[float] = []
        self.batch_losses: list[float] = []
        self.accuracy: list[float] = []
        self.effective_groups: list[int] = []
        self.rollouts_spent: list[float] = []
        self.slope = Slope()
        self._predicted: Floats | None = None

    def look(self, environment: Environment, method: Method) -> None:
        """See the environment before a step, and what the method predicts of it."""
        self._predicted = method.means()
        if self._predicted is not None and self.steps % READ_EVERY == READ_EVERY // 2:
            self.pool_losses.append(log_loss(environment.success(), self._predicted))
        if self.steps % KEPT_EVERY == 0:
            self._point(environment)
        self.steps += 1

    def keep(self, batch: Batch, success: Floats) -> None:
        """See a step's batch, and the success probabilities of its tasks."""
        effective = int(batch.effective.sum())
        self.groups += effective
        self.ratios.append(effective / max(len(batch), 1))
        self.chosen.append(float(success.mean()))
        self.rollouts += batch.rollouts
        self.visits[batch.tasks] += 1
        if self._predicted is not None:
            predicted = self._predicted[batch.tasks]
            self.batch_losses.append(log_loss(batch.rates, predicted))
            self.slope.add(logit_of(predicted), logit_of(success))

    def measures(self, environment: Environment) -> Measures:
        """Return what was seen, with the accuracy after the last step."""
        self._point(environment)
        quarter = max(len(self.chosen) // 4, 1)
        return Measures(
            steps=self.steps,
            effective_task_ratio=float(np.mean(self.ratios)),
            pool_log_loss=float(np.mean(self.pool_losses)) if self.pool_losses else None,
            batch_log_loss=float(np.mean(self.batch_losses)) if self.batch_losses else None,
            calibration_slope=self.slope.value,
            chosen_success=(float(np.mean(self.chosen[:quarter])), float(np.mean(self.chosen[-quarter:]))),
            distinct_tasks=int((self.visits > 0).sum()),
            most_visits=int(self.visits.max()),
            rollouts=self.rollouts,
            accuracy=tuple(self.accuracy),
            effective_groups=tuple(self.effective_groups),
            rollouts_spent=tuple(self.rollouts_spent),
            select_seconds=self.select_seconds,
            report_seconds=self.report_seconds,
        )

    def _point(self, environment: Environment) -> None:
        self.accuracy.append(environment.accuracy())
        self.effective_groups.append(self.groups)
        self.rollouts_spent.append(self.rollouts)


@dataclass(slots=True)
class Slope:
    """The slope of y on x by least squares, from sums."""

    count: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, x: Floats, y: Floats) -> None:
        """See more points."""
        self.count += len(x)
        self.x += float(x.sum())
        self.y += float(y.sum())
        self.xx += float(x @ x)
        self.xy += float(x @ y)

    @property
    def value(self) -> float | None:
        """The slope; None where x never varied."""
        spread = self.count * self.xx - self.x**2
        return (self.count * self.xy - self.x * self.y) / spread if spread > 1e-9 * self.count * self.xx else None


def log_loss(success: Floats, predicted: Floats) -> float:
    """Return the mean log loss in nats of predicted probabilities, where a share of rollouts succeeds."""
    clipped = np.clip(predicted, CLIP, 1 - CLIP)
    return float(-np.mean(success * np.log(clipped) + (1 - success) * np.log1p(-clipped)))


def logit_of(probabilities: Floats) -> Floats:
    """Return the logits of probabilities, clipped as predictions are."""
    clipped = np.clip(probabilities, CLIP, 1 - CLIP)
    logits: Floats = np.log(clipped) - np.log1p(-clipped)
    return logits
