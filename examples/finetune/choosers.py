"""Where a run's tasks come from: the service, over HTTP, or one that knows the truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_client import Client, Outcome, Selection, Task
from examples.finetune.kinds import kind_of, problems_of
from examples.finetune.model import effective_probabilities
from examples.finetune.plan import ARMS, Plan

REFERENCES = ("warm-up, weak", "warm-up, strong")
LEAST_CHANCE = 1 / 20  # of every task, as the service's `pass` has it

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The tasks of one batch, and what was believed of them when they were chosen.

    places: in the pool.
    means: [tasks] success probabilities; chances: [tasks] probabilities that some rollouts succeed and some fail.
    selection: of the service.
    """

    places: list[int]
    means: Floats
    chances: Floats
    selection: Selection | None = None


class ServiceChooser:
    """The service chooses, for one run of it."""

    def __init__(self, client: Client, dataset: str, arm: str, *, plan: Plan, seed: int) -> None:
        self._client, self._dataset, self._run, self._plan, self._seed = client, dataset, arm, plan, seed
        self._pool, _ = problems_of(plan, seed)
        self._places = {problem.id: place for place, problem in enumerate(self._pool)}

    def create(self, rates: Floats) -> None:
        """Make the pool and its run, both the arm's own: arms differ in what the service knows of the tasks.

        rates: [pool, 2] pass rates of the references; used if the arm may know them.
        """
        arm, kind = ARMS[self._run], kind_of(self._plan)
        known = rates if arm.references else np.empty((len(self._pool), 0))
        tasks = [
            Task(problem.id, own.tolist(), tags=kind.tags(problem) if arm.tags else [])
            for problem, own in zip(self._pool, known, strict=True)
        ]
        self._client.create_dataset(self._dataset, tasks, reference_models=REFERENCES if arm.references else ())
        rollouts = self._plan.rollouts
        self._client.create_run(self._dataset, self._run, seed=self._seed, rollouts_per_task=rollouts, **arm.settings)

    def rewind(self, step: int) -> None:
        """Forget what was reported after a step."""
        self._client.rewind(self._dataset, step, self._run)

    def select(self) -> Choice:
        """Return tasks to train on."""
        wants = ARMS[self._run].wants
        selection = self._client.select(
            self._dataset,
            None if wants else self._plan.tasks_per_step,
            run=self._run,
            want_effective=self._plan.effective_groups if wants else None,
        )
        tasks = selection.tasks
        means, chances = (np.array([getattr(task, name) for task in tasks], float) for name in ("mean", "effective"))
        return Choice([self._places[task.id] for task in tasks], means, chances, selection)

    def report(self, choice: Choice, solved: Sequence[int]) -> None:
        """Report how many rollouts of each chosen task succeeded."""
        assert choice.selection is not None
        counts = zip(choice.selection.ids, solved, strict=False)  # a run's last batch may be cut
        outcomes = [Outcome.counts(task, int(successes), self._plan.rollouts) for task, successes in counts]
        self._client.report(self._dataset, outcomes, run=self._run, selection=choice.selection)

    def believed(self) -> Floats:
        """Return the success probability that the service believes of each of the pool's tasks, [pool]."""
        means = np.empty(len(self._places))
        for task in self._client.tasks(self._dataset, self._run):
            means[self._places[task.id]] = task.mean
        return means


class Oracle:
    """A ceiling for every way of choosing: the strategy `pass`, of one that knows each task's success probability.

    It walks through the pool in random order, and takes each task with its true P(effective), or 1/20 if that is less.
    Where a pass ends, the next begins, in another order. It is plain data, which a checkpoint can keep.
    """

    def __init__(self, pool: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._order, self._place = self._rng.permutation(pool), 0

    def select(self, count: int, truth: Callable[[NDArray[np.int64]], Floats], rollouts: int) -> Choice:
        """Return tasks to train on.

        truth: returns the success probabilities of tasks, by their places in the pool.
        """
        taken: dict[int, tuple[float, float]] = {}
        while len(taken) < count:
            if self._place == len(self._order):
                self._order, self._place = self._rng.permutation(len(self._order)), 0
            ahead = self._order[self._place : self._place + count]
            means = truth(ahead)
            chances = effective_probabilities(means, rollouts)
            found = self._rng.random(len(ahead)) < np.maximum(chances, LEAST_CHANCE)
            for place, mean, chance, is_taken in zip(ahead.tolist(), means, chances, found, strict=True):
                self._place += 1
                if is_taken:
                    taken.setdefault(place, (mean, chance))
                if len(taken) == count:
                    break
        means, chances = np.array(list(taken.values())).T
        return Choice(list(taken), means, chances)
