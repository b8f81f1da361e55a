"""Deletes what is old from SQL, in small transactions."""

from sqlalchemy import Connection, bindparam, delete, func, select, text, tuple_, update

from bots_service.core.entries import Rewind
from bots_service.errors import BusyError
from bots_service.records import RunRow
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import Database, Job, Result
from bots_service.storage.sql.tables import IS_MARK, answers, datasets, journal, runs, snapshots, task_blocks

BATCH = 1000  # rows of one transaction: some 20 ms
_LOCK = 0x7072756E  # of pruners, among PostgreSQL's advisory locks: "prun"
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:lock)")

_OF_RUN = journal.c.run_id == bindparam("run")
_IS_KEPT = journal.c.body.is_not(None)
_OLD_STATES = (
    select(snapshots.c.seq)
    .join(journal, (journal.c.run_id == snapshots.c.run_id) & (journal.c.seq == snapshots.c.seq))
    .join(runs, runs.c.id == snapshots.c.run_id)
    .where(snapshots.c.run_id == bindparam("run"), snapshots.c.seq > runs.c.pruned)
    .where(journal.c.created_at < bindparam("before"))
    .order_by(snapshots.c.seq.desc())
)
_COUNT = select(func.count()).select_from(journal).where(_OF_RUN, _IS_KEPT, journal.c.seq <= bindparam("up_to"))
_RUN = select(runs.c.uid, runs.c.pruned).where(runs.c.id == bindparam("run")).with_for_update(key_share=True)
_STATE = select(snapshots.c.seq).where(snapshots.c.run_id == bindparam("run"), snapshots.c.seq == bindparam("this_seq"))
_TRUNCATE = update(runs).where(runs.c.id == bindparam("run")).values(pruned=bindparam("up_to"))
_FIRST = (
    select(func.min(journal.c.seq), func.min(runs.c.pruned))
    .join(runs, runs.c.id == journal.c.run_id)
    .where(_OF_RUN, _IS_KEPT, journal.c.seq <= runs.c.pruned)
)
_BETWEEN = journal.c.seq.between(bindparam("first"), bindparam("last"))
_DROP = update(journal).where(_OF_RUN, _BETWEEN, _IS_KEPT).values(body=None)
_REWINDS = (
    select(journal.c.seq, journal.c.body)
    .where(_OF_RUN, text(IS_MARK), journal.c.kind == KINDS[Rewind], _IS_KEPT)
    .order_by(journal.c.seq)
)
_ANSWER = tuple_(answers.c.scope, answers.c.key)
_OLD_ANSWERS = select(answers.c.scope, answers.c.key).where(answers.c.created_at < bindparam("before")).limit(BATCH)
_DROP_ANSWERS = delete(answers).where(_ANSWER.in_(_OLD_ANSWERS))
_STAGES = select(datasets.c.id).where(datasets.c.name.is_(None), datasets.c.created_at < bindparam("before"))
_STAGED_RUNS = select(runs.c.id).where(runs.c.dataset_id.in_(_STAGES))


class SqlRetention:
    """Deletes old data in small batches, so that other writes never wait long."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def truncation_points(self, run: RunRow, before: float) -> list[int]:
        """Return the seqs of snapshots up to which the journal can be truncated, newest first."""

        def job(connection: Connection) -> list[int]:
            found = list(connection.execute(_OLD_STATES, {"run": run.id, "before": before}).scalars())
            rewinds = _rewinds(connection, run.id) if found else []
            return [seq for seq in found if _is_free(seq, rewinds)]

        return await self._database.read(job)

    async def count_entries(self, run: RunRow, seq: int) -> int:
        """Return how many entries a truncation up to `seq` deletes."""
        values = {"run": run.id, "up_to": seq}
        return await self._database.read(lambda connection: connection.scalar(_COUNT, values) or 0)

    async def truncate(self, run: RunRow, seq: int) -> bool:
        """Let the journal begin after the snapshot at `seq`; return whether that was possible."""

        def job(connection: Connection) -> bool:
            row = connection.execute(_RUN, {"run": run.id}).one_or_none()
            stored = connection.scalar(_STATE, {"run": run.id, "this_seq": seq})
            is_standing = row is not None and row.uid == run.uid and row.pruned < seq and stored is not None
            # Again, for a rewind may have come: none comes between now and the commit, as the run's row is locked.
            if not is_standing or not _is_free(seq, _rewinds(connection, run.id)):
                return False
            connection.execute(_TRUNCATE, {"run": run.id, "up_to": seq})
            return True

        return await self._database.write(_exclusive(job))

    async def delete_entries(self, run: RunRow) -> int:
        """Delete the bodies of some entries before the beginning of the journal; return how many."""

        def job(connection: Connection) -> int:
            first, pruned = connection.execute(_FIRST, {"run": run.id}).one()
            if first is None:
                return 0
            values = {"run": run.id, "first": first, "last": min(first + BATCH - 1, pruned)}
            return connection.execute(_DROP, values).rowcount

        return await self._database.write(_exclusive(job))

    async def delete_answers(self, before: float) -> int:
        """Delete some answers that were kept before then and return how many."""
        return await self._database.write(
            _exclusive(lambda connection: connection.execute(_DROP_ANSWERS, {"before": before}).rowcount)
        )

    async def delete_stages(self, before: float) -> int:
        """Delete some of the rows of stages that were begun before then and return how many rows.

        Row by row, for the rows of a large dataset would take long to go with it.
        """
        return await self._database.write(_exclusive(lambda connection: _drop_staged(connection, before)))


def _rewinds(connection: Connection, run_id: int) -> list[tuple[int, int]]:
    """Return the rewinds of a run's kept journal by seq: the seq of each, and the seq that it went back to."""
    bodies = [(row.seq, decode_body(row.body)) for row in connection.execute(_REWINDS, {"run": run_id})]
    return [(seq, body.to_seq) for seq, body in bodies if isinstance(body, Rewind)]


def _is_free(seq: int, rewinds: list[tuple[int, int]]) -> bool:
    """Return whether no rewind after `seq` goes back before it, so that no later state needs these entries."""
    return all(to_seq >= seq for at, to_seq in rewinds if at > seq)


def _exclusive(job: Job[Result]) -> Job[Result]:
    """Return the job such that it raises BusyError while another replica's runs; SQLite has one writer anyway."""

    def locked(connection: Connection) -> Result:
        if connection.dialect.name == "postgresql" and not connection.scalar(_TRY_LOCK, {"lock": _LOCK}):
            raise BusyError("another replica is pruning; try again")
        return job(connection)

    return locked


def _drop_staged(connection: Connection, before: float) -> int:
    values = {"before": before}
    for table, keys, staged in (
        (journal, (journal.c.run_id, journal.c.seq), journal.c.run_id.in_(_STAGED_RUNS)),
        (task_blocks, (task_blocks.c.dataset_id, task_blocks.c.position), task_blocks.c.dataset_id.in_(_STAGES)),
    ):
        rows = select(*keys).where(staged).limit(BATCH)
        dropped = connection.execute(delete(table).where(tuple_(*keys).in_(rows)), values).rowcount
        if dropped:
            return dropped
    return connection.execute(delete(datasets).where(datasets.c.id.in_(_STAGES)), values).rowcount
