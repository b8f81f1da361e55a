"""Scripts on their way to Redis: those that come in one turn of the event loop share a connection and a round trip."""

import asyncio
import hashlib
from contextvars import Context
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from bots_service.storage.redis_client import CONNECTIONS

MOST_TOGETHER = 32  # more would make the first wait long for the last

Argument = bytes | str | int
Failure = (TimeoutError, OSError, RedisError, RedisClusterException)


class Script:
    """A Lua script, with what all of them share in front."""

    def __init__(self, name: str) -> None:
        """Read the script of that name from the package."""
        folder = files("bots_service.storage") / "redis_scripts"
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
            client: whom to send them to; it must not retry by itself.
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
