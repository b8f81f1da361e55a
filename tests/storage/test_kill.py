"""kill -9 of a process that reports: what was acknowledged is there, once, in its place, with its receipt."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from bots_service.settings import Settings
from bots_service.storage.sql.database import connected
from bots_service.wiring import sqlite_or_postgres
from tests.sizes import size
from tests.storage.appending_child import CALLERS, RUNS
from tests.usecases.world import World

ROOT = Path(__file__).parents[2]
KILLS = size(2, 20)  # each time Python starts anew
FOUND = text(
    "SELECT runs.name, journal.seq, journal.key FROM journal JOIN runs ON runs.id = journal.run_id ORDER BY journal.seq"
)
OTHERS = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
Acks = set[tuple[str, int, str]]


def acknowledged(url: str, first: int, seconds: float) -> Acks:
    """Let a child report for a while, kill it, and return what it had acknowledged."""
    command = [sys.executable, "-m", "tests.storage.appending_child", url, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(2 * CALLERS)]
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines()
    return {(run, int(seq), key) for run, seq, key in map(str.split, lines)}


def await_backends(url: str) -> None:
    """Wait until PostgreSQL has ended what it was doing for a process that was killed."""
    with connected(url) as connection:
        while connection.scalar(OTHERS):
            connection.rollback()  # it shows a transaction the same processes throughout
            time.sleep(0.01)


async def assert_each_is_there_once(world: World, acks: Acks) -> None:
    """Whatever is in the journal has its place, its receipt, and counts once."""
    found = (await world.database.read(lambda connection: connection.execute(FOUND))).all()
    assert acks <= set(map(tuple, found))
    for run in RUNS:
        own = [(seq, key) for name, seq, key in found if name == run]
        assert [seq for seq, _ in own] == list(range(1, len(own) + 1))
        assert len({key for _, key in own}) == len(own)
        state = await world.assert_is_a_replay(run)
        assert state.totals.rollouts == 16 * len(own)


@pytest.mark.parametrize("product", ["sqlite", "postgresql"])
async def test_every_acknowledged_report_survives_kills_and_counts_once(
    request: pytest.FixtureRequest, product: str, tmp_path: Path
):
    url: str = request.getfixturevalue("url" if product == "sqlite" else "postgres_url")
    settings = Settings(database_url=url)
    world = World.over(tmp_path, settings, sqlite_or_postgres(settings))
    await world.import_pool()
    await world.put_run("other")
    await world.close()
    moments, first, acks = random.Random(11), 0, Acks()
    for _ in range(KILLS):
        acks |= acknowledged(url, first, moments.uniform(0.0, 0.3))
        if product == "postgresql":
            await_backends(url)
        world = World.over(tmp_path, settings, sqlite_or_postgres(settings))
        await assert_each_is_there_once(world, acks)
        await world.close()
        # The next one begins with the first turn that some caller may not have heard of.
        turns = [
            [int(key.split("-")[1]) for _, _, key in acks if key.startswith(f"{each}-")] for each in range(CALLERS)
        ]
        first = min(max(own, default=-1) for own in turns) + 1
