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
from bots_service.ports.hot import NO_TOKEN, KnownState, LeaseResult, LeaseTicket, LeaseTtls
from bots_service.ports.records import RunRow, Selection
from bots_service.retention import IDLE_RUNS_S, NONCES_S, SELECTIONS_S
from bots_service.storage.memory import ORDINALS, MemoryLeases, version
from bots_service.storage.redis.cache import (
    KNOWN_RUNS,
    CachedLeases,
    LeaseCache,
    header_of,
    joined,
    keys,
    leases_of,
    outages_and_generation,
)
from bots_service.storage.redis.connection import RedisAwayError, RedisConnection, Script

log = structlog.get_logger(__name__)


FORMAT = 1
MAX_BYTES = 4 * 2**20  # a selection of 65 536 tasks takes half of it


class _EncodedSelection(msgspec.Struct, array_like=True, frozen=True):
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
    effective: bytes


def key_digest(key: str) -> str:
    """Return the key's digest, under which its selection is stored."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def encode_selection(selection: Selection, fingerprint: str) -> bytes:
    """Return the bytes of a selection and its request's fingerprint."""
    draws, means, effective = (
        array.astype("<f8").tobytes() for array in (selection.draws, selection.means, selection.effective)
    )
    return msgspec.msgpack.encode(
        _EncodedSelection(
            FORMAT,
            fingerprint,
            selection.id,
            selection.epoch,
            selection.step,
            selection.seq,
            selection.degraded,
            selection.reused,
            selection.tasks.astype("<i4").tobytes(),
            draws,
            means,
            effective,
        )
    )


def decode_selection(blob: bytes) -> tuple[str, Selection]:
    """Return the fingerprint and the selection.

    Raises:
        DamagedStateError: the bytes are truncated, altered, or of another format.
    """
    if len(blob) > MAX_BYTES:
        raise DamagedStateError(f"a stored selection has {len(blob)} bytes, which is too many")
    try:
        found = msgspec.msgpack.decode(blob, type=_EncodedSelection)
        if found.format != FORMAT:
            raise DamagedStateError(f"a stored selection has format {found.format}; this version reads {FORMAT}")
        tasks = _array(found.tasks, "<i4")
        numbers = [_array(array, "<f8") for array in (found.draws, found.means, found.effective)]
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedStateError(f"the selection can't be read: {error}") from error
    if any(len(array) != len(tasks) for array in numbers):
        raise DamagedStateError("the selection's arrays have different lengths")
    draws, means, effective = numbers
    place = (found.id, found.epoch, found.step, found.seq, found.degraded, found.reused)
    return found.fingerprint, Selection(*place, tasks, draws, means, effective)


def _array(blob: bytes, kind: str) -> NDArray[Any]:
    return frozen(np.frombuffer(blob, kind))


PREPARE, ACQUIRE, RELEASE = Script("prepare"), Script("acquire"), Script("release")
CLEAR, DELETE_SELECTION = Script("clear"), Script("delete_selection")
SHARED_S = 1.0  # after another replica selected from a run, `prepare` reserves ordinals for so long


@dataclass(frozen=True, slots=True)
class _Reserved:
    """An ordinal reserved for the next selection from a state."""

    generation: str
    version: tuple[int, int]
    ordinal: int


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A selection being leased. tasks: sorted; asked_at: this process's time just before the request."""

    selection: Selection
    tasks: Tasks
    asked_at: float
    seconds: float
    reserved: _Reserved | None


class RedisLeases:
    """A Leases for many replicas.

    A process caches the leases in Redis's last answer. So `prepare` needs no round trip while no other replica changes
    them, and `acquire` is the only round trip of a selection. If `acquire` runs twice because its first reply was lost,
    it leases once.

    While Redis is away the process leases in its own memory: other replicas may select the same tasks, and every
    selection says `degraded`. Leases and keys from that time stay in this process's memory until they end.
    """

    def __init__(self, connection: RedisConnection, cache: LeaseCache) -> None:
        """Create it.

        Args:
            connection: to Redis.
            cache: shared with the states.
        """
        self._connection = connection
        self._cache = cache
        self._local = MemoryLeases(clock=cache.clock, first_ordinal=secrets.randbelow(ORDINALS))
        self._reserved: OrderedDict[str, _Reserved] = OrderedDict()
        self._shared_until: OrderedDict[str, float] = OrderedDict()

    async def prepare(self, run: RunRow, known: KnownState, *, key: str | None) -> LeaseTicket:
        """Return the ticket that a selection from this state is drawn with."""
        mine = await self._local.prepare(run, replace(known, token=NO_TOKEN), key=key)
        if known.degraded:
            return replace(mine, leased=_both(self._cache.leased(run), mine.leased))
        if mine.previous is not None:
            return mine
        cached, previous = self._cache.fitting(run, known.state), None
        is_shared = run.uid not in self._reserved and self._shared_until.get(run.uid, 0.0) > self._cache.clock()
        if cached is None or is_shared or self._connection.is_away:
            try:
                cached, previous = await self._asked(run, key, reserve=is_shared)
            except RedisAwayError:
                return replace(mine, leased=_both(self._cache.leased(run), mine.leased))
        header, reserved = cached.header, self._reserved.get(run.uid)
        ordinal = header.next_ordinal
        if reserved is not None and (reserved.generation, reserved.version) == (header.generation, header.version):
            ordinal = reserved.ordinal
        is_lost = self._cache.clock() < cached.lost_at + known.state.settings.lease_seconds
        leased = _both(cached.leased, mine.leased)
        return LeaseTicket(ordinal, leased, header.revision, known.token, degraded=is_lost, previous=previous)

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
        """Lease the selection's tasks, all or none, and keep it under its key."""
        if ticket.local:
            return await self._local.acquire(
                run, selection, ticket, seconds=seconds, key=key, fingerprint=fingerprint, reuse=reuse
            )
        outages, generation = outages_and_generation(ticket.token)
        if outages != str(self._connection.outages):
            return LeaseResult(stale=True)
        blob = b"" if key is None else encode_selection(selection, fingerprint)
        if len(blob) > MAX_BYTES:
            key, blob = None, b""
        nonce, tasks = secrets.token_hex(8), selection.leased
        reserved = self._reserved.get(run.uid)
        if reserved == _Reserved(generation, version(selection), ticket.ordinal):
            del self._reserved[run.uid]  # used by this selection, even if it fails
        else:
            reserved = None
        origin = (generation, *version(selection), ticket.revision, ticket.ordinal, int(reserved is not None))
        kept_s = NONCES_S if key is None else SELECTIONS_S
        lasting = (int(seconds * 1000), int(kept_s * 1000), int(IDLE_RUNS_S))
        free = without(tasks, ticket.leased) if reuse else tasks
        ordered = (*free.tolist(), *without(tasks, free).tolist())
        where, asked_at = keys(run, nonce if key is None else key_digest(key)), self._cache.clock()
        try:
            reply = await self._connection.run(ACQUIRE, where, nonce, *origin, len(free), *lasting, blob, *ordered)
        except RedisAwayError:
            return LeaseResult()
        return await self._result(run, where, reply, _Attempt(selection, tasks, asked_at, seconds, reserved))

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; if Redis is away, once it is back."""
        await self._local.release(run, tasks)
        if not len(tasks):
            return
        where = keys(run)
        try:
            reply = await self._connection.run(RELEASE, where, *tasks.tolist())
        except RedisAwayError:
            self._cache.release(run, tasks)
            self._connection.run_when_back(
                RELEASE, where, *{*self._connection.deferred(RELEASE, where), *tasks.tolist()}
            )
            return
        self._cache.follow(run, header_of(reply), int(reply[-1]), lambda cached: cached.without(tasks))

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        return (await self.ttls(run)).tasks

    async def ttls(self, run: RunRow) -> LeaseTtls:
        """Return the tasks in flight, and when the lease of each ends."""
        mine, cached = await self._local.ttls(run), self._cache.get(run)
        with contextlib.suppress(RedisAwayError):
            cached, _ = await self._asked(run, None, reserve=False)
        return mine if cached is None else joined(cached.ends_after(self._cache.clock()), mine)

    async def previous(self, run: RunRow, key: str | None) -> tuple[str, Selection] | None:
        """Return the request's fingerprint and the selection that was made under a key, None if there is none."""
        previous = await self._local.previous(run, key)
        if previous is None and key is not None:
            with contextlib.suppress(RedisAwayError):
                _, previous = await self._asked(run, key, reserve=False)
        return previous

    async def clear(self, run: RunRow) -> None:
        """End all leases of the run, and forget its selections; if Redis is away, once it is back."""
        await self._local.clear(run)
        self._cache.drop(run)
        self._reserved.pop(run.uid, None)
        arguments = secrets.token_hex(8), int(IDLE_RUNS_S)
        try:
            await self._connection.run(CLEAR, keys(run), *arguments)
        except RedisAwayError:
            self._connection.run_when_back(CLEAR, keys(run), *arguments)

    async def _asked(
        self, run: RunRow, key: str | None, *, reserve: bool
    ) -> tuple[CachedLeases, tuple[str, Selection] | None]:
        """Return the run's leases as they stand, and the selection that was made under the key."""
        where, asked_at = keys(run, None if key is None else key_digest(key)), self._cache.clock()
        reply = await self._connection.run(PREPARE, where, int(reserve))
        now_ms, leases, blob = reply[-1]
        header = header_of(reply)
        cached = leases_of(header, now_ms, leases, asked_at)
        self._cache.put(run, cached)
        if reserve and header.generation and blob is None:
            self._reserve(run, _Reserved(header.generation, header.version, header.next_ordinal - 1))
        return cached, None if blob is None else await self._read(run, where, blob)

    async def _result(self, run: RunRow, where: list[str], reply: list[Any], attempt: _Attempt) -> LeaseResult:
        """Return what became of a selection, and cache the run's leases as Redis returned them."""
        status, header, rest = reply[0].decode(), header_of(reply), reply[-1]
        if status == "acquired":
            until = attempt.asked_at + attempt.seconds
            self._cache.follow(run, header, int(rest), lambda cached: cached.with_leases(attempt.tasks, until))
            return LeaseResult(attempt.selection)
        if status == "again":
            self._cache.drop(run)  # others may have changed the leases since the first answer
            return LeaseResult(attempt.selection)
        if attempt.reserved is not None:
            self._reserve(run, attempt.reserved)
        if status == "previous":
            return LeaseResult(previous=await self._read(run, where, rest))
        if status == "stale":
            self._cache.follow(run, header, header.revision)
            return LeaseResult(stale=True)
        now_ms, leases = rest
        mine = self._cache.get(run)
        self._cache.put(run, leases_of(header, now_ms, leases, attempt.asked_at))
        if status == "conflict":
            self._reserve(run, _Reserved(header.generation, header.version, header.next_ordinal - 1))
            if (
                mine is not None
                and mine.header.version == header.version
                and mine.header.next_ordinal < header.next_ordinal - 1
            ):
                self._note_shared(run)
        return LeaseResult()

    def _note_shared(self, run: RunRow) -> None:
        """Note that another replica selects from the run, too."""
        self._shared_until[run.uid] = self._cache.clock() + SHARED_S
        if len(self._shared_until) > KNOWN_RUNS:
            self._shared_until.popitem(last=False)

    def _reserve(self, run: RunRow, reserved: _Reserved) -> None:
        self._reserved[run.uid] = reserved
        if len(self._reserved) > KNOWN_RUNS:
            self._reserved.popitem(last=False)

    async def _read(self, run: RunRow, where: list[str], blob: bytes) -> tuple[str, Selection] | None:
        """Return a stored selection; delete it if it can't be read."""
        try:
            return decode_selection(blob)
        except DamagedStateError as error:
            log.error("kept_selection_damaged", run=run.name, reason=str(error))
        with contextlib.suppress(RedisAwayError):
            await self._connection.run(DELETE_SELECTION, where, blob)
        return None


def _both(leased: Tasks, mine: Tasks) -> Tasks:
    """Return the tasks leased in Redis or, from a time when Redis was away, in this process's memory."""
    return frozen(united(leased, mine)) if len(mine) else leased
