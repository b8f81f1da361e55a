"""What partitions by run would cost in PostgreSQL.

The statements of a report run on a journal in one table, and on journals in 16 and 64 partitions by the hash of the
run. The service has no partitions; docs/scaling.md says when they are worth building.

    python -m benchmarks.partitions [--rows 200000] [--reports 10000] [--json]
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from benchmarks.processor import processor_of
from benchmarks.scores import print_scores
from tests.servers import PostgresServer, running

RUNS = 1000
BODY_BYTES = 1500  # of a report of 32 tasks
COLUMNS = """
    run_id bigint NOT NULL, seq bigint NOT NULL, epoch int NOT NULL, kind text NOT NULL, profiles int NOT NULL,
    body text NOT NULL, key text, fingerprint text, created_at float8 NOT NULL,
    PRIMARY KEY (run_id, seq), UNIQUE (run_id, key)
"""
FILL = """
    INSERT INTO journal
    SELECT n %% %(runs)s, n / %(runs)s, 0, 'report', 289, substr(repeat(md5(n::text), 50), 1, %(bytes)s), md5(n::text),
           '', n
    FROM generate_series(0, %(rows)s - 1) n
"""
LOOK_UP = """
    WITH wanted (run_id, key) AS (VALUES (%s::bigint, %s::text))
    SELECT j.seq, j.body FROM wanted JOIN journal j ON j.run_id = wanted.run_id AND j.key = wanted.key
"""
INSERT = "INSERT INTO journal VALUES (%s, %s, 0, 'report', 289, %s, %s, '', 0)"
READ = "SELECT seq, body FROM journal WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT 100"


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """Processor time of PostgreSQL for a report, and for a read of ten of a run's entries.

    partitions: 0 for one table. bytes: of one part, with its indexes.
    """

    partitions: int
    rows: int
    report_ms: float
    read_ms: float
    bytes: int


def make_journal(connection: "psycopg.Connection[tuple[int, ...]]", partitions: int, rows: int) -> str:
    """Make a journal of so many rows; return the name of one of its parts."""
    connection.execute("DROP TABLE IF EXISTS journal")
    connection.execute(f"CREATE TABLE journal ({COLUMNS}) {'PARTITION BY HASH (run_id)' if partitions else ''}")
    for part in range(partitions):
        values = f"WITH (MODULUS {partitions}, REMAINDER {part})"
        connection.execute(f"CREATE TABLE journal_{part} PARTITION OF journal FOR VALUES {values}")
    connection.execute(FILL, {"runs": RUNS, "bytes": BODY_BYTES, "rows": rows})
    connection.execute("ANALYZE journal")
    return "journal_0" if partitions else "journal"


def measure(*, rows: int, reports: int) -> Iterator[PartitionRow]:
    """Yield a row for each number of partitions."""
    with running(PostgresServer(max_wal_size="20GB")) as server, psycopg.connect(server.url(), autocommit=True) as sql:
        read = processor_of([sql.info.backend_pid])
        for partitions in (0, 16, 64):
            part, luck = make_journal(sql, partitions, rows), random.Random(partitions)
            body, began = "x" * BODY_BYTES, read()
            for number in range(reports):
                run, key = luck.randrange(RUNS), f"new-{number}"
                with sql.transaction():
                    sql.execute(LOOK_UP, [run, key])
                    sql.execute(INSERT, [run, rows + number, body, key])
            reported = read()
            for _ in range(reports):
                sql.execute(READ, [luck.randrange(RUNS), rows // RUNS - 10]).fetchall()
            looked = read()
            size = sql.execute("SELECT pg_total_relation_size(%s::regclass)", [part]).fetchone()
            assert size is not None
            report_ms, read_ms = 1e3 * (reported - began) / reports, 1e3 * (looked - reported) / reports
            yield PartitionRow(partitions, rows, report_ms, read_ms, size[0])


def table(found: list[PartitionRow]) -> str:
    """Return a table in Markdown."""
    lines = ["| journal | report ms | read ms | a part MiB |", "|---|---:|---:|---:|"]
    for row in found:
        name = f"{row.partitions} partitions" if row.partitions else "one table"
        numbers = f"{row.report_ms:.2f} | {row.read_ms:.2f} | {row.bytes / 2**20:.0f}"
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_scores(__doc__, measure, table, rows=200_000, reports=10_000)
