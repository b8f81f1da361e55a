"""The selections of a `Selector` that are in flight."""

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping

from bots_client._inputs import Outcome
from bots_client._models import Lease, Selection

MAX_SELECTIONS = 1024  # in flight; the oldest is dropped beyond that, and its evidence counts for the current step


class InFlight:
    """One process's selections in flight and unreported outcomes. Safe to share between threads."""

    def __init__(self, selected: Mapping[str, set[str]] | None = None, *, first: Iterable[str] = ()) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._selected: OrderedDict[str, set[str]] = OrderedDict(selected or {})
        self._observed: defaultdict[str, list[Outcome]] = defaultdict(list)
        self._parts: dict[tuple[str, str], float] = {}  # rollouts of groups in parts, by selection and task
        self._first = list(first)

    @property
    def tasks(self) -> set[str]:
        """The tasks of all selections in flight."""
        with self._lock:
            return set().union(*self._selected.values())

    def tasks_of(self, lease: Lease) -> list[str]:
        """Return the tasks of a lease; if it doesn't name all, add those of its selection that are in flight here."""
        if lease.tasks == len(lease.first):
            return list(lease.first)
        with self._lock:
            own = (sorted(tasks) for tasks in self._selected.values() if not tasks.isdisjoint(lease.first))
            return [*lease.first, *(task for tasks in own for task in tasks)]

    def take_first(self, count: int) -> list[str]:
        """Remove and return up to `count` of the tasks that go first."""
        with self._lock:
            taken, self._first = self._first[:count], self._first[count:]
            return taken

    def drop_first(self, tasks: Collection[str]) -> None:
        """Remove tasks from those that go first."""
        with self._lock:
            self._first = [task for task in self._first if task not in tasks]

    def after_fork(self) -> "InFlight":
        """Return the state for a forked process: the parent reports the outcomes; its lock may stay locked."""
        return InFlight(self._selected)

    def begin(self, selection: Selection) -> None:
        """Add a selection."""
        if selection.is_local:
            return
        with self._lock:
            self._selected[selection.selection_id] = set(selection.ids)
            while len(self._selected) > MAX_SELECTIONS:
                self._selected.popitem(last=False)

    def give_back(self, selection: Selection) -> None:
        """Remove a selection; its tasks go first next time."""
        with self._lock:
            self._selected.pop(selection.selection_id, None)
            self._first[:0] = selection.ids

    def add_outcome(self, outcome: Outcome, selection: str | None) -> None:
        """Add an outcome; without a selection, to the oldest one in flight that has its task."""
        with self._lock:
            if selection is None:
                selection = next((key for key, tasks in self._selected.items() if outcome.task in tasks), "")
            self._observed[selection].append(outcome)

    def take_aborted(self, task: str) -> list[tuple[str, list[Outcome]]]:
        """Remove and return a task's aborted outcomes, grouped by selection; it is no longer in flight there."""
        with self._lock:
            taken = []
            for selection, outcomes in self._observed.items():
                aborted = [outcome for outcome in outcomes if outcome.task == task and outcome.is_aborted]
                if aborted:
                    taken.append((selection, aborted))
                    outcomes[:] = [outcome for outcome in outcomes if outcome not in aborted]
                    self._drop(selection, {task})
            self._observed = defaultdict(list, {key: kept for key, kept in self._observed.items() if kept})
            return taken

    def _drop(self, selection: str, tasks: set[str]) -> None:
        left = self._selected.get(selection, set())
        left -= tasks
        if not left:
            self._selected.pop(selection, None)

    def take_outcomes(self) -> list[tuple[str, list[Outcome]]]:
        """Remove and return the outcomes, grouped by selection, oldest first.

        Their tasks are no longer in flight, unless more rollouts of their groups are to come.
        """
        with self._lock:
            observed, self._observed = self._observed, defaultdict(list)
            for selection, outcomes in observed.items():
                self._drop(selection, {outcome.task for outcome in outcomes if self._is_whole(selection, outcome)})
            return list(observed.items())

    def _is_whole(self, selection: str, outcome: Outcome) -> bool:
        """Return whether no more rollouts of the outcome's group are to come."""
        came = self._parts.pop((selection, outcome.task), 0.0) + outcome.rollouts
        if outcome.group_size is None or came >= outcome.group_size:
            return True
        self._parts[selection, outcome.task] = came
        return False
