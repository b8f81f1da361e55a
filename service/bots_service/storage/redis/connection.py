"""The connection to Redis: scripts in one round trip, repeatable, with deadlines, and unused while Redis is away."""

import asyncio
import hashlib
from contextvars import Context
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from bots_service.errors import StorageUnavailableError
from bots_service.retention import PROBES_S
from bots_service.storage.redis.client import CONNECTIONS, client_of, refusal

log = structlog.get_logger(__name__)

MAX_BATCH = 32  # scripts sent together; with more, the first would wait long for the last

Argument = bytes | str | int
Failure = (TimeoutError, OSError, RedisError)


class Script:
    """A Lua script, after the functions that all scripts share."""

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
    """Sends scripts in batches. A script may run even if its caller was cancelled."""

    def __init__(self, client: Redis, *, timeout_s: float) -> None:
        """Create it; nothing is sent yet.

        Args:
            client: sends the scripts; it must not retry, or a write could count twice.
            timeout_s: longest wait for an answer or a connection.
        """
        self._client = client
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._waiting: list[_Call] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def outcome(self, script: Script, keys: list[str], arguments: tuple[Argument, ...] = ()) -> Any:
        """Return the script's answer, or its error; not raised here, because several callers may share it."""
        loop = asyncio.get_running_loop()
        call = _Call(script, (len(keys), *keys, *arguments), loop.create_future())
        if not self._waiting:
            # Without the first caller's context: its log lines are about all callers.
            loop.call_soon(self._send, context=Context())
        self._waiting.append(call)
        return await call.outcome

    async def close(self) -> None:
        """Wait until nothing is being sent, at most as long as an answer may take."""
        while self._sending:
            await asyncio.wait(self._sending)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), MAX_BATCH):
            task = asyncio.create_task(self._settle(waiting[first : first + MAX_BATCH]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _settle(self, calls: list[_Call]) -> None:
        """Set the outcome of each call."""
        outcomes: list[Any] = [ConnectionError("the service is stopping")] * len(calls)
        try:
            outcomes = await self._outcomes(calls)
        except Exception as error:
            outcomes = [error] * len(calls)
        finally:
            for call, outcome in zip(calls, outcomes, strict=True):
                if not call.outcome.done():  # it is done if its caller was cancelled
                    call.outcome.set_result(outcome)

    async def _outcomes(self, calls: list[_Call]) -> list[Any]:
        async with asyncio.timeout(self._timeout_s), self._slots:
            try:
                outcomes = await self._answers([("EVALSHA", call.script.digest, *call.rest) for call in calls])
                unknown = [place for place, found in enumerate(outcomes) if isinstance(found, NoScriptError)]
                if unknown:  # the server does not have these scripts yet
                    sources = [("EVAL", calls[place].script.source, *calls[place].rest) for place in unknown]
                    for place, answer in zip(unknown, await self._answers(sources), strict=True):
                        outcomes[place] = answer
            except RuntimeError as error:  # raised by uvloop if the server stops while connecting
                raise ConnectionError(str(error)) from error
        return outcomes

    async def _answers(self, commands: list[tuple[Argument, ...]]) -> list[Any]:
        """Return the answers; for a refused command, the server's error."""
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


PROBE_S = 0.25
MIN_VERSION = (6, 2)  # ZMSCORE


class RedisAwayError(Exception):
    """Redis did not answer, or refused; the script may have run."""


PROBE = Script("probe")
PROBE_KEY = "bots:probe"


class RedisConnection:
    """One process's connection to Redis.

    Every script is idempotent, so that it is run again after a lost answer. If that fails too, Redis counts as away:
    nothing is sent until a probe that writes a key succeeds. So a hanging Redis costs one timeout, not one per request.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Create it; nothing is sent yet.

        Args:
            url: redis:// or rediss://.
            timeout_s: longest wait for one answer.

        Raises:
            StorageUnavailableError: the URL is not a Redis URL.
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
        """Check that Redis is usable; if it does not answer, it counts as away and is probed.

        Raises:
            StorageUnavailableError: Redis refuses this user or a command, is too old, or the URL is invalid.
        """
        try:
            info = await self.server_info()
        except StorageUnavailableError as error:
            cause = error.__cause__
            if not isinstance(cause, Failure) or refusal(cause) is not None:
                raise
            self._mark_away(cause)
            return
        version = info["redis_version"]
        if tuple(map(int, version.split(".")[:2])) < MIN_VERSION:
            raise StorageUnavailableError(f"the Redis in BOTS_REDIS_URL is version {version}; at least 6.2 is needed")

    async def server_info(self) -> dict[str, str]:
        """Return Redis's INFO, after a test write.

        Raises:
            StorageUnavailableError: it does not answer, refuses this user or a command, or the URL is invalid.
        """
        try:
            text: bytes = await self._once(PROBE, [PROBE_KEY], (int(PROBES_S),))
        except (TypeError, ValueError) as error:
            raise StorageUnavailableError("BOTS_REDIS_URL has an unknown option") from error
        except Failure as error:
            raise StorageUnavailableError(refusal(error) or f"the Redis of BOTS_REDIS_URL: {_reason(error)}") from error
        lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
        return {name: value for name, separator, value in lines if separator}

    async def run(self, script: Script, keys: list[str], *arguments: Argument) -> list[Any]:
        """Return a script's answer; run it again if the first answer is lost.

        Raises:
            RedisAwayError: Redis is away.
        """
        if self.is_away:
            raise RedisAwayError
        outcome = await self._pipeline.outcome(script, keys, arguments)
        if isinstance(outcome, Failure) and not isinstance(outcome, ResponseError) and not self.is_away:
            # Pooled connections broke for the same reason. A refusal would only repeat.
            await self._client.connection_pool.disconnect(inuse_connections=False)
            outcome = await self._pipeline.outcome(script, keys, arguments)
        if isinstance(outcome, Failure):
            self._mark_away(outcome)
            raise RedisAwayError from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        reply: list[Any] = outcome
        return reply

    def run_when_back(self, script: Script, keys: list[str], *arguments: Argument) -> None:
        """Run a script as soon as Redis is back, before any other; a later one for the same first key replaces it."""
        self._deferred[script.name, keys[0]] = script, keys, arguments

    def deferred(self, script: Script, keys: list[str]) -> tuple[Argument, ...]:
        """Return the arguments with which a script will run when Redis is back."""
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
        """Return the script's answer, without a second attempt.

        Raises:
            Exception: any failure.
        """
        outcome = await self._pipeline.outcome(script, keys, arguments)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _mark_away(self, error: BaseException) -> None:
        """Mark Redis as away, and start probing it."""
        if not self.is_away:
            self.outages += 1
            log.warning("redis_away", reason=_reason(error))
            # Without the context of the failed request: the probe's log lines are not about that request.
            self._probing = asyncio.create_task(self._probe_until_back(), context=Context())

    async def _probe_until_back(self) -> None:
        """Wait until Redis accepts a write again."""
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                await self._once(PROBE, [PROBE_KEY], (int(PROBES_S),))
                await self._run_deferred()
            except Failure as error:
                log.debug("redis_still_away", reason=_reason(error))
            else:
                break
        self._probing = None  # no await since the deferred scripts were found empty
        log.warning("redis_back")

    async def _run_deferred(self) -> None:
        """Run the deferred scripts."""
        while self._deferred:
            # Removed before it runs: if it is deferred again meanwhile, it must run again.
            place, deferred = self._deferred.popitem()
            try:
                await self._once(*deferred)
            except BaseException:
                self._deferred.setdefault(place, deferred)
                raise


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
