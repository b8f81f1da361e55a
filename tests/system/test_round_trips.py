"""How often requests wait for PostgreSQL and for Redis, counted on the wire."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from bots_client import Client, Outcome, Task
from tests.servers import PostgresServer, RedisServer
from tests.serving import running_service
from tests.system.faults.faulty_proxy import FaultyProxy

COUNT, STEPS = 32, 16  # at some of them the service looks at the run, in a transaction, which takes up to three
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"  # what PostgreSQL says when it waits for us: at the end of each round trip


@contextmanager
def counted(
    folder: Path, postgres: PostgresServer, postgres_url: str, redis_server: RedisServer
) -> Iterator[tuple[Client, Counter[str]]]:
    """Run a service; give a client and how often "sql" and "redis" answered so far."""
    answers = Counter[str]()
    redis_server.client().flushall()

    def seen_sql(piece: bytes) -> bool:
        answers["sql"] += piece.count(READY_FOR_QUERY)
        return False

    def seen_redis(_: bytes) -> bool:
        answers["redis"] += 1
        return False

    with (
        closing(FaultyProxy(postgres.port, cuts=seen_sql)) as to_sql,
        closing(FaultyProxy(redis_server.port, cuts=seen_redis)) as to_redis,
        running_service(
            folder,
            database_url=postgres_url.replace(str(postgres.port), str(to_sql.port)),
            redis_url=redis_server.url.replace(str(redis_server.port), str(to_redis.port)),
        ) as service,
        Client(service.url) as client,
    ):
        client.create_dataset("pool", [Task(f"t{number}") for number in range(40 * COUNT)])
        yield client, answers


def test_a_report_waits_once_for_postgresql_and_once_for_redis(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, redis_server: RedisServer
) -> None:
    waits = list[Counter[str]]()
    with counted(tmp_path, postgres, postgres_url, redis_server) as (client, answers):
        for _ in range(STEPS):
            selection = client.select("pool", COUNT)
            before = Counter(answers)
            client.report("pool", [Outcome.counts(task, 1, 2) for task in selection.ids], selection=selection)
            waits.append(answers - before)
    # What runs in the background asks both now and then.
    assert min(each["sql"] for each in waits) == 1
    assert min(each["redis"] for each in waits) == 1


def test_selects_that_wait_for_one_run_ask_redis_once_for_all_what_is_leased(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, redis_server: RedisServer
) -> None:
    waits, tasks = list[int](), list[str]()
    with (
        counted(tmp_path, postgres, postgres_url, redis_server) as (client, answers),
        ThreadPoolExecutor(COUNT) as threads,
    ):
        for _ in range(STEPS // 4):
            before = answers["redis"]
            for selection in threads.map(lambda _: client.select("pool", 4), range(COUNT)):
                tasks += selection.ids
            waits.append(answers["redis"] - before)
    assert len(set(tasks)) == len(tasks)
    assert min(waits) < 1.5 * COUNT  # each leases on its own
