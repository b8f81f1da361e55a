"""The newest state of each run in Redis, for all replicas."""

import asyncio
from collections import OrderedDict

import structlog

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError
from bots_service.ports.hot import NO_TOKEN, KnownState, PublishedState, PublishResult
from bots_service.ports.records import RunRow
from bots_service.storage.memory import MemoryStates, nbytes, version
from bots_service.storage.redis.connection import Argument, RedisAwayError, RedisConnection, Script
from bots_service.storage.redis.views import (
    RedisViews,
    facts_of,
    fresh_generation,
    keys,
    mark_of,
    outages_and_generation,
)

log = structlog.get_logger(__name__)

LOOK, PUBLISH, CREATE = Script("look"), Script("publish"), Script("create")
DOUBT, WIPE = Script("doubt"), Script("wipe")
LARGE_BYTES = 2**18  # coding a state of this size takes as long as a thread costs
KNOWN_MARKS = 65_536


class RedisStates:
    """A States for many replicas.

    What it guarantees: `newest` never returns a state that is older than one that any replica published with Reach.ALL
    before. Rather than that it returns none, and the run's head in SQL says what is the newest. For

    - Redis believes only what this very server process wrote (its run_id): one that was restarted, promoted, emptied or
      moved begins a new generation of the run, without a state;
    - a state is published only in the generation that its mark names, so one that was folded before Redis lost
      something does not land after it;
    - a process trusts a generation only once it has published in it itself, so with the run's head and the version of
      its dataset read from SQL since that generation began; whoever changes a dataset begins new generations of its
      runs, before the change is acknowledged;
    - after an outage, a process trusts no generation that it trusted before; and for what it could not publish
      meanwhile it first begins a new one, so that the other replicas look at SQL, too.

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
        self._marks: OrderedDict[str, str] = OrderedDict()  # with which this process published last

    def known(self, run: RunRow) -> KnownState | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        known = self._decoded.known(run)
        return None if known is None else KnownState(known.state, self._marks.get(run.uid, NO_TOKEN))

    async def created(self, run: RunRow) -> None:
        """Note that the run is new; where Redis is away, once it is back."""
        await self._now_or_when_back(CREATE, run)

    async def newest(self, run: RunRow) -> PublishedState:
        """Return the newest published state; without one if none can be trusted."""
        known = self._decoded.known(run)
        mine = None if known is None else known.state
        outages = self._connection.outages
        try:
            reply = await self._connection.run(
                LOOK, keys(run), *fresh_generation(), *((-1, -1) if mine is None else version(mine))
            )
        except RedisAwayError:
            return PublishedState(None, NO_TOKEN)
        facts, blob = facts_of(reply), reply[-1]
        self._views.follow(run, facts, before=facts.turn)
        mark = mark_of(outages, facts.generation)
        if blob is not None:
            try:
                mine = await _decoded(blob)
            except DamagedStateError as error:
                log.error("published_state_damaged", run=run.name, reason=str(error))
                return PublishedState(None, await self._wiped(run, outages, facts.generation))
            self._decoded.keep(run, mine)
        is_trusted = self._marks.get(run.uid) == mark
        if not is_trusted or mine is None or version(mine) != facts.version:
            # Where this process holds a newer one, Redis lost it, or never got it: SQL must say what there is.
            return PublishedState(None, mark)
        return PublishedState(mine, mark)

    async def publish(self, run: RunRow, state: RunState, mark: str) -> PublishResult:
        """Make a state known, unless one with a greater (epoch, seq) is."""
        outages = self._connection.outages
        marked, generation = outages_and_generation(mark)
        if not self._connection.is_away and marked != str(outages):
            return PublishResult.OUTDATED
        try:
            blob = b"" if self._connection.is_away else await _encoded(state)
            reply = await self._connection.run(PUBLISH, keys(run), generation, *version(state), blob)
        except RedisAwayError:
            self._connection.when_back(DOUBT, keys(run), *fresh_generation())
            self._decoded.keep(run, state)
            self._trust(run, NO_TOKEN)
            return PublishResult.ALONE
        if reply[0] == b"outdated":
            return PublishResult.SUPERSEDED
        facts = facts_of(reply)
        self._views.follow(run, facts, before=facts.turn)
        self._decoded.keep(run, state)
        self._trust(run, mark)
        return PublishResult.ALL

    async def doubt(self, run: RunRow) -> None:
        """Make every process ask SQL before it goes on; where Redis is away, once it is back."""
        await self._now_or_when_back(DOUBT, run)

    async def forget(self, run: RunRow) -> None:
        """Forget the run's state; where Redis is away, once it is back."""
        self._decoded.drop(run)
        self._views.drop(run)
        await self._now_or_when_back(WIPE, run, "")

    async def _now_or_when_back(self, script: Script, run: RunRow, *more: Argument) -> None:
        arguments = (*fresh_generation(), *more)
        try:
            await self._connection.run(script, keys(run), *arguments)
        except RedisAwayError:
            self._connection.when_back(script, keys(run), *arguments)

    def _trust(self, run: RunRow, mark: str) -> None:
        """Keep the mark; where there are too many, the oldest goes, which costs its run one look at SQL."""
        self._marks[run.uid] = mark
        self._marks.move_to_end(run.uid)
        if len(self._marks) > KNOWN_MARKS:
            self._marks.popitem(last=False)

    async def _wiped(self, run: RunRow, outages: int, generation: str) -> str:
        """Wipe the run's state, if it still is of this generation, and return the mark since then."""
        try:
            reply = await self._connection.run(WIPE, keys(run), *fresh_generation(), generation)
        except RedisAwayError:
            return NO_TOKEN
        return mark_of(outages, facts_of(reply).generation)


async def _decoded(blob: bytes) -> RunState:
    return decode_state(blob) if len(blob) < LARGE_BYTES else await asyncio.to_thread(decode_state, blob)


async def _encoded(state: RunState) -> bytes:
    return encode_state(state) if nbytes(state) < LARGE_BYTES else await asyncio.to_thread(encode_state, state)
