"""A database that the first released version made opens in this one, with all that it held.

`released/revision_0001.sql` is a dump of what that version wrote: a dataset that grew, four runs with rewinds, a fork,
partial steps, changed settings, stored states. `revision_0001.json` is what that version said of it.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, NullPool, create_engine, text

from bots_service.core.arrays import Floats
from bots_service.core.state import RunState
from bots_service.ports.records import Once
from bots_service.settings import Settings
from bots_service.storage.database import Database
from bots_service.storage.migrate import head, upgrade
from bots_service.storage.postgres_database import PostgresDatabase
from bots_service.storage.sql_url import sql_url
from bots_service.storage.sqlite_database import SqliteDatabase
from bots_service.usecases import UseCases
from bots_service.usecases.open_run import OpenRun
from bots_service.usecases.report_outcomes import News, Outcome
from bots_service.wiring import use_cases
from tests.servers import PostgresServer

RELEASED = Path(__file__).parent / "released"
EXPECTED: dict[str, Any] = json.loads((RELEASED / "revision_0001.json").read_text())
RUNS = sorted(EXPECTED["runs"])
TABLES = ("datasets", "task_blocks", "retired_tasks", "runs", "journal", "receipts", "snapshots", "answers")
CLOSE = 1e-12  # relative: logarithms may differ in the last bit between machines


def restore(file: Path) -> str:
    with sqlite3.connect(file) as connection:
        connection.executescript((RELEASED / "revision_0001.sql").read_text())
    connection.close()
    return f"sqlite:///{file}"


def to_revision_0001(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", "bots_service:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "0001")


def copy_rows(source: str, target: str) -> None:
    """Make the tables of revision 0001 in PostgreSQL, and fill them with SQLite's rows."""
    engines = [create_engine(sql_url(url), poolclass=NullPool) for url in (source, target)]
    with engines[0].connect() as there, engines[1].connect() as here:
        to_revision_0001(here)
        tables = MetaData()
        tables.reflect(here)
        for name in TABLES:
            table = tables.tables[name]
            rows = [dict(row) for row in there.execute(text(f"SELECT * FROM {name}")).mappings()]  # noqa: S608 - from a fixed list
            for row in rows:
                row.update(
                    {column.name: bool(row[column.name]) for column in table.c if column.type.python_type is bool}
                )
            if rows:
                here.execute(table.insert(), rows)
            if "id" in table.c:
                here.execute(text(f"SELECT setval('{name}_id_seq', (SELECT max(id) FROM {name}))"))  # noqa: S608 - from a fixed list
        here.commit()


@pytest.fixture
async def on_sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    url = restore(tmp_path / "bots.db")
    assert upgrade(url) == ("0001", head())
    database = SqliteDatabase(url)
    yield database
    await database.close()


@pytest.fixture
async def on_postgres(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[Database]:
    url = postgres.new_database()
    copy_rows(restore(tmp_path / "bots.db"), url)
    assert upgrade(url) == ("0001", head())
    database = PostgresDatabase(url, pool_size=2, timeout_s=30)
    yield database
    await database.close()
    postgres.drop_database(url)


@pytest.fixture(params=["on_sqlite", "on_postgres"], ids=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest) -> Callable[[], UseCases]:
    """Opens what the first version left behind."""
    database = request.getfixturevalue(request.param)
    return lambda: use_cases(Settings(snapshot_every=5), database)


def belief(run: OpenRun, state: RunState) -> tuple[Floats, Floats]:
    return state.belief.of_tasks(run.dataset.pool, np.arange(run.dataset.row.facts.size, dtype=np.int32))


@pytest.mark.parametrize("name", RUNS)
async def test_every_state_is_the_one_that_the_first_version_had(opened: Callable[[], UseCases], name: str):
    use, expected = opened(), EXPECTED["runs"][name]
    run = await use.select_tasks.open_runs("pool", name)
    catch_up = use.report_outcomes.catch_up
    for row in expected["states"]:
        state = await catch_up.replay.state_at(run, row["seq"])
        told = {
            "seq": state.seq,
            "epoch": state.epoch,
            "step": state.step,
            "capability": state.belief.capability,
            "belief": sha256(np.concatenate(belief(run, state)).astype("<f8").tobytes()).hexdigest(),
        }
        assert told == row
    newest = await catch_up.newest(run)
    assert [part.tolist() for part in belief(run, newest)] == [expected["alpha"], expected["beta"]]
    assert newest.settings.as_dict() == {
        key: tuple(v) if isinstance(v, list) else v for key, v in expected["settings"].items()
    }
    assert len(newest.open_step.whole()) == expected["pending"]


@pytest.mark.parametrize("name", RUNS)
async def test_the_history_is_the_same(opened: Callable[[], UseCases], name: str):
    history = await opened().read_history("pool", name, 0, 1000)
    told = [
        {
            "seq": one.receipt.seq,
            "step": one.receipt.step,
            "reported": one.receipt.tally.reported,
            "effective": one.receipt.tally.effective,
            "mean_pass_rate": one.receipt.tally.mean_pass_rate,
            "capability": one.receipt.capability,
            "brier": one.receipt.brier,
            "log_loss": one.receipt.log_loss,
            "created_at": one.created_at,
        }
        for one in history
    ]
    expected = EXPECTED["runs"][name]["history"]
    assert [row | {"log_loss": None} for row in told] == [row | {"log_loss": None} for row in expected]
    assert [row["log_loss"] for row in told] == pytest.approx([row["log_loss"] for row in expected], rel=CLOSE)


async def test_keys_and_selections_from_before_are_known(opened: Callable[[], UseCases]):
    use = opened()
    again = [Outcome("t0", successes=1.0, trials=16.0)]
    repeated = await use.report_outcomes(News("pool", "default", again), Once("default-3", "fingerprint default-3"))
    assert (repeated.duplicate, repeated.receipt.seq) == (True, 3)
    outcomes = [Outcome(task, successes=4.0, trials=16.0) for task in EXPECTED["waiting_tasks"]]
    news = News("pool", "default", outcomes, selection_id=EXPECTED["waiting_selection"])
    receipt = (await use.report_outcomes(news, None)).receipt
    before = EXPECTED["runs"]["default"]["states"][-1]
    assert (receipt.seq, receipt.step, receipt.closed) == (before["seq"] + 1, before["step"] + 1, True)


@pytest.mark.parametrize("name", RUNS)
async def test_it_goes_on(opened: Callable[[], UseCases], name: str):
    use = opened()
    outcomes = [Outcome(f"t{number}", successes=4.0, trials=16.0) for number in (1, 30, 59)]
    receipt = (await use.report_outcomes(News("pool", name, outcomes, close_step=True), None)).receipt
    assert receipt.step == EXPECTED["runs"][name]["states"][-1]["step"] + 1
    rewound = await use.rewind_run("pool", name, receipt.step - 1, None)
    assert rewound[0].state.step == receipt.step - 1
    cold = opened()
    run = await cold.select_tasks.open_runs("pool", name)
    assert (await cold.report_outcomes.catch_up.newest(run)).epoch == EXPECTED["runs"][name]["states"][-1]["epoch"] + 1
