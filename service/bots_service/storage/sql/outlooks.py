"""Outlooks of runs in SQL."""

import time
from collections.abc import Callable

import msgspec
import numpy as np
from sqlalchemy import BigInteger, Connection, bindparam, func, select

from bots_service.core.outlook import Coverage, Outlook
from bots_service.errors import UnknownRunError
from bots_service.records import RunRow, StoredOutlook
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.history import spans_of
from bots_service.storage.sql.runs import STANDING
from bots_service.storage.sql.tables import outlooks

# Several looks at one step give the same outlook: each replica looks, and a rewind leads to a step that was seen.
_steps = (
    select(outlooks.c.step, func.min(outlooks.c.seq).label("seq"))
    .where(
        outlooks.c.run_id == bindparam("run"),
        outlooks.c.seq > bindparam("after"),
        outlooks.c.seq <= bindparam("last"),
        outlooks.c.step > bindparam("behind"),
    )
    .group_by(outlooks.c.step)
    .subquery()
)
_COUNT = select(func.count().label("steps"), func.max(_steps.c.step).label("last_step")).select_from(_steps)
# Places count from the end, so that the last outlook has 0 and stays, however few are wanted.
_numbered = select(
    _steps.c.seq, (bindparam("left") - func.row_number().over(order_by=_steps.c.step)).label("place")
).subquery()
_gap = bindparam("wanted_gaps", type_=BigInteger)
_SOME = (
    select(outlooks)
    .join(_numbered, outlooks.c.seq == _numbered.c.seq)
    .where(
        outlooks.c.run_id == bindparam("run"),
        (_numbered.c.place * _gap) % bindparam("all_gaps", type_=BigInteger) < _gap,
    )
    .order_by(outlooks.c.seq)
)
_coverage = msgspec.json.Decoder(Coverage)


class SqlOutlooks:
    """Outlooks of runs: estimates that nothing depends on."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """Keep outlooks in a database; `clock` gives seconds since 1970, UTC."""
        self._database = database
        self._clock = clock

    async def keep(self, run: RunRow, seq: int, step: int, outlook: Outlook, coverage: Coverage) -> None:
        """Keep what is expected after entry `seq`; where something is kept for it, that stays."""
        row = {
            "run_id": run.id,
            "seq": seq,
            "step": step,
            "uniform_effective_task_ratio": outlook.effective_task_ratio,
            "distribution": np.array(outlook.distribution, "<f4").tobytes(),
            "coverage": msgspec.json.encode(coverage).decode(),
            "created_at": self._clock(),
        }

        def job(connection: Connection) -> None:
            if connection.execute(STANDING, {"run": run.id, "uid": run.uid}).one_or_none() is None:
                raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
            connection.execute(insert_missing(connection, outlooks), row)

        await self._database.write(job)

    async def read(self, run: RunRow, up_to: int, most: int) -> list[StoredOutlook]:
        """Return the outlooks of the present history up to entry `up_to`, in order: for each step the first."""
        return await self._database.read(lambda connection: _read(connection, run, up_to, most))


def _read(connection: Connection, run: RunRow, up_to: int, most: int) -> list[StoredOutlook]:
    parts, count, behind = [], 0, -1
    for span in spans_of(connection, run.id):
        after = span.after or -1  # the service may have looked before the first entry
        values = {"run": run.id, "after": after, "last": min(span.last, up_to), "behind": behind}
        steps, last_step = connection.execute(_COUNT, values).one()
        if steps:
            parts.append((values, count))
            count, behind = count + steps, last_step
    wanted = min(count, most) - 1
    gaps = {"wanted_gaps": wanted, "all_gaps": count - 1} if wanted > 0 else {"wanted_gaps": 1, "all_gaps": count}
    return [
        _stored(row)
        for values, before in parts
        for row in connection.execute(_SOME, {**values, **gaps, "left": count - before})
    ]


def _stored(row: SqlRow) -> StoredOutlook:
    return StoredOutlook(
        seq=row.seq,
        step=row.step,
        uniform_effective_task_ratio=row.uniform_effective_task_ratio,
        distribution=tuple(np.frombuffer(row.distribution, "<f4").tolist()),
        coverage=_coverage.decode(row.coverage),
        created_at=row.created_at,
    )
