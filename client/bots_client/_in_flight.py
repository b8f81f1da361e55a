"""What a `Selector` has under way."""

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping

from bots_client._inputs import Outcome
from bots_client._models import Lease, Selection

SELECTIONS = 1024  # that may be in flight; beyond it the oldest is forgotten, its evidence then counts as of today


class InFlight:
    """What is under way in one process: selections, and what was observed of them. Safe to share between threads."""

    def __init__(self, selected: Mapping[str, set[str]] | None = None, *, first: Iterable[str] = ()) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._selected: OrderedDict[str, set[str]] = OrderedDict(selected or {})
        self._observed: defaultdict[str, list[Outcome]] = defaultdict(list)
        self._first = list(first)

    @property
    def tasks(self) -> set[str]:
        """The tasks of all selections that are under way."""
        with self._lock:
            return set().union(*self._selected.values())

    def whole(self, lease: Lease) -> list[str]:
        """Return the tasks of a lease; where it does not name all, those of its selection that are under way here."""
        if lease.tasks == len(lease.first):
            return list(lease.first)
        with self._lock:
            own = (sorted(tasks) for tasks in self._selected.values() if not tasks.isdisjoint(lease.first))
            return [*lease.first, *(task for tasks in own for task in tasks)]

    def take_first(self, count: int) -> list[str]:
        """Return tasks that are to be handed out before any others; they no longer are."""
        with self._lock:
            taken, self._first = self._first[:count], self._first[count:]
            return taken

    def pass_over(self, tasks: Collection[str]) -> None:
        """Do not hand these out before others."""
        with self._lock:
            self._first = [task for task in self._first if task not in tasks]

    def in_fork(self) -> "InFlight":
        """Return that of a forked process: its parent reports what was observed, and its lock may be held for ever."""
        return InFlight(self._selected)

    def begin(self, selection: Selection) -> None:
        """Note a selection."""
        if selection.is_local:
            return
        with self._lock:
            self._selected[selection.selection_id] = set(selection.ids)
            while len(self._selected) > SELECTIONS:
                self._selected.popitem(last=False)

    def give_back(self, selection: Selection) -> None:
        """Forget a selection; its tasks are handed out before any others."""
        with self._lock:
            self._selected.pop(selection.selection_id, None)
            self._first[:0] = selection.ids

    def note(self, outcome: Outcome, selection: str | None) -> None:
        """Note an outcome; if no selection is named, of the oldest in flight that has its task."""
        with self._lock:
            if selection is None:
                selection = next((key for key, tasks in self._selected.items() if outcome.task in tasks), "")
            self._observed[selection].append(outcome)

    def take(self) -> list[tuple[str, list[Outcome]]]:
        """Return what was observed, by selection, oldest first; it is no longer in flight."""
        with self._lock:
            observed, self._observed = self._observed, defaultdict(list)
            for selection, outcomes in observed.items():
                left = self._selected.get(selection, set())
                left -= {outcome.task for outcome in outcomes}
                if not left:
                    self._selected.pop(selection, None)
            return list(observed.items())
