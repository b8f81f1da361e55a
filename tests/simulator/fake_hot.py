"""A hot store in plain Python, shared by simulated processes, and its ports as one of them sees them.

It takes the liberties that the ports leave: it forgets, answers `prepare` from memory, and loses replies.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.state import RunState
from bots_service.ports.hot import NO_TOKEN, KnownState, LeaseResult, LeaseTicket, PublishedState, PublishResult
from bots_service.ports.records import RunRow, Selection
from bots_service.retention import SELECTIONS_S
from tests.simulator.links import Link, LostError

Result = TypeVar("Result")


def version(state: RunState) -> tuple[int, int]:
    return state.epoch, state.seq


@dataclass
class InFlight:
    """What the store knows of one run's selections. lost_at: when leases were found lost."""

    ends: dict[int, float] = field(default_factory=dict)  # task -> when its lease ends
    revision: int = 0
    first: int = 0  # ordinal of the selections from each state
    made: dict[tuple[int, int], int] = field(default_factory=dict)  # (epoch, seq) -> selections from that state
    remembered: dict[str, tuple[str, Selection, float]] = field(default_factory=dict)
    lost_at: float = -math.inf

    def copied(self) -> "InFlight":
        return replace(self, ends=dict(self.ends), made=dict(self.made), remembered=dict(self.remembered))

    def purge(self, now: float) -> None:
        ended = [task for task, end in self.ends.items() if end <= now]
        for task in ended:
            del self.ends[task]
        self.revision += bool(ended)
        self.remembered = {key: kept for key, kept in self.remembered.items() if kept[2] > now}

    def ticket(self, known: KnownState, key: str | None, now: float, *, local: bool) -> LeaseTicket:
        kept = None if key is None else self.remembered.get(key)
        previous = None if kept is None else kept[:2]
        ordinal = self.first + self.made.get(version(known.state), 0)
        leased = frozen(np.array(sorted(self.ends), np.int32))
        is_lost = now < self.lost_at + known.state.settings.lease_seconds
        return LeaseTicket(ordinal, leased, self.revision, known.token, local, local or is_lost, previous)

    def take(self, selection: Selection, now: float, seconds: float, key: str | None, fingerprint: str) -> None:
        self.revision += 1
        self.ends |= dict.fromkeys(selection.tasks.tolist(), now + seconds)
        place = (selection.epoch, selection.seq)
        self.made[place] = self.made.get(place, 0) + 1
        if key is not None:
            self.remembered[key] = (fingerprint, selection, now + SELECTIONS_S)

    def release(self, tasks: Tasks) -> None:
        self.revision += 1
        for task in tasks.tolist():
            self.ends.pop(task, None)


@dataclass
class Hot:
    """The shared store.

    published: told of every state that somebody wants to publish.
    generation: of its memory.
    local: ids of the selections that a process leased in its own memory.
    """

    clock: Callable[[], float]
    published: Callable[[RunRow, RunState], None]
    taken: Callable[[RunRow, Selection, int, bool], None]
    generation: int = 1
    states: dict[str, RunState] = field(default_factory=dict)
    in_flight: dict[str, InFlight] = field(default_factory=dict)
    invalidations: Counter[str] = field(default_factory=Counter)
    local: set[str] = field(default_factory=set)
    histories: int = 0

    def generation_of(self, run: RunRow) -> str:
        return f"{self.generation}.{self.invalidations[run.uid]}"

    def register(self, run: RunRow) -> None:
        self.of(run).lost_at = -math.inf

    def invalidate(self, run: RunRow) -> None:
        self.invalidations[run.uid] += 1

    def wipe(self) -> None:
        self.generation += 1
        self.states, self.in_flight = {}, {}

    def anew(self, in_flight: InFlight) -> InFlight:
        """Return it with turns and ordinals that were never used before: an old one must not be taken for a new one."""
        self.histories += 1
        return replace(in_flight, revision=1000 * self.histories, first=1000 * self.histories, lost_at=self.clock())

    def has_lost(self, run: RunRow, seconds: float) -> bool:
        """Say whether it found leases lost that may not have ended."""
        return self.clock() < self.of(run).lost_at + seconds

    def copied(self) -> dict[str, InFlight]:
        """What it would have after a restart: leases of some time ago. Its states nobody trusts any more."""
        return {uid: one.copied() for uid, one in self.in_flight.items()}

    def restart(self, in_flight: dict[str, InFlight]) -> None:
        self.wipe()
        self.in_flight = {uid: self.anew(one) for uid, one in in_flight.items()}

    def forget(self, run: RunRow) -> None:
        self.in_flight.pop(run.uid, None)

    def of(self, run: RunRow) -> InFlight:
        if run.uid not in self.in_flight:
            self.in_flight[run.uid] = self.anew(InFlight())
        in_flight = self.in_flight[run.uid]
        in_flight.purge(self.clock())
        return in_flight

    def publish(self, run: RunRow, state: RunState) -> PublishResult:
        standing = self.states.get(run.uid)
        if standing is None or version(standing) < version(state):
            self.states[run.uid] = state
        return PublishResult.SHARED

    def take(
        self,
        run: RunRow,
        selection: Selection,
        ticket: LeaseTicket,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> LeaseResult:
        in_flight = self.of(run)
        kept = None if key is None else in_flight.remembered.get(key)
        if kept is not None:
            return LeaseResult(previous=kept[:2])
        newest = self.states.get(run.uid)
        is_of_now = ticket.token.partition(":")[2] == self.generation_of(run)
        if not is_of_now or newest is None or (newest.epoch, newest.seq) != (selection.epoch, selection.seq):
            return LeaseResult(stale=True)
        if in_flight.revision != ticket.revision:
            return LeaseResult()
        overlap = [task for task in selection.tasks.tolist() if task in in_flight.ends]
        assert not overlap or reuse, f"tasks {overlap} are on lease"
        self.taken(run, selection, len(in_flight.ends), reuse)
        in_flight.take(selection, self.clock(), seconds, key, fingerprint)
        return LeaseResult(selection=selection)


class HotLink:
    """A process's way to the store. outages: how often it failed; deferred: what to do first once it works again."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.outages = 0
        self.deferred: dict[str, Callable[[], None]] = {}

    async def call(self, what: str, effect: Callable[[], Result]) -> Result:
        def effects() -> Result:
            while self.deferred:
                self.deferred.popitem()[1]()
            return effect()

        try:
            return await self.link.call(what, effects)
        except LostError:
            self.outages += 1
            raise


class FakeStates:
    """A States of one process: what it holds, and the shared store behind a link."""

    def __init__(self, hot: Hot, link: HotLink) -> None:
        self._hot = hot
        self._link = link
        self._held: dict[str, KnownState] = {}
        self._trusted: dict[str, str] = {}  # tokens

    def known(self, run: RunRow) -> KnownState | None:
        return self._held.get(run.uid)

    async def register(self, run: RunRow) -> None:
        with contextlib.suppress(LostError):
            await self._link.call("register", lambda: self._hot.register(run))

    async def newest(self, run: RunRow) -> PublishedState:
        outages = self._link.outages
        try:
            state, generation = await self._link.call(
                "newest", lambda: (self._hot.states.get(run.uid), self._hot.generation_of(run))
            )
        except LostError:
            return PublishedState(None, NO_TOKEN)
        token = f"{outages}:{generation}"
        if state is not None:
            self._hold(run, state, self._trusted.get(run.uid, NO_TOKEN))
        held = self._held.get(run.uid)
        is_newest = state is not None and held is not None and version(state) == version(held.state)
        return PublishedState(state if is_newest and self._trusted.get(run.uid) == token else None, token)

    async def publish(self, run: RunRow, state: RunState, token: str) -> PublishResult:
        self._hot.published(run, state)
        outages = self._link.outages

        def effect() -> PublishResult:
            seen, _, generation = token.partition(":")
            if seen != str(outages):
                return PublishResult.OUTDATED
            is_new = generation == self._hot.generation_of(run)
            return self._hot.publish(run, state) if is_new else PublishResult.SUPERSEDED

        try:
            result = await self._link.call(f"publish {state.seq}", effect)
        except LostError:
            self._link.deferred[run.uid] = lambda: self._hot.invalidate(run)
            self._trusted[run.uid] = NO_TOKEN
            self._hold(run, state, NO_TOKEN)
            return PublishResult.LOCAL
        seen_by_all = token if result is PublishResult.SHARED else NO_TOKEN
        self._trusted[run.uid] = seen_by_all
        self._hold(run, state, seen_by_all)
        return result

    async def invalidate(self, run: RunRow) -> None:
        try:
            await self._link.call("invalidate", lambda: self._hot.invalidate(run))
        except LostError:
            self._link.deferred[run.uid] = lambda: self._hot.invalidate(run)

    async def delete(self, run: RunRow) -> None:
        self._held.pop(run.uid, None)
        await self.invalidate(run)

    def _hold(self, run: RunRow, state: RunState, token: str) -> None:
        held = self._held.get(run.uid)
        if held is None or version(held.state) < version(state):
            held = KnownState(state, token)
        self._held[run.uid] = replace(held, token=token)


class FakeLeases:
    """A Leases of one process; by itself where the shared store is away."""

    def __init__(self, hot: Hot, link: HotLink) -> None:
        self._hot = hot
        self._link = link
        self._local: dict[str, InFlight] = {}
        self._seen: dict[str, InFlight] = {}  # what the shared store had, some time ago

    async def prepare(self, run: RunRow, known: KnownState, *, key: str | None) -> LeaseTicket:
        now = self._hot.clock()
        if known.degraded:
            return self._own(run).ticket(known, key, now, local=True)
        seen = self._seen.get(run.uid)
        if seen is not None and self._link.link.network.rng.random() < 0.5:
            return seen.ticket(known, key, now, local=False)
        try:
            seen = self._seen[run.uid] = await self._link.call("prepare", lambda: self._hot.of(run).copied())
        except LostError:
            return self._own(run).ticket(known, key, now, local=True)
        return seen.ticket(known, key, now, local=False)

    async def acquire(
        self,
        run: RunRow,
        selection: Selection,
        ticket: LeaseTicket,
        *,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> LeaseResult:
        if ticket.local:
            own = self._own(run)
            kept = None if key is None else own.remembered.get(key)
            if kept is not None:
                return LeaseResult(previous=kept[:2])
            own.take(selection, self._hot.clock(), seconds, key, fingerprint)
            self._hot.local.add(selection.id)
            return LeaseResult(selection=selection)
        self._seen.pop(run.uid, None)
        try:
            return await self._link.call(
                f"acquire {selection.id[:-13]}",
                lambda: self._hot.take(run, selection, ticket, seconds, key, fingerprint, reuse),
            )
        except LostError:
            return LeaseResult()

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        self._own(run).release(tasks)
        with contextlib.suppress(LostError):
            await self._link.call("release", lambda: self._hot.of(run).release(tasks))

    async def previous(self, run: RunRow, key: str | None) -> tuple[str, Selection] | None:
        kept = None if key is None else self._own(run).remembered.get(key)
        if kept is None and key is not None:
            with contextlib.suppress(LostError):
                kept = await self._link.call("previous", lambda: self._hot.of(run).remembered.get(key))
        return None if kept is None else kept[:2]

    async def leased(self, run: RunRow) -> Tasks:
        try:
            ends = await self._link.call("leased", lambda: dict(self._hot.of(run).ends))
        except LostError:
            ends = self._own(run).ends
        return frozen(np.array(sorted(ends), np.int32))

    async def clear(self, run: RunRow) -> None:
        self._local.pop(run.uid, None)
        self._seen.pop(run.uid, None)
        with contextlib.suppress(LostError):
            await self._link.call("clear leases", lambda: self._hot.forget(run))

    def _own(self, run: RunRow) -> InFlight:
        own = self._local.get(run.uid)
        if own is None:
            own = self._local[run.uid] = self._hot.anew(InFlight())
        own.purge(self._hot.clock())
        return own
