"""API keys in SQL; of each, only what can tell a right one from a wrong one."""

import time

from sqlalchemy import Connection, bindparam, exists, func, insert, select, update

from bots_service.errors import LimitReachedError, UnauthenticatedError, UnknownApiKeyError
from bots_service.keys import KeyRow, KeysInUse, Scope
from bots_service.records import IdempotencyKey
from bots_service.storage.sql.answers import keeping_result
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.tables import api_keys

MOST_KEYS = 1000  # in use: each process holds them all, and reads them all again every 2 s

_IN_USE = select(api_keys).where(api_keys.c.revoked_at.is_(None))
_COUNT = select(func.count()).select_from(api_keys).where(api_keys.c.revoked_at.is_(None))
_EXIST = select(exists(select(api_keys.c.id)))
_AFTER = select(api_keys).where(api_keys.c.id > bindparam("after")).order_by(api_keys.c.id).limit(bindparam("most"))
_FIND = select(api_keys.c.id).where(api_keys.c.id == bindparam("key_id"))
_REVOKE = (
    update(api_keys)
    .where(api_keys.c.id == bindparam("key_id"), api_keys.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("now"))
)


class SqlKeys:
    """API keys."""

    def __init__(self, database: Database) -> None:
        """Keep keys in a database."""
        self._database = database

    async def in_use(self) -> KeysInUse:
        """Return all keys that were not revoked."""

        def job(connection: Connection) -> KeysInUse:
            rows = tuple(map(_key_of, connection.execute(_IN_USE)))
            return KeysInUse(bool(rows) or _any_exists(connection), rows)

        return await self._database.read(job)

    async def after(self, key_id: str, limit: int) -> list[KeyRow]:
        """Return up to `limit` keys by id, revoked ones too, beginning behind `key_id` ("" for the first)."""
        values = {"after": key_id, "most": limit}
        return await self._database.read(lambda connection: list(map(_key_of, connection.execute(_AFTER, values))))

    async def add(self, row: KeyRow, *, first: bool, idempotency_key: IdempotencyKey | None = None) -> KeyRow:
        """Add a key, in one transaction with what it depends on."""

        def job(connection: Connection) -> KeyRow:
            if first and _any_exists(connection):
                raise UnauthenticatedError("this service requires an API key now; send Authorization: Bearer KEY")
            if connection.execute(_COUNT).scalar_one() >= MOST_KEYS:
                raise LimitReachedError(f"{MOST_KEYS} keys exist, which is the maximum; revoke some")
            connection.execute(insert(api_keys), _columns_of(row))
            return row

        return await self._database.write(keeping_result(job, idempotency_key))

    async def revoke(self, key_id: str, idempotency_key: IdempotencyKey | None = None) -> None:
        """Revoke a key; one that is revoked already stays so."""

        def job(connection: Connection) -> None:
            if connection.execute(_FIND, {"key_id": key_id}).one_or_none() is None:
                raise UnknownApiKeyError(f"no key {key_id!r}")
            connection.execute(_REVOKE, {"key_id": key_id, "now": time.time()})

        await self._database.write(keeping_result(job, idempotency_key))


def _any_exists(connection: Connection) -> bool:
    return bool(connection.execute(_EXIST).scalar_one())


# Neither a scope nor a pattern holds a blank.


def _columns_of(row: KeyRow) -> dict[str, str | float | None]:
    return {
        "id": row.id,
        "name": row.name,
        "digest": row.digest.hex(),
        "scopes": " ".join(sorted(row.scopes)),
        "datasets": " ".join(row.datasets),
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
    }


def _key_of(row: SqlRow) -> KeyRow:
    return KeyRow(
        id=row.id,
        name=row.name,
        digest=bytes.fromhex(row.digest),
        scopes=frozenset(map(Scope, row.scopes.split())),
        datasets=tuple(row.datasets.split()),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
