"""A process's cache of each run in Redis; exact as long as no other process changes the run."""

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, frozen, united
from bots_service.core.state import RunState
from bots_service.ports.hot import LeaseTtls
from bots_service.ports.records import RunRow
from bots_service.retention import IDLE_RUNS_S
from bots_service.storage.memory import ORDINALS, version

KNOWN_RUNS = 1024
NO_TASKS: Tasks = frozen(np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class RunHeader:
    """A run's header in Redis, which every script returns.

    generation: see ports/hot.py; "" if Redis has no valid header of the run.
    version: epoch and seq of the newest state, (-1, -1) if there is none.
    revision: of the leases; grows with each change of them.
    next_ordinal: of the next selection from the state; lower ones were handed out.
    lost_ms: when a loss of the run's leases was found, in ms of Redis's time; 0 if they were never lost.
    """

    generation: str
    version: tuple[int, int]
    revision: int
    next_ordinal: int
    lost_ms: int


@dataclass(frozen=True, slots=True)
class CachedLeases:
    """A run's leases, as they stood at `header.revision`.

    leased: sorted tasks.
    ends: when each lease ends, in seconds of this process's clock; possibly a little too early.
    lost_at: when a loss of leases was found, by the same clock; -inf if they were never lost.
    """

    header: RunHeader
    leased: Tasks
    ends: Floats
    lost_at: float = -math.inf

    def without(self, tasks: Tasks) -> "CachedLeases":
        """Return a copy without the leases of these tasks, given in any order."""
        stays = ~contained(self.leased, (united(tasks),))
        return replace(self, leased=frozen(self.leased[stays]), ends=self.ends[stays])

    def with_leases(self, tasks: Tasks, until: float) -> "CachedLeases":
        """Return a copy with these sorted tasks leased until then."""
        others = self.without(tasks)
        places = np.searchsorted(others.leased, tasks)
        ends = np.insert(others.ends, places, until)
        return replace(self, leased=frozen(np.insert(others.leased, places, tasks)), ends=ends)

    def ends_after(self, now: float) -> LeaseTtls:
        """Return the leases that end later than now."""
        stays = self.ends > now
        return LeaseTtls(frozen(self.leased[stays]), self.ends[stays] - now)


class LeaseCache:
    """The leases of recently used runs. If they are outdated, Redis refuses a selection, and it is drawn again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty cache. clock: monotonic seconds."""
        self.clock = clock
        self._runs: OrderedDict[str, CachedLeases] = OrderedDict()

    def get(self, run: RunRow) -> CachedLeases | None:
        """Return the leases in Redis's last answer; None if the run is not cached."""
        return self._runs.get(run.uid)

    def fitting(self, run: RunRow, state: RunState) -> CachedLeases | None:
        """Return the leases if they belong to this state, and none has ended since."""
        cached = self._runs.get(run.uid)
        if cached is None or cached.header.version != version(state) or (cached.ends <= self.clock()).any():
            return None
        return cached

    def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight in Redis's last answer, without those whose leases have ended since."""
        cached = self._runs.get(run.uid)
        return NO_TASKS if cached is None else cached.leased[cached.ends > self.clock()]

    def put(self, run: RunRow, cached: CachedLeases) -> None:
        """Replace what is cached of a run."""
        if not cached.header.generation:
            self.drop(run)
            return
        self._runs[run.uid] = cached
        self._runs.move_to_end(run.uid)
        if len(self._runs) > KNOWN_RUNS:
            self._runs.popitem(last=False)

    def drop(self, run: RunRow) -> None:
        """Remove a run from the cache."""
        self._runs.pop(run.uid, None)

    def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks in the cache, while Redis is away."""
        cached = self._runs.get(run.uid)
        if cached is not None:
            self.put(run, cached.without(tasks))

    def follow(
        self,
        run: RunRow,
        header: RunHeader,
        before: int,
        change: Callable[[CachedLeases], CachedLeases] = lambda cached: cached,
    ) -> None:
        """Update the cache to a newer header.

        Args:
            run: the run.
            header: the newer one.
            before: the revision just before this process's own change; cached leases of another revision miss a change
                of another process, and are dropped.
            change: this process's change.
        """
        cached = self._runs.get(run.uid)
        if cached is None:
            return
        if cached.header.generation == header.generation and cached.header.revision == before:
            self.put(run, replace(change(cached), header=header))
        else:
            self.drop(run)


def header_of(reply: list[Any]) -> RunHeader:
    """Return the header in a script's reply."""
    _, generation, epoch, seq, revision, next_ordinal, lost_ms, _ = reply
    return RunHeader(generation.decode(), (epoch, seq), int(revision), next_ordinal, int(lost_ms))


def leases_of(header: RunHeader, now_ms: bytes, leases: list[bytes], asked_at: float) -> CachedLeases:
    """Return a run's leases from a script's reply.

    Args:
        header: of the run.
        now_ms: Redis's time.
        leases: task and end, in ms of Redis's time, alternating.
        asked_at: this process's time just before the request, so that leases seem to end early, never late.
    """
    tasks, ends = np.array(leases[::2], np.int32), np.array(leases[1::2], np.float64)
    order = np.argsort(tasks)
    lost_at = (header.lost_ms - float(now_ms)) / 1000 + asked_at if header.lost_ms else -math.inf
    return CachedLeases(header, frozen(tasks[order]), (ends[order] - float(now_ms)) / 1000 + asked_at, lost_at)


def joined(one: LeaseTtls, other: LeaseTtls) -> LeaseTtls:
    """Return the union of two sets of leases; for a task in both, the lease that ends later."""
    tasks = united(one.tasks, other.tasks)
    ttl_s = np.zeros(len(tasks))
    for leased in (one, other):
        places = np.searchsorted(tasks, leased.tasks)
        ttl_s[places] = np.maximum(ttl_s[places], leased.ttl_s)
    return LeaseTtls(frozen(tasks), frozen(ttl_s))


def keys(run: RunRow, selection: str | None = None) -> list[str]:
    """Return the keys of a run: header, leases, and a selection if given."""
    place = f"bots:{{{run.uid}}}"
    wanted = [f"{place}:header", f"{place}:leases"]
    return wanted if selection is None else [*wanted, f"{place}:selection:{selection}"]


def fresh_generation() -> tuple[str, int, int, int]:
    """Return a new generation with its first revision and ordinal, and the seconds that an idle run is kept."""
    return secrets.token_hex(8), secrets.randbits(50), secrets.randbelow(ORDINALS), int(IDLE_RUNS_S)


def token_of(outages: int, generation: str) -> str:
    """Return the token of a generation, for a process with this number of outages."""
    return f"{outages}:{generation}"


def outages_and_generation(token: str) -> tuple[str, str]:
    """Return the two parts of a token."""
    outages, _, generation = token.partition(":")
    return outages, generation
