"""API keys in SQL; of each, only what can tell a right one from a wrong one."""

import time

from sqlalchemy import Connection, exists, insert, select, update

from bots_service.errors import LimitReachedError, UnauthenticatedError, UnknownApiKeyError
from bots_service.keys import KeyRow
from bots_service.records import IdempotencyKey
from bots_service.storage.sql.answers import keeping_result
from bots_service.storage.sql.store import Store, reading
from bots_service.storage.sql.tables import api_keys

MOST_KEYS = 1000  # in use: each process holds them all, and reads them all again every 2 s


class SqlKeys(Store):
    """API keys."""

    @reading
    def in_use(self, connection: Connection) -> list[KeyRow] | None:
        """Return all keys that were not revoked; None if there never was a key, revoked or not."""
        rows = _in_use(connection)
        return rows if rows or _any_exists(connection) else None

    @reading
    def after(self, connection: Connection, key_id: str, limit: int) -> list[KeyRow]:
        """Return up to `limit` keys by id, revoked ones too, beginning behind `key_id` ("" for the first)."""
        page = select(api_keys).where(api_keys.c.id > key_id).order_by(api_keys.c.id).limit(limit)
        return [KeyRow(**row) for row in connection.execute(page).mappings()]

    async def add(self, row: KeyRow, *, first: bool, idempotency_key: IdempotencyKey | None = None) -> KeyRow:
        """Add a key, in one transaction with what it depends on."""

        def job(connection: Connection) -> KeyRow:
            if first and _any_exists(connection):
                raise UnauthenticatedError("this service requires an API key now; send Authorization: Bearer KEY")
            if len(_in_use(connection)) >= MOST_KEYS:
                raise LimitReachedError(f"{MOST_KEYS} keys exist, which is the maximum; revoke some")
            connection.execute(insert(api_keys), {name: getattr(row, name) for name in KeyRow.__slots__})
            return row

        return await self.database.write(keeping_result(job, idempotency_key))

    async def revoke(self, key_id: str, idempotency_key: IdempotencyKey | None = None) -> None:
        """Revoke a key; one that is revoked already stays so."""
        this = api_keys.c.id == key_id

        def job(connection: Connection) -> None:
            if connection.scalar(select(api_keys.c.id).where(this)) is None:
                raise UnknownApiKeyError(f"no key {key_id!r}")
            connection.execute(
                update(api_keys).where(this, api_keys.c.revoked_at.is_(None)), {"revoked_at": time.time()}
            )

        await self.database.write(keeping_result(job, idempotency_key))


def _in_use(connection: Connection) -> list[KeyRow]:
    rows = connection.execute(select(api_keys).where(api_keys.c.revoked_at.is_(None)))
    return [KeyRow(**row) for row in rows.mappings()]


def _any_exists(connection: Connection) -> bool:
    return bool(connection.scalar(select(exists(select(api_keys.c.id)))))
