"""Stored states in SQL. The bytes carry their own checksum, so that decoding detects damage."""

from sqlalchemy import Connection, bindparam, delete, select

from bots_service.errors import UnknownRunError
from bots_service.records import RunRow
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.runs import STANDING
from bots_service.storage.sql.tables import runs, snapshots

_OF_RUN = snapshots.c.run_id == bindparam("run")
_NEWEST = (
    select(snapshots.c.seq, snapshots.c.blob)
    .where(_OF_RUN, snapshots.c.seq <= bindparam("up_to"))
    .order_by(snapshots.c.seq.desc())
    .limit(1)
)
_SEQS = select(snapshots.c.seq).where(_OF_RUN, snapshots.c.seq >= bindparam("first")).order_by(snapshots.c.seq)
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

    async def save(self, run: RunRow, seq: int, blob: bytes) -> None:
        """Store the bytes of the state after entry `seq`; what is there for this seq stays."""

        def job(connection: Connection) -> None:
            if connection.execute(STANDING, {"run": run.id, "uid": run.uid}).one_or_none() is None:
                raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
            connection.execute(insert_missing(connection, snapshots), {"run_id": run.id, "seq": seq, "blob": blob})

        await self._database.write(job)

    async def newest(self, run: RunRow, up_to: int) -> tuple[int, bytes] | None:
        """Return the greatest seq that is not beyond `up_to` and has a stored state, and that state's bytes."""

        def job(connection: Connection) -> tuple[int, bytes] | None:
            found = connection.execute(_NEWEST, {"run": run.id, "up_to": up_to}).one_or_none()
            return None if found is None else (found.seq, found.blob)

        return await self._database.read(job)

    async def seqs(self, run: RunRow, first: int = 0) -> list[int]:
        """Return the seqs of all stored states from `first` on, in order."""
        values = {"run": run.id, "first": first}
        return await self._database.read(lambda connection: list(connection.execute(_SEQS, values).scalars()))

    async def drop(self, run: RunRow, seqs: list[int]) -> None:
        """Drop some stored states; the journal still leads to them."""

        def job(connection: Connection) -> None:
            for start in range(0, len(seqs), _MOST_SEQS):
                connection.execute(_DROP, {"run": run.id, "seqs": seqs[start : start + _MOST_SEQS]})

        if seqs:
            await self._database.write(job)
