"""What lists of runs show: where each stands, the ends of its steps, and what is noted of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, and_, bindparam, delete, or_, select, text

from bots_service.core.receipt import StepSums
from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import RunCourse, StepEnd, course_of, wanted_steps
from bots_service.core.summary.verdict import RefusedReports, RunFindings
from bots_service.records import RunRow
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.runs import STANDING, run_of
from bots_service.storage.sql.tables import IS_STEP, datasets, journal, judgements, runs


class RunHead(NamedTuple):
    """Where a run stands in SQL: the last seq, and how often it was rewound. A replaced run has a new uid.

    dataset_version: of its dataset.
    refused_reports: how many were refused as invalid; judged_at: when it was last judged. When one of them changes, its
        notes have.
    """

    run_id: int
    uid: str
    dataset: str
    head: int
    epoch: int
    dataset_version: int = 0
    refused_reports: int = 0
    judged_at: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run's journal up to entry `seq` says against it, with its dataset at a version."""

    epoch: int
    seq: int
    dataset_version: int
    findings: RunFindings

    def is_of(self, head: RunHead) -> bool:
        """Return whether neither the journal nor the dataset has changed since."""
        return (self.epoch, self.seq, self.dataset_version) == (head.epoch, head.head, head.dataset_version)


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What is stored of a run besides its journal: its last judgement, and the reports that were refused."""

    judgement: Judgement | None = None
    refused: RefusedReports | None = None


NO_NOTES = RunNotes()


_HEADS = (
    select(
        runs.c.id,
        runs.c.uid,
        datasets.c.name,
        runs.c.head,
        runs.c.epoch,
        datasets.c.version,
        runs.c.refused_reports,
        judgements.c.made_at,
    )
    .select_from(runs.join(datasets).outerjoin(judgements))
    .where(datasets.c.name.is_not(None))
)
_HEADS_OF = _HEADS.where(datasets.c.name == bindparam("dataset"))
_ROWS = select(runs).where(runs.c.id.in_(bindparam("ids", expanding=True)))
_NOTES = (
    select(
        runs.c.id,
        runs.c.refused_reports,
        runs.c.refused_at,
        runs.c.refused_seq,
        runs.c.refused_reason,
        judgements.c.epoch,
        judgements.c.seq,
        judgements.c.dataset_version,
        judgements.c.findings,
    )
    .select_from(runs.outerjoin(judgements))
    .where(runs.c.id.in_(bindparam("ids", expanding=True)))
)
_IS_OLDER = or_(
    judgements.c.epoch < bindparam("new_epoch"),
    and_(judgements.c.epoch == bindparam("new_epoch"), judgements.c.seq <= bindparam("new_seq")),
)
_DROP_OLDER = delete(judgements).where(judgements.c.run_id == bindparam("run"), _IS_OLDER)
_findings = msgspec.json.Decoder(RunFindings)

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


def _end(row: SqlRow) -> StepEnd:
    sums = StepSums(row.total_reported, row.total_effective, row.total_rollouts)
    return StepEnd(sums, row.expected, row.created_at)


def _ends(connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, StepEnd]:
    """Return the ends of these steps that the run closed, and of the one that it began with."""
    found = connection.execute(_ENDS, {"run": run.id, "steps": list(steps), "head": head})
    origin = None if run.parent is None else connection.execute(_THIS, {"run": run.id, "seq": 1}).one_or_none()
    return {run.origin_step: StepEnd() if origin is None else _end(origin)} | {row.step: _end(row) for row in found}


class SqlCourses:
    """Courses of many runs, a few statements for all."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """Read from a database; `clock` gives seconds since 1970, UTC."""
        self._database = database
        self._clock = clock

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

    async def notes(self, run_ids: list[int]) -> dict[int, RunNotes]:
        """Return what is noted of these runs, by id, without deleted ones."""
        parts = [run_ids[first : first + MOST_IDS] for first in range(0, len(run_ids), MOST_IDS)]

        def job(connection: Connection) -> dict[int, RunNotes]:
            return {row.id: _notes(row) for ids in parts for row in connection.execute(_NOTES, {"ids": ids})}

        return await self._database.read(job)

    async def keep_judgement(self, run: RunRow, judgement: Judgement) -> None:
        """Keep a judgement in place of an older one; a newer one stays. Of a run that is gone, nothing is kept."""
        row = {
            "run_id": run.id,
            "epoch": judgement.epoch,
            "seq": judgement.seq,
            "dataset_version": judgement.dataset_version,
            "findings": msgspec.json.encode(judgement.findings).decode(),
            "made_at": self._clock(),
        }

        def job(connection: Connection) -> None:
            if connection.execute(STANDING, {"run": run.id, "uid": run.uid}).one_or_none() is not None:
                connection.execute(_DROP_OLDER, {"run": run.id, "new_epoch": judgement.epoch, "new_seq": judgement.seq})
                connection.execute(insert_missing(connection, judgements), row)

        await self._database.write(job)

    async def read(self, run: RunRow, head: int) -> tuple[RunCourse, StrategyName] | None:
        """Return a run's course up to entry `head`, and its strategy by then.

        None if the run was deleted or rewound meanwhile.
        """

        def job(connection: Connection) -> tuple[RunCourse, StrategyName] | None:
            if not head:
                return RunCourse(), run.settings.strategy
            last = connection.execute(_THIS, {"run": run.id, "seq": head}).one_or_none()
            if last is None:
                return None
            wanted = wanted_steps(run.origin_step, last.step)
            ends = _ends(connection, run, head, wanted)
            if len(ends) <= len(wanted):  # one was rewound
                return None
            return course_of(run.origin_step, last.step, ends), last.strategy

        return await self._database.read(job)

    async def ends(self, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, StepEnd]:
        """Return where a run stood when it had closed these steps of its present history up to entry `head`."""
        return await self._database.read(lambda connection: _ends(connection, run, head, steps))


def _notes(row: SqlRow) -> RunNotes:
    judgement = refused = None
    if row.findings is not None:
        judgement = Judgement(row.epoch, row.seq, row.dataset_version, _findings.decode(row.findings))
    if row.refused_reports:
        refused = RefusedReports(row.refused_reports, row.refused_at, row.refused_seq, row.refused_reason)
    return RunNotes(judgement, refused)
