"""Tables about tasks: columns of one length, never changed, cheap to add to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Flags, Tasks, as_places, contained, frozen


@dataclass(frozen=True, slots=True)
class Table:
    """What is known of some tasks; a subclass adds columns.

    tasks: [n] indices. Each further column is [n] or [j, n].
    """

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
        if len(tables) == 1:
            return tables[0]
        return cls(*(np.concatenate(columns, axis=-1) for columns in zip(*tables, strict=True))).frozen()

    @property
    def nbytes(self) -> int:
        """How much memory the columns take."""
        return sum(column.nbytes for column in self)


@cache
def _columns_of(kind: type[Table]) -> Callable[[Table], tuple[NDArray[Any], ...]]:
    """Return what reads the columns of such tables, tasks first: at once, for a fold reads them a dozen times."""
    return attrgetter(*kind.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class TaskRows(Table):
    """A table whose tasks are sorted and distinct; zeros say that nothing is known."""

    def of(self, tasks: Tasks) -> Self:
        """Return rows of these tasks, zeros for those that are not here; they may be written to."""
        _, *columns = self
        rows = type(self)(tasks, *(np.zeros((*one.shape[:-1], len(tasks)), one.dtype) for one in columns))
        self.write_to(rows)
        return rows

    def write_to(self, others: Self) -> None:
        """Replace those of the other rows whose tasks are here too."""
        if len(self) == 0:
            return
        places = self.tasks.searchsorted(others.tasks)
        found = self.tasks.take(places, mode="clip") == others.tasks
        for own, other in islice(zip(self, others, strict=True), 1, None):
            np.copyto(other, own.take(places, axis=-1, mode="clip"), where=found)

    def overlaid(self, newer: Self) -> Self:
        """Return these rows with newer ones added; of a task that is in both, the newer row counts."""
        if len(self) == 0 or len(newer) == 0:
            return newer if len(self) == 0 else self
        both = self.joined([self, newer])
        order = both.tasks.argsort(kind="stable")  # of two sorted runs this is a merge; of equals the newer comes last
        tasks = both.tasks.take(order)
        is_last = np.append(tasks[1:] != tasks[:-1], True)
        return both.where(order.compress(is_last))

    def without(self, tasks: Tasks) -> Self:
        """Return the rows less those of some tasks, which are sorted."""
        return self.where(~contained(self.tasks, (tasks,)))


RowsT = TypeVar("RowsT", bound=TaskRows)

FEW_ROWS = 2048  # recent rows that are cheap to copy, however few are settled
RECENT_SHARE = 16  # settled rows for each further recent one: rare settling against small copies


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
    def has_many_recent(self) -> bool:
        """Whether so many rows are recent that they are worth settling."""
        return len(self.recent) > FEW_ROWS + len(self.settled) // RECENT_SHARE

    def of(self, tasks: Tasks) -> RowsT:
        """Return the newest row of each task, zeros where there is none; they may be written to."""
        rows = self.settled.of(tasks)
        self.recent.write_to(rows)
        return rows

    def without(self, tasks: Tasks) -> Self:
        """Return these rows less those of some tasks, which are sorted."""
        return replace(self, settled=self.settled.without(tasks), recent=self.recent.without(tasks))

    def with_rows(self, rows: RowsT) -> Self:
        """Return these rows with newer ones added, settled where the recent ones have become too many."""
        layered = replace(self, recent=self.recent.overlaid(rows))
        if not layered.has_many_recent:
            return layered
        return replace(layered, settled=layered.whole, recent=self.recent.where(np.empty(0, np.int64)))
