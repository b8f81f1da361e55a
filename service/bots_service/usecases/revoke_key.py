"""DELETE a key: it opens nothing any more."""

import asyncio
from dataclasses import dataclass

from bots_service.ports.keys import Keys
from bots_service.ports.records import KeptAnswer
from bots_service.usecases.known_keys import KnownKeys


@dataclass(frozen=True, slots=True)
class RevokeKey:
    """Revoke a key: here at once, elsewhere within seconds."""

    keys: Keys
    known: KnownKeys

    async def __call__(self, key_id: str, keep: KeptAnswer[None] | None) -> None:
        """Revoke the key; one that is revoked already stays so.

        Raises:
            UnknownApiKeyError: there never was one of this id.
        """
        await asyncio.shield(self._revoke(key_id, keep))

    async def _revoke(self, key_id: str, keep: KeptAnswer[None] | None) -> None:
        await self.keys.revoke(key_id, keep)
        await self.known.forget(key_id)
