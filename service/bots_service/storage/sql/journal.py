"""Journals in SQL: each entry with what folding it did, in one row; and states that were stored on the way."""

import asyncio
import zlib
from base64 import b64decode
from collections.abc import Sequence
from copy import copy
from dataclasses import MISSING, fields
from functools import cache
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
import numpy as np
import structlog
from msgspec import Raw, structs
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Insert,
    LargeBinary,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    literal,
    or_,
    select,
    text,
    type_coerce,
    update,
)

from bots_service.core.arrays import Table, frozen
from bots_service.core.entries import Body, Entry, Probe, Report, Rewind, SettingsChange
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import settings_from
from bots_service.core.summary import RunFindings, UniformEstimate
from bots_service.errors import (
    BusyError,
    DamagedStateError,
    InvalidSettingsError,
    StorageUnavailableError,
    UnknownRunError,
)
from bots_service.records import EntryKind, Evaluations, Head, IdempotencyKey, RunRow
from bots_service.storage.sql.database import UNANSWERED, Database, SqlRow, settle
from bots_service.storage.sql.store import Store, insert_missing, reading, writing
from bots_service.storage.sql.tables import (
    EPOCH,
    HEAD,
    IS_MARK,
    IS_STEP,
    datasets,
    journal,
    of_last_entry,
    runs,
    snapshots,
)

log = structlog.get_logger(__name__)

RECEIPTS = select(*(journal.c[name] for name in Receipt.__struct_fields__))
Told = TypeVar("Told", bound=Receipt)

_UNIFORM = tuple(of_last_entry(name).label(name) for name in ("uniform", "expected"))
_HEADS = select(runs.c.id, runs.c.uid, HEAD, EPOCH, datasets.c.version, *_UNIFORM).select_from(runs.join(datasets))
_OF_RUN = journal.c.run_id == bindparam("run")
# What each report asks is made once. The lock makes seqs follow commit order on PostgreSQL; snapshots may refer to the
# run meanwhile.
_LOCK = (
    select(runs.c.id)
    .where(runs.c.id == bindparam("run"))
    .with_for_update(key_share=True)
    .execution_options(**UNANSWERED)
)
_HEAD_AND_KEYS = (
    _HEADS.add_columns(journal.c.key)
    .outerjoin(journal, and_(journal.c.run_id == runs.c.id, journal.c.key.in_(bindparam("keys", expanding=True))))
    .where(runs.c.id == bindparam("run"))
)
_ENTRY = (journal.c.seq, journal.c.epoch, journal.c.profiles, journal.c.kind, journal.c.body)
_BETWEEN = (
    select(*_ENTRY)
    .where(
        _OF_RUN,
        journal.c.seq > bindparam("after", type_=BigInteger),
        journal.c.seq <= bindparam("up_to", type_=BigInteger),
    )
    .order_by(journal.c.seq)
    .limit(bindparam("most"))
)
_BY_KEY = RECEIPTS.add_columns(journal.c.fingerprint).where(_OF_RUN, journal.c.key == bindparam("key"))
_APPEND = insert(journal).execution_options(**UNANSWERED)
# Bytes, to be added up at once.
_CALIBRATIONS = select(type_coerce(journal.c.calibration, LargeBinary)).where(
    _OF_RUN,
    text(IS_STEP),
    journal.c.step > bindparam("after_step", type_=BigInteger),
    journal.c.calibration.is_not(None),
)
_last = journal.alias("last")
_previous_key = bindparam("previous_key", type_=journal.c.key.type)
# A retry of the same request at another replica has its key, and not its time.
_NEXT = (
    select(*(bindparam(column.name, type_=column.type) for column in journal.columns))
    .select_from(runs)
    .where(
        runs.c.id == bindparam("run_id", type_=journal.c.run_id.type),
        exists().where(
            _last.c.run_id == runs.c.id,
            _last.c.seq == bindparam("seq", type_=journal.c.seq.type) - 1,
            _last.c.epoch == bindparam("epoch", type_=journal.c.epoch.type),
            or_(_previous_key.is_(None), _last.c.key == _previous_key),
            _last.c.created_at == bindparam("previous_at", type_=journal.c.created_at.type),
        ),
    )
    .with_for_update(key_share=True, skip_locked=True)
)
_IDENTITY = ("run_id", "seq", "key", "created_at")
_STORED = select(*(journal.c[name] for name in _IDENTITY)).where(
    *(journal.c[name].in_(bindparam(name, expanding=True)) for name in ("run_id", "key"))
)


@cache
def _append_next(product: str) -> Insert:
    names = [column.name for column in journal.columns]
    return insert_missing(product, journal).from_select(names, _NEXT).execution_options(preserve_rowcount=True)


KINDS: dict[type[Body], EntryKind] = {Report: "report", SettingsChange: "settings", Rewind: "rewind", Probe: "probe"}
MOST_BYTES = 2**27  # of an unpacked array: a byte for each of more tasks than a dataset has
# What may stand in an array of each kind: the numbers of JSON, not what numpy would make numbers of.
_NUMBERS: dict[str, set[type]] = {"i": {int}, "f": {int, float}, "b": {bool}}


def _list_of(array: NDArray[Any]) -> list[Any] | bytes:
    if array.dtype == np.int8:  # of most tasks of a pool; in JSON the bytes are base64
        return zlib.compress(array.tobytes(), 1)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("a number is not finite")  # JSON would turn it into null
    listed: list[Any] = array.tolist()
    return listed


@cache
def _number_of(kind: Any) -> np.dtype[Any]:
    (number,) = get_args(get_args(kind)[1])
    return np.dtype(number)  # type: ignore[no-any-return]  # no type says what it is


def _array_of(kind: Any, values: Any) -> NDArray[Any]:
    number = _number_of(kind)
    if number == np.int8:
        unzip = zlib.decompressobj()
        content = unzip.decompress(b64decode(values, validate=True), MOST_BYTES)
        if not unzip.eof:
            raise ValueError("the bytes are cut, or too many")
        return frozen(np.frombuffer(content, np.int8))
    if not _NUMBERS[number.kind].issuperset(map(type, values)):
        raise ValueError(f"not all of these are of type {number}")
    return frozen(np.array(values, number))


_encoder = msgspec.json.Encoder(enc_hook=_list_of)
_SIZED = (np.ndarray, Table)  # empty by default
_decoders = {name: msgspec.json.Decoder(kind, dec_hook=_array_of) for kind, name in KINDS.items()}
_defaults = {
    kind: [(field.name, field.default if field.default_factory is MISSING else ()) for field in fields(kind)]
    for kind in KINDS
}


def encode_body(body: Body) -> str:
    """Return the body as JSON, field by field, without those that are at their default.

    Raises ValueError: a count is not finite.
    """
    values = {}
    for name, default in _defaults[type(body)]:
        value = getattr(body, name)
        if default is MISSING or (len(value) if isinstance(value, _SIZED) else value != default):
            values[name] = value
    return _encoder.encode(values).decode()


def decode_body(kind: EntryKind, text: str | Raw) -> Body:
    """Return the body that was encoded.

    Raises DamagedStateError: the text is no body of this kind that this version reads.
    """
    try:
        body: Body = _decoders[kind].decode(text)
        if isinstance(body, SettingsChange):
            settings_from(body.values)  # refuses what no version wrote
            values = body.values.items()
            return SettingsChange({name: tuple(value) if isinstance(value, list) else value for name, value in values})
        if isinstance(body, Report) and any(len({*map(len, table)}) > 1 for table in (body.evidence, body.parts)):
            raise DamagedStateError("a journal entry can't be read: its columns differ in length")
    except (msgspec.MsgspecError, InvalidSettingsError, OverflowError, UnicodeError, zlib.error) as error:
        raise DamagedStateError(f"a journal entry can't be read: {error}") from error
    return body


class FoldedEntry(NamedTuple):
    """An entry and what folding it did, to be stored.

    key: of the request.
    uniform: of uniform sampling by then.
    findings: what the journal says against the run by then; None where the service did not look.
    created_at: when it was appended; None: now.
    """

    entry: Entry
    receipt: Receipt
    key: IdempotencyKey | None = None
    uniform: UniformEstimate = UniformEstimate()
    findings: RunFindings | None = None
    created_at: float | None = None


def locked_head(connection: Connection, run: RunRow, keys: Sequence[str] = ()) -> tuple[Head, set[str]]:
    """Return where a run stands, and which of some idempotency keys its journal has.

    Nothing else is appended to the run before the transaction ends.

    Raises UnknownRunError: it was deleted or replaced.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"run": run.id})
    rows = connection.execute(_HEAD_AND_KEYS, {"run": run.id, "keys": keys or [""]}).all()  # no key is empty
    return _of_run(rows[0] if rows else None, run), {row.key for row in rows if row.key is not None}


def calibrations_of(connection: Connection, run_id: int, after_step: int) -> bytes:
    """Return predicted and observed success of the closed steps behind one, for `calibration_in`."""
    return b"".join(connection.scalars(_CALIBRATIONS, {"run": run_id, "after_step": after_step}))


def estimate_at(connection: Connection, run_id: int, seq: int) -> UniformEstimate:
    """Return the estimate of uniform sampling after entry `seq`."""
    row = connection.execute(select(journal.c.uniform, journal.c.expected).where(*_is(run_id, seq))).one_or_none()
    return UniformEstimate() if row is None else UniformEstimate(*row)


def entries_between(connection: Connection, run_id: int, after: int, up_to: int, limit: int) -> list[Entry]:
    """Return entries after + 1, after + 2, ... up to `up_to` in order, at most `limit`."""
    rows = connection.execute(_BETWEEN, {"run": run_id, "after": after, "up_to": up_to, "most": limit})
    return list(map(entry_of, rows))


def entry_of(row: SqlRow) -> Entry:
    """Return the entry that a row holds, or a line of an export."""
    return Entry(row.seq, row.epoch, row.profiles, decode_body(row.kind, row.body))


def receipt_under(connection: Connection, run: RunRow, key: IdempotencyKey) -> Receipt | None:
    """Return what the entry did that was appended under this key; None if there is none.

    Raises KeyReusedError: it was another request's.
    """
    row = connection.execute(_BY_KEY, {"run": run.id, "key": key.key}).one_or_none()
    if row is None:
        return None
    key.require_same(row.fingerprint)
    return receipt_of(Receipt, row)


def append(connection: Connection, run_id: int, folded: Sequence[FoldedEntry], now: float) -> None:
    """Store the next entries of a run whose head is locked; a rewind hides what it undoes, also evaluations."""
    if not folded:
        return
    connection.execute(_APPEND, [_row(run_id, one, now) for one in folded])
    for entry, *_ in folded:
        if isinstance(entry.body, Rewind):
            undone = (journal.c.run_id == run_id, journal.c.seq > entry.body.to_seq, journal.c.seq < entry.seq)
            connection.execute(update(journal).where(*undone).values(hidden=True))
            found: Evaluations = connection.scalar(select(runs.c.evaluations).where(runs.c.id == run_id)) or {}
            kept = {name: tuple(one for one in found[name] if one[0] <= entry.body.to_step) for name in found}
            kept = {name: those for name, those in kept.items() if those}
            connection.execute(update(runs).where(runs.c.id == run_id).values(evaluations=kept))


def copy_entries(connection: Connection, run_id: int, source: RunRow, up_to: int) -> None:
    """Copy a run's entries up to one into an empty run, without their idempotency keys.

    Raises BusyError: they were deleted or undone meanwhile.
    """
    names = [column.name for column in journal.columns if column.name not in ("run_id", "key", "fingerprint")]
    those = select(literal(run_id), *(journal.c[name] for name in names))
    those = those.where(journal.c.run_id == source.id, journal.c.seq <= up_to)
    connection.execute(insert(journal).from_select(["run_id", *names], those))
    if up_to and connection.scalar(select(journal.c.hidden).where(*_is(run_id, up_to))) is not False:
        raise BusyError(f"run {source.name!r} was deleted or rewound by another request at the same time; try again")


def _row(run_id: int, folded: FoldedEntry, now: float) -> dict[str, Any]:
    entry, key, uniform = folded.entry, folded.key, folded.uniform
    return {
        "run_id": run_id,
        "profiles": entry.profiles,
        "kind": KINDS[type(entry.body)],
        "body": encode_body(entry.body),
        "key": None if key is None else key.key,
        "fingerprint": None if key is None else key.fingerprint,
        "created_at": now if folded.created_at is None else folded.created_at,
        "hidden": False,
        "uniform": uniform.ratio,
        "expected": uniform.expected,
        "distribution": uniform.distribution,
        "findings": folded.findings,
    } | structs.asdict(folded.receipt)


def receipt_of(kind: type[Told], row: SqlRow) -> Told:
    return kind(**{name: getattr(row, name) for name in kind.__struct_fields__})


def _is(run_id: int, seq: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return journal.c.run_id == run_id, journal.c.seq == seq


def _of_run(row: SqlRow | None, run: RunRow) -> Head:
    if row is None or row.uid != run.uid:
        raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
    return _head(row)


def _head(row: SqlRow) -> Head:
    uniform = UniformEstimate(row.uniform, row.expected)
    return Head(row.uid, row.head, row.epoch, row.version, uniform)


_Waiting = tuple[list[dict[str, Any]], asyncio.Future[int]]


class SqlJournal(Store):
    """Journals. What `append_next` does not store is stored by `append`, in a transaction that does more."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def append_next(
        self, run: RunRow, folded: Sequence[FoldedEntry], previous: tuple[IdempotencyKey | None, float], now: float
    ) -> int:
        """Store entries, each right behind the one before it, and return how many of them: the first so many.

        An entry is not stored where the run has not the very one before it, or has its seq or its idempotency key, or
        is locked. What comes while another statement is under way is stored by the next one, whatever its run.

        folded: each has a key; none may be the first of a run, or a rewind.
        previous: key and time of the entry before the first of them.
        """
        rows = []
        for one in folded:
            key, at = previous
            rows.append({**_row(run.id, one, now), "previous_key": key and key.key, "previous_at": at})
            previous = one.key, now
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, stored))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await stored

    async def _write(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            outcomes: list[Any]
            try:
                outcomes = await self._stored([rows for rows, _ in group])
            except StorageUnavailableError as error:
                group, self._waiting = group + self._waiting, []  # nobody waits for the database twice
                outcomes = [copy(error) for _ in group]  # one raised in several places tangles its traceback
            except Exception:
                log.exception("entries_not_appended", runs=len(group))
                outcomes = [0] * len(group)  # so that one run's entries hurt no other's
            for (_, stored), outcome in zip(group, outcomes, strict=True):
                settle(stored, outcome)

    async def _stored(self, batches: list[list[dict[str, Any]]]) -> list[int]:
        rows = [row for batch in batches for row in batch]

        def insert(connection: Connection) -> int:
            return connection.execute(_append_next(connection.dialect.name), rows).rowcount

        def look(connection: Connection) -> set[tuple[Any, ...]]:
            sought = {name: list({row[name] for row in rows}) for name in ("run_id", "key")}
            return set(map(tuple, connection.execute(_STORED, sought)))

        if await self.database.write(insert, alone=True) == len(rows):
            return list(map(len, batches))
        there = await self.database.read(look)
        return [sum(1 for _ in takewhile(there.__contains__, map(itemgetter(*_IDENTITY), batch))) for batch in batches]

    @reading
    def head(self, connection: Connection, run: RunRow) -> Head:
        """Return where a run stands. Raises UnknownRunError: it was deleted or replaced."""
        return _of_run(connection.execute(_HEADS.where(runs.c.id == run.id)).one_or_none(), run)

    @reading
    def heads(self, connection: Connection, run_ids: list[int]) -> dict[int, Head]:
        """Return where these runs stand, by id, without deleted ones."""
        return {row.id: _head(row) for row in connection.execute(_HEADS.where(runs.c.id.in_(run_ids)))}

    @reading
    def between(self, connection: Connection, run: RunRow, after: int, up_to: int, limit: int = 1000) -> list[Entry]:
        """Return entries after + 1, after + 2, ... up to `up_to` in order, at most `limit`."""
        return entries_between(connection, run.id, after, up_to, limit)

    @reading
    def last_rewind(self, connection: Connection, run: RunRow, after: int, up_to: int) -> tuple[Entry, int] | None:
        """Return the last rewind after entry `after` with the seq that it restored; None if there is none."""
        found = select(*_ENTRY).where(journal.c.run_id == run.id, text(IS_MARK), journal.c.kind == KINDS[Rewind])
        found = found.where(journal.c.seq > after, journal.c.seq <= up_to).order_by(journal.c.seq.desc()).limit(1)
        entry = next(map(entry_of, connection.execute(found)), None)
        return (entry, entry.body.to_seq) if entry is not None and isinstance(entry.body, Rewind) else None

    @reading
    def created_at(self, connection: Connection, run: RunRow, seq: int) -> float | None:
        """Return when an entry was appended, in seconds since 1970, UTC; None if it is not there."""
        return connection.scalar(select(journal.c.created_at).where(*_is(run.id, seq)))


class SqlSnapshots(Store):
    """Stored states of runs, so that a replay need not read the whole journal. The bytes carry their own checksum."""

    @writing
    def save(self, connection: Connection, run: RunRow, seq: int, blob: bytes) -> None:
        """Store the bytes of the state after entry `seq`; what is there for this seq stays."""
        # On PostgreSQL the lock keeps the run from being deleted or replaced before this is in.
        standing = select(runs.c.id).where(runs.c.id == run.id, runs.c.uid == run.uid)
        if connection.scalar(standing.with_for_update(key_share=True, read=True)) is None:
            raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
        row = {"run_id": run.id, "seq": seq, "blob": blob}
        connection.execute(insert_missing(connection.dialect.name, snapshots), row)

    @reading
    def newest(self, connection: Connection, run: RunRow, up_to: int) -> tuple[int, bytes] | None:
        """Return the greatest seq that is not beyond `up_to` and has a stored state, and that state's bytes."""
        until = select(snapshots.c.seq, snapshots.c.blob).where(snapshots.c.run_id == run.id, snapshots.c.seq <= up_to)
        found = connection.execute(until.order_by(snapshots.c.seq.desc()).limit(1)).one_or_none()
        return None if found is None else (found.seq, found.blob)

    @reading
    def seqs(self, connection: Connection, run: RunRow) -> list[int]:
        those = select(snapshots.c.seq).where(snapshots.c.run_id == run.id)
        return list(connection.scalars(those.order_by(snapshots.c.seq)))

    @writing
    def drop(self, connection: Connection, run: RunRow, seqs: list[int]) -> None:
        """Drop some stored states; the journal still leads to them."""
        connection.execute(delete(snapshots).where(snapshots.c.run_id == run.id, snapshots.c.seq.in_(seqs)))
