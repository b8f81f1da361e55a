"""What lists of runs show: where each stands, the ends of its steps, and what the service found."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, select, text

from bots_service.core.receipt import StepSums
from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import RunCourse, StepEnd, course_of, wanted_steps
from bots_service.core.summary.verdict import RefusedReports, RunFindings
from bots_service.records import RunRow
from bots_service.storage.sql.database import SqlRow
from bots_service.storage.sql.runs import run_of
from bots_service.storage.sql.store import Store, reading
from bots_service.storage.sql.tables import IS_STEP, datasets, journal, runs


class RunHead(NamedTuple):
    """Where a run stands in SQL: the last seq, and how often it was rewound. A replaced run has a new uid.

    dataset_version: of its dataset.
    refused_reports: how many were refused as invalid.
    """

    run_id: int
    uid: str
    dataset: str
    head: int
    epoch: int
    dataset_version: int = 0
    refused_reports: int = 0


RUNS_AT_ONCE = 100  # in one transaction: some 50 ms
MOST_IDS = 512  # in one statement: more take longer to prepare than to run

# What each of many runs is asked is made once.
_END_COLUMNS = tuple(
    journal.c[name]
    for name in ("step", "created_at", "total_reported", "total_effective", "total_rollouts", "expected")
)
_OF_RUN = journal.c.run_id == bindparam("run")
_THIS = select(journal.c.strategy, *_END_COLUMNS).where(_OF_RUN, journal.c.seq == bindparam("seq"))
_ENDS = select(*_END_COLUMNS).where(
    _OF_RUN, text(IS_STEP), journal.c.step.in_(bindparam("steps", expanding=True)), journal.c.seq <= bindparam("head")
)
_FINDINGS = (
    select(journal.c.findings)
    .where(_OF_RUN, text(IS_STEP), journal.c.findings.is_not(None), journal.c.seq <= bindparam("head"))
    .order_by(journal.c.step.desc())
    .limit(1)
)


class StoredCourse(NamedTuple):
    """What a run's journal tells of it: its course, its strategy, and what the service found when it last looked."""

    course: RunCourse
    strategy: StrategyName
    findings: RunFindings


def _end(row: SqlRow) -> StepEnd:
    sums = StepSums(row.total_reported, row.total_effective, row.total_rollouts)
    return StepEnd(sums, row.expected, row.created_at)


def _ends(connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, StepEnd]:
    """Return the ends of these steps that the run closed, and of the one that it began with."""
    found = connection.execute(_ENDS, {"run": run.id, "steps": list(steps), "head": head})
    origin = None if run.parent is None else connection.execute(_THIS, {"run": run.id, "seq": 1}).one_or_none()
    return {run.origin_step: StepEnd() if origin is None else _end(origin)} | {row.step: _end(row) for row in found}


def _stored_of(connection: Connection, run: RunRow, head: int) -> StoredCourse | None:
    if not head:
        return StoredCourse(RunCourse(), run.settings.strategy, RunFindings())
    last = connection.execute(_THIS, {"run": run.id, "seq": head}).one_or_none()
    if last is None:
        return None
    wanted = wanted_steps(run.origin_step, last.step)
    ends = _ends(connection, run, head, wanted)
    if len(ends) <= len(wanted):  # one was rewound
        return None
    found = connection.scalar(_FINDINGS, {"run": run.id, "head": head})
    course = course_of(run.origin_step, last.step, ends)
    return StoredCourse(course, last.strategy, found or RunFindings())


class SqlCourses(Store):
    """Courses of many runs."""

    @reading
    def heads(self, connection: Connection, dataset: str | None = None) -> list[RunHead]:
        """Return where every run of a dataset stands, or of all datasets."""
        columns = (runs.c.id, runs.c.uid, datasets.c.name, runs.c.head, runs.c.epoch, datasets.c.version)
        every = select(*columns, runs.c.refused_reports).select_from(runs.join(datasets))
        named = datasets.c.name.is_not(None) if dataset is None else datasets.c.name == dataset
        return list(map(RunHead._make, connection.execute(every.where(named))))

    @reading
    def rows(self, connection: Connection, run_ids: list[int]) -> dict[int, RunRow]:
        """Return these runs by id, without deleted ones."""
        return {row.id: run_of(row) for row in _of_ids(connection, select(runs), run_ids)}

    @reading
    def refused(self, connection: Connection, run_ids: list[int]) -> dict[int, RefusedReports]:
        """Return the refused reports of those of these runs that have some, by id."""
        told = select(runs.c.id, *(runs.c[f"refused_{name}"] for name in ("reports", "at", "seq", "reason")))
        rows = _of_ids(connection, told.where(runs.c.refused_reports > 0), run_ids)
        return {run_id: RefusedReports(*values) for run_id, *values in rows}

    async def read(self, wanted: Sequence[tuple[RunRow, int]]) -> dict[int, StoredCourse]:
        """Return what journals tell, by the run's id; nothing of those that were deleted or rewound meanwhile.

        Args:
            wanted: runs, each with the entry up to which its journal is read.
        """
        found: dict[int, StoredCourse] = {}
        for first in range(0, len(wanted), RUNS_AT_ONCE):
            found |= await self._read(wanted[first : first + RUNS_AT_ONCE])
        return found

    @reading
    def _read(self, connection: Connection, wanted: Sequence[tuple[RunRow, int]]) -> dict[int, StoredCourse]:
        found = {run.id: _stored_of(connection, run, head) for run, head in wanted}
        return {run_id: course for run_id, course in found.items() if course is not None}

    @reading
    def ends(self, connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, StepEnd]:
        """Return where a run stood when it had closed these steps of its present history up to entry `head`."""
        return _ends(connection, run, head, steps)


def _of_ids(connection: Connection, statement: Select[Any], run_ids: list[int]) -> Iterator[SqlRow]:
    for first in range(0, len(run_ids), MOST_IDS):
        yield from connection.execute(statement.where(runs.c.id.in_(run_ids[first : first + MOST_IDS])))
