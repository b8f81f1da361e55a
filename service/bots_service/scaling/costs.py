"""The measured costs of requests, and of what is stored: data that `python -m benchmarks.scaling` wrote."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerCost:
    """What something takes of each server.

    service_ms, postgres_ms, redis_ms: processor time; Redis's is that of its one thread that executes commands.
    bytes_in, bytes_out: on the wire, as the server sees them.
    wal_bytes: of PostgreSQL's write-ahead log; fsyncs: how often it is written to stable storage.
    journal_bytes, table_bytes: growth of the journal, and of all other tables, with their indexes.
    append_only_bytes: growth of Redis's append-only file, until Redis rewrites it.
    """

    service_ms: float = 0.0
    postgres_ms: float = 0.0
    redis_ms: float = 0.0
    postgres_round_trips: float = 0.0
    postgres_bytes_in: float = 0.0
    postgres_bytes_out: float = 0.0
    redis_round_trips: float = 0.0
    redis_bytes_in: float = 0.0
    redis_bytes_out: float = 0.0
    wal_bytes: float = 0.0
    fsyncs: float = 0.0
    journal_bytes: float = 0.0
    table_bytes: float = 0.0
    append_only_bytes: float = 0.0

    def __add__(self, other: "ServerCost") -> "ServerCost":
        """Return the cost of both."""
        return ServerCost(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __mul__(self, count: float) -> "ServerCost":
        """Return the cost of so many."""
        return ServerCost(*(count * getattr(self, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What one request costs: a fixed part, a part for each of its tasks, and one for each MiB of its run's state."""

    request: ServerCost = ServerCost()
    task: ServerCost = ServerCost()
    state_mib: ServerCost = ServerCost()

    def of(self, *, tasks: int, state_mib: float) -> ServerCost:
        """Return the cost of one request."""
        return self.request + self.task * tasks + self.state_mib * state_mib


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """What requests cost, and what a replica costs in a second in which nobody asks for anything.

    watch: what a run's page asks for every two seconds; redraw: what it asks for when the run closed a step.
    scrape: one of Prometheus, from one replica.
    look: what a replica does after a step of a run with metrics of its own.
    relearn: what a select costs in addition where a replica has more runs than it remembers.
    """

    select: RequestCost
    report: RequestCost
    watch: RequestCost
    redraw: RequestCost
    scrape: RequestCost
    look: RequestCost
    relearn: RequestCost
    replica_second: ServerCost


@dataclass(frozen=True, slots=True)
class UnitSizes:
    """What is kept, in bytes. A state's size is that of its encoding, which Redis and each replica keep.

    state, state_task: of a run's state: fixed, and for each task that the run tried.
    redis_run, redis_state_byte: of a run in Redis: fixed, and for each byte of its state.
    redis_leased_task: of a task in flight. redis_selection, redis_selected_task: of a selection kept for retries.
    process, pool_task: memory of a replica: without any data, and for each task of an open pool.
    pool_row_task: of a task in PostgreSQL.
    remembered_runs, observed_runs: not bytes: of how many runs a replica remembers the leases, and how many have
        metrics of their own.
    """

    state: float
    state_task: float
    redis_run: float
    redis_state_byte: float
    redis_leased_task: float
    redis_selection: float
    redis_selected_task: float
    process: float
    pool_task: float
    pool_row_task: float
    remembered_runs: int
    observed_runs: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one measurement.

    commit, at, machine, stores: what was measured, when, and on what.
    fsyncs_per_second: what the machine's disk did of writes of 8 KiB, each to stable storage.
    """

    commit: str
    at: str
    machine: dict[str, Any]
    stores: str
    fsyncs_per_second: float
    costs: UnitCosts
    sizes: UnitSizes


@cache
def measured() -> Measured:
    """Return the figures that this version was released with."""
    return read_measured(json.loads((files("bots_service.scaling") / "measured.json").read_text("utf-8")))


def read_measured(figures: Mapping[str, Any]) -> Measured:
    """Return the figures of a JSON document."""
    costs = dict(figures["costs"])
    second = ServerCost(**costs.pop("replica_second"))
    requests = {name: request_cost(parts) for name, parts in costs.items()}
    about = {name: figures[name] for name in ("commit", "at", "machine", "stores", "fsyncs_per_second")}
    return Measured(**about, costs=UnitCosts(**requests, replica_second=second), sizes=UnitSizes(**figures["sizes"]))


def request_cost(parts: Mapping[str, Mapping[str, float]]) -> RequestCost:
    """Return the cost of a request of its parts as JSON."""
    return RequestCost(**{part: ServerCost(**cost) for part, cost in parts.items()})
