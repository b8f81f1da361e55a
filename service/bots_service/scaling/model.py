"""The load model: what many runs need of each server, and which of these is full first."""

import math
from dataclasses import dataclass

from bots_service.retention import SELECTIONS_S
from bots_service.scaling.costs import Measured, ServerCost, UnitSizes

HOUR_S, DAY_S = 3600.0, 86_400.0
MIB, GIB = 2.0**20, 2.0**30
WATCHED_EVERY_S, REDRAWS = 2.0, 3  # the page asks again every two seconds, and draws for six seconds after a step
SCRAPED_EVERY_S = 15.0  # deploy/prometheus
SNAPSHOT_EVERY = 500  # entries: BOTS_SNAPSHOT_EVERY
ALL_KEPT = 4  # snapshots of a run that thinning keeps, whatever their age
REWRITTEN = 2.0  # times what is appended is written: Redis writes its file again whenever it has doubled
BUSY = 0.6  # of a core: with more, requests wait for each other for longer than they take


@dataclass(frozen=True, slots=True)
class Workload:
    """What the jobs do.

    runs: that train at the same time; each makes `steps_per_hour` steps, and a step is one select and one report.
    idle_runs: more runs that trained within the last 30 days: Redis still has their states.
    run_steps: how many steps a run has made when it is looked at.
    pools, pool_tasks: how many pools are in use, and the tasks of each.
    replicas: processes of the service; None: as many as are busy for 60 % of the time.
    pages: open pages of a run.
    """

    runs: int
    steps_per_hour: float = 60.0
    tasks_per_step: int = 32
    run_steps: int = 1000
    idle_runs: int = 0
    pools: int = 1
    pool_tasks: int = 100_000
    replicas: int | None = None
    pages: int = 10

    @property
    def steps_per_second(self) -> float:
        """Return the steps of all runs in a second."""
        return self.runs * self.steps_per_hour / HOUR_S

    @property
    def tried(self) -> int:
        """Return how many tasks a run has tried, if it returned to none before it had met all."""
        return min(self.pool_tasks, self.run_steps * self.tasks_per_step)


@dataclass(frozen=True, slots=True)
class Room:
    """What the servers have.

    fsyncs_per_second: of PostgreSQL's disk; connections: its max_connections, less those for superusers.
    database_pool: connections of a replica (BOTS_DATABASE_POOL).
    network_mbit: a second, of each server. redis_disk_mb: a second, of the disk of Redis's append-only file.
    """

    postgres_cores: float
    fsyncs_per_second: float
    redis_gib: float
    replica_gib: float
    connections: int = 97
    database_pool: int = 8
    network_mbit: float = 10_000.0
    redis_disk_mb: float = 500.0


@dataclass(frozen=True, slots=True)
class Need:
    """How much of a resource is needed, and how much there is.

    chosen: there is as much as is needed, because nobody said how much there is.
    """

    resource: str
    needed: float
    available: float
    unit: str
    chosen: bool = False

    @property
    def share(self) -> float:
        """Return which share is needed."""
        return self.needed / self.available


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload needs.

    per_second: of all servers. state_bytes: of one run's state.
    needs: by resource. disk_gib_a_day: growth of PostgreSQL's tables; of it journal_gib_a_day is the journal, which
    BOTS_KEEP_JOURNAL_DAYS bounds. stored_gib: pools, and stored states of runs. wal_gib_a_day, append_only_gib_a_day:
    written to PostgreSQL's and Redis's logs.
    """

    replicas: int
    per_second: ServerCost
    state_bytes: float
    needs: tuple[Need, ...]
    disk_gib_a_day: float
    journal_gib_a_day: float
    stored_gib: float
    wal_gib_a_day: float
    append_only_gib_a_day: float

    @property
    def first_full(self) -> Need:
        """Return the need that reaches what there is first, as the load grows."""
        return max((need for need in self.needs if not need.chosen), key=lambda need: need.share)


def demand(load: Workload, room: Room, measured: Measured) -> Demand:
    """Return what a workload needs of servers that cost what was measured."""
    state_bytes = measured.sizes.state + measured.sizes.state_task * load.tried
    replicas = load.replicas or _replicas(load, state_bytes, measured)
    second = per_second(load, state_bytes, replicas, measured)
    snapshots = _snapshots(load.run_steps)
    stored = (load.runs + load.idle_runs) * snapshots * state_bytes
    stored += load.pools * load.pool_tasks * measured.sizes.pool_row_task
    return Demand(
        replicas=replicas,
        per_second=second,
        state_bytes=state_bytes,
        needs=_needs(load, room, measured, state_bytes, replicas, second),
        disk_gib_a_day=DAY_S * (second.journal_bytes + second.table_bytes) / GIB,
        journal_gib_a_day=DAY_S * second.journal_bytes / GIB,
        stored_gib=stored / GIB,
        wal_gib_a_day=DAY_S * second.wal_bytes / GIB,
        append_only_gib_a_day=DAY_S * second.append_only_bytes / GIB,
    )


def per_second(load: Workload, state_bytes: float, replicas: int, measured: Measured) -> ServerCost:
    """Return what the workload takes of all servers in a second."""
    costs, state_mib, steps = measured.costs, state_bytes / MIB, load.steps_per_second
    step = costs.select.of(tasks=load.tasks_per_step, state_mib=state_mib)
    step += costs.report.of(tasks=load.tasks_per_step, state_mib=state_mib)
    if load.runs / replicas > measured.sizes.remembered_runs:
        step += costs.relearn.of(tasks=load.tasks_per_step, state_mib=state_mib)
    step += costs.look.request * min(1.0, measured.sizes.observed_runs * replicas / load.runs)
    step += ServerCost(wal_bytes=state_bytes / SNAPSHOT_EVERY)
    page = costs.watch.request * (1 / WATCHED_EVERY_S) + costs.redraw.request * redraws_per_second(load)
    scrapes = costs.scrape.request * (replicas / SCRAPED_EVERY_S)
    return step * steps + page * load.pages + scrapes + costs.replica_second * replicas


def redraws_per_second(load: Workload) -> float:
    """Return how often the page of a run asks for everything, because the run closed a step."""
    return min(REDRAWS * load.steps_per_hour / HOUR_S, 1 / WATCHED_EVERY_S)


def redis_bytes(
    sizes: UnitSizes, *, runs: int, state_bytes: float, leased: float, selections: float, tasks: int
) -> float:
    """Return the memory that Redis's data take.

    Args:
        sizes: what was measured.
        runs: how many there are; state_bytes: the size of the state of each.
        leased: tasks in flight, of all runs.
        selections: kept for retries, of all runs; tasks: of each of them.
    """
    kept = selections * (sizes.redis_selection + tasks * sizes.redis_selected_task)
    return runs * (sizes.redis_run + sizes.redis_state_byte * state_bytes) + leased * sizes.redis_leased_task + kept


def _replicas(load: Workload, state_bytes: float, measured: Measured) -> int:
    replicas = 1
    while per_second(load, state_bytes, replicas, measured).service_ms > 1e3 * BUSY * replicas:
        # A replica's own second costs far less than it has to give, so this ends.
        busy = per_second(load, state_bytes, replicas, measured).service_ms / (1e3 * BUSY)
        replicas = max(replicas + 1, math.floor(busy))
    return replicas


def _snapshots(steps: int) -> float:
    """Return about how many snapshots of a run are kept: the newest, and older ones at gaps that double."""
    stored = steps // SNAPSHOT_EVERY
    return min(stored, ALL_KEPT + math.log2(max(stored, 1)))


def _needs(
    load: Workload, room: Room, measured: Measured, state_bytes: float, replicas: int, second: ServerCost
) -> tuple[Need, ...]:
    sizes, mbit = measured.sizes, 8 / 1e6
    in_redis = redis_bytes(
        sizes,
        runs=load.runs + load.idle_runs,
        state_bytes=state_bytes,
        leased=load.runs * load.tasks_per_step,
        selections=load.steps_per_second * SELECTIONS_S,
        tasks=load.tasks_per_step,
    )
    pools = load.pools * load.pool_tasks * sizes.pool_task
    replica = sizes.process + pools + math.ceil(load.runs / replicas) * state_bytes
    sql, hot = (
        max(getattr(second, f"{server}_bytes_{way}") for way in ("in", "out")) * mbit
        for server in ("postgres", "redis")
    )
    return (
        Need("service processors", second.service_ms / 1e3, replicas, "cores", chosen=load.replicas is None),
        Need("memory of a replica", replica / GIB, room.replica_gib, "GiB"),
        Need("PostgreSQL processors", second.postgres_ms / 1e3, room.postgres_cores, "cores"),
        Need("PostgreSQL fsyncs", second.fsyncs, room.fsyncs_per_second, "a second"),
        Need("PostgreSQL connections", replicas * room.database_pool, room.connections, ""),
        Need("PostgreSQL network", sql, room.network_mbit, "Mbit/s"),
        Need("Redis thread", second.redis_ms / 1e3, 1.0, "cores"),
        Need("Redis memory", in_redis / GIB, room.redis_gib, "GiB"),
        Need("Redis network", hot, room.network_mbit, "Mbit/s"),
        Need("Redis disk", REWRITTEN * second.append_only_bytes / 1e6, room.redis_disk_mb, "MB/s"),
    )
