"""Stored states in SQL. The bytes carry their own checksum, so that decoding detects damage."""

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from bots_service.errors import UnknownRunError
from bots_service.records import IdempotencyKey, RunRow, SnapshotRow
from bots_service.storage.sql.answers import keeping_result
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.tables import runs, snapshots

_COLUMNS = tuple(snapshots.c[name] for name in SnapshotRow.__slots__)
_OF_RUN = snapshots.c.run_id == bindparam("run")
_THIS = (_OF_RUN, snapshots.c.seq == bindparam("this_seq"))

# On PostgreSQL the lock keeps the run from being deleted or replaced before its snapshot is in.
_STANDING = (
    select(runs.c.id)
    .where(runs.c.id == bindparam("run"), runs.c.uid == bindparam("uid"))
    .with_for_update(key_share=True, read=True)
)
_GET = select(*_COLUMNS).where(*_THIS)
_WANT = update(snapshots).where(*_THIS).values(wanted=True)
_INSERT = insert(snapshots)
_NEWEST = (
    select(*_COLUMNS, snapshots.c.blob)
    .where(_OF_RUN, snapshots.c.seq <= bindparam("up_to"))
    .order_by(snapshots.c.seq.desc())
    .limit(1)
)
_AFTER = (
    select(*_COLUMNS)
    .where(_OF_RUN, snapshots.c.seq > bindparam("after"))
    .order_by(snapshots.c.seq)
    .limit(bindparam("most"))
)
# The state that pruned entries led to has nothing else that leads to it.
_BEGINNING = select(runs.c.pruned).where(runs.c.id == bindparam("run")).scalar_subquery()
_DROP = delete(snapshots).where(
    _OF_RUN, snapshots.c.seq.in_(bindparam("seqs", expanding=True)), snapshots.c.seq != _BEGINNING
)
_MOST_SEQS = 1000  # in one statement


class SqlSnapshots:
    """Stored states of runs, so that a replay need not read the whole journal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(
        self, run: RunRow, row: SnapshotRow, blob: bytes, idempotency_key: IdempotencyKey | None = None
    ) -> SnapshotRow:
        """Store a state's bytes; one that is there for this seq stays, and becomes wanted if this one is."""
        job = keeping_result(lambda connection: _save(connection, run, row, blob), idempotency_key)
        return await self._database.write(job)

    async def newest(self, run: RunRow, up_to: int) -> tuple[SnapshotRow, bytes] | None:
        """Return the snapshot with the greatest seq that is not beyond `up_to`."""

        def job(connection: Connection) -> tuple[SnapshotRow, bytes] | None:
            found = connection.execute(_NEWEST, {"run": run.id, "up_to": up_to}).one_or_none()
            return None if found is None else (_snapshot(found), found.blob)

        return await self._database.read(job)

    async def after(self, run: RunRow, seq: int, limit: int) -> list[SnapshotRow]:
        """Return snapshots in order of seq, beginning behind `seq`."""
        values = {"run": run.id, "after": seq, "most": limit}
        return await self._database.read(lambda connection: list(map(_snapshot, connection.execute(_AFTER, values))))

    async def drop(self, run: RunRow, seqs: list[int]) -> None:
        """Drop some snapshots; the journal still leads to their states."""

        def job(connection: Connection) -> None:
            for start in range(0, len(seqs), _MOST_SEQS):
                connection.execute(_DROP, {"run": run.id, "seqs": seqs[start : start + _MOST_SEQS]})

        if seqs:
            await self._database.write(job)


def _save(connection: Connection, run: RunRow, row: SnapshotRow, blob: bytes) -> SnapshotRow:
    if connection.execute(_STANDING, {"run": run.id, "uid": run.uid}).one_or_none() is None:
        raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
    this = {"run": run.id, "this_seq": row.seq}
    standing = connection.execute(_GET, this).one_or_none()
    if standing is None:
        values = {name: getattr(row, name) for name in SnapshotRow.__slots__}
        connection.execute(_INSERT, {**values, "run_id": run.id, "blob": blob})
    elif row.wanted and not standing.wanted:
        connection.execute(_WANT, this)
    return _snapshot(connection.execute(_GET, this).one())


def _snapshot(row: SqlRow) -> SnapshotRow:
    return SnapshotRow(**{name: getattr(row, name) for name in SnapshotRow.__slots__})
