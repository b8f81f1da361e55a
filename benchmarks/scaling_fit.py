"""Unit costs and unit sizes, fitted to what was measured: no negative ones, and relative errors count."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.jobs import CostRow
from benchmarks.meters import Meters
from bots_service.metrics.run_series import MOST_RUNS
from bots_service.scaling.costs import RequestCost, ServerCost
from bots_service.scaling.model import MIB
from bots_service.storage.redis.cache import KNOWN_RUNS

if TYPE_CHECKING:
    from benchmarks.scaling import PoolRow

RUNS = """
    SELECT r.uid, coalesce((SELECT sum(new_tasks) FROM receipts WHERE run_id = r.id), 0)::float8
    FROM runs r JOIN datasets d ON d.id = r.dataset_id WHERE d.name = %s AND r.name = ANY(%s)
"""
GROWTH = {"journal_bytes", "table_bytes"}
LEAST = 0.05  # of the largest value: the errors of smaller ones count no more, for they are mostly noise


@dataclass(frozen=True, slots=True)
class RedisKeyRow:
    """What one run takes in Redis, on average over some runs, after a selection of `tasks` each.

    tried: tasks that the run tried. leased: tasks in flight.
    state: bytes of its state; header, leases, selection: bytes of memory of the keys.
    """

    tasks: int
    tried: float
    state: float
    header: float
    leased: float
    leases: float
    selection: float


def key_sizes(meters: Meters, dataset: str, runs: Sequence[str], tasks: int) -> RedisKeyRow:
    """Return what these runs take in Redis; the largest selection of each counts."""
    client, rows = meters.redis, []
    for uid, tried in meters.sql.execute(RUNS, [dataset, list(runs)]).fetchall():
        header, leases = f"bots:{{{uid}}}:header", f"bots:{{{uid}}}:leases"
        kept = [
            client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(f"bots:{{{uid}}}:selection:*", 10**6)
        ]
        rows.append(
            (
                tried,
                client.hstrlen(header, "state"),
                client.memory_usage(header, samples=0) or 0,
                client.zcard(leases),
                client.memory_usage(leases, samples=0) or 0,
                max(kept, default=0),
            )
        )
    return RedisKeyRow(tasks, *np.mean(rows, axis=0).tolist())


def fitted(features: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the non-negative coefficients whose errors are smallest, each relative to its value."""
    weights = 1 / np.maximum(np.abs(values), LEAST * np.abs(values).max())
    coefficients, _ = nnls(np.array(features) * weights[:, None], np.array(values) * weights)
    found: list[float] = coefficients.tolist()
    return found


def fitted_request(rows: Sequence[CostRow]) -> RequestCost:
    """Return the parts of a request's cost: fixed, of each task, and of each MiB of state."""
    parts: list[dict[str, float]] = [{}, {}, {}]
    largest = max(row.state_bytes for row in rows)
    for field in fields(ServerCost):
        # Rows of a table don't depend on the state, and the large reports that make it large leave room in the table.
        used = [row for row in rows if field.name not in GROWTH or row.state_bytes < largest / 2]
        features = [(1.0, row.tasks, row.state_bytes / MIB * (field.name not in GROWTH)) for row in used]
        values = [max(getattr(row.cost, field.name), 0.0) for row in used]
        found = fitted(features, values) if max(values) > 0 else [0.0, 0.0, 0.0]
        for part, value in zip(parts, found, strict=True):
            part[field.name] = value
    return RequestCost(*(ServerCost(**part) for part in parts))


def fitted_costs(idle: ServerCost, rows: Sequence[CostRow]) -> dict[str, Any]:
    """Return the unit costs as JSON."""
    of = {row.request: row for row in rows}
    same = [(row.request, [one for one in rows if one.request == row.request]) for row in (of["select"], of["report"])]
    costs: dict[str, Any] = {kind: asdict(fitted_request(found)) for kind, found in same}
    for kind in ("watch", "redraw", "scrape"):
        costs[kind] = {"request": asdict(positive(of[kind].cost))}
    step = next(row.cost for row in rows if row.request == "select" and row.tasks == 32)
    step += next(row.cost for row in rows if row.request == "report" and row.tasks == 32)
    looked = of["select, observed"].cost + of["report, observed"].cost
    costs["look"] = {"request": asdict(positive(looked + step * -1))}
    costs["relearn"] = {"request": asdict(positive(of["select, forgotten"].cost + of["select, remembered"].cost * -1))}
    return {**costs, "replica_second": asdict(positive(idle))}


def positive(cost: ServerCost) -> ServerCost:
    """Return a cost without what noise made negative."""
    return ServerCost(**{name: max(value, 0.0) for name, value in asdict(cost).items()})


def fitted_sizes(keys: Sequence[RedisKeyRow], pools: "Sequence[PoolRow]") -> dict[str, Any]:
    """Return the unit sizes as JSON."""
    state, state_task = fitted([(1.0, row.tried) for row in keys], [row.state for row in keys])
    run, state_byte = fitted([(1.0, row.state) for row in keys], [row.header for row in keys])
    selection, selected = fitted([(1.0, row.tasks) for row in keys], [row.selection for row in keys])
    (leased,) = fitted([(row.leased,) for row in keys], [row.leases for row in keys])
    first, last = pools[0], pools[-1]
    opened = sum(row.tasks for row in pools)
    return {
        "state": state,
        "state_task": state_task,
        "redis_run": run,
        "redis_state_byte": state_byte,
        "redis_leased_task": leased,
        "redis_selection": selection,
        "redis_selected_task": selected,
        "process": float(first.process_bytes),
        "pool_task": max(last.process_bytes - first.process_bytes, 0) / opened,
        "pool_row_task": sum(row.rows_bytes for row in pools) / opened,
        "remembered_runs": KNOWN_RUNS,
        "observed_runs": MOST_RUNS,
    }
