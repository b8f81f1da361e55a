"""The tables of docs/scaling.md: python -m benchmarks.scaling_page writes them into the page, from the kept figures."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from bots_service.scaling.costs import read_measured
from bots_service.scaling.model import BUSY, GIB, MIB, REWRITTEN, Demand, Room, Workload, demand

KEPT = ROOT / "benchmarks/results/scaling.json"
PAGE = ROOT / "docs/scaling.md"
MARK = re.compile(r"<!-- table: (?P<name>\w+) -->\n(?:\|.*\n)*")
LOADS = [
    Workload(runs, pool_tasks=pool, run_steps=steps)
    for runs, pool, steps in (
        (100, 10**5, 1000),
        (1000, 10**5, 1000),
        (1000, 10**6, 10_000),
        (10_000, 10**5, 1000),
        (10_000, 10**6, 1000),
        (10_000, 10**6, 10_000),
        (10_000, 10**7, 10_000),
    )
]
ROOM = Room(postgres_cores=8, fsyncs_per_second=1000, redis_gib=16, replica_gib=8)
CHECKED = {
    "service_ms": "processor of the service",
    "postgres_ms": "processor of PostgreSQL",
    "redis_ms": "thread of Redis",
    "postgres_round_trips": "round trips to PostgreSQL",
    "postgres_bytes_in": "bytes to PostgreSQL",
    "postgres_bytes_out": "bytes from PostgreSQL",
    "redis_round_trips": "round trips to Redis",
    "redis_bytes_in": "bytes to Redis",
    "redis_bytes_out": "bytes from Redis",
    "wal_bytes": "PostgreSQL's log",
    "fsyncs": "fsyncs",
    "journal_bytes": "growth of the journal",
    "table_bytes": "growth of other tables",
    "append_only_bytes": "Redis's append-only file",
    "redis_memory_bytes": "memory of Redis",
}


def table(titles: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; all but the first column of numbers."""
    names = titles.split(" | ")
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def few(value: float) -> str:
    """Return a number with three digits at most."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 0.01 else "0"


def costs(figures: dict[str, Any]) -> str:
    """Return what one request costs."""
    rows = []
    for row in figures["rows"]:
        name, cost = row["request"], {part: max(value, 0.0) for part, value in row["cost"].items()}
        kib = [
            f"{few(cost[f'{server}_bytes_{way}'] / 1024)}" for server in ("postgres", "redis") for way in ("in", "out")
        ]
        times = [few(cost[f"{server}_ms"]) for server in ("service", "postgres", "redis")]
        trips = [few(cost[f"{server}_round_trips"]) for server in ("postgres", "redis")]
        what = re.sub(r"^(select|report)", rf"\1 {row['tasks']}", name)
        log = [few(cost["wal_bytes"] / 1024), few(cost["fsyncs"])]
        rows.append([what, few(row["state_bytes"] / 1024), *times, *trips, *kib, *log])
    titles = (
        "request | state KiB | service ms | PostgreSQL ms | Redis ms | PostgreSQL trips | Redis trips | "
        "PostgreSQL in KiB | out KiB | Redis in KiB | out KiB | log KiB | fsyncs"
    )
    return table(titles, rows)


def sizes(figures: dict[str, Any]) -> str:
    """Return what is stored."""
    unit = read_measured(figures)
    kept, report = unit.sizes, unit.costs.report
    journal = report.request.journal_bytes + 32 * report.task.journal_bytes
    tables = report.request.table_bytes + 32 * report.task.table_bytes
    rows = [
        ("PostgreSQL", "journal, each report of 32 tasks", journal),
        ("PostgreSQL", "all other tables, each report", tables),
        ("PostgreSQL", "a pool, each task", kept.pool_row_task),
        ("Redis", "a run, without its state", kept.redis_run),
        ("Redis", "a run's state, each task that the run tried", kept.state_task * kept.redis_state_byte),
        ("Redis", "a task in flight", kept.redis_leased_task),
        ("Redis", "a selection of 32 tasks, for 15 minutes", kept.redis_selection + 32 * kept.redis_selected_task),
        ("replica", "without any data", kept.process),
        ("replica", "a pool, each task", kept.pool_task),
        ("replica", "a run's state, each task that the run tried", kept.state_task),
    ]
    return table("what | where | bytes", [(what, where, few(size)) for where, what, size in rows])


def checks(figures: dict[str, Any]) -> str:
    """Return the model's figures over those that were measured."""
    found = figures["checks"]
    rows = [
        [
            says,
            *(
                f"{check['predicted'][name] / check['measured'][name]:.2f}" if check["measured"][name] > 0 else "-"
                for check in found
            ),
        ]
        for name, says in CHECKED.items()
    ]
    rows.append(["steps in the window", *(few(check["steps"]) for check in found)])
    rows.append(["steps that began more than 1 s late", *(few(check["late"]) for check in found)])
    titles = [f"{few(check['runs'])} runs, {few(check['steps_per_hour'])} steps an hour" for check in found]
    return table(" | ".join(["predicted / measured", *titles]), rows)


def needs(figures: dict[str, Any]) -> str:
    """Return what some loads need."""
    unit, rows = read_measured(figures), []
    for load in LOADS:
        found = demand(load, ROOM, unit)
        of = {need.resource: need.needed for need in found.needs}
        first = found.first_full
        rows.append(
            [
                f"{load.runs:,}",
                f"{load.pool_tasks:,}",
                f"{load.run_steps:,}",
                few(found.state_bytes / MIB),
                str(found.replicas),
                few(of["memory of a replica"]),
                few(of["PostgreSQL processors"]),
                few(of["PostgreSQL fsyncs"]),
                few(of["PostgreSQL connections"]),
                few(found.disk_gib_a_day),
                few(100 * of["Redis thread"]),
                few(of["Redis memory"]),
                few(of["Redis network"]),
                few(of["Redis disk"]),
                str(redis_servers(found)),
                f"{first.resource} ({100 * first.share:,.0f} %)",
            ]
        )
    titles = (
        "runs | pool | steps made | state MiB | replicas | GiB each | PostgreSQL cores | fsyncs/s | connections | "
        "disk GiB/day | Redis thread % | Redis GiB | Redis Mbit/s | Redis disk MB/s | Redis servers | full first"
    )
    return table(titles, rows)


def redis_servers(found: Demand) -> int:
    """Return how many servers of a Redis Cluster are busy, or full, to 60 % at most."""
    return math.ceil(max(need.share for need in found.needs if need.resource.startswith("Redis")) / BUSY)


def short(figures: dict[str, Any]) -> str:
    """Return the answers that most people look for."""
    unit, last = read_measured(figures), figures["pools"][-1]
    small, pool_memory = figures["pools"][1], unit.sizes.pool_task * last["tasks"] / GIB
    many, old = (
        demand(replace(Workload(10_000), run_steps=steps, pool_tasks=10**6), ROOM, unit) for steps in (1000, 10_000)
    )
    of, aged = ({need.resource: need.needed for need in found.needs} for found in (many, old))
    size = many.state_bytes / MIB
    step = unit.costs.select.of(tasks=32, state_mib=size) + unit.costs.report.of(tasks=32, state_mib=size)
    rows = [
        (
            "a step of a run that made 1,000 steps",
            f"{few(step.service_ms)} ms of a replica, {few(step.postgres_ms)} ms of PostgreSQL and {few(step.fsyncs)} "
            f"fsyncs, {few(step.redis_ms)} ms of Redis's thread, {few(step.redis_bytes_in / MIB)} MiB to Redis",
        ),
        (
            "10,000 runs of a step a minute, 1,000 steps made",
            f"{many.replicas} replicas; PostgreSQL: {few(of['PostgreSQL processors'])} cores, "
            f"{few(of['PostgreSQL fsyncs'])} fsyncs/s, {few(many.disk_gib_a_day)} GiB of tables a day; Redis: "
            f"{few(100 * of['Redis thread'])} % of its thread, {few(of['Redis memory'])} GiB, "
            f"{few(of['Redis network'])} Mbit/s, {few(of['Redis disk'])} MB/s to its disk",
        ),
        (
            "the same, 10,000 steps made, pools of 1e6",
            f"Redis: {few(100 * aged['Redis thread'])} % of a thread, {few(aged['Redis memory'])} GiB, "
            f"{few(aged['Redis disk'])} MB/s: a Redis Cluster of {redis_servers(old)} servers",
        ),
        (
            "a pool of 1e7 tasks",
            f"{few(pool_memory)} GiB of each replica; {few(last['rows_bytes'] / MIB)} MiB of PostgreSQL's tables; "
            f"{few(last['select_ms'])} ms of a replica for a selection ({few(small['select_ms'])} ms from 1e5 tasks)",
        ),
    ]
    return table("what | needs", rows).replace("---:", "---")


def carries(figures: dict[str, Any]) -> str:
    """Return how many steps a second one server carries."""
    unit, rows = read_measured(figures), []
    for tried in (1000, 32_000, 320_000):
        size = unit.sizes.state + unit.sizes.state_task * tried
        cost = unit.costs.select.of(tasks=32, state_mib=size / MIB) + unit.costs.report.of(
            tasks=32, state_mib=size / MIB
        )
        wire = max(cost.redis_bytes_in, cost.redis_bytes_out)
        steps = [600 / cost.service_ms, 600 / cost.postgres_ms, 1000 / cost.fsyncs, 600 / cost.redis_ms, 1.25e9 / wire]
        steps.append(5e8 / (REWRITTEN * cost.append_only_bytes))
        rows.append([f"{tried:,}", few(size / MIB), *map(few, steps), f"{60 * min(steps[2:]):,.0f}"])
    titles = (
        "tasks tried | state MiB | a replica | a core of PostgreSQL | 1,000 fsyncs/s | Redis's thread | "
        "Redis's network, 10 Gbit/s | Redis's disk, 500 MB/s | "
        "so many runs of a step a minute, one PostgreSQL of enough cores, one Redis"
    )
    return table(titles, rows)


def overviews(figures: dict[str, Any]) -> str:
    """Return what a page of the list of all runs costs."""
    costs = [(check["runs"], check["overview"]) for check in figures["checks"]]
    rows = [
        (few(runs), *(few(max(cost[f"{server}_ms"], 0.0)) for server in ("service", "postgres", "redis")))
        for runs, cost in costs
    ]
    return table("runs | service ms | PostgreSQL ms | Redis ms", rows)


TABLES = {table.__name__: table for table in (short, costs, sizes, checks, needs, carries, overviews)}


def filled(page: str, figures: dict[str, Any]) -> str:
    """Return a page with its tables."""
    return MARK.sub(lambda found: f"<!-- table: {found['name']} -->\n{TABLES[found['name']](figures)}", page)


def kept() -> dict[str, Any]:
    """Return the figures that were kept."""
    figures: dict[str, Any] = json.loads(KEPT.read_text("utf-8"))
    return figures


def main(page: Path = PAGE) -> None:
    """Write the tables into the page."""
    page.write_text(filled(page.read_text("utf-8"), kept()), encoding="utf-8")


if __name__ == "__main__":
    main()
