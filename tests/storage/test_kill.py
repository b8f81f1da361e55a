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
from bots_service.wiring import sqlite_or_postgres
from tests.storage.appending_child import CALLERS, RUNS
from tests.usecases.world import World

ROOT = Path(__file__).parents[2]
FOUND = text(
    "SELECT name, journal.seq, key, head FROM journal JOIN runs ON id = run_id "
    "JOIN receipts ON receipts.run_id = id AND receipts.seq = journal.seq ORDER BY name, journal.seq"
)


def acknowledged(url: str, first: int, seconds: float) -> list[tuple[str, int, str]]:
    """Let a child report for a while, kill it, and return what it had acknowledged."""
    command = [sys.executable, "-m", "tests.storage.appending_child", url, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        lines = (line + child.stdout.read()).splitlines()
    return [(run, int(seq), key) for run, seq, key in map(str.split, lines)]


@pytest.mark.parametrize("product", ["sqlite", "postgresql"])
async def test_every_acknowledged_report_survives_kills_and_counts_once(
    request: pytest.FixtureRequest, product: str, tmp_path: Path
):
    url: str = request.getfixturevalue("url" if product == "sqlite" else "postgres_url")
    settings = Settings(database_url=url)
    moments, first, acks = random.Random(11), 0, set[tuple[str, int, str]]()
    for life in range(6):
        world = World.over(tmp_path, settings, sqlite_or_postgres(settings))
        if life == 0:
            await world.import_pool()
            await world.put_run("other")
        found = (await world.database.read(lambda connection: connection.execute(FOUND))).all()
        assert acks <= {(name, seq, key) for name, seq, key, _ in found}
        for run in RUNS:
            own = [(seq, key, head) for name, seq, key, head in found if name == run]
            assert [seq for seq, _, _ in own] == list(range(1, len(own) + 1))
            assert {head for _, _, head in own} <= {len(own)}
            assert len({key for _, key, _ in own}) == len(own)
            state = await world.assert_is_a_replay(run)
            assert state.totals.rollouts == 16 * len(own)
        await world.close()
        if life == 5:
            break
        acks |= set(acknowledged(url, first, moments.uniform(0.0, 0.3)))
        turns = [
            [int(key.split("-")[1]) for _, _, key in acks if key.startswith(f"{each}-")] for each in range(CALLERS)
        ]
        first = min(max(own, default=-1) for own in turns) + 1
    assert len(acks) > 5 * CALLERS
