"""What `bots doctor` checks: whether the service would start, and what no error tells until something is lost."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from sqlalchemy import URL, Connection, text

from bots_service.errors import BotsError, OutdatedTablesError, StorageUnavailableError
from bots_service.serving.server import is_loopback, require_guarded
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.redis import RedisServer
from bots_service.storage.sql.database import connected, is_missing, is_pooled, sql_url
from bots_service.storage.sql.migrate import MIGRATE_DIRECTLY, require_new_enough, revision_of

# A warning: it works, but worse, or not for long. A problem: it does not start, or can't keep what it promises.
Grade = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, in a line that never holds a password.

    about: what was checked, in a word or two.
    advice: what to do about it; empty where there is nothing to do, or `said` tells it.
    """

    about: str
    grade: Grade
    said: str
    advice: str = ""


def judge(about: str, said: str, advice: str = "", *, problem: bool = False, warning: bool = False) -> Finding:
    """Return a finding: a problem or a warning with its advice where that holds, otherwise ok."""
    grade: Grade = "problem" if problem else "warning" if warning else "ok"
    return Finding(about, grade, said, "" if grade == "ok" else advice)


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what is found, one thing after the other. The database, the files and the leases stay as they are."""
    yield from (judge("variables", line, warning=True) for line in unknown_variables(os.environ))
    url = sql_url(settings.sql_url)
    yield _address(settings)
    if url.get_backend_name() == "sqlite":
        yield _disk(Path(url.database or "").absolute())
    yield from _database(settings, url)
    if settings.redis_url is not None:
        yield from redis(settings.redis_url, timeout_s=settings.redis_timeout_s)


def _address(settings: Settings) -> Finding:
    try:
        require_guarded(settings)
    except BotsError as error:
        return judge("address", _line(error), problem=True)
    return judge("address", f"listens on {settings.host}:{settings.port}")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


# --- databases -------------------------------------------------------------------------------------------------------

GIB = 2**30
LEAST_FREE, LITTLE_FREE = 100 * 2**20, GIB  # bytes; a journal grows by some kilobytes a step


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(next(each for each in path.parents if each.is_dir())).free
    said, advice = f"{free / GIB:.1f} GiB free at {path.parent}", "free some space: with a full disk every report fails"
    return judge("disk", said, advice, problem=free < LEAST_FREE, warning=free < LITTLE_FREE)


def _database(settings: Settings, url: URL) -> Iterator[Finding]:
    """Yield what is found in the database itself; in a SQLite file only if it is there, as looking would make it."""
    try:
        if is_missing(url):
            yield tables(None, migrates=settings.migrate_on_start)
            return
        with connected(settings.sql_url) as connection:
            through_pooler = is_pooled(connection)
            if url.get_backend_name() == "postgresql":
                host = url.query.get("host") or f"{url.host}:{url.port or 5432}"
                where = f"{host if isinstance(host, str) else ','.join(host)}/{url.database}"
                yield from _postgres(connection, where, settings.database_pool, through_pooler)
            directly = MIGRATE_DIRECTLY if through_pooler else ""
            yield tables(revision_of(connection), migrates=settings.migrate_on_start and not directly, advice=directly)
    except StorageUnavailableError as error:
        yield judge("database", _line(error), problem=True)


POSTGRES_VERSION = 140_000  # older ones get no security fixes any more
_POSTGRES_FACTS = text("""
    SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_shown,
           current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('transaction_read_only') AS read_only,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               AS connections,
           (SELECT count(*) FROM pg_stat_replication) > 0 AND (
               current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') = 'local'
           ) AS may_lose
""")


def _postgres(connection: Connection, where: str, needed: int, through_pooler: bool) -> Iterator[Finding]:
    facts = dict(connection.execute(_POSTGRES_FACTS).mappings().one())
    said, is_old = f"PostgreSQL {facts['version_shown']} at {where}", facts["version"] < POSTGRES_VERSION
    yield judge("database", said, "use PostgreSQL 14 or later", problem=is_old)
    yield from judge_postgres(facts)
    if through_pooler:
        yield judge("connections", f"through a pooler, which limits them: at most {needed} per machine")
    else:
        yield judge_connections(facts["connections"], needed)


def judge_postgres(facts: dict[str, Any]) -> Iterator[Finding]:
    """Judge whether PostgreSQL, by what it says of itself, keeps what is acknowledged."""
    is_primary, advice = facts["read_only"] == "off", "name the primary, or all servers and "
    advice += "target_session_attrs=read-write; or set default_transaction_read_only = off"
    yield judge("database role", "primary" if is_primary else "read-only", advice, problem=not is_primary)
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if facts[name] == "off"]
    said = f"{' and '.join(off)} off: acknowledged reports may be lost if its machine crashes"
    advice = f"set {' and '.join(f'{name} = on' for name in off)}"
    fit = f"fsync on, synchronous_commit {facts['synchronous_commit']}"
    yield judge("durability", said if off else fit, advice, problem=bool(off))
    if facts["may_lose"]:
        advice = "set synchronous_standby_names, and synchronous_commit = on"
        yield judge("standbys", "one that takes over may miss acknowledged reports", advice, warning=True)


def judge_connections(count: int, needed: int) -> Finding:
    """Judge whether there are connections enough for the service. needed: for one machine."""
    machines = count // needed
    said = f"{count} connections, {needed} needed per machine with these settings: enough for {machines}"
    advice = f"raise max_connections to {2 * needed + 10} or more, so that a second machine gets some, too"
    return judge("connections", said, advice, problem=machines < 1, warning=machines < 2)


def tables(revision: str | None, *, migrates: bool, advice: str = "") -> Finding:
    """Judge whether the tables are those that this version works with, or will be once the service `migrates` them."""
    try:
        require_new_enough(revision)
    except OutdatedTablesError as error:
        if migrates:
            return judge("tables", f"at revision {revision or 'none'}; the service migrates them when it starts")
        return judge("tables", str(error), advice, problem=True)
    return judge("tables", f"at revision {revision}")


# --- Redis -----------------------------------------------------------------------------------------------------------


def redis(url: str, *, timeout_s: float) -> Iterator[Finding]:
    """Yield what is found at the Redis that BOTS_REDIS_URL names. timeout_s: longest wait for its answer."""
    try:
        info, parts = asyncio.run(_info(url, timeout_s)), urlsplit(url)
    except StorageUnavailableError as error:
        yield judge("redis", _line(error), "start it, or correct BOTS_REDIS_URL", problem=True)
        return
    yield judge("redis", f"Redis {info['redis_version']} at {parts.netloc.rpartition('@')[2]}")
    if parts.scheme == "redis" and parts.password and not is_loopback(parts.hostname or "localhost"):
        yield judge("redis url", "the password is sent unencrypted", "use rediss:// if Redis has TLS", warning=True)
    policy = info.get("maxmemory_policy", "unknown")
    evicts = policy != "noeviction"
    said = policy + (": it may evict keys that the service needs, if its memory has a limit" if evicts else "")
    advice = "set maxmemory-policy noeviction"
    yield judge("redis eviction", said, advice, problem=evicts and info.get("maxmemory") != "0", warning=evicts)
    has_log = info.get("aof_enabled") == "1"
    said = "append-only file" if has_log else "no append-only file: if Redis restarts, leases and selections are lost"
    advice = "set appendonly yes; reports are safe in SQL in any case"
    yield judge("redis persistence", said, advice, warning=not has_log)


async def _info(url: str, timeout_s: float) -> dict[str, str]:
    server = RedisServer(url, timeout_s=timeout_s)
    try:
        return await server.info()
    finally:
        await server.close()
