"""Journals as they are stored, read for an export; and staged by an import, then moved into a dataset at once."""

import time
from collections.abc import Sequence
from functools import cache
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct
from sqlalchemy import Connection, Update, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from bots_service.core.entries import Entry
from bots_service.core.outlook import BINS
from bots_service.core.predictions import PredictionsKey
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary.verdict import RunFindings
from bots_service.errors import BusyError, DamagedStateError, RunHasHistoryError
from bots_service.records import Capacity, DatasetRow, IdempotencyKey, RunRow
from bots_service.storage.sql import predictions as stored_predictions
from bots_service.storage.sql.answers import keeping_result
from bots_service.storage.sql.capacity import require_room_for_run
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.datasets import stage_gone
from bots_service.storage.sql.journal import hide, receipt_columns
from bots_service.storage.sql.runs import insert_run, run_of
from bots_service.storage.sql.tables import datasets, journal, runs

# A value that another database can't store is refused before it gets there.
Count = Annotated[int, Meta(ge=0, le=2**53)]
Small = Annotated[int, Meta(ge=0, lt=2**31)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]  # seconds since 1970, UTC
Share = Annotated[float, Meta(ge=0, le=1)]
Total = Annotated[float, Meta(ge=0, le=1e15)]
Key = Annotated[str, Meta(pattern=r"^[ -~]{1,128}\Z")]
Text = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]


class SavedEntry(Struct, frozen=True, omit_defaults=True):
    """A journal entry as stored in SQL.

    body: as JSON, with its kind; key, fingerprint: of its report.
    uniform, expected, distribution: the estimate of uniform sampling after it, and what it comes from.
    findings: what the service found against the run, as JSON.
    """

    seq: Count
    epoch: Small
    profiles: Small
    created_at: Moment
    body: Raw
    key: Key | None = None
    fingerprint: Text | None = None
    uniform: Share | None = None
    expected: Total | None = None
    findings: RunFindings | None = None
    distribution: Annotated[bytes, Meta(max_length=4 * BINS)] | None = None


class Moved(NamedTuple):
    """The result of an import. replaced: the empty run in whose place it stands."""

    run: RunRow
    replaced: RunRow | None


MOST_ROWS = 1000  # at a time
MOST_BYTES = 4 * 2**20  # of entries at a time; one that is larger comes alone
STAGED = "staged"  # the name of a run on a stage

_BEHIND = (
    journal.c.run_id == bindparam("run"),
    journal.c.seq > bindparam("after"),
    journal.c.seq <= bindparam("up_to"),
)
_PLAIN = tuple(name for name in SavedEntry.__struct_fields__ if name not in ("body", "findings"))
_findings = msgspec.json.Decoder(RunFindings)
_SIZES = select(journal.c.seq, func.length(journal.c.body)).where(*_BEHIND).order_by(journal.c.seq).limit(MOST_ROWS)
_ENTRIES = select(journal).where(*_BEHIND).order_by(journal.c.seq)
_VERSION = select(datasets.c.version).where(datasets.c.id == bindparam("dataset"))
_STAGE = select(datasets.c.id).where(datasets.c.id == bindparam("stage"), datasets.c.name.is_(None))
_STAGED = (
    select(runs.c.id)
    .join(datasets, datasets.c.id == runs.c.dataset_id)
    .where(runs.c.id == bindparam("run"), datasets.c.name.is_(None))
)
_RUN = select(runs).where(runs.c.id == bindparam("run"))
_BY_NAME = select(runs).where(runs.c.dataset_id == bindparam("dataset"), runs.c.name == bindparam("run_name"))
_MOVE = (
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.dataset_id == bindparam("stage"))
    .values(
        dataset_id=bindparam("dataset"),
        name=bindparam("new_name"),
        head=bindparam("new_head"),
        epoch=bindparam("new_epoch"),
    )
)
_DROP_RUN = delete(runs).where(runs.c.id == bindparam("run"))
_DROP_STAGE = delete(datasets).where(datasets.c.id == bindparam("stage"), datasets.c.name.is_(None))


@cache
def _note(columns: tuple[str, ...]) -> Update:
    """Return the statement that sets columns of entries."""
    these = (journal.c.run_id == bindparam("run"), journal.c.seq == bindparam("new_seq"))
    return update(journal).where(*these).values({name: bindparam(f"new_{name}") for name in columns if name != "seq"})


class SqlTransfers:
    """Journals on their way out of a database, and into one.

    A stage is a dataset without a name, so its run is nobody's until it is finished.
    """

    def __init__(self, database: Database, capacity: Capacity | None = None) -> None:
        """Move journals out of a database, and into it. capacity: how many runs a dataset has at most."""
        self._database = database
        self._capacity = capacity or Capacity()

    async def entries(self, run: RunRow, seq: int, up_to: int) -> list[SavedEntry]:
        """Return some entries behind `seq` in order, none beyond `up_to`; as many as fit into a few megabytes."""

        def job(connection: Connection) -> list[SavedEntry]:
            values = {"run": run.id, "after": seq, "up_to": up_to}
            sizes = connection.execute(_SIZES, values).all()
            last = last_within([(found, size) for found, size in sizes], seq)
            rows = connection.execute(_ENTRIES, {**values, "up_to": last})
            return [
                SavedEntry(
                    body=Raw(row.body.encode()),
                    findings=None if row.findings is None else _findings.decode(row.findings),
                    **{name: getattr(row, name) for name in _PLAIN},
                )
                for row in rows
            ]

        return await self._database.read(job)

    async def add_run(self, stage: int, settings: RunSettings, predictions: tuple[PredictionsKey, ...]) -> RunRow:
        """Put a run with an empty journal on the stage."""

        def job(connection: Connection) -> RunRow:
            if connection.execute(_STAGE, {"stage": stage}).one_or_none() is None:
                raise stage_gone()
            run_id = insert_run(connection, stage, STAGED, settings, time.time(), predictions)
            return run_of(connection.execute(_RUN, {"run": run_id}).one())

        return await self._database.write(job)

    async def add_entries(self, run: RunRow, rows: list[SavedEntry]) -> list[Entry]:
        """Put the next entries into a staged run's journal, and return them as they will be read."""
        texts = [bytes(row.body).decode() for row in rows]
        entries = [
            Entry(row.seq, row.epoch, row.profiles, decode_body(text)) for row, text in zip(rows, texts, strict=True)
        ]
        stored = [
            {
                "run_id": run.id,
                "kind": KINDS[type(entry.body)],
                "body": text,
                "hidden": False,
                "findings": None if row.findings is None else msgspec.json.encode(row.findings).decode(),
            }
            | {name: getattr(row, name) for name in _PLAIN}
            for row, entry, text in zip(rows, entries, texts, strict=True)
        ]

        def job(connection: Connection) -> None:
            if connection.execute(_STAGED, {"run": run.id}).one_or_none() is None:
                raise stage_gone()
            connection.execute(insert(journal), stored)

        try:
            await self._database.write(job)
        except IntegrityError as error:
            raise DamagedStateError(f"two entries clash: {error.orig}") from error
        return entries

    async def add_receipts(self, run: RunRow, entries: Sequence[Entry], made: Sequence[Receipt]) -> None:
        """Note at entries of a staged run's journal what folding them did."""
        columns = [receipt_columns(receipt) for receipt in made]
        values = [{f"new_{name}": value for name, value in row.items()} | {"run": run.id} for row in columns]

        def job(connection: Connection) -> None:
            if connection.execute(_STAGED, {"run": run.id}).one_or_none() is None:
                raise stage_gone()
            connection.execute(_note(tuple(columns[0])), values)
            for entry in entries:
                hide(connection, run.id, entry)

        await self._database.write(job)

    async def finish(
        self, dataset: DatasetRow, name: str, stage: int, run: RunRow, idempotency_key: IdempotencyKey | None
    ) -> Moved:
        """Move the staged run into a dataset, in place of an empty one of that name, in one transaction."""

        def job(connection: Connection) -> Moved:
            stored_predictions.current(connection, dataset.id)  # nobody changes them meanwhile
            if connection.scalar(_VERSION, {"dataset": dataset.id}) != dataset.version:
                raise BusyError(f"dataset {dataset.name!r} was changed by another request at the same time; try again")
            replaced = _make_room(connection, dataset.id, name)
            require_room_for_run(connection, dataset.id, self._capacity)
            values = {"new_name": name, "new_head": run.head, "new_epoch": run.epoch}
            moved = connection.execute(_MOVE, {**values, "run": run.id, "stage": stage, "dataset": dataset.id})
            if moved.rowcount == 0:
                raise stage_gone()
            connection.execute(_DROP_STAGE, {"stage": stage})
            return Moved(run_of(connection.execute(_RUN, {"run": run.id}).one()), replaced)

        try:
            return await self._database.write(keeping_result(job, idempotency_key))
        except IntegrityError as error:
            raise BusyError("another request took the name at the same time; try again") from error


def last_within(sizes: list[tuple[int, int]], last: int) -> int:
    """Return the last seq of so many entries as fit: at least one, if there is one."""
    total = 0
    for place, (seq, size) in enumerate(sizes):
        total += size
        if place > 0 and total > MOST_BYTES:
            break
        last = seq
    return last


def _make_room(connection: Connection, dataset_id: int, name: str) -> RunRow | None:
    """Delete the empty run of that name, if there is one, and return it."""
    by_name = {"dataset": dataset_id, "run_name": name}
    found = connection.execute(_BY_NAME.with_for_update(), by_name).one_or_none()
    if found is None:
        return None
    if found.head > 0:
        raise RunHasHistoryError(f"run {name!r} has {found.head} journal entries; import under another name")
    connection.execute(_DROP_RUN, {"run": found.id})
    return run_of(found)
