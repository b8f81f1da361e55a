"""Tasks in flight, and selections by their idempotency key, in Redis, for all replicas."""

import contextlib
import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from bots_service.core.arrays import Tasks, frozen, united, without
from bots_service.errors import DamagedStateError
from bots_service.ports.hot import NO_TOKEN, KnownState, LeaseEnds, LeaseResult, LeaseTicket
from bots_service.ports.records import RunRow, Selection
from bots_service.storage.memory import ORDINALS, REMEMBERED_S, MemoryLeases, version
from bots_service.storage.redis.connection import RedisAwayError, RedisConnection, Script
from bots_service.storage.redis.views import (
    KNOWN_RUNS,
    RedisViews,
    View,
    facts_of,
    joined,
    keys,
    outages_and_generation,
    view_of,
)

log = structlog.get_logger(__name__)


FORMAT = 1
MOST_BYTES = 4 * 2**20  # a selection of 65 536 tasks takes half of it


class _Remembered(msgspec.Struct, array_like=True, frozen=True):
    format: int
    fingerprint: str
    id: str
    epoch: int
    step: int
    seq: int
    degraded: bool
    reused: int
    tasks: bytes
    draws: bytes
    means: bytes
    evidence: bytes


def key_digest(key: str) -> str:
    """Return the name under which the selection of an idempotency key is remembered."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def encode_selection(selection: Selection, fingerprint: str) -> bytes:
    """Return the bytes of a selection and its request's fingerprint."""
    numbers = (selection.draws, selection.means, selection.evidence)
    return msgspec.msgpack.encode(
        _Remembered(
            FORMAT,
            fingerprint,
            selection.id,
            selection.epoch,
            selection.step,
            selection.seq,
            selection.degraded,
            selection.reused,
            selection.tasks.astype("<i4").tobytes(),
            *(array.astype("<f8").tobytes() for array in numbers),
        )
    )


def decode_selection(blob: bytes) -> tuple[str, Selection]:
    """Return the fingerprint and the selection.

    Raises:
        DamagedStateError: the bytes are not a whole selection of a format that this version reads.
    """
    if len(blob) > MOST_BYTES:
        raise DamagedStateError(f"{len(blob)} bytes are too many for a selection")
    try:
        found = msgspec.msgpack.decode(blob, type=_Remembered)
        if found.format != FORMAT:
            raise DamagedStateError(f"format {found.format} of a selection, where {FORMAT} is read")
        tasks = _array(found.tasks, "<i4")
        numbers = [_array(array, "<f8") for array in (found.draws, found.means, found.evidence)]
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedStateError(f"the selection can't be read: {error}") from error
    if any(len(array) != len(tasks) for array in numbers):
        raise DamagedStateError("the selection's arrays have different lengths")
    place = (found.id, found.epoch, found.step, found.seq, found.degraded, found.reused)
    return found.fingerprint, Selection(*place, tasks, *numbers)


def _array(blob: bytes, kind: str) -> NDArray[Any]:
    return frozen(np.frombuffer(blob, kind))


BEGIN, TAKE, RELEASE = Script("begin"), Script("take"), Script("release")
FORGET, FORGET_SELECTION = Script("forget_leases"), Script("forget_selection")
NONCE_S = 60.0  # a script is run again at once, or not at all
SHARED_S = 1.0  # so long after another replica selected from a run, an ordinal is asked for rather than a draw risked


@dataclass(frozen=True, slots=True)
class _Reserved:
    """An ordinal that the next selection from a state has for itself."""

    generation: str
    version: tuple[int, int]
    ordinal: int


@dataclass(frozen=True, slots=True)
class _Tried:
    """A selection on its way. tasks: sorted; asked_at: this process's time just before."""

    selection: Selection
    tasks: Tasks
    asked_at: float
    seconds: float
    reserved: _Reserved | None


class RedisLeases:
    """A Leases for many replicas.

    A process knows the leases of its runs as they stood when Redis answered last, so `begin` asks nothing as long as
    nobody else changed them, and `take` is the one round trip of a selection. `take` refuses what was drawn from an
    older state or generation, or for the first time from other leases; the second draw has an ordinal of its own and
    need only share no task with another's. Run twice, because its first answer was lost, it leases once.

    While Redis is away the process leases in its own memory: other replicas may then select the same tasks, and every
    selection says so (`degraded`). Leases and keys from that time stay in its memory until they end.

    Once Redis finds that it lacks a run's leases, selections say `degraded` for as long as a lease lasts; and it counts
    the selections from the state that then stands from a random ordinal, so that none is made a second time.
    """

    def __init__(self, connection: RedisConnection, views: RedisViews) -> None:
        """Keep leases in Redis.

        Args:
            connection: the way to it.
            views: shared with the states.
        """
        self._connection = connection
        self._views = views
        self._alone = MemoryLeases(clock=views.clock, first_ordinal=secrets.randbelow(ORDINALS))
        self._reserved: OrderedDict[str, _Reserved] = OrderedDict()
        self._shared_until: OrderedDict[str, float] = OrderedDict()

    async def begin(self, run: RunRow, known: KnownState, *, key: str | None) -> LeaseTicket:
        """Return what a selection from this state starts from."""
        mine = await self._alone.begin(run, replace(known, mark=NO_TOKEN), key=key)
        if known.degraded:
            return replace(mine, leased=_both(self._views.leased(run), mine.leased))
        if mine.previous is not None:
            return mine
        view, previous = self._views.fitting(run, known.state), None
        is_shared = run.uid not in self._reserved and self._shared_until.get(run.uid, 0.0) > self._views.clock()
        if view is None or is_shared or self._connection.is_away:
            try:
                view, previous = await self._asked(run, key, reserve=is_shared)
            except RedisAwayError:
                return replace(mine, leased=_both(self._views.leased(run), mine.leased))
        facts, reserved = view.facts, self._reserved.get(run.uid)
        ordinal = facts.made
        if reserved is not None and (reserved.generation, reserved.version) == (facts.generation, facts.version):
            ordinal = reserved.ordinal
        is_lost = self._views.clock() < view.lost_at + known.state.settings.lease_seconds
        leased = _both(view.leased, mine.leased)
        return LeaseTicket(ordinal, leased, facts.turn, known.mark, degraded=is_lost, previous=previous)

    async def take(
        self,
        run: RunRow,
        selection: Selection,
        begun: LeaseTicket,
        *,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> LeaseResult:
        """Lease the selection's tasks, all or none, and remember it under its key."""
        if begun.alone:
            return await self._alone.take(
                run, selection, begun, seconds=seconds, key=key, fingerprint=fingerprint, reuse=reuse
            )
        outages, generation = outages_and_generation(begun.mark)
        if outages != str(self._connection.outages):
            return LeaseResult(stale=True)
        blob = b"" if key is None else encode_selection(selection, fingerprint)
        if len(blob) > MOST_BYTES:
            key, blob = None, b""
        nonce, tasks = secrets.token_hex(8), united(selection.tasks)
        reserved = self._reserved.get(run.uid)
        if reserved == _Reserved(generation, version(selection), begun.ordinal):
            del self._reserved[run.uid]  # whatever becomes of this selection, no other has its ordinal
        else:
            reserved = None
        origin = (generation, *version(selection), begun.turn, begun.ordinal, int(reserved is not None))
        lasting = (int(seconds * 1000), int((NONCE_S if key is None else REMEMBERED_S) * 1000))
        free = without(tasks, begun.leased) if reuse else tasks
        ordered = (*free.tolist(), *without(tasks, free).tolist())
        where, asked_at = keys(run, nonce if key is None else key_digest(key)), self._views.clock()
        try:
            reply = await self._connection.run(TAKE, where, nonce, *origin, len(free), *lasting, blob, *ordered)
        except RedisAwayError:
            return LeaseResult()
        return await self._taken(run, where, reply, _Tried(selection, tasks, asked_at, seconds, reserved))

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; where Redis is away, once it is back."""
        await self._alone.release(run, tasks)
        if not len(tasks):
            return
        where = keys(run)
        try:
            reply = await self._connection.run(RELEASE, where, *tasks.tolist())
        except RedisAwayError:
            self._views.release(run, tasks)
            self._connection.when_back(RELEASE, where, *{*self._connection.owed(RELEASE, where), *tasks.tolist()})
            return
        self._views.follow(run, facts_of(reply), int(reply[-1]), lambda view: view.without(tasks))

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        return (await self.ends(run)).tasks

    async def ends(self, run: RunRow) -> LeaseEnds:
        """Return the tasks in flight, and when the lease of each ends."""
        mine, view = await self._alone.ends(run), self._views.get(run)
        with contextlib.suppress(RedisAwayError):
            view, _ = await self._asked(run, None, reserve=False)
        return mine if view is None else joined(view.ends_after(self._views.clock()), mine)

    async def remembered(self, run: RunRow, key: str | None) -> tuple[str, Selection] | None:
        """Return the selection that was made under a key, with its request's fingerprint; None if none is known."""
        previous = await self._alone.remembered(run, key)
        if previous is None and key is not None:
            with contextlib.suppress(RedisAwayError):
                _, previous = await self._asked(run, key, reserve=False)
        return previous

    async def forget(self, run: RunRow) -> None:
        """End all leases of the run, and forget its selections; where Redis is away, once it is back."""
        await self._alone.forget(run)
        self._views.drop(run)
        self._reserved.pop(run.uid, None)
        token = secrets.token_hex(8)
        try:
            await self._connection.run(FORGET, keys(run), token)
        except RedisAwayError:
            self._connection.when_back(FORGET, keys(run), token)

    async def _asked(self, run: RunRow, key: str | None, *, reserve: bool) -> tuple[View, tuple[str, Selection] | None]:
        """Return the run's leases as they stand, and the selection that was made under the key."""
        where, asked_at = keys(run, None if key is None else key_digest(key)), self._views.clock()
        reply = await self._connection.run(BEGIN, where, int(reserve))
        now_ms, leases, blob = reply[-1]
        facts = facts_of(reply)
        view = view_of(facts, now_ms, leases, asked_at)
        self._views.put(run, view)
        if reserve and facts.generation and blob is None:
            self._reserve(run, _Reserved(facts.generation, facts.version, facts.made - 1))
        return view, None if blob is None else await self._read(run, where, blob)

    async def _taken(self, run: RunRow, where: list[str], reply: list[Any], tried: _Tried) -> LeaseResult:
        """Return what became of a selection, and know the run's leases as Redis says they are now."""
        status, facts, rest = reply[0].decode(), facts_of(reply), reply[-1]
        if status == "taken":
            until = tried.asked_at + tried.seconds
            self._views.follow(run, facts, int(rest), lambda view: view.with_leases(tried.tasks, until))
            return LeaseResult(tried.selection)
        if status == "again":
            self._views.drop(run)  # others may have changed the leases since the first answer
            return LeaseResult(tried.selection)
        if tried.reserved is not None:
            self._reserve(run, tried.reserved)
        if status == "previous":
            return LeaseResult(previous=await self._read(run, where, rest))
        if status == "stale":
            self._views.follow(run, facts, facts.turn)
            return LeaseResult(stale=True)
        now_ms, leases = rest
        mine = self._views.get(run)
        self._views.put(run, view_of(facts, now_ms, leases, tried.asked_at))
        if status == "reserved":
            self._reserve(run, _Reserved(facts.generation, facts.version, facts.made - 1))
            if mine is not None and mine.facts.version == facts.version and mine.facts.made < facts.made - 1:
                self._note_shared(run)
        return LeaseResult()

    def _note_shared(self, run: RunRow) -> None:
        """Note that another replica selects from the run, too."""
        self._shared_until[run.uid] = self._views.clock() + SHARED_S
        if len(self._shared_until) > KNOWN_RUNS:
            self._shared_until.popitem(last=False)

    def _reserve(self, run: RunRow, reserved: _Reserved) -> None:
        self._reserved[run.uid] = reserved
        if len(self._reserved) > KNOWN_RUNS:
            self._reserved.popitem(last=False)

    async def _read(self, run: RunRow, where: list[str], blob: bytes) -> tuple[str, Selection] | None:
        """Return a remembered selection; forget it if it can't be read."""
        try:
            return decode_selection(blob)
        except DamagedStateError as error:
            log.error("remembered_selection_damaged", run=run.name, reason=str(error))
        with contextlib.suppress(RedisAwayError):
            await self._connection.run(FORGET_SELECTION, where, blob)
        return None


def _both(leased: Tasks, mine: Tasks) -> Tasks:
    """Return the tasks that are leased in Redis, or in this process's memory from when Redis was away."""
    return frozen(united(leased, mine)) if len(mine) else leased
