"""What a process knows of each run in Redis without asking: exact as long as nobody else changed it."""

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
from bots_service.ports.hot import LeaseEnds
from bots_service.ports.records import RunRow
from bots_service.storage.memory import ORDINALS, version

KNOWN_RUNS = 1024
NO_TASKS: Tasks = frozen(np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class Facts:
    """What every script answers.

    generation: random, new whenever Redis lost something or the run's dataset changed; "" if Redis holds nothing of the
    run that can be trusted.
    version: epoch and seq of its newest state, (-1, -1) if it has none.
    turn: grows with each change of the leases.
    made: the ordinal of the next selection from the state; those before it were made, or are being made.
    lost_ms: when Redis found that it lacked the run's leases, in ms of its time; 0 if it never did.
    """

    generation: str
    version: tuple[int, int]
    turn: int
    made: int
    lost_ms: int


@dataclass(frozen=True, slots=True)
class View:
    """A run's leases, as they stood at `facts.turn`.

    leased: sorted; ends: when each lease ends, in seconds of this process's clock, or a little earlier.
    lost_at: when leases were found lost, by the same clock; -inf if they never were.
    """

    facts: Facts
    leased: Tasks
    ends: Floats
    lost_at: float = -math.inf

    def without(self, tasks: Tasks) -> "View":
        """Return the view without the leases of these tasks, in any order."""
        stays = ~contained(self.leased, (united(tasks),))
        return replace(self, leased=frozen(self.leased[stays]), ends=self.ends[stays])

    def with_leases(self, tasks: Tasks, until: float) -> "View":
        """Return the view with these tasks, sorted, on lease until then."""
        others = self.without(tasks)
        places = np.searchsorted(others.leased, tasks)
        ends = np.insert(others.ends, places, until)
        return replace(self, leased=frozen(np.insert(others.leased, places, tasks)), ends=ends)

    def ends_after(self, now: float) -> LeaseEnds:
        """Return the leases that end later than now."""
        stays = self.ends > now
        return LeaseEnds(frozen(self.leased[stays]), self.ends[stays] - now)


class RedisViews:
    """The views of the runs that this process worked on lately. A wrong one is refused by Redis, and costs a draw."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet. clock: seconds that never go backwards."""
        self.clock = clock
        self._views: OrderedDict[str, View] = OrderedDict()

    def get(self, run: RunRow) -> View | None:
        """Return the view as it was when Redis answered last."""
        return self._views.get(run.uid)

    def fitting(self, run: RunRow, state: RunState) -> View | None:
        """Return the view if it is of this state, and no lease ended since."""
        view = self._views.get(run.uid)
        if view is None or view.facts.version != version(state) or (view.ends <= self.clock()).any():
            return None
        return view

    def leased(self, run: RunRow) -> Tasks:
        """Return the tasks that were in flight when Redis answered last, less those whose leases ended."""
        view = self._views.get(run.uid)
        return NO_TASKS if view is None else view.leased[view.ends > self.clock()]

    def put(self, run: RunRow, view: View) -> None:
        """Know a run anew."""
        if not view.facts.generation:
            self.drop(run)
            return
        self._views[run.uid] = view
        self._views.move_to_end(run.uid)
        if len(self._views) > KNOWN_RUNS:
            self._views.popitem(last=False)

    def drop(self, run: RunRow) -> None:
        """Know nothing of a run."""
        self._views.pop(run.uid, None)

    def release(self, run: RunRow, tasks: Tasks) -> None:
        """Know that these tasks are in flight no longer, although Redis can't be told."""
        view = self._views.get(run.uid)
        if view is not None:
            self.put(run, view.without(tasks))

    def follow(
        self, run: RunRow, facts: Facts, before: int, change: Callable[[View], View] = lambda view: view
    ) -> None:
        """Go on to newer facts.

        Args:
            run: the run.
            facts: the newer ones.
            before: the turn just before this process's own change; a view of another turn lacks somebody's change.
            change: what this process changed.
        """
        view = self._views.get(run.uid)
        if view is None:
            return
        if view.facts.generation == facts.generation and view.facts.turn == before:
            self.put(run, replace(change(view), facts=facts))
        else:
            self.drop(run)


def facts_of(reply: list[Any]) -> Facts:
    """Return the facts in a script's answer."""
    _, generation, epoch, seq, turn, made, lost_ms, _ = reply
    return Facts(generation.decode(), (epoch, seq), int(turn), made, int(lost_ms))


def view_of(facts: Facts, now_ms: bytes, leases: list[bytes], asked_at: float) -> View:
    """Return a run's leases.

    Args:
        facts: the run's.
        now_ms: Redis's time.
        leases: task and end, in ms of Redis's time, in turn.
        asked_at: this process's time just before Redis was asked, so that leases seem to end early, never late.
    """
    tasks, ends = np.array(leases[::2], np.int32), np.array(leases[1::2], np.float64)
    order = np.argsort(tasks)
    lost_at = (facts.lost_ms - float(now_ms)) / 1000 + asked_at if facts.lost_ms else -math.inf
    return View(facts, frozen(tasks[order]), (ends[order] - float(now_ms)) / 1000 + asked_at, lost_at)


def joined(one: LeaseEnds, other: LeaseEnds) -> LeaseEnds:
    """Return the leases of both; of a task that has two, the one that ends later."""
    tasks = united(one.tasks, other.tasks)
    left_s = np.zeros(len(tasks))
    for leased in (one, other):
        places = np.searchsorted(tasks, leased.tasks)
        left_s[places] = np.maximum(left_s[places], leased.left_s)
    return LeaseEnds(frozen(tasks), frozen(left_s))


def keys(run: RunRow, selection: str | None = None) -> list[str]:
    """Return the keys of a run: state, leases, and where asked for one selection; all in one slot of a cluster."""
    place = f"bots:{{{run.uid}}}"
    wanted = [f"{place}:state", f"{place}:leases"]
    return wanted if selection is None else [*wanted, f"{place}:selection:{selection}"]


def fresh_generation() -> tuple[str, int, int]:
    """Return a generation, and the turn and the ordinal it begins with, in case that one must begin."""
    return secrets.token_hex(8), secrets.randbits(50), secrets.randbelow(ORDINALS)


def mark_of(outages: int, generation: str) -> str:
    """Return a mark: what the store lost nothing since, and what this process missed nothing since."""
    return f"{outages}:{generation}"


def outages_and_generation(mark: str) -> tuple[str, str]:
    """Return what a mark is made of."""
    outages, _, generation = mark.partition(":")
    return outages, generation
