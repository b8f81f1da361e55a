"""Courses of many runs in SQL: a few statements for all of them, whose values say which entries are asked for."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import BigInteger, Connection, TextClause, and_, bindparam, delete, or_, select, text

from bots_service.core.arrays import frozen
from bots_service.core.entries import Rewind, SettingsChange
from bots_service.core.summary.course import (
    NO_ESTIMATES,
    NO_STEPS,
    TIMED,
    CourseSteps,
    StepRange,
    StepSums,
    UniformEstimates,
)
from bots_service.core.summary.verdict import RefusedReports, RunFindings
from bots_service.records import RunRow, SeqRange
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.codecs import decode_body
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.history import visible_spans
from bots_service.storage.sql.runs import STANDING, run_of
from bots_service.storage.sql.tables import datasets, judgements, runs


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


@dataclass(frozen=True, slots=True)
class WantedCourse:
    """Which part of a run's course is asked for.

    entries: the entries whose steps and settings are asked for, in order.
    estimates: those whose outlooks are asked for; -1 as a beginning includes one from before the first entry.
    """

    run_id: int
    entries: tuple[SeqRange, ...]
    estimates: tuple[SeqRange, ...]


@dataclass(frozen=True, slots=True)
class CoursePart:
    """A part of a run's course.

    steps: that the entries closed.
    estimates: of uniform sampling.
    changed: settings that the entries set, the last of each name.
    """

    steps: CourseSteps = NO_STEPS
    estimates: UniformEstimates = NO_ESTIMATES
    changed: dict[str, Any] = field(default_factory=dict)


class WantedSums(NamedTuple):
    """Steps of a run, among the entries of its present history, whose sums are asked for."""

    run_id: int
    entries: tuple[SeqRange, ...]
    steps: StepRange


def common(entries: Iterable[SeqRange], after: int, up_to: int) -> tuple[SeqRange, ...]:
    """Return those of the entries that come after one entry, up to another."""
    cut = (SeqRange(max(one.after, after), min(one.last, up_to)) for one in entries)
    return tuple(one for one in cut if one.after < one.last)


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

SUMMED = ("reported", "effective", "rollouts")
MOST_VALUES = 512  # rows of them in one statement: more take longer to prepare than to run
Values = tuple[int, ...]

# CROSS JOIN, so that SQLite looks up each range by the index, whatever it thinks of the tables' sizes. Kinds of entries
# stand in the text, as in the conditions of the indexes.
_RANGES = ("run_id", "behind", "up_to")
_IN_RANGE = "r.run_id = wanted.run_id AND r.seq > wanted.behind AND r.seq <= wanted.up_to"
_RECEIPTS = f"FROM wanted CROSS JOIN receipts r WHERE {_IN_RANGE}"
_ENTRIES = f"FROM wanted CROSS JOIN journal r WHERE {_IN_RANGE}"
_STEPS = f"SELECT r.run_id, r.seq, r.reported, r.effective, r.rollouts {_RECEIPTS} AND r.closed"
_TIMES = (
    "SELECT r.run_id, r.seq, coalesce(r.created_at, j.created_at) FROM wanted CROSS JOIN receipts r"  # noqa: S608 - ours
    f" LEFT JOIN journal j ON j.run_id = r.run_id AND j.seq = r.seq WHERE {_IN_RANGE} AND r.closed"
)
_ESTIMATES = (
    "SELECT r.run_id, r.seq, r.uniform_effective_task_ratio FROM wanted CROSS JOIN outlooks r"  # noqa: S608 - ours
    f" WHERE {_IN_RANGE}"
)
_SETTINGS = f"SELECT r.run_id, r.seq, r.body {_ENTRIES} AND r.kind = 'settings'"
_REWINDS = f"SELECT r.run_id, r.seq, r.body {_ENTRIES} AND r.kind = 'rewind'"
_STEP_RANGES = ("place", *_RANGES, "first_step", "last_step")
_SUM = (
    f"(SELECT sum({{column}}) FROM receipts r WHERE {_IN_RANGE} AND r.closed"  # noqa: S608 - ours
    " AND r.step >= wanted.first_step AND r.step <= wanted.last_step)"
)
# A look at the steps for each sum, and no grouping: SQLite would put all rows in order for that.
_SUMS = f"SELECT place, {', '.join(_SUM.format(column=f'r.{name}') for name in SUMMED)} FROM wanted"  # noqa: S608 - ours


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
        parts = [run_ids[first : first + MOST_VALUES] for first in range(0, len(run_ids), MOST_VALUES)]

        def job(connection: Connection) -> dict[int, RunRow]:
            return {row.id: run_of(row) for ids in parts for row in connection.execute(_ROWS, {"ids": ids})}

        return await self._database.read(job)

    async def notes(self, run_ids: list[int]) -> dict[int, RunNotes]:
        """Return what is noted of these runs, by id, without deleted ones."""
        parts = [run_ids[first : first + MOST_VALUES] for first in range(0, len(run_ids), MOST_VALUES)]

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

    async def present(self, heads: list[RunHead]) -> dict[int, tuple[SeqRange, ...]]:
        """Return the entries of each run's present history up to its head, by id."""
        wanted = [(head.run_id, 0, head.head) for head in heads if head.epoch > 0]
        rows = await self._database.read(lambda connection: _found(connection, _REWINDS, wanted))
        rewinds: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for run_id, seq, body in sorted(rows, key=_by_seq):
            rewind = decode_body(body)
            if isinstance(rewind, Rewind):
                rewinds[run_id].append((seq, rewind.to_seq))
        return {head.run_id: tuple(visible_spans(head.head, rewinds[head.run_id])) for head in heads}

    async def read(self, wanted: list[WantedCourse]) -> dict[int, CoursePart]:
        """Return the parts by the run's id."""
        return await self._database.read(lambda connection: _read(connection, wanted))

    async def sums(self, wanted: list[WantedSums]) -> list[StepSums]:
        """Return the sums over the steps asked for, in order."""
        values = [
            (place, one.run_id, *entries, one.steps.first, one.steps.last)
            for place, one in enumerate(wanted)
            for entries in one.entries
        ]
        found = await self._database.read(lambda connection: _found(connection, _SUMS, values, _STEP_RANGES))
        sums = [StepSums()] * len(wanted)
        for place, reported, effective, rollouts in found:
            if reported is not None:  # None: no step of the range closed among these entries
                sums[place] = sums[place].plus(StepSums(int(reported), int(effective), float(rollouts)))
        return sums


def _notes(row: SqlRow) -> RunNotes:
    judgement = refused = None
    if row.findings is not None:
        judgement = Judgement(row.epoch, row.seq, row.dataset_version, _findings.decode(row.findings))
    if row.refused_reports:
        refused = RefusedReports(row.refused_reports, row.refused_at, row.refused_seq, row.refused_reason)
    return RunNotes(judgement, refused)


def _found(
    connection: Connection, statement: str, values: Sequence[Values], columns: tuple[str, ...] = _RANGES
) -> list[SqlRow]:
    """Return what a statement finds for rows of values; some rows come in two, where the values were split."""
    found: list[SqlRow] = []
    for first in range(0, len(values), MOST_VALUES):
        some = values[first : first + MOST_VALUES]
        # A few sizes make a few statements to prepare; no run has the id 0.
        some = [*some, *[(0,) * len(columns)] * ((1 << (len(some) - 1).bit_length()) - len(some))]
        parameters = {f"value_{place}": value for place, value in enumerate(value for row in some for value in row)}
        found += connection.execute(_prepared(statement, len(some), columns), parameters).all()
    return found


@cache
def _prepared(statement: str, rows: int, columns: tuple[str, ...]) -> TextClause:
    """Return the statement for so many rows of values."""
    width = len(columns)
    names = [[f"value_{row * width + column}" for column in range(width)] for row in range(rows)]
    values = ", ".join(f"({', '.join(f':{name}' for name in row)})" for row in names)
    whole = text(f"WITH wanted ({', '.join(columns)}) AS (VALUES {values}) {statement}")
    return whole.bindparams(*(bindparam(name, type_=BigInteger) for row in names for name in row))


def _read(connection: Connection, wanted: Sequence[WantedCourse]) -> dict[int, CoursePart]:
    entries = [(one.run_id, *part) for one in wanted for part in one.entries]
    estimates = [(one.run_id, *part) for one in wanted for part in one.estimates]
    steps = dict(_by_run(_found(connection, _STEPS, entries)))
    ratios = dict(_by_run(_found(connection, _ESTIMATES, estimates)))
    changed: dict[int, dict[str, Any]] = defaultdict(dict)
    for run_id, _, body in sorted(_found(connection, _SETTINGS, entries), key=_by_seq):
        change = decode_body(body)
        if isinstance(change, SettingsChange):
            changed[run_id] |= change.values
    timed = [(run_id, int(seqs[-TIMED:][0]) - 1, int(seqs[-1])) for run_id, (seqs, *_) in steps.items()]
    times = dict(_by_run(_found(connection, _TIMES, timed)))
    none = [frozen(np.empty(0))] * 4
    return {
        one.run_id: CoursePart(
            _steps(steps.get(one.run_id, none), times.get(one.run_id, none)),
            _estimates(ratios.get(one.run_id, none)),
            changed[one.run_id],
        )
        for one in wanted
    }


def _by_seq(row: SqlRow) -> tuple[int, int]:
    return row[0], row[1]


def _by_run(rows: list[SqlRow]) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield each run's id with the columns behind it, the seqs first, in the order of the seqs."""
    if not rows:
        return
    table = np.array([tuple(row) for row in rows])
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    ends = np.flatnonzero(np.diff(table[:, 0])) + 1
    for part in np.split(table, ends):
        yield int(part[0, 0]), [part[:, column] for column in range(1, table.shape[1])]


def _steps(columns: list[np.ndarray], times: list[np.ndarray]) -> CourseSteps:
    """Return the steps. times: seqs and times of the last; between two of them there may be a hidden one."""
    seqs, reported, effective, rollouts = columns
    closed, at = times[:2]
    return CourseSteps(
        frozen(seqs.astype(np.int64)),
        frozen(reported.astype(np.int64)),
        frozen(effective.astype(np.int64)),
        frozen(rollouts.astype(np.float64)),
        frozen(at if len(closed) == min(len(seqs), TIMED) else at[np.isin(closed, seqs)]),
    )


def _estimates(columns: list[np.ndarray]) -> UniformEstimates:
    seqs, ratios = columns[:2]
    return UniformEstimates(frozen(seqs.astype(np.int64)), frozen(ratios.astype(np.float64)))
