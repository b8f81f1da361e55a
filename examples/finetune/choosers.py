"""Where a run's tasks come from: the service, over HTTP; `oracle` has one that knows the truth."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bots_client import Client, Outcome
from examples.finetune.tasks import Problem

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The tasks of one step, and what was believed of them when they were chosen.

    places: in the pool.
    means: [tasks] success probabilities; chances: [tasks] probabilities that some rollouts succeed and some fail.
    """

    places: list[int]
    means: Floats
    chances: Floats


class Chooser(Protocol):
    """What chooses tasks. seconds: how long the training has waited for it."""

    seconds: float

    def select(self, count: int) -> Choice:
        """Return tasks to train on."""

    def report(self, solved: Sequence[int], rollouts: int) -> None:
        """Take how many rollouts of each selected task succeeded."""

    def believed(self) -> Floats:
        """Return the believed success probability of each of the pool's tasks, [pool]."""


class ServiceChooser:
    """The service chooses."""

    def __init__(self, client: Client, dataset: str, run: str, pool: Sequence[Problem]) -> None:
        self.seconds = 0.0
        self._client, self._dataset, self._run = client, dataset, run
        self._places = {problem.id: place for place, problem in enumerate(pool)}

    def select(self, count: int) -> Choice:
        """Return tasks to train on."""
        began = time.perf_counter()
        self._selection = self._client.select(self._dataset, count, run=self._run)
        self.seconds += time.perf_counter() - began
        tasks = self._selection.tasks
        means, chances = (np.array([getattr(task, name) for task in tasks], float) for name in ("mean", "effective"))
        return Choice([self._places[task.id] for task in tasks], means, chances)

    def report(self, solved: Sequence[int], rollouts: int) -> None:
        """Report how many rollouts of each selected task succeeded."""
        counts = zip(self._selection.ids, solved, strict=True)
        outcomes = [Outcome.counts(task, successes, rollouts) for task, successes in counts]
        began = time.perf_counter()
        self._client.report(self._dataset, outcomes, run=self._run, selection=self._selection)
        self.seconds += time.perf_counter() - began

    def believed(self) -> Floats:
        """Return the success probability that the service believes of each of the pool's tasks, [pool]."""
        means = np.empty(len(self._places))
        for task in self._client.tasks(self._dataset, self._run):
            means[self._places[task.id]] = task.mean
        return means
