"""The newest state of each run in Redis, for all replicas."""

import asyncio
from collections import OrderedDict

import structlog

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError
from bots_service.ports.hot import NO_TOKEN, KnownState, PublishedState, PublishResult
from bots_service.ports.records import RunRow
from bots_service.retention import IDLE_RUNS_S
from bots_service.storage.memory import MemoryStates, nbytes, version
from bots_service.storage.redis.cache import (
    LeaseCache,
    fresh_generation,
    header_of,
    keys,
    outages_and_generation,
    token_of,
)
from bots_service.storage.redis.connection import Argument, RedisAwayError, RedisConnection, Script

log = structlog.get_logger(__name__)

NEWEST, PUBLISH, REGISTER = Script("newest"), Script("publish"), Script("register")
INVALIDATE, DELETE = Script("invalidate"), Script("delete_state")
LARGE_BYTES = 2**18  # encoding a state of this size takes as long as starting a thread
KNOWN_TOKENS = 65_536


class RedisStates:
    """A States for many replicas; ports/hot.py describes its guarantees.

    `newest` never returns a state older than one that any replica published with SHARED; it returns none instead. This
    holds because a script trusts only a header written by the same server process, a state is published only in its
    token's generation, and a process trusts only generations in which it has published.

    While one replica is cut off from Redis and others are not, the others see its acknowledged entries only with their
    next entry, or when it is back. Nothing is lost, because the entries are in SQL.
    """

    def __init__(self, connection: RedisConnection, cache: LeaseCache, *, capacity_bytes: int) -> None:
        """Create it.

        Args:
            connection: to Redis.
            cache: shared with the leases.
            capacity_bytes: memory limit of decoded states in this process.
        """
        self._connection = connection
        self._cache = cache
        self._decoded = MemoryStates(capacity_bytes)
        self._tokens: OrderedDict[str, str] = OrderedDict()  # of this process's last publication of each run

    def known(self, run: RunRow) -> KnownState | None:
        """Return the newest state in this process; other replicas may have published a newer one."""
        known = self._decoded.known(run)
        return None if known is None else KnownState(known.state, self._tokens.get(run.uid, NO_TOKEN))

    async def register(self, run: RunRow) -> None:
        """Register a new run; if Redis is away, when it is back."""
        await self._now_or_when_back(REGISTER, run)

    async def newest(self, run: RunRow) -> PublishedState:
        """Return the newest published state and the token for the next publication."""
        known = self._decoded.known(run)
        mine = None if known is None else known.state
        outages = self._connection.outages
        try:
            reply = await self._connection.run(
                NEWEST, keys(run), *fresh_generation(), *((-1, -1) if mine is None else version(mine))
            )
        except RedisAwayError:
            return PublishedState(None, NO_TOKEN)
        header, blob = header_of(reply), reply[-1]
        self._cache.follow(run, header, before=header.revision)
        token = token_of(outages, header.generation)
        if blob is not None:
            try:
                mine = await _decoded(blob)
            except DamagedStateError as error:
                log.error("published_state_damaged", run=run.name, reason=str(error))
                return PublishedState(None, await self._without_state(run, outages, header.generation))
            self._decoded.keep(run, mine)
        is_trusted = self._tokens.get(run.uid) == token
        if not is_trusted or mine is None or version(mine) != header.version:
            # If this process has a newer one, Redis lost it or never received it: read SQL.
            return PublishedState(None, token)
        return PublishedState(mine, token)

    async def publish(self, run: RunRow, state: RunState, token: str) -> PublishResult:
        """Make a state the newest, unless one with a greater (epoch, seq) is."""
        outages = self._connection.outages
        seen, generation = outages_and_generation(token)
        if not self._connection.is_away and seen != str(outages):
            self._keep_unpublished(run, state)
            return PublishResult.OUTDATED
        try:
            blob = b"" if self._connection.is_away else await _encoded(state)
            reply = await self._connection.run(PUBLISH, keys(run), generation, *version(state), blob, int(IDLE_RUNS_S))
        except RedisAwayError:
            self._connection.run_when_back(INVALIDATE, keys(run), *fresh_generation())
            self._keep_unpublished(run, state)
            return PublishResult.LOCAL
        if reply[0] == b"outdated":
            self._keep_unpublished(run, state)
            return PublishResult.SUPERSEDED
        header = header_of(reply)
        self._cache.follow(run, header, before=header.revision)
        self._decoded.keep(run, state)
        self._trust(run, token)
        return PublishResult.SHARED

    async def invalidate(self, run: RunRow) -> None:
        """Invalidate the run's tokens; if Redis is away, when it is back."""
        await self._now_or_when_back(INVALIDATE, run)

    async def delete(self, run: RunRow) -> None:
        """Delete the run's state; if Redis is away, when it is back."""
        self._decoded.drop(run)
        self._cache.drop(run)
        await self._now_or_when_back(DELETE, run, "")

    async def _now_or_when_back(self, script: Script, run: RunRow, *more: Argument) -> None:
        arguments = (*fresh_generation(), *more)
        try:
            await self._connection.run(script, keys(run), *arguments)
        except RedisAwayError:
            self._connection.run_when_back(script, keys(run), *arguments)

    def _keep_unpublished(self, run: RunRow, state: RunState) -> None:
        """Keep a state in this process only, so that the next call does not fold its entries again."""
        self._decoded.keep(run, state)
        self._trust(run, NO_TOKEN)

    def _trust(self, run: RunRow, token: str) -> None:
        """Keep the token; with too many, drop the oldest, which costs its run one read of SQL."""
        self._tokens[run.uid] = token
        self._tokens.move_to_end(run.uid)
        if len(self._tokens) > KNOWN_TOKENS:
            self._tokens.popitem(last=False)

    async def _without_state(self, run: RunRow, outages: int, generation: str) -> str:
        """Delete the run's state if its generation is still this one; return the new token."""
        try:
            reply = await self._connection.run(DELETE, keys(run), *fresh_generation(), generation)
        except RedisAwayError:
            return NO_TOKEN
        return token_of(outages, header_of(reply).generation)


async def _decoded(blob: bytes) -> RunState:
    return decode_state(blob) if len(blob) < LARGE_BYTES else await asyncio.to_thread(decode_state, blob)


async def _encoded(state: RunState) -> bytes:
    return encode_state(state) if nbytes(state) < LARGE_BYTES else await asyncio.to_thread(encode_state, state)
