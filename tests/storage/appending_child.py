"""Reports to two runs for ever, and prints each acknowledged report as "run seq key". Its test kills it.

It begins with the first turn that may not have been acknowledged, so it repeats reports of the child before it.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

from bots_service.outcomes import ReportRequest
from bots_service.records import IdempotencyKey
from bots_service.settings import Settings
from bots_service.wiring import sqlite_or_postgres
from tests.usecases.world import POOL, TASKS, World, outcome

CALLERS = 8
RUNS = ("default", "other")


async def main(url: str, first: int) -> None:
    settings = Settings(database_url=url, snapshot_every=20)
    world = World.over(Path(), settings, sqlite_or_postgres(settings))

    async def report(caller: int) -> None:
        for turn in itertools.count(first):
            run, key = RUNS[turn % 2], f"{caller}-{turn}"
            told = ReportRequest(POOL, [outcome(f"t{turn % TASKS}")], run)
            done = await world.runs.report(told, IdempotencyKey(key, "same"))
            os.write(1, f"{run} {done.receipt.seq} {key}\n".encode())

    await asyncio.gather(*map(report, range(CALLERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
