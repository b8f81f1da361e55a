"""Every hot statement finds its rows by an index, on each product, once the tables are large."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import NoneType
from typing import Any

from msgspec import structs
from sqlalchemy import Connection, Engine, event, insert, select, text

from bots_service.core.entries import Rewind, SettingsChange
from bots_service.core.run_settings import RunSettings
from bots_service.records import RunRow
from bots_service.storage.sql.journal import encode_body, receipt_under
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sql.tables import IS_MARK, answers, datasets, journal, runs, snapshots
from tests.storage import made

DATASETS, WITH_RUNS, RUNS_OF_EACH = 1500, 35, 40
ENTRIES = 400  # of one run of each dataset that has several: 20,000 rows of the journal

# What a plan may go through from end to end: the values of a statement, and what it found by an index before.
SCANS = ("SCAN ", "Seq Scan on ")
HARMLESS = ("wanted", "CONSTANT ROW", "CONSTANT ROWS")


@contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """Give the statements that are executed meanwhile, each with its values."""
    seen: dict[str, Any] = {}

    def remember(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            seen.setdefault(statement, values[0] if isinstance(values, list) else values)

    event.listen(Engine, "before_cursor_execute", remember)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", remember)


def fill(connection: Connection) -> None:
    first = {"version": 1, "retired": 0, "created_at": 0.0, "facts": made.facts(10)}
    connection.execute(insert(datasets), [{"name": f"pool-{number}", **first} for number in range(DATASETS)])
    own = {"settings": RunSettings(), "head": ENTRIES, "epoch": 0, "created_at": 0.0}
    connection.execute(
        insert(runs),
        [
            {"uid": f"{of}-{number}", "dataset_id": of, "name": f"run-{number}", **own}
            for of in connection.scalars(select(datasets.c.id).order_by(datasets.c.id).limit(WITH_RUNS)).all()
            for number in range(RUNS_OF_EACH)
        ],
    )
    busy = connection.scalars(select(runs.c.id).where(runs.c.name == "run-7").order_by(runs.c.id)).all()
    rows = [{"run_id": run, "seq": seq, "epoch": 0} for run in busy for seq in range(1, ENTRIES + 1)]
    entry = {"kind": "report", "profiles": 3, "body": encode_body(made.report(tasks=32)), "created_at": 0.0}
    entry |= {"hidden": False, "uniform": 0.5, "expected": 5.0}
    receipts = [structs.asdict(made.receipt(row["seq"], row["seq"])) for row in rows]
    connection.execute(
        insert(journal),
        [{**row, **entry, **told, "key": f"key-{row['seq']}"} for row, told in zip(rows, receipts, strict=True)],
    )
    connection.execute(
        insert(snapshots),
        [{"run_id": row["run_id"], "seq": row["seq"], "blob": bytes(100)} for row in rows if row["seq"] % 5 == 0],
    )
    first_answer = {"key": "k", "fingerprint": "", "result": "null", "created_at": 0.0}
    connection.execute(insert(answers), [{"scope": f"PUT /{number}", **first_answer} for number in range(5000)])
    if connection.dialect.name == "postgresql":
        connection.execute(text("ANALYZE"))


async def ask_everything(stores: SqlStores, run: RunRow) -> None:
    journal, history, snapshots = stores.journal, stores.history, stores.snapshots
    await stores.datasets.get("pool-7")
    await stores.datasets.after("pool-7", 10)
    await stores.runs.get(run.dataset_id, run.name)
    await stores.runs.all(run.dataset_id)
    await stores.answers.find("PUT /7", "k", NoneType)
    await stores.database.read(lambda connection: receipt_under(connection, run, made.once("new")))
    for body in (None, Rewind(ENTRIES - 9, ENTRIES - 9), SettingsChange({"seed": 1})):
        await made.append(stores, run, body, key=made.once(str(type(body))))
    await journal.between(run, ENTRIES - 5, ENTRIES, 100)
    await journal.head(run)
    await journal.heads([run.id])
    await journal.created_at(run, ENTRIES)
    await journal.last_rewind(run, ENTRIES - 20, ENTRIES)
    await history.entries(run, ENTRIES - 5, 10)
    await history.entries(run, ENTRIES - 5, 10, ["report"])
    await history.entries(run, ENTRIES - 5, 10, ["settings", "rewind"])
    await history.closing(run, ENTRIES - 20)
    await history.steps(run, ENTRIES - 50, 10)
    await stores.runs.note_refused_report(run, "why")
    await stores.history.known(await stores.history.heads("pool-30"))
    await stores.history.ends(run, ENTRIES, [3, ENTRIES - 60, ENTRIES - 20])
    await snapshots.newest(run, ENTRIES)
    await snapshots.seqs(run)
    await snapshots.save(run, ENTRIES - 1, b"state")
    await snapshots.drop(run, [ENTRIES - 1])


def plan(connection: Connection, statement: str, values: Any) -> list[str]:
    if connection.dialect.name == "sqlite":
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
    return list(connection.exec_driver_sql(f"EXPLAIN {statement}", values).scalars())


def is_slow(line: str) -> bool:
    scans = any(word in line for word in SCANS) and not line.strip().endswith(HARMLESS)
    return scans or "TEMP B-TREE" in line


async def test_every_hot_statement_finds_its_rows_by_an_index(stores: SqlStores):
    await stores.database.write(fill)
    pool = await stores.datasets.get("pool-30")
    with watched() as seen:
        await ask_everything(stores, await stores.runs.get(pool.id, "run-7"))

    def plans(connection: Connection) -> dict[str, list[str]]:
        asked = {statement: values for statement, values in seen.items() if not statement.startswith("INSERT")}
        return {statement: plan(connection, statement, values) for statement, values in asked.items()}

    found = await stores.database.read(plans)
    assert len(found) > 20
    slow = {statement: lines for statement, lines in found.items() if any(map(is_slow, lines))}
    assert slow == {}
    (by_kind,) = [lines for statement, lines in found.items() if " IN (" in statement and IS_MARK in statement]
    assert any("ix_journal_marks" in line for line in by_kind), by_kind
