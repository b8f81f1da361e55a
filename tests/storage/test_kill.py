"""kill -9 of a process that appends: what was acknowledged is there."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import text

from bots_service.core.run_settings import RunSettings
from bots_service.storage.sqlite import SqliteDatabase
from tests.storage import made
from tests.storage.made import Stores

ROOT = Path(__file__).parents[2]


def acknowledged(url: str, dataset_id: int, life: int, seconds: float) -> list[tuple[str, int, str]]:
    """Let a child append for a while, kill it, and return what it had acknowledged."""
    command = [sys.executable, "-m", "tests.storage.appending_child", url, str(dataset_id), str(life)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        lines = (first + child.stdout.read()).splitlines()
    parts = [line.split() for line in lines]
    return [(run, int(seq), key) for run, seq, key in parts]


async def test_every_acknowledged_append_survives_five_kills_in_its_place(stores: Stores, url: str):
    row = await made.dataset(stores)
    await stores.runs.put(row.id, "other", RunSettings())
    await stores.database.close()
    moments = random.Random(11)
    acks: set[tuple[str, int, str]] = set()
    for life in range(5):
        acks |= set(acknowledged(url, row.id, life, moments.uniform(0.0, 0.3)))
        database = SqliteDatabase(url)
        found = await database.read(
            lambda connection: connection.execute(
                text("SELECT name, seq, key, head FROM journal JOIN runs ON id = run_id ORDER BY name, seq")
            ).all()
        )
        await database.close()
        assert acks <= {(name, seq, key) for name, seq, key, _ in found}
        for run in ("default", "other"):
            seqs = [seq for name, seq, _, _ in found if name == run]
            heads = {head for name, _, _, head in found if name == run}
            assert seqs == list(range(1, len(seqs) + 1))
            assert heads == {len(seqs)}
    assert len(acks) > 5 * 8
