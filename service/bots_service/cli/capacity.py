"""`bots capacity`: what PostgreSQL, Redis and the service need for many runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson
from bots_service.cli.output import percent, sheet, short, show, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_service.scaling.costs import Measured
    from bots_service.scaling.model import Demand, Room, Workload


Runs = Annotated[int, typer.Option(help="Runs that train at the same time.", min=1)]
StepsPerHour = Annotated[float, typer.Option(help="Steps of each run in an hour.", min=0.01)]
TasksPerStep = Annotated[int, typer.Option(help="Tasks that a step selects and reports.", min=1)]
RunSteps = Annotated[int, typer.Option(help="Steps that a run has made.", min=1)]
IdleRuns = Annotated[int, typer.Option(help="Other runs that trained within 30 days.", min=0)]
Pools = Annotated[int, typer.Option(help="Datasets that the runs train on.", min=1)]
PoolTasks = Annotated[int, typer.Option(help="Tasks of each dataset.", min=1)]
Replicas = Annotated[
    int | None,
    typer.Option(help="Processes of the service.", min=1, show_default="as many as are busy for 60 % of the time"),
]
Pages = Annotated[int, typer.Option(help="Open pages of a run.", min=0)]
PostgresCores = Annotated[float, typer.Option(help="Cores of PostgreSQL.", min=0.1)]
RedisGib = Annotated[float, typer.Option(help="Memory of Redis in GiB.", min=0.01)]
ReplicaGib = Annotated[float, typer.Option(help="Memory of a replica in GiB.", min=0.01)]
Fsyncs = Annotated[
    float, typer.Option(help="Synchronous writes in a second of PostgreSQL's disk; see pg_test_fsync.", min=1)
]
Connections = Annotated[int, typer.Option(help="Connections that PostgreSQL allows for the service.", min=1)]
DatabasePool = Annotated[int, typer.Option(help="Connections of a replica (BOTS_DATABASE_POOL).", min=2)]
NetworkMbit = Annotated[float, typer.Option(help="Network of each server in Mbit/s.", min=1)]
RedisDiskMb = Annotated[float, typer.Option(help="MB that Redis's disk writes in a second.", min=1)]


def capacity(
    *,
    runs: Runs = 100,
    steps_per_hour: StepsPerHour = 60.0,
    tasks_per_step: TasksPerStep = 32,
    run_steps: RunSteps = 1000,
    idle_runs: IdleRuns = 0,
    pools: Pools = 1,
    pool_tasks: PoolTasks = 100_000,
    replicas: Replicas = None,
    pages: Pages = 10,
    postgres_cores: PostgresCores = 8.0,
    redis_gib: RedisGib = 16.0,
    replica_gib: ReplicaGib = 8.0,
    fsyncs: Fsyncs = 1000.0,
    connections: Connections = 97,
    database_pool: DatabasePool = 8,
    network_mbit: NetworkMbit = 10_000.0,
    redis_disk_mb: RedisDiskMb = 500.0,
    as_json: AsJson = False,
) -> None:
    """Estimate what many runs need of each server, and which resource is full first.

    It calls no service: it adds up costs of requests that were measured on one machine, which the output names.
    docs/scaling.md says how right that was. Measure before you buy.
    """
    from bots_service.scaling.costs import measured
    from bots_service.scaling.model import Room, Workload, demand

    unit = measured()
    load = Workload(runs, steps_per_hour, tasks_per_step, run_steps, idle_runs, pools, pool_tasks, replicas, pages)
    room = Room(
        *(postgres_cores, fsyncs, redis_gib, replica_gib),
        *(connections, database_pool, network_mbit, redis_disk_mb),
    )
    needed = demand(load, room, unit)
    show(document_of(load, room, needed, unit), lambda: report_of(needed, unit), as_json=as_json)


def document_of(load: "Workload", room: "Room", needed: "Demand", unit: "Measured") -> dict[str, object]:
    """Return all as one document."""
    first = needed.first_full
    return {
        "workload": load,
        "room": room,
        "demand": needed,
        "first_full": {"resource": first.resource, "share": first.share},
        "measured": {"commit": unit.commit, "at": unit.at, "machine": unit.machine, "stores": unit.stores},
    }


def report_of(needed: "Demand", unit: "Measured") -> "RenderableType":
    """Return the needs as a table, and below it what is written and which resource is full first."""
    from rich.console import Group

    rows = [
        (need.resource, short(need.needed), short(need.available), need.unit, percent(need.share))
        for need in needed.needs
    ]
    first = needed.first_full
    full = f"{first.resource}, at {short(1 / first.share)} times this load" if first.share < 1 else first.resource
    return Group(
        table("resource  >needed  >available  unit  >share", rows),
        "",
        sheet(
            {
                "full first": full,
                "replicas": str(needed.replicas),
                "state of a run": f"{short(needed.state_bytes / 2**20)} MiB",
                "tables grow by": f"{short(needed.disk_gib_a_day)} GiB a day",
                "of it the journal": f"{short(needed.journal_gib_a_day)} GiB a day (BOTS_KEEP_JOURNAL_DAYS bounds it)",
                "pools and snapshots": f"{short(needed.stored_gib)} GiB",
                "PostgreSQL's log": f"{short(needed.wal_gib_a_day)} GiB a day",
                "Redis's log": f"{short(needed.append_only_gib_a_day)} GiB a day, until Redis rewrites it",
                "measured": f"{unit.at[:10]} at commit {unit.commit}, on {unit.machine['processor']}, {unit.stores}",
            }
        ),
    )
