"""The keys that a process knows: read again and again in the background, so that a request waits for none of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from bots_service.ports.keys import KeyRow, Keys
from bots_service.usecases.background import ended

log = structlog.get_logger(__name__)

REFRESH_S = 2.0  # a key revoked elsewhere is refused here within 5 s: twice this, and a slow answer
LOOK_AGAIN_S = 1.0  # so that keys made up by a stranger bring one query a second and process, no more


class KnownKeys:
    """All keys in use, by id. While SQL is away the last known ones go on."""

    def __init__(self, keys: Keys, *, every_s: float = REFRESH_S, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet.

        Args:
            keys: where they are kept.
            every_s: time between two looks.
            clock: seconds that never go backwards.
        """
        self._keys = keys
        self._every_s = every_s
        self._clock = clock
        self._rows: dict[str, KeyRow] = {}
        self._changing = asyncio.Lock()
        self._looked_at = -LOOK_AGAIN_S
        self._is_away = False
        self.exist = True
        """Whether there ever was a key. True until SQL says otherwise, and from the first key on for ever."""

    def get(self, key_id: str) -> KeyRow | None:
        """Return the key of this id, None if none is known."""
        return self._rows.get(key_id)

    async def load(self) -> None:
        """Read all keys.

        Raises:
            StorageUnavailableError: the last known ones stay.
        """
        async with self._changing:  # or an answer from before a revocation could come after it
            found = await self._keys.in_use()
            self._rows = {row.id: row for row in found.rows}
            self.exist = found.exist

    async def look_again(self) -> None:
        """Read all keys, unless that was begun within the last second: then wait for its end at most."""
        if self._clock() - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = self._clock()
            await self._refresh()
        else:
            async with self._changing:
                pass

    async def learn(self, row: KeyRow) -> None:
        """Know a key that was just made."""
        async with self._changing:
            self._rows[row.id] = row
            self.exist = True

    async def forget(self, key_id: str) -> None:
        """Forget a key that was just revoked."""
        async with self._changing:
            self._rows.pop(key_id, None)

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Read all keys now, and again every few seconds until the block ends.

        Raises:
            StorageUnavailableError: they can't be read now, so it is not known whether keys guard the service.
        """
        await self.load()
        refreshing = asyncio.create_task(self._keep_fresh())
        try:
            yield
        finally:
            await ended([refreshing])

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self.load()
        except Exception as error:  # whatever it is: if this ended, a key revoked elsewhere would stay good for ever
            if not self._is_away:
                log.warning("keys_not_refreshed", reason=str(error))
            self._is_away = True
        else:
            self._is_away = False
