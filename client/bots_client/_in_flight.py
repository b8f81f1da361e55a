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

    def take_outcomes(self) -> list[tuple[str, list[Outcome]]]:
        """Remove and return the outcomes, grouped by selection, oldest first; their tasks are no longer in flight."""
        with self._lock:
            observed, self._observed = self._observed, defaultdict(list)
            for selection, outcomes in observed.items():
                left = self._selected.get(selection, set())
                left -= {outcome.task for outcome in outcomes}
                if not left:
                    self._selected.pop(selection, None)
            return list(observed.items())
