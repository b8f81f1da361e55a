"""What lists of runs show: where each stands, the ends of its steps, and what the service found."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, select, text

from bots_service.core.receipt import StepSums
from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import RunCourse, StepEnd, course_of, wanted_steps
from bots_service.core.summary.verdict import RefusedReports, RunFindings
from bots_service.records import RunRow
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.runs import run_of
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


_HEADS = (
    select(
        runs.c.id,
        runs.c.uid,
        datasets.c.name,
        runs.c.head,
        runs.c.epoch,
        datasets.c.version,
        runs.c.refused_reports,
    )
    .select_from(runs.join(datasets))
    .where(datasets.c.name.is_not(None))
)
_HEADS_OF = _HEADS.where(datasets.c.name == bindparam("dataset"))
_ROWS = select(runs).where(runs.c.id.in_(bindparam("ids", expanding=True)))
_REFUSED = select(
    runs.c.id, runs.c.refused_reports, runs.c.refused_at, runs.c.refused_seq, runs.c.refused_reason
).where(runs.c.id.in_(bindparam("ids", expanding=True)), runs.c.refused_reports > 0)
RUNS_AT_ONCE = 100  # in one transaction: some 50 ms
MOST_IDS = 512  # in one statement: more take longer to prepare than to run

_END_COLUMNS = (
    journal.c.step,
    journal.c.created_at,
    journal.c.total_reported,
    journal.c.total_effective,
    journal.c.total_rollouts,
    journal.c.expected,
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
_findings = msgspec.json.Decoder(RunFindings)


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


def _stored(connection: Connection, wanted: Sequence[tuple[RunRow, int]]) -> dict[int, StoredCourse]:
    found = {run.id: _stored_of(connection, run, head) for run, head in wanted}
    return {run_id: course for run_id, course in found.items() if course is not None}


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
    return StoredCourse(course, last.strategy, RunFindings() if found is None else _findings.decode(found))


class SqlCourses:
    """Courses of many runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def heads(self, dataset: str | None = None) -> list[RunHead]:
        """Return where every run of a dataset stands, or of all datasets."""
        statement = _HEADS if dataset is None else _HEADS_OF
        values = {} if dataset is None else {"dataset": dataset}
        rows = await self._database.read(lambda connection: connection.execute(statement, values).all())
        return list(map(RunHead._make, rows))

    async def rows(self, run_ids: list[int]) -> dict[int, RunRow]:
        """Return these runs by id, without deleted ones."""
        parts = [run_ids[first : first + MOST_IDS] for first in range(0, len(run_ids), MOST_IDS)]

        def job(connection: Connection) -> dict[int, RunRow]:
            return {row.id: run_of(row) for ids in parts for row in connection.execute(_ROWS, {"ids": ids})}

        return await self._database.read(job)

    async def refused(self, run_ids: list[int]) -> dict[int, RefusedReports]:
        """Return the refused reports of those of these runs that have some, by id."""
        parts = [run_ids[first : first + MOST_IDS] for first in range(0, len(run_ids), MOST_IDS)]

        def job(connection: Connection) -> dict[int, RefusedReports]:
            rows = [row for ids in parts for row in connection.execute(_REFUSED, {"ids": ids})]
            return {
                row.id: RefusedReports(row.refused_reports, row.refused_at, row.refused_seq, row.refused_reason)
                for row in rows
            }

        return await self._database.read(job)

    async def read(self, wanted: Sequence[tuple[RunRow, int]]) -> dict[int, StoredCourse]:
        """Return what journals tell, by the run's id; nothing of those that were deleted or rewound meanwhile.

        Args:
            wanted: runs, each with the entry up to which its journal is read.
        """
        found: dict[int, StoredCourse] = {}
        for first in range(0, len(wanted), RUNS_AT_ONCE):
            some = wanted[first : first + RUNS_AT_ONCE]
            found |= await self._database.read(lambda connection, some=some: _stored(connection, some))  # type: ignore[misc]
        return found

    async def ends(self, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, StepEnd]:
        """Return where a run stood when it had closed these steps of its present history up to entry `head`."""
        return await self._database.read(lambda connection: _ends(connection, run, head, steps))
