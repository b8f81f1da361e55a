"""What a service keeps in SQL and Redis, as text: read from the servers, and written to others.

Rows have one form for SQLite and PostgreSQL. Tables are made by the statements of the released version.
"""

import base64
import json
import time
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

import redis
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, NullPool, create_engine, select

from bots_service.storage.sql.migrate import VERSION_TABLE, revisions_folder
from bots_service.storage.sql.url import sql_url

PRODUCTS = ("postgresql", "sqlite")
BYTES = "base64"
SERVER = "the server's run_id"  # stands for it: a Redis trusts only what it wrote itself
ENDLESS_MS = -1  # what Redis tells of a key that doesn't expire


def table_statements(product: str) -> str:
    """Return the statements that make the newest tables in an empty database."""
    text = StringIO()
    context = MigrationContext.configure(dialect_name=product, opts={"as_sql": True, "output_buffer": text})
    with Operations.context(context):
        for revision in reversed(list(_revisions().walk_revisions())):
            revision.module.upgrade()
    return text.getvalue()


def rows_of(url: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table; those that others refer to come first."""
    with _connected(url) as connection:
        found = {table.name: connection.execute(select(table)) for table in _tables(connection)}
        return {name: [_texts(row) for row in rows.mappings()] for name, rows in found.items()}


def restore_database(url: str, folder: Path) -> None:
    """Fill an empty database as the released version left it; stored answers are from now, as they don't stay long."""
    rows = json.loads((folder / "rows.json").read_text("utf-8"))
    for answer in rows["answers"]:
        answer["created_at"] = time.time()
    with _connected(url) as connection:
        product = connection.dialect.name
        for statement in (folder / f"tables.{product}.sql").read_text("utf-8").split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        (revision,) = rows.pop(VERSION_TABLE)
        MigrationContext.configure(connection).stamp(_revisions(), revision["version_num"])
        for table in _tables(connection):
            if rows.get(table.name):
                connection.execute(table.insert(), [_values(row) for row in rows[table.name]])
            if product == "postgresql" and table.name in ("datasets", "runs"):
                numbered = f"SELECT setval('{table.name}_id_seq', (SELECT max(id) FROM {table.name}))"  # noqa: S608 - two names
                connection.exec_driver_sql(numbered)
        connection.commit()


def keys_of(server: redis.Redis, uids: Iterable[str]) -> dict[str, Any]:
    """Return what Redis holds of the runs with these uids, and the time by its clock, in ms."""
    names = sorted(name.decode() for uid in uids for name in server.scan_iter(f"bots:{{{uid}}}:*"))
    kept = [{"name": name, **_content(server, name), "ttl_ms": server.pttl(name)} for name in names]
    return {"time_ms": _time_ms(server), "keys": kept}


def _content(server, name):
    kind = server.type(name).decode()
    if kind == "hash":
        fields = {field.decode(): value for field, value in sorted(server.hgetall(name).items())}
        own = _run_id(server).encode()
        return {
            "kind": kind,
            "value": {field: SERVER if told == own else _text(told) for field, told in fields.items()},
        }
    if kind == "zset":
        members = server.zrange(name, 0, -1, withscores=True)
        return {"kind": kind, "value": {member.decode(): score for member, score in members}}
    return {"kind": kind, "value": _text(server.get(name))}


def restore_redis(server: redis.Redis, folder: Path) -> None:
    """Fill Redis as the released version left it a moment ago: what was to end later ends as much later."""
    told = json.loads((folder / "redis.json").read_text("utf-8"))
    later = _time_ms(server) - told["time_ms"]
    for key in told["keys"]:
        name, value = key["name"], key["value"]
        server.delete(name)
        if key["kind"] == "hash":
            own = _run_id(server)
            server.hset(name, mapping={field: own if told == SERVER else _bytes(told) for field, told in value.items()})
        elif key["kind"] == "zset":
            server.zadd(name, {member: score + later for member, score in value.items()})
        else:
            server.set(name, _bytes(value))
        if key["ttl_ms"] != ENDLESS_MS:
            server.pexpire(name, key["ttl_ms"])


def _revisions() -> ScriptDirectory:
    return ScriptDirectory(str(revisions_folder()))


def _connected(url: str) -> Connection:
    return create_engine(sql_url(url), poolclass=NullPool).connect()


def _tables(connection: Connection) -> list[Any]:
    found = MetaData()
    found.reflect(connection)
    return found.sorted_tables


def _texts(row: Any) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, bytes | memoryview) else value for name, value in row.items()}


def _values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _bytes(value) if isinstance(value, dict) else value for name, value in row.items()}


def _text(value: Any) -> dict[str, str]:
    return {BYTES: base64.b64encode(bytes(value)).decode()}


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value[BYTES])


def _run_id(server: redis.Redis) -> str:
    return server.info("server")["run_id"]


def _time_ms(server: redis.Redis) -> int:
    seconds, microseconds = server.time()
    return seconds * 1000 + microseconds // 1000
