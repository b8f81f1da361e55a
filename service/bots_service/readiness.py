"""GET /readyz: whether this process should be sent requests. Looked up beforehand, so that no probe waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import structlog

from bots_service.background import repeating
from bots_service.errors import OutdatedTablesError, StorageUnavailableError

log = structlog.get_logger(__name__)

Status = Literal["ready", "degraded", "starting", "draining", "outdated", "unavailable"]

EVERY_S = 0.5
GIVE_UP_S = 1.0  # with EVERY_S, so that no answer is older than 2 s, whatever hangs
OK, OUTDATED = "ok", "outdated"


Check = Callable[[], Awaitable[None]]  # raises StorageUnavailableError, or OutdatedTablesError where tables are too old


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether requests should be sent here.

    status: whether the parts that are needed work.
    checks: what each part said last, "ok" or what is wrong.
    """

    status: Status
    checks: dict[str, str]

    @property
    def is_ready(self) -> bool:
        return self.status in ("ready", "degraded")


class Readiness:
    """Checks each part twice a second, and keeps the last result.

    While one part answers, this process is ready, if degraded. Without SQL, Redis serves selects; where SQL can only be
    read, selects come from it; without Redis, SQL serves everything. All replicas share the parts: if those whose
    database is away left the load balancer, all would leave, with the selects that they can still answer.
    """

    def __init__(self, parts: Mapping[str, Check]) -> None:
        self._parts = parts
        self._seen: dict[str, str] = {}
        self._draining = False

    def __call__(self) -> Ready:
        checks = {part: self._seen[part] for part in self._parts if part in self._seen}
        return Ready(self._status(checks), checks)

    def _status(self, checks: dict[str, str]) -> Status:
        if self._draining:
            return "draining"
        if len(checks) < len(self._parts):
            return "starting"
        if any(said.startswith(OUTDATED) for said in checks.values()):
            return "outdated"
        if all(said == OK for said in checks.values()):
            return "ready"
        return "degraded" if OK in checks.values() else "unavailable"

    def drain(self) -> None:
        self._draining = True

    @asynccontextmanager
    async def in_background(self) -> AsyncIterator[None]:
        """Look at all parts once, then again and again in the background."""
        await self._look()
        async with repeating(self._look, every_s=EVERY_S, failure_event="dependency_not_checked"):
            yield

    async def _look(self) -> None:
        await asyncio.gather(*(self._see(name, part) for name, part in self._parts.items()))

    async def _see(self, name: str, check: Check) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                await check()
            said = OK
        except OutdatedTablesError as error:
            said = f"{OUTDATED}: {error}"
        except StorageUnavailableError as error:
            said = f"down: {error}"
        except TimeoutError:
            said = f"down: no answer in {GIVE_UP_S:g} s"
        except Exception as error:  # if this task ended, the last answer would stand
            said = f"down: {error!r}"
        if said != self._seen.get(name, OK):
            log.warning("dependency", part=name, said=said)
        self._seen[name] = said
