"""The way to Redis: scripts that are guarded, bounded in time, and not asked for while Redis is away."""

import asyncio
from contextvars import Context
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from bots_service.errors import StorageUnavailableError
from bots_service.spans import Span
from bots_service.storage.redis_client import client_of, refusal
from bots_service.storage.redis_pipeline import Argument, Failure, RedisPipeline, Script

log = structlog.get_logger(__name__)

PROBE_S = 0.25
LEAST_VERSION = (6, 2)  # ZMSCORE


class RedisAwayError(Exception):
    """Redis did not answer, or refused to work; what was asked for may have been done all the same."""


PROBE = Script("probe")


class RedisConnection:
    """One process's way to Redis, or to a Redis Cluster.

    Every script is guarded, so that to run it twice does what running it once does: after a lost answer it is run once
    more. If that fails too, Redis counts as away: nobody asks it, so that a Redis that hangs costs one wait and not one
    for each request, until a probe that writes a key is answered.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Prepare a connection; nothing is asked yet.

        Args:
            url: redis:// or rediss://, with `cluster=true` in its query for a Redis Cluster.
            timeout_s: longest wait for one answer.

        Raises:
            StorageUnavailableError: this is no such URL.
        """
        self._client = client_of(url, timeout_s)
        self._pipeline = RedisPipeline(self._client, timeout_s=timeout_s)
        self._probing: asyncio.Task[None] | None = None
        self._owed: dict[tuple[str, str], tuple[Script, list[str], tuple[Argument, ...]]] = {}
        self.outages = 0

    @property
    def is_away(self) -> bool:
        """Whether Redis failed, and has not answered a probe since."""
        return self._probing is not None

    async def open(self) -> None:
        """Look whether Redis can be worked with; one that does not answer at all is away, and looked for from now on.

        Raises:
            StorageUnavailableError: Redis refuses this user or a command, is too old, or the URL can't be used.
        """
        try:
            facts = await self.facts()
        except StorageUnavailableError as error:
            cause = error.__cause__
            if not isinstance(cause, Failure) or refusal(cause) is not None:
                raise
            self._leave("bots", cause)
            return
        version = facts["redis_version"]
        if tuple(map(int, version.split(".")[:2])) < LEAST_VERSION:
            raise StorageUnavailableError(f"the Redis of BOTS_REDIS_URL is version {version}; 6.2 is the least")

    async def facts(self) -> dict[str, str]:
        """Return what Redis says of itself (INFO), after a write.

        Raises:
            StorageUnavailableError: it does not answer, refuses this user or a command, or the URL can't be used.
        """
        try:
            text: bytes = await self._once(PROBE, [probe_key("bots")])
        except (TypeError, ValueError) as error:
            raise StorageUnavailableError("BOTS_REDIS_URL has an option that is not understood") from error
        except Failure as error:
            raise StorageUnavailableError(refusal(error) or f"the Redis of BOTS_REDIS_URL: {_reason(error)}") from error
        lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
        return {name: value for name, separator, value in lines if separator}

    async def run(self, script: Script, keys: list[str], *arguments: Argument) -> list[Any]:
        """Return what a script answers, run again if its first answer is lost.

        Raises:
            RedisAwayError: Redis is away.
        """
        if self.is_away:
            raise RedisAwayError
        with Span("redis", script=script.name):
            return await self._run(script, keys, arguments)

    async def _run(self, script: Script, keys: list[str], arguments: tuple[Argument, ...]) -> list[Any]:
        outcome = await self._pipeline.outcome(script, keys, arguments)
        if isinstance(outcome, Failure) and not isinstance(outcome, ResponseError) and not self.is_away:
            # What broke one connection broke those that wait, too. A refusal would only come again.
            if isinstance(self._client, Redis):
                await self._client.connection_pool.disconnect(inuse_connections=False)
            outcome = await self._pipeline.outcome(script, keys, arguments)
        if isinstance(outcome, Failure):
            self._leave(keys[0], outcome)
            raise RedisAwayError from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        reply: list[Any] = outcome
        return reply

    def when_back(self, script: Script, keys: list[str], *arguments: Argument) -> None:
        """Run a script as soon as Redis is back, before anybody else may ask it; once for the same first key."""
        self._owed[script.name, keys[0]] = script, keys, arguments

    def owed(self, script: Script, keys: list[str]) -> tuple[Argument, ...]:
        """Return with what arguments a script is to be run once Redis is back."""
        _, _, arguments = self._owed.get((script.name, keys[0]), (script, keys, ()))
        return arguments

    async def close(self) -> None:
        """Close all connections."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._pipeline.close()
        await self._client.aclose()

    async def _once(self, script: Script, keys: list[str], arguments: tuple[Argument, ...] = ()) -> Any:
        """Return what the script answers, asked once.

        Raises:
            Exception: whatever went wrong.
        """
        outcome = await self._pipeline.outcome(script, keys, arguments)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _leave(self, key: str, error: BaseException) -> None:
        """Count Redis as away, and look for it from now on, where the key is."""
        if not self.is_away:
            self.outages += 1
            log.warning("redis_away", reason=_reason(error))
            # Without the context of whoever met the failure: what the probe logs is not about that request.
            self._probing = asyncio.create_task(self._look_for(probe_key(key)), context=Context())

    async def _look_for(self, key: str) -> None:
        """Return once Redis writes again."""
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                await self._once(PROBE, [key])
                await self._pay()
            except Failure as error:
                log.debug("redis_still_away", reason=_reason(error))
            else:
                break
        self._probing = None  # nothing was awaited since nothing was owed
        log.warning("redis_back")

    async def _pay(self) -> None:
        """Run the scripts that are owed."""
        while self._owed:
            # Taken off first: what comes to be owed meanwhile must be run again.
            place, owed = self._owed.popitem()
            try:
                await self._once(*owed)
            except BaseException:
                self._owed.setdefault(place, owed)
                raise


def probe_key(key: str) -> str:
    """Return the key of a probe that lies where another key lies: in a Redis Cluster, on the same server."""
    tag = key.partition("{")[2].partition("}")[0] or key
    return f"bots:{{{tag}}}:probe"


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
