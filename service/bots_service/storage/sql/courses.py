"""What lists of runs show: where each stands, the ends of its steps, and what the service found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select, text

from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import NO_SUMS, Gain, RunCourse, Sums, course_of, wanted_steps
from bots_service.core.summary.verdict import RunFindings
from bots_service.records import RefusedReports, RunRow
from bots_service.storage.sql.database import SqlRow
from bots_service.storage.sql.runs import run_of
from bots_service.storage.sql.store import Store, reading
from bots_service.storage.sql.tables import IS_STEP, datasets, journal, runs

Journal = tuple[str, int, int]
"""A run's uid, epoch and last entry: the same for the same journal."""


class RunHead(NamedTuple):
    """Where a run stands in SQL: the last seq, and how often it was rewound. A replaced run has a new uid.

    refused: its refused reports, None without any; refused_seq: the last entry when the last of them came.
    """

    run_id: int
    uid: str
    dataset: str
    head: int
    epoch: int
    refused: RefusedReports | None = None
    refused_seq: int | None = None

    @property
    def journal(self) -> Journal:
        """Which journal the run has."""
        return self.uid, self.epoch, self.head


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What a run's journal tells of it.

    head: where it stood when this was read.
    row: the run; its head and epoch may be older.
    strategy: in use.
    findings: what the service found when it last looked.
    gain: over uniform sampling; None for a run that samples uniformly.
    compared: the journals of the run and of its baseline from which the gain was measured.
    """

    head: RunHead
    row: RunRow
    course: RunCourse
    strategy: StrategyName
    findings: RunFindings
    gain: Gain | None = None
    compared: tuple[Journal, Journal] | None = None

    @property
    def step(self) -> int:
        """How many steps it has closed, those before a fork included."""
        return self.row.origin_step + self.course.steps


RUNS_AT_ONCE = 100  # in one transaction: some 50 ms

_HEADS = select(
    *(runs.c.id, runs.c.uid, datasets.c.name, runs.c.head, runs.c.epoch),
    *(runs.c[f"refused_{name}"] for name in ("reports", "at", "reason", "seq")),
).select_from(runs.join(datasets))
# What each of many runs is asked is made once.
_END_COLUMNS = tuple(
    journal.c[name]
    for name in ("step", "total_reported", "total_effective", "total_rollouts", "expected", "created_at")
)
_OF_RUN = journal.c.run_id == bindparam("run")
_THIS = select(*_END_COLUMNS, journal.c.strategy).where(_OF_RUN, journal.c.seq == bindparam("seq"))
_ENDS = select(*_END_COLUMNS).where(
    _OF_RUN, text(IS_STEP), journal.c.step.in_(bindparam("steps", expanding=True)), journal.c.seq <= bindparam("head")
)
_FINDINGS = (
    select(journal.c.findings)
    .where(_OF_RUN, text(IS_STEP), journal.c.findings.is_not(None), journal.c.seq <= bindparam("head"))
    .order_by(journal.c.step.desc())
    .limit(1)
)


def _ends(connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, Sums]:
    """Return the sums up to these steps that the run closed, and up to the one that it began with."""
    found = connection.execute(_ENDS, {"run": run.id, "steps": list(steps), "head": head})
    origin = None if run.parent is None else connection.execute(_THIS, {"run": run.id, "seq": 1}).one_or_none()
    begin = NO_SUMS if origin is None else Sums(*origin[1:5])
    return {run.origin_step: begin} | {step: Sums(*sums) for step, *sums in found}


def _known(connection: Connection, head: RunHead, row: SqlRow | None) -> KnownRun | None:
    """Return what a run's journal tells; None if the run was deleted or rewound since it stood there."""
    if row is None or row.uid != head.uid:
        return None
    run = run_of(row)
    if not head.head:
        return KnownRun(head, run, RunCourse(), run.settings.strategy, RunFindings())
    last = connection.execute(_THIS, {"run": run.id, "seq": head.head}).one_or_none()
    if last is None:
        return None
    wanted = wanted_steps(run.origin_step, last.step)
    ends = _ends(connection, run, head.head, wanted)
    if len(ends) <= len(wanted):  # one was rewound
        return None
    findings = connection.scalar(_FINDINGS, {"run": run.id, "head": head.head})
    course = course_of(run.origin_step, last.step, ends)
    return KnownRun(head, run, course, last.strategy, findings or RunFindings())


def _refused(count: int, at: float, reason: str) -> RefusedReports | None:
    return RefusedReports(count, datetime.fromtimestamp(at, UTC), reason) if count else None


class SqlCourses(Store):
    """Courses of many runs."""

    @reading
    def heads(self, connection: Connection, dataset: str | None = None) -> list[RunHead]:
        """Return where every run of a dataset stands, or of all datasets."""
        named = datasets.c.name.is_not(None) if dataset is None else datasets.c.name == dataset
        found = connection.execute(_HEADS.where(named))
        return [RunHead._make((*row[:5], _refused(*row[5:8]), row.refused_seq)) for row in found]

    async def read(self, heads: Sequence[RunHead]) -> dict[int, KnownRun]:
        """Return what journals tell, by the run's id; nothing of runs that were deleted or rewound meanwhile."""
        found: dict[int, KnownRun] = {}
        for first in range(0, len(heads), RUNS_AT_ONCE):
            found |= await self._read(heads[first : first + RUNS_AT_ONCE])
        return found

    @reading
    def _read(self, connection: Connection, heads: Sequence[RunHead]) -> dict[int, KnownRun]:
        those = connection.execute(select(runs).where(runs.c.id.in_([head.run_id for head in heads])))
        rows = {row.id: row for row in those}
        found = [_known(connection, head, rows.get(head.run_id)) for head in heads]
        return {known.row.id: known for known in found if known is not None}

    @reading
    def ends(self, connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, Sums]:
        """Return the sums up to these steps of a run's present history, as far as entry `head`."""
        return _ends(connection, run, head, steps)
