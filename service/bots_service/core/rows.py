"""Tables with a row for each of some tasks: sorted, never changed, cheap to add to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Flags, Tasks, contained, frozen

ZERO = frozen(np.zeros((), np.uint8))  # of a type that goes into every column; a Python number takes numpy longer


@dataclass(frozen=True, slots=True)
class TaskRows:
    """What is known of some tasks; a subclass adds columns.

    tasks: [R] sorted and distinct. Each further column is [R] or [j, R]; zeros say that nothing is known.
    """

    tasks: Tasks

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter(_columns_of(type(self))(self))  # type: ignore[arg-type]  # a class is hashable

    def frozen(self) -> Self:
        """Return the rows, made read-only."""
        return type(self)(*map(frozen, self))

    def unknown(self, tasks: Tasks) -> Self:
        """Return rows of tasks of which nothing is known: zeros, to be written to."""
        _, *columns = self
        return type(self)(tasks, *(np.zeros((*one.shape[:-1], len(tasks)), one.dtype) for one in columns))

    def of(self, tasks: Tasks) -> Self:
        """Return rows of these tasks, zeros for those that are not here; they may be written to."""
        if len(self) == 0:
            return self.unknown(tasks)
        places, found = self._find(tasks)
        _, *columns = self
        columns = [column.take(places, axis=-1, mode="clip") for column in columns]
        if np.count_nonzero(found) < len(tasks):
            missing = ~found
            for column in columns:
                np.copyto(column, ZERO, where=missing)
        return type(self)(tasks, *columns)

    def write_to(self, others: Self) -> None:
        """Replace those of the other rows whose tasks are here too."""
        if len(self) == 0:
            return
        places, found = self._find(others.tasks)
        for own, other in islice(zip(self, others, strict=True), 1, None):
            np.copyto(other, own.take(places, axis=-1, mode="clip"), where=found)

    def overlaid(self, newer: Self) -> Self:
        """Return these rows with newer ones added; of a task that is in both, the newer row counts."""
        if len(self) == 0 or len(newer) == 0:
            return newer if len(self) == 0 else self
        tasks = np.concatenate([self.tasks, newer.tasks])
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

    def where(self, chosen: Flags) -> Self:
        """Return the rows for which the mask [R] says so."""
        if chosen.all():
            return self
        places = chosen.nonzero()[0]
        return type(self)(*(column.take(places, axis=-1) for column in self)).frozen()

    def _find(self, tasks: Tasks) -> tuple[NDArray[np.intp], Flags]:
        """Return a place for each task, and whether the task stands there; there must be rows.

        The place of a task that lies behind all rows is none of theirs: take with mode="clip".
        """
        places = self.tasks.searchsorted(tasks)
        return places, self.tasks.take(places, mode="clip") == tasks


@cache
def _columns_of(kind: type[TaskRows]) -> Callable[[TaskRows], tuple[NDArray[Any], ...]]:
    """Return what reads the columns of such rows, tasks first: at once, for a fold reads them a dozen times."""
    return attrgetter(*kind.__dataclass_fields__)


RowsT = TypeVar("RowsT", bound=TaskRows)

FEW_ROWS = 2048  # recent rows that are cheap to copy, however few are settled
RECENT_SHARE = 16  # settled rows for each further recent one: rare settling against small copies
ASKED = "asked"  # names, among the attributes, the rows that were asked for last


@dataclass(frozen=True)
class LayeredRows(Generic[RowsT]):
    """Rows in two tables, so that adding some copies few.

    settled: rows up to when rows were last settled.
    recent: rows that changed since; they count instead of the settled ones of the same tasks.
    """

    settled: RowsT
    recent: RowsT

    @cached_property
    def whole(self) -> RowsT:
        """All rows in one table."""
        return self.settled.overlaid(self.recent)

    @property
    def most_recent(self) -> int:
        """How many recent rows are too few to be worth settling."""
        return FEW_ROWS + len(self.settled) // RECENT_SHARE

    def of(self, tasks: Tasks) -> RowsT:
        """Return the newest row of each task, zeros where there is none; not to be written to.

        The few that were asked for last are found at once, where nobody can write to their tasks: a fold asks for those
        of its step twice, to predict it and to learn from it.
        """
        if len(tasks) > self.most_recent:  # so many are sooner found in one table than in two
            return self.whole.of(tasks)
        asked: RowsT | None = vars(self).get(ASKED)
        if asked is not None and asked.tasks is tasks:
            return asked
        if len(self.settled):
            rows = self.settled.of(tasks)
            self.recent.write_to(rows)
        else:
            rows = self.recent.of(tasks)
        if not tasks.flags.writeable:
            rows = rows.frozen()
            vars(self)[ASKED] = rows  # as `cached_property` does: at worst another thread looks for them, too
        return rows

    def without(self, tasks: Tasks) -> "LayeredRows[RowsT]":
        """Return these rows less those of some tasks, which are sorted."""
        settled, recent = (rows.where(~contained(rows.tasks, (tasks,))) for rows in (self.settled, self.recent))
        return LayeredRows(settled, recent)

    def with_rows(self, rows: RowsT) -> "LayeredRows[RowsT]":
        """Return these rows with newer ones added, settled where the recent ones have become too many."""
        layered = LayeredRows(self.settled, self.recent.overlaid(rows))
        if len(layered.recent) <= layered.most_recent:
            return layered
        return LayeredRows(layered.whole, layered.recent.unknown(rows.tasks[:0]).frozen())
