"""The newest state of each run in Redis, for all replicas."""

import asyncio
from collections import OrderedDict

import structlog

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError
from bots_service.ports.hot import Reach
from bots_service.ports.hot_records import Published
from bots_service.ports.records import RunRow
from bots_service.storage.memory_states import MemoryStates, nbytes, version
from bots_service.storage.redis_connection import RedisAwayError, RedisConnection
from bots_service.storage.redis_pipeline import Script
from bots_service.storage.redis_views import RedisViews, facts_of, fresh_generation, keys

log = structlog.get_logger(__name__)

LOOK, PUBLISH, WIPE = Script("look"), Script("publish"), Script("wipe")
LARGE_BYTES = 2**18  # coding a state of this size takes as long as a thread costs
KNOWN_MARKS = 65_536
NO_MARK = ""


class RedisStates:
    """A States for many replicas.

    What it guarantees: `newest` never returns a state that is older than one that any replica published with Reach.ALL
    before. Rather than that it returns none, and the run's head in SQL says what is the newest. For

    - Redis believes only what this very server process wrote (its run_id): one that was restarted, promoted, emptied or
      moved begins a new generation of the run, without a state;
    - a state is published only in the generation that its mark names, so one that was folded before Redis lost
      something does not land after it;
    - after an outage, a process trusts no run in Redis until it has published it once itself, with a mark from after
      the outage, so with its head read from SQL since; and what it could not publish meanwhile, it first wipes in
      Redis, so that the other replicas look at SQL, too.

    While a replica is cut off from Redis and others are not, the others see what it acknowledged only with their next
    entry, or once it is back: nothing is lost, for the entry is in SQL.
    """

    def __init__(self, connection: RedisConnection, views: RedisViews, *, capacity_bytes: int) -> None:
        """Keep states in Redis.

        Args:
            connection: the way to it.
            views: shared with the leases.
            capacity_bytes: of the decoded states in this process's memory.
        """
        self._connection = connection
        self._views = views
        self._decoded = MemoryStates(capacity_bytes)
        self._marks: OrderedDict[str, str] = OrderedDict()
        self._trusted: OrderedDict[str, int] = OrderedDict()

    def known(self, run: RunRow) -> Published | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        known = self._decoded.known(run)
        return None if known is None else Published(known.state, self._marks.get(run.uid, NO_MARK))

    async def newest(self, run: RunRow) -> Published:
        """Return the newest published state; without one if none can be trusted."""
        known = self._decoded.known(run)
        mine = None if known is None else known.state
        outages = self._connection.outages
        try:
            reply = await self._connection.run(
                LOOK, keys(run), *fresh_generation(), *((-1, -1) if mine is None else version(mine))
            )
        except RedisAwayError:
            return Published(None, NO_MARK)
        facts, blob = facts_of(reply), reply[-1]
        self._views.follow(run, facts, before=facts.turn)
        mark = _mark(outages, facts.generation)
        if self._trusted.get(run.uid, 0) != outages:
            return Published(None, mark)
        if blob is not None:
            try:
                mine = await _decoded(blob)
            except DamagedStateError as error:
                log.error("published_state_damaged", run=run.name, reason=str(error))
                return Published(None, await self._wiped(run, outages, facts.generation))
            self._decoded.keep(run, mine)
        if mine is None or version(mine) != facts.version:
            # This process holds a newer one, that Redis lost, or never got: SQL must say what there is.
            return Published(None, mark)
        _put(self._marks, run.uid, mark)
        return Published(mine, mark)

    async def publish(self, run: RunRow, state: RunState, mark: str) -> Reach:
        """Make a state known, unless one with a greater (epoch, seq) is."""
        outages = self._connection.outages
        if not self._connection.is_away and not mark.startswith(_mark(outages, "")):
            return Reach.OUTDATED
        generation = mark.rpartition(":")[2]
        try:
            blob = await _encoded(state)
            reply = await self._connection.run(PUBLISH, keys(run), generation, *version(state), blob)
        except RedisAwayError:
            self._connection.when_back(WIPE, keys(run), *fresh_generation(), "")
            self._decoded.keep(run, state)
            _put(self._marks, run.uid, NO_MARK)
            return Reach.ALONE
        if reply[0] == b"outdated":
            return Reach.OUTDATED
        facts = facts_of(reply)
        self._views.follow(run, facts, before=facts.turn)
        self._decoded.keep(run, state)
        _put(self._marks, run.uid, mark)
        _put(self._trusted, run.uid, outages)
        return Reach.ALL

    async def doubt(self, run: RunRow) -> None:
        """Make every other process ask SQL before it goes on; where Redis is away, once it is back."""
        try:
            await self._connection.run(WIPE, keys(run), *fresh_generation(), "")
        except RedisAwayError:
            self._connection.when_back(WIPE, keys(run), *fresh_generation(), "")

    async def forget(self, run: RunRow) -> None:
        """Forget the run's state; where Redis is away, once it is back."""
        self._decoded.drop(run)
        self._views.drop(run)
        await self.doubt(run)

    async def _wiped(self, run: RunRow, outages: int, generation: str) -> str:
        """Wipe the run's state, if it still is of this generation, and return the mark since then."""
        try:
            reply = await self._connection.run(WIPE, keys(run), *fresh_generation(), generation)
        except RedisAwayError:
            return NO_MARK
        return _mark(outages, facts_of(reply).generation)


def _mark(outages: int, generation: str) -> str:
    """Return a mark: what the store lost nothing since, and what this process missed nothing since."""
    return f"{outages}:{generation}"


async def _decoded(blob: bytes) -> RunState:
    return decode_state(blob) if len(blob) < LARGE_BYTES else await asyncio.to_thread(decode_state, blob)


async def _encoded(state: RunState) -> bytes:
    return encode_state(state) if nbytes(state) < LARGE_BYTES else await asyncio.to_thread(encode_state, state)


def _put(entries: OrderedDict[str, str] | OrderedDict[str, int], uid: str, value: str | int) -> None:
    """Set an entry; where there are too many, the oldest goes, which costs its run one look at SQL."""
    entries[uid] = value  # type: ignore[assignment]
    entries.move_to_end(uid)
    if len(entries) > KNOWN_MARKS:
        entries.popitem(last=False)
