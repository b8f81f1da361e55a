"""The benchmark of many runs: what its parts count, what it fits, and the page that shows its figures."""

import json
import socket
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from benchmarks import partitions
from benchmarks.jobs import CostRow, Jobs
from benchmarks.meters import less, metered_cluster
from benchmarks.partitions import PartitionRow
from benchmarks.pools import make_rates
from benchmarks.relay import relaying
from benchmarks.running import import_pool
from benchmarks.scaling import POOL, QUICK, rounded
from benchmarks.scaling_check import MEMORY, check_size
from benchmarks.scaling_fit import fitted, fitted_costs, fitted_request, key_sizes
from benchmarks.scaling_page import TABLES, filled, kept
from bots_service.scaling.costs import RequestCost, ServerCost, measured, read_measured

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/scaling.md").read_text("utf-8")


def test_a_relay_counts_bytes_each_way_and_a_round_trip_for_each_turn():
    with socket.create_server(("127.0.0.1", 0)) as server, relaying(server.getsockname()[1]) as relay:

        def answer_twice() -> None:
            connection, _ = server.accept()
            with connection:
                for _ in range(2):
                    connection.recv(100)
                    connection.sendall(b"answer")

        thread = Thread(target=answer_twice)
        thread.start()
        with socket.create_connection(("127.0.0.1", relay.port)) as caller:
            for asked in (b"ask", b"again"):
                caller.sendall(asked)
                assert caller.recv(100) == b"answer"
        thread.join()
        assert (relay.passed.bytes_in, relay.passed.bytes_out, relay.passed.round_trips) == (8, 12, 2)


def test_the_fit_finds_what_the_values_were_made_of_and_nothing_negative():
    features = [(1.0, 1.0), (1.0, 32.0), (1.0, 256.0)]
    assert fitted(features, [5.0 + 2.0 * tasks for _, tasks in features]) == pytest.approx([5.0, 2.0])
    fixed, falling = fitted(features, [9.0, 8.0, 7.0])
    assert falling == 0.0
    assert 7.0 < fixed < 9.0


def rows_of(kind: str, cost: RequestCost) -> list[CostRow]:
    cells = [(1, 0.0), (32, 0.0), (256, 0.0), (32, 2.0**20)]
    return [CostRow(kind, tasks, state, 9, cost.of(tasks=tasks, state_mib=state / 2**20)) for tasks, state in cells]


def test_a_requests_cost_is_split_into_its_parts():
    true = RequestCost(
        ServerCost(service_ms=4.0), ServerCost(service_ms=0.25), ServerCost(service_ms=3.0, redis_bytes_in=1e6)
    )
    found = fitted_request(rows_of("report", true))
    assert found.request.service_ms == pytest.approx(4.0)
    assert found.task.service_ms == pytest.approx(0.25)
    assert found.state_mib.service_ms == pytest.approx(3.0)
    assert found.state_mib.redis_bytes_in == pytest.approx(1e6)


def test_looks_and_forgotten_leases_are_what_a_request_cost_more_than_without():
    one = CostRow("select", 32, 0.0, 9, ServerCost(service_ms=5.0))
    rows = rows_of("select", RequestCost(ServerCost(service_ms=5.0))) + rows_of(
        "report", RequestCost(ServerCost(service_ms=6.0))
    )
    for kind, cost in (("select, observed", 7.0), ("report, observed", 9.0), ("select, forgotten", 5.5)):
        rows.append(replace(one, request=kind, cost=ServerCost(service_ms=cost)))
    rows += [replace(one, request=kind) for kind in ("select, remembered", "watch", "redraw", "scrape")]
    costs = fitted_costs(ServerCost(service_ms=-1.0), rows)
    assert costs["look"]["request"]["service_ms"] == pytest.approx(7.0 + 9.0 - 5.0 - 6.0)
    assert costs["relearn"]["request"]["service_ms"] == pytest.approx(0.5)
    assert costs["replica_second"]["service_ms"] == 0.0


async def test_jobs_of_real_servers_are_metered():
    with metered_cluster(1, waits_s=0.0) as meters:
        import_pool(meters.cluster.services[0], "pool", make_rates(1000, "k/16"))
        jobs = Jobs(meters, "pool", ["a", "b"], 1000, pace=50.0)
        jobs.make()
        await jobs.learn(count=8, reports=2)
        select, report = await jobs.steps(8, rounds=2)
        [sizes] = [key_sizes(meters, "pool", jobs.runs, 8)]
        assert less(meters.read(), meters.read()).journal_bytes == 0
    assert (select.request, report.request, select.requests) == ("select", "report", 4)
    assert report.cost.redis_bytes_in > report.state_bytes * 0.9  # a report publishes the whole state
    assert report.cost.wal_bytes > 100
    assert report.cost.postgres_round_trips > 3
    assert select.cost.redis_round_trips >= 1
    assert min(report.cost.service_ms, select.cost.service_ms) > 0
    assert sizes.header > sizes.state > 1000
    assert 8 <= sizes.tried <= 4 * 8


async def test_a_size_is_checked_against_the_model():
    row = await check_size(QUICK.checks[0], 1.0, measured(), waits_s=0.0)
    assert row.steps == 2
    assert set(row.measured) == set(row.predicted)
    for name in ("service_ms", "redis_round_trips", "redis_bytes_in"):
        assert row.measured[name] > 0
        assert row.predicted[name] > 0
    assert row.predicted[MEMORY] > 0  # two runs are too few to show in what Redis says of its memory


def test_the_service_has_the_unit_costs_that_were_kept():
    figures = kept()
    assert read_measured(figures) == measured()
    assert rounded(figures) == figures
    assert not figures["machine"]["dirty"]


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_figures_that_were_kept(name: str):
    assert f"<!-- table: {name} -->\n{TABLES[name](kept())}" in PAGE


def test_the_page_shows_what_partitions_cost():
    lines = (ROOT / "benchmarks/results/partitions.ndjson").read_text("utf-8").splitlines()
    assert partitions.table([PartitionRow(**json.loads(line)) for line in lines]) in PAGE


def test_the_tables_of_a_page_are_written_again_from_the_figures():
    assert filled(PAGE, kept()) == PAGE
    assert (
        filled("a\n<!-- table: sizes -->\n| old |\nb\n", kept())
        == f"a\n<!-- table: sizes -->\n{TABLES['sizes'](kept())}b\n"
    )


def test_the_model_is_near_what_was_measured_at_each_size():
    """Processor time and bytes of a cluster are told within a factor of two; the page says where it fails."""
    checks = json.loads((ROOT / "benchmarks/results/scaling.json").read_text("utf-8"))["checks"]
    assert [check["runs"] for check in checks] == [10, 100, 1000]
    for check in checks:
        for name in ("service_ms", "postgres_ms", "redis_ms", "redis_bytes_in", "wal_bytes", MEMORY):
            assert 0.5 < check["predicted"][name] / check["measured"][name] < 2.0, (check["runs"], name)
    assert POOL == 100_000
