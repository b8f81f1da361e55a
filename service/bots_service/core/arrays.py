"""Arrays, sets of tasks as sorted arrays, and tables about tasks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]
Bits = NDArray[np.uint32]  # up to 32 flags in one number
Scores = NDArray[np.int8]  # in 32nds of a standard deviation
Tasks = NDArray[np.int32]  # indices of tasks in their dataset; a task's index never changes

SCORE_PARTS, MOST_SCORE = 32, 127

Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the array, made read-only: values in the core are shared between threads."""
    array.flags.writeable = False
    return array


NO_TASKS: Tasks = frozen(np.empty(0, np.int32))
NO_NUMBERS: Floats = frozen(np.empty(0))
NO_SCORES: Scores = frozen(np.empty(0, np.int8))


def ordered_sum(values: Floats) -> float:
    """Return the sum, added one after the other: numpy's own order depends on the machine."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


def as_places(chosen: Counts | Flags) -> Counts:
    """Return places as they are, and of a mask those where it is true; `take` with them is quicker than an index."""
    return np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64, copy=False)


def united(*sets: Tasks) -> Tasks:
    """Return the tasks that are in any of the arrays, sorted and distinct; the arrays may be in any order."""
    full = [tasks for tasks in sets if len(tasks)]
    if not full:
        return NO_TASKS
    tasks = np.sort(np.concatenate(full), kind="stable")
    return tasks[is_first(tasks)]


def last_of(tasks: Tasks) -> int:
    """Return the last of sorted tasks, -1 of none."""
    return int(tasks[-1]) if len(tasks) else -1


def is_first(ordered: NDArray[np.generic]) -> NDArray[np.bool_]:
    """[n] whether each entry differs from the one before, for an array in which equals stand together."""
    first = np.empty(len(ordered), bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def first_places(tasks: Tasks) -> Counts:
    """Return, ascending, the places where tasks stand for the first time."""
    by_task = np.argsort(tasks, kind="stable")
    return np.sort(by_task[is_first(tasks[by_task])])


def contained(tasks: Tasks, sets: tuple[Tasks, ...]) -> NDArray[np.bool_]:
    """[n] whether each task is in any of the sorted arrays."""
    found = np.zeros(len(tasks), bool)
    for one in sets:
        if len(one):
            found |= one.take(one.searchsorted(tasks), mode="clip") == tasks
    return found


def without(tasks: Tasks, others: Tasks) -> Tasks:
    """Return the tasks less the others, which may be in any order."""
    return tasks[~contained(tasks, (np.sort(others),))] if len(others) else tasks


@dataclass(frozen=True, slots=True)
class Table:
    """What is known of some tasks, by index; each column that a subclass adds is [n] or [j, n]."""

    tasks: Tasks

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter(_columns_of(type(self))(self))  # type: ignore[arg-type]  # a class is hashable

    def frozen(self) -> Self:
        """Return the table, made read-only."""
        return type(self)(*map(frozen, self))

    def where(self, chosen: Flags | Counts) -> Self:
        """Return the rows at some places, or where a mask says so."""
        places = as_places(chosen)
        return type(self)(*(column.take(places, axis=-1) for column in self)).frozen()

    @classmethod
    def joined(cls, tables: Sequence[Self]) -> Self:
        """Return the rows of all tables, at least one, one after the other."""
        full = [table for table in tables if len(table)] or tables
        if len(full) == 1:
            return full[0]
        return cls(*(np.concatenate(columns, axis=-1) for columns in zip(*full, strict=True))).frozen()


@cache
def _columns_of(kind: type[Table]) -> Callable[[Table], tuple[NDArray[Any], ...]]:
    """Return what reads the columns of such tables, tasks first: at once, for a fold reads them a dozen times."""
    return attrgetter(*kind.__dataclass_fields__)


_ZERO = frozen(np.zeros((), bool))  # of a type that goes into every column; a Python number takes numpy longer


@dataclass(frozen=True, slots=True)
class TaskRows(Table):
    """A table whose tasks are sorted and distinct; zeros say that nothing is known."""

    def of(self, tasks: Tasks) -> Self:
        """Return rows of these tasks, zeros for those that are not here; they may be written to."""
        _, *columns = self
        if len(self) == 0:
            return type(self)(tasks, *(np.zeros((*one.shape[:-1], len(tasks)), one.dtype) for one in columns))
        places, found = self._find(tasks)
        columns = [column.take(places, axis=-1, mode="clip") for column in columns]
        if np.count_nonzero(found) < len(tasks):
            missing = ~found
            for column in columns:
                np.copyto(column, _ZERO, where=missing)
        return type(self)(tasks, *columns)

    def write_to(self, others: Self) -> None:
        """Replace those of the other rows whose tasks are here too."""
        if len(self) == 0:
            return
        places, found = self._find(others.tasks)
        for own, other in islice(zip(self, others, strict=True), 1, None):
            np.copyto(other, own.take(places, axis=-1, mode="clip"), where=found)

    def _find(self, tasks: Tasks) -> tuple[NDArray[np.intp], Flags]:
        """Return a place for each task, to be taken with mode="clip", and whether the task stands there."""
        places = self.tasks.searchsorted(tasks)
        return places, self.tasks.take(places, mode="clip") == tasks

    def overlaid(self, newer: Self) -> Self:
        """Return these rows with newer ones added; of a task that is in both, the newer row counts."""
        if len(self) == 0 or len(newer) == 0:
            return newer if len(self) == 0 else self
        tasks = np.concatenate((self.tasks, newer.tasks))
        order = tasks.argsort(kind="stable")  # of two sorted runs this is a merge; of equals the newer comes last
        tasks = tasks.take(order)
        is_last = np.empty(len(tasks), bool)
        is_last[-1] = True
        np.not_equal(tasks[1:], tasks[:-1], out=is_last[:-1])
        if np.count_nonzero(is_last) < len(tasks):
            order, tasks = order.compress(is_last), tasks.compress(is_last)
        pairs = islice(zip(self, newer, strict=True), 1, None)
        columns = [frozen(np.concatenate(pair, axis=-1).take(order, axis=-1)) for pair in pairs]
        return type(self)(frozen(tasks), *columns)


RowsT = TypeVar("RowsT", bound=TaskRows)

FEW_ROWS = 1024  # recent rows that are cheap to copy, however few are settled
RECENT_SHARE = 16  # settled rows for each further recent one: rare settling against small copies


def are_many(recent: Table, settled: Table) -> bool:
    """Return whether so many rows are recent that they are worth settling."""
    return len(recent) > FEW_ROWS + len(settled) // RECENT_SHARE


@dataclass(frozen=True)
class LayeredRows(Generic[RowsT]):
    """Rows in two tables, so that adding some copies few: a recent one counts instead of a settled one of its task."""

    settled: RowsT
    recent: RowsT

    @cached_property
    def whole(self) -> RowsT:
        """All rows in one table."""
        return self.settled.overlaid(self.recent)

    def of(self, tasks: Tasks) -> RowsT:
        """Return the newest row of each task, zeros where there is none."""
        if tasks.flags.writeable:
            return self._of(tasks)
        asked: RowsT | None = vars(self).get("_asked")  # a fold asks several times for those of its step
        if asked is None or asked.tasks is not tasks:
            asked = vars(self)["_asked"] = self._of(tasks).frozen()
        return asked

    def _of(self, tasks: Tasks) -> RowsT:
        if not len(self.settled):
            return self.recent.of(tasks)
        rows = self.settled.of(tasks)
        self.recent.write_to(rows)
        return rows

    def knowing(self, same: Self) -> Self:
        """Return the same rows, knowing those that were asked for last."""
        vars(same)["_asked"] = vars(self).get("_asked")
        return same

    def with_rows(self, rows: RowsT) -> Self:
        """Return these rows with newer ones added, settled where the recent ones have become too many."""
        layered = replace(self, recent=self.recent.overlaid(rows))
        if not are_many(layered.recent, self.settled):
            return layered
        return replace(layered, settled=layered.whole, recent=self.recent.where(np.empty(0, np.int64)))
