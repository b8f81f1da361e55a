"""The load model adds up costs of requests; the numbers here are worked out by hand from made-up unit costs."""

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from bots_service.scaling.costs import Measured, RequestCost, ServerCost, UnitCosts, UnitSizes, measured, read_measured
from bots_service.scaling.model import GIB, MIB, Room, Workload, demand, per_second, redis_bytes, redraws_per_second

SIZES = UnitSizes(
    state=MIB,
    state_task=0.0,
    redis_run=1000.0,
    redis_state_byte=1.0,
    redis_leased_task=100.0,
    redis_selection=200.0,
    redis_selected_task=10.0,
    process=GIB,
    pool_task=100.0,
    pool_row_task=50.0,
    remembered_runs=1024,
    observed_runs=32,
)
COSTS = UnitCosts(
    select=RequestCost(ServerCost(service_ms=4.0, redis_ms=0.1), task=ServerCost(service_ms=0.25)),
    report=RequestCost(
        ServerCost(service_ms=5.0, postgres_ms=2.0, fsyncs=2.0),
        state_mib=ServerCost(redis_bytes_in=MIB, append_only_bytes=MIB),
    ),
    watch=RequestCost(ServerCost(service_ms=10.0)),
    redraw=RequestCost(ServerCost(service_ms=40.0)),
    scrape=RequestCost(ServerCost(service_ms=30.0)),
    look=RequestCost(ServerCost(service_ms=8.0)),
    relearn=RequestCost(ServerCost(redis_round_trips=1.0)),
    replica_second=ServerCost(service_ms=20.0),
)
UNIT = Measured("0" * 12, "2026-01-01T00:00:00+00:00", {"processor": "made up"}, "none", 1000.0, COSTS, SIZES)
ROOM = Room(postgres_cores=4.0, fsyncs_per_second=1000.0, redis_gib=1.0, replica_gib=4.0)
LOAD = Workload(runs=64, steps_per_hour=3600.0, tasks_per_step=4, run_steps=100, replicas=2, pages=0)


def need(load: Workload, resource: str, room: Room = ROOM):
    [found] = [need for need in demand(load, room, UNIT).needs if need.resource == resource]
    return found


def test_a_second_is_the_sum_of_steps_looks_scrapes_and_what_replicas_cost_without_requests():
    steps = 64 * (4.0 + 4 * 0.25 + 5.0 + 8.0)  # each of 64 runs makes one a second, and both replicas observe 32
    assert per_second(LOAD, MIB, 2, UNIT).service_ms == pytest.approx(steps + 2 * 30.0 / 15 + 2 * 20.0)


def test_only_runs_with_metrics_of_their_own_are_looked_at():
    twice = replace(LOAD, runs=128)
    cost = per_second(twice, MIB, 2, UNIT).service_ms - 2 * 30.0 / 15 - 2 * 20.0
    assert cost == pytest.approx(128 * 10.0 + 64 * 8.0)


def test_an_open_page_asks_every_two_seconds_and_redraws_three_times_after_a_step_but_no_more_often():
    slow, fast = replace(LOAD, steps_per_hour=60.0), LOAD
    assert redraws_per_second(slow) == pytest.approx(3 / 60)
    assert redraws_per_second(fast) == 0.5
    more = per_second(replace(slow, pages=2), MIB, 2, UNIT).service_ms - per_second(slow, MIB, 2, UNIT).service_ms
    assert more == pytest.approx(2 * (10.0 / 2 + 40.0 * 3 / 60))


def test_a_report_sends_the_runs_state_to_redis_and_a_snapshot_every_500_reports_to_postgresql():
    cost = per_second(LOAD, 2 * MIB, 2, UNIT)
    assert cost.redis_bytes_in == pytest.approx(64 * 2 * MIB)
    assert cost.wal_bytes == pytest.approx(64 * 2 * MIB / 500)


def test_what_is_appended_to_the_file_of_redis_is_written_twice():
    assert need(LOAD, "Redis disk").needed == pytest.approx(2 * 64 * MIB / 1e6)


def test_a_replica_with_more_runs_than_it_remembers_asks_redis_once_more():
    assert per_second(replace(LOAD, runs=2048), MIB, 2, UNIT).redis_round_trips == 0
    assert per_second(replace(LOAD, runs=2049), MIB, 2, UNIT).redis_round_trips == pytest.approx(2049.0)


def test_the_memory_of_redis_is_that_of_runs_leases_and_selections_kept_for_retries():
    bytes_ = redis_bytes(SIZES, runs=3, state_bytes=5000.0, leased=7, selections=2, tasks=4)
    assert bytes_ == 3 * (1000.0 + 5000.0) + 7 * 100.0 + 2 * (200.0 + 4 * 10.0)
    idle = replace(LOAD, idle_runs=36)
    expected = 100 * (1000.0 + MIB) + 64 * 4 * 100.0 + 64 * 900 * (200.0 + 4 * 10.0)  # a selection is kept for 15 min
    assert need(idle, "Redis memory").needed == pytest.approx(expected / GIB)


def test_without_a_number_of_replicas_there_are_as_many_as_are_busy_for_60_percent():
    found = demand(replace(LOAD, replicas=None), ROOM, UNIT)
    busy = [
        per_second(LOAD, MIB, replicas, UNIT).service_ms / replicas for replicas in (found.replicas - 1, found.replicas)
    ]
    assert busy[0] > 600 >= busy[1]
    [service] = [need for need in found.needs if need.resource == "service processors"]
    assert service.chosen
    assert found.first_full.resource != "service processors"


def test_a_replica_holds_its_part_of_the_runs_and_all_pools():
    load = replace(LOAD, runs=101, pools=3, pool_tasks=10**6)
    assert need(load, "memory of a replica").needed == pytest.approx((GIB + 3e8 + 51 * MIB) / GIB)


@pytest.mark.parametrize(
    ("room", "full"),
    [
        (replace(ROOM, fsyncs_per_second=100.0), "PostgreSQL fsyncs"),
        (replace(ROOM, postgres_cores=0.05), "PostgreSQL processors"),
        (replace(ROOM, redis_gib=0.01), "Redis memory"),
        (replace(ROOM, connections=1), "PostgreSQL connections"),
        (replace(ROOM, network_mbit=1.0), "Redis network"),
        (replace(ROOM, redis_disk_mb=0.1), "Redis disk"),
        (replace(ROOM, replica_gib=0.1), "memory of a replica"),
    ],
)
def test_what_is_scarce_is_full_first(room: Room, full: str):
    found = demand(replace(LOAD, replicas=4), room, UNIT)
    assert found.first_full.resource == full
    assert found.first_full.share > 1


def test_a_run_tries_no_more_tasks_than_its_pool_has():
    assert replace(LOAD, run_steps=10**6, pool_tasks=500).tried == 500
    assert LOAD.tried == 400


def test_a_cost_is_linear():
    one = ServerCost(*range(len(fields(ServerCost))))
    assert one + one == one * 2
    request = RequestCost(
        ServerCost(wal_bytes=1.0), task=ServerCost(wal_bytes=10.0), state_mib=ServerCost(wal_bytes=100.0)
    )
    assert request.of(tasks=3, state_mib=2.0).wal_bytes == 231.0


def test_the_measured_figures_say_what_they_are_of_and_none_is_negative():
    found = measured()
    assert len(found.commit) == 12
    assert "PostgreSQL" in found.stores
    assert found.costs.report.request.fsyncs > 0
    assert found.sizes.state_task > 0
    parts = [found.costs.replica_second]
    for each in fields(UnitCosts):
        request = getattr(found.costs, each.name)
        parts += [] if each.name == "replica_second" else [request.request, request.task, request.state_mib]
    assert all(getattr(cost, each.name) >= 0 for cost in parts for each in fields(ServerCost))


def test_figures_with_a_name_that_nobody_knows_are_refused():
    with pytest.raises((KeyError, TypeError)):
        read_measured({"costs": {"replica_second": {}, "unheard-of": {}}})


def test_the_model_loads_nothing_but_the_standard_library():
    code = "import sys; from bots_service.scaling import costs, model; costs.measured(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "httpx", "pydantic", "rich", "typer"} & set(loaded)
