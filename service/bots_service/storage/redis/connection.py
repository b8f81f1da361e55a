"""The connection to Redis: scripts in one round trip, guarded, bounded in time, not asked for while Redis is away."""

import asyncio
import hashlib
from contextvars import Context
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import structlog
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from bots_service.errors import StorageUnavailableError
from bots_service.ports.keys import Rate
from bots_service.retention import PROBES_S
from bots_service.spans import Span
from bots_service.storage.memory import MemoryRateLimits

log = structlog.get_logger(__name__)


CONNECTIONS = 32  # scripts take Redis some 0.1 ms each, so more would only wait there


def client_of(url: str, timeout_s: float) -> Redis | RedisCluster:
    """Return a client that neither retries nor waits for ever.

    Raises:
        StorageUnavailableError: this is no URL of a Redis.
    """
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        kind = RedisCluster if options.pop("cluster", "false").lower() == "true" else Redis
        return kind.from_url(
            parts._replace(query=urlencode(options)).geturl(),
            # No time-out of redis-py's own: it waits by asyncio.wait_for, which swallows a cancellation now and then
            # before Python 3.12, so that a deadline or the end of the service would pass unheard.
            socket_timeout=None,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            max_connections=CONNECTIONS,
            protocol=2,
        )
    except (ValueError, RedisClusterException):
        # Without its cause, which may quote a part of the password.
        message = "BOTS_REDIS_URL is not a Redis URL, such as redis://user:password@host:6379/0"
        raise StorageUnavailableError(message) from None


def refusal(error: BaseException) -> str | None:
    """Return what the operator must fix; None if the failure may be temporary."""
    if isinstance(error, AuthenticationError):
        return f"Redis refuses the user and password in BOTS_REDIS_URL: {error}"
    if isinstance(error, NoPermissionError) or "can't run this command" in str(error):
        return f"Redis lets the user in BOTS_REDIS_URL run too few commands (EVAL, INFO, TIME, keys bots:*): {error}"
    if isinstance(error, MovedError):
        return "the Redis of BOTS_REDIS_URL belongs to a cluster: add ?cluster=true to the URL"
    if isinstance(error, RedisClusterException) and "not enabled" in str(error):
        return "the Redis of BOTS_REDIS_URL is not a cluster: remove cluster=true from the URL"
    return None


MOST_TOGETHER = 32  # more would make the first wait long for the last

Argument = bytes | str | int
Failure = (TimeoutError, OSError, RedisError, RedisClusterException)


class Script:
    """A Lua script, with what all of them share in front."""

    def __init__(self, name: str) -> None:
        """Read the script of that name from the package."""
        folder = files("bots_service.storage.redis") / "scripts"
        self.name = name
        self.source = "\n".join((folder / f"{part}.lua").read_text() for part in ("common", name))
        self.digest = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    script: Script
    rest: tuple[Argument, ...]
    outcome: asyncio.Future[Any]


class RedisPipeline:
    """Sends scripts. What a caller that gave up had sent may still be done."""

    def __init__(self, client: Redis | RedisCluster, *, timeout_s: float) -> None:
        """Send nothing yet.

        Args:
            client: sends them; it must not retry, or a write could count twice.
            timeout_s: longest wait for an answer, or for a connection.
        """
        self._client = client
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._waiting: list[_Call] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def outcome(self, script: Script, keys: list[str], arguments: tuple[Argument, ...] = ()) -> Any:
        """Return what the script answers, or the error: others may get the same one, so it is not raised here."""
        loop = asyncio.get_running_loop()
        call = _Call(script, (len(keys), *keys, *arguments), loop.create_future())
        if not self._waiting:
            # Without the context of the first caller: what is logged from there is about all.
            loop.call_soon(self._send, context=Context())
        self._waiting.append(call)
        return await call.outcome

    async def close(self) -> None:
        """Return once nothing is on its way; that takes no longer than an answer may."""
        while self._sending:
            await asyncio.wait(self._sending)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), MOST_TOGETHER):
            task = asyncio.create_task(self._settle(waiting[first : first + MOST_TOGETHER]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _settle(self, calls: list[_Call]) -> None:
        """Give each call its outcome."""
        outcomes: list[Any] = [ConnectionError("the service is stopping")] * len(calls)
        try:
            outcomes = await self._outcomes(calls)
        except Exception as error:
            outcomes = [error] * len(calls)
        finally:
            for call, outcome in zip(calls, outcomes, strict=True):
                if not call.outcome.done():  # its caller may have stopped waiting
                    call.outcome.set_result(outcome)

    async def _outcomes(self, calls: list[_Call]) -> list[Any]:
        async with asyncio.timeout(self._timeout_s), self._slots:
            try:
                outcomes = await self._answers([("EVALSHA", call.script.digest, *call.rest) for call in calls])
                unknown = [place for place, found in enumerate(outcomes) if isinstance(found, NoScriptError)]
                if unknown:  # this server has not seen them yet
                    sources = [("EVAL", calls[place].script.source, *calls[place].rest) for place in unknown]
                    for place, answer in zip(unknown, await self._answers(sources), strict=True):
                        outcomes[place] = answer
            except RuntimeError as error:  # uvloop's word for a server that ends while a connection to it is made
                raise ConnectionError(str(error)) from error
        return outcomes

    async def _answers(self, commands: list[tuple[Argument, ...]]) -> list[Any]:
        """Return the answers, or what a server says against a command."""
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


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
        self._deferred: dict[tuple[str, str], tuple[Script, list[str], tuple[Argument, ...]]] = {}
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
            info = await self.server_info()
        except StorageUnavailableError as error:
            cause = error.__cause__
            if not isinstance(cause, Failure) or refusal(cause) is not None:
                raise
            self._mark_away("bots", cause)
            return
        version = info["redis_version"]
        if tuple(map(int, version.split(".")[:2])) < LEAST_VERSION:
            raise StorageUnavailableError(f"the Redis of BOTS_REDIS_URL is version {version}; 6.2 is the least")

    async def server_info(self) -> dict[str, str]:
        """Return what Redis says of itself (INFO), after a write.

        Raises:
            StorageUnavailableError: it does not answer, refuses this user or a command, or the URL can't be used.
        """
        try:
            text: bytes = await self._once(PROBE, [probe_key("bots")], (int(PROBES_S),))
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
            self._mark_away(keys[0], outcome)
            raise RedisAwayError from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        reply: list[Any] = outcome
        return reply

    def run_when_back(self, script: Script, keys: list[str], *arguments: Argument) -> None:
        """Run a script as soon as Redis is back, before anybody else may ask it; once for the same first key."""
        self._deferred[script.name, keys[0]] = script, keys, arguments

    def deferred(self, script: Script, keys: list[str]) -> tuple[Argument, ...]:
        """Return with what arguments a script is to be run once Redis is back."""
        _, _, arguments = self._deferred.get((script.name, keys[0]), (script, keys, ()))
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

    def _mark_away(self, key: str, error: BaseException) -> None:
        """Count Redis as away, and look for it from now on, where the key is."""
        if not self.is_away:
            self.outages += 1
            log.warning("redis_away", reason=_reason(error))
            # Without the context of the request that found the failure: what the probe logs is not about that request.
            self._probing = asyncio.create_task(self._probe_until_back(probe_key(key)), context=Context())

    async def _probe_until_back(self, key: str) -> None:
        """Return once Redis writes again."""
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                await self._once(PROBE, [key], (int(PROBES_S),))
                await self._run_deferred()
            except Failure as error:
                log.debug("redis_still_away", reason=_reason(error))
            else:
                break
        self._probing = None  # nothing was awaited since nothing was deferred
        log.warning("redis_back")

    async def _run_deferred(self) -> None:
        """Run the scripts that are deferred."""
        while self._deferred:
            # Taken off first: what comes to be deferred meanwhile must be run again.
            place, deferred = self._deferred.popitem()
            try:
                await self._once(*deferred)
            except BaseException:
                self._deferred.setdefault(place, deferred)
                raise


def probe_key(key: str) -> str:
    """Return the key of a probe that lies where another key lies: in a Redis Cluster, on the same server."""
    tag = key.partition("{")[2].partition("}")[0] or key
    return f"bots:{{{tag}}}:probe"


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class RedisHealth:
    """A Health."""

    def __init__(self, connection: RedisConnection) -> None:
        """Check a connection's Redis."""
        self._connection = connection

    async def check(self) -> dict[str, Any]:
        """Return {"redis": "ok"}.

        Raises:
            StorageUnavailableError: Redis does not answer, or has not answered a probe since it last failed.
        """
        if self._connection.is_away:
            raise StorageUnavailableError("Redis does not answer")
        await self._connection.server_info()
        return {"redis": "ok"}


RATE = Script("rate")
MICRO = 1e6


class RedisRateLimits:
    """A RateLimits for many replicas. While Redis is away each counts for itself, so together they let more through."""

    def __init__(self, connection: RedisConnection, fallback: MemoryRateLimits) -> None:
        """Count in Redis.

        Args:
            connection: the way to it.
            fallback: counts while Redis is away.
        """
        self._connection = connection
        self._fallback = fallback

    async def hit(self, key_id: str, rate: Rate) -> float:
        """Count one call of a key; return 0, or in how many seconds the key may call again if it calls too early."""
        try:
            (wait,) = await self._connection.run(
                RATE, [f"bots:{{{key_id}}}:rate"], max(1, round(MICRO / rate.per_second)), rate.burst
            )
        except RedisAwayError:
            return await self._fallback.hit(key_id, rate)
        return int(wait) / MICRO
