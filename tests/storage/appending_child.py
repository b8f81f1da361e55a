"""Appends to two runs for ever, and prints each acknowledged append as "run seq key". Its test kills it."""

import asyncio
import itertools
import os
import sys

from bots_service.storage.sql.journal import SqlJournal
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sqlite import SqliteDatabase
from tests.storage import made


async def main(url: str, dataset_id: int, life: str) -> None:
    database = SqliteDatabase(url)
    runs, journal = SqlRuns(database), SqlJournal(database)
    rows = [await runs.get(dataset_id, name) for name in ("default", "other")]

    async def append(caller: int) -> None:
        for turn in itertools.count():
            row, key = rows[turn % 2], f"{life}-{caller}-{turn}"
            appended = await journal.append(row, made.draft(key, seed=turn % 50))
            os.write(1, f"{row.name} {appended.entry.seq} {key}\n".encode())

    await asyncio.gather(*map(append, range(8)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
