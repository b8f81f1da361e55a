"""One simulated service process: the real use cases over fake stores."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any, get_type_hints

from prometheus_client import CollectorRegistry

from bots_service.engine.catch_up import CatchUp
from bots_service.engine.live_runs import LiveRuns
from bots_service.engine.open_runs import OpenDatasets, OpenRuns
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.engine.replicas import FollowReplicas, TellReplicas
from bots_service.metrics.training import TrainingMetrics
from bots_service.usecases import UseCases
from bots_service.usecases.describe import DescribeRun
from tests.simulator.fake_hot import FakeLeases, FakeStates, Hot, HotLink
from tests.simulator.fake_sql import FakeDatasets, FakeJournal, FakeRuns, FakeSnapshots, Sql
from tests.simulator.links import Link, Network, Process

# What simulated trainers call; the rest of the use cases is not made.
CALLED = {
    *(
        "import_dataset",
        "append_tasks",
        "retire_tasks",
        "put_run",
        "change_settings",
        "describe_run",
        "rewind_run",
        "take_snapshot",
    ),
    *("read_history", "select_tasks", "report_outcomes"),
}

_AT_WORK: contextvars.ContextVar[Process | None] = contextvars.ContextVar("at_work", default=None)


def owned_by(context: contextvars.Context) -> dict[asyncio.Task[Any], None] | None:
    """Return the tasks of the process to which this context belongs."""
    process = context.get(_AT_WORK)
    return None if process is None else process.tasks


class GoneError(Exception):
    """The process died before it answered, or was not there."""


class Replica:
    """A service process that dies, and starts again without memory."""

    def __init__(self, name: str, network: Network, sql: Sql, hot: Hot, *, snapshot_every: int) -> None:
        self.name = name
        self._network, self._sql, self._hot = network, sql, hot
        self._snapshot_every = snapshot_every
        self.start()

    def start(self) -> None:
        self.process = Process(self.name)
        to_sql = Link(self._network, self.process, "sql")
        to_hot = HotLink(Link(self._network, self.process, "hot"))
        clock = lambda: self._network.loop.now  # noqa: E731 - one line of three arguments
        parts = _parts(self._sql, to_sql, self._hot, to_hot, self._snapshot_every, clock)
        self.use = _use_cases(parts)
        self._spawn(_following(_follower(parts)))

    def crash(self) -> None:
        self.process.die()

    async def call(self, make: Callable[[UseCases], Coroutine[Any, Any, Any]], deadline_s: float) -> Any:
        """Return what a use case returned; it is stopped at the deadline, wherever it waits.

        Raises:
            GoneError: the process died, or the deadline passed.
        """
        await self._network.trip()
        if not self.process.alive:
            raise GoneError(self.name)
        task = self._spawn(make(self.use))
        await asyncio.wait({task}, timeout=deadline_s)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        await self._network.trip()
        if task.cancelled():
            raise GoneError(self.name)
        return task.result()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that dies with the process."""
        context = contextvars.Context()
        context.run(_AT_WORK.set, self.process)
        return self._network.loop.create_task(work, context=context)


def _follower(parts: dict[str, Any]) -> FollowReplicas:
    asked = (parts[name] for name in ("journal", "catch_up", "open_runs", "at_work"))
    return FollowReplicas(*asked, is_needed=True)


async def _following(replicas: FollowReplicas) -> None:
    async with replicas.in_background():
        await asyncio.Event().wait()


def _made(kind: type[Any], parts: dict[str, Any]) -> Any:
    """Return a part of the service, made of others, each found by the name of a field."""
    return kind(**{part.name: parts[part.name] for part in fields(kind)})


def _parts(
    sql: Sql, to_sql: Link, hot: Hot, to_hot: HotLink, snapshot_every: int, clock: Callable[[], float]
) -> dict[str, Any]:
    """Return what the use cases are made of, as `wiring` has it, over fake stores."""
    metrics = TrainingMetrics(CollectorRegistry())
    parts: dict[str, Any] = {
        "datasets": FakeDatasets(sql, to_sql),
        "runs": FakeRuns(sql, to_sql),
        "journal": FakeJournal(sql, to_sql),
        "snapshots": FakeSnapshots(sql, to_sql),
        "states": FakeStates(hot, to_hot),
        "leases": FakeLeases(hot, to_hot),
        "live": LiveRuns(),
        "metrics": metrics,
        "at_work": metrics.runs,
    }
    parts["save"] = parts["save_snapshot"] = SaveSnapshot(parts["snapshots"], every=snapshot_every, clock=clock)
    parts["open_datasets"] = OpenDatasets(parts["datasets"], max_bytes=2**30, cache=metrics.caches.datasets)
    parts["open_runs"] = OpenRuns(parts["runs"], parts["open_datasets"])
    for name, kind in (
        ("tell_replicas", TellReplicas),
        ("replay", Replay),
        ("catch_up", CatchUp),
        ("describe", DescribeRun),
    ):
        parts[name] = _made(kind, parts)
    return parts


def _use_cases(parts: dict[str, Any]) -> UseCases:
    kinds = get_type_hints(UseCases)
    made: dict[str, Any] = {name: _made(kinds[name], parts) if name in CALLED else None for name in kinds}
    return UseCases(**made)
