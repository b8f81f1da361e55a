"""What chooses the tasks of each step: the service, in this process, or a published method."""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.draw import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.walks import Walk
from bots_service.selections import context_of, seeded
from studies.environment import Batch

NOTHING_NAMED, NOTHING_LEASED = NamedTasks(), frozen(np.empty(0, np.int32))


class Method(Protocol):
    """What chooses tasks and, where it has a belief, predicts their success."""

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, in any order."""
        ...

    def report(self, batch: Batch) -> None:
        """Learn from what the chosen tasks showed."""
        ...

    def means(self) -> Floats | None:
        """[N] predicted probabilities of success, in [0, 1]; None: the method has no belief."""
        ...


class Served:
    """A run of the service: the same draws and the same folds, without HTTP and without a journal.

    With the same seed, tasks and outcomes it selects exactly what a run over HTTP selects, whose selections are each
    reported before the next (a test compares them).
    """

    def __init__(self, references: Floats, *, belief: str, tags: Tasks | None = None, **settings: Any) -> None:
        """Start a run.

        Args:
            references: [N, M] pass rates, weakest model first; with M = 0 there are none.
            belief: the kind of belief.
            tags: [N] the number of each task's tag; they tell tasks with equal references apart (offset tags).
            settings: further ones, as the API takes them; `RunSettings` has the names.

        Raises:
            InvalidSettingsError: a setting is unknown or out of range.
        """
        self.pool = pool_of(references, tags)
        self.state: RunState = fresh_state(settings_from({"belief": belief, **settings}), self.pool)
        self._everything = frozen(np.arange(len(self.pool), dtype=np.int32))
        self._made_at = 0
        self._walks: tuple[Walk, ...] = ()

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, in the order in which the service answers."""
        state = self.state
        context = context_of(state, seeded(state, 0))  # each selection is the first at its seq
        drawn = select_tasks(
            state.belief,
            self.pool,
            SelectRequest("study", count),
            context,
            named=NOTHING_NAMED,
            leased=NOTHING_LEASED,
        )
        self._made_at, self._walks = state.step, drawn.walks
        return drawn.tasks

    def report(self, batch: Batch) -> None:
        """Fold the batch of the last selection; one without tasks closes the step all the same."""
        body = Report(batch.as_evidence(), self._made_at, True, self._walks)
        entry = Entry(self.state.seq + 1, self.state.epoch, self.pool.profiles, body)
        self.state, _ = advance(self.state, entry, self.pool)

    def means(self) -> Floats:
        """[N] predicted probabilities of success."""
        return self.state.belief.distributions(self.pool, self._everything).mean


class WithoutPractice(Served):
    """A run that is told that no group had a gradient: its tracker then knows of no practice."""

    def report(self, batch: Batch) -> None:
        """Fold the batch of the last selection."""
        super().report(replace(batch, effective=np.zeros(len(batch.tasks), bool)))


def pool_of(references: Floats, tags: Tasks | None) -> Pool:
    """Return the service's pool of tasks with these references and, if any, a tag each."""
    if tags is None:
        return Pool.of_tasks(references)
    carriers = {f"tag {tag}": np.flatnonzero(tags == tag).astype(np.int32) for tag in np.unique(tags).tolist()}
    return Pool.of_tasks(references, carriers, tuple(sorted(carriers)))
