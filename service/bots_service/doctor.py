"""What `bots doctor` checks: whether what the settings name is there, and fit to keep what the service promises."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import URL, text

from bots_service.errors import StorageUnavailableError
from bots_service.serving.starting import is_guarded, is_loopback
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.redis import MIN_VERSION, RedisServer
from bots_service.storage.sql.database import connected, is_missing, is_pooled, sql_url
from bots_service.storage.sql.migrate import MIGRATE_DIRECTLY, head, is_new_enough, revision_of

GIB = 2**30


class Grade(StrEnum):
    """How a thing was found."""

    OK = "ok"
    WARNING = "warning"
    """The service works, but worse, or not for long."""
    PROBLEM = "problem"
    """The service does not start, or can't keep what it promises."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, in a line that never holds a password.

    about: what was checked, in a word or two.
    advice: what to do about it; empty where there is nothing to do.
    """

    about: str
    grade: Grade
    said: str
    advice: str = ""


def judge(about: str, said: str, advice: str = "", *, problem: bool = False, warning: bool = False) -> Finding:
    """Return a finding: a problem or a warning with its advice where that holds, otherwise ok."""
    grade = Grade.PROBLEM if problem else Grade.WARNING if warning else Grade.OK
    return Finding(about, grade, said, "" if grade is Grade.OK else advice)


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what is found, one thing after the other. The database, the files and the leases stay as they are."""
    unknown = unknown_variables(os.environ)
    yield from (judge("variables", line, warning=True) for line in unknown)
    if not unknown:
        yield judge("variables", "each BOTS_... has an effect")
    url = sql_url(settings.sql_url)
    is_postgres = url.get_backend_name() == "postgresql"
    yield stores(settings, is_postgres=is_postgres)
    found = [*([] if is_postgres else _sqlite(url)), *_database(settings, url)]
    yield from found
    answers = not any(each.about in ("database", "tables") and each.grade is Grade.PROBLEM for each in found)
    yield _address(settings, database_answers=answers)
    if settings.redis_url is not None:
        yield from redis(settings.redis_url, timeout_s=settings.redis_timeout_s)


# --- the settings -----------------------------------------------------------------------------------


def stores(settings: Settings, *, is_postgres: bool) -> Finding:
    """Judge whether the stores can serve as many processes as are asked for."""
    named = {"BOTS_DATABASE_URL=postgresql://...": is_postgres, "BOTS_REDIS_URL=redis://...": bool(settings.redis_url)}
    missing = " and ".join(name for name, is_named in named.items() if not is_named)
    if settings.workers > 1 and missing:
        said = f"{settings.workers} processes need PostgreSQL and Redis"
        return judge("stores", said, f"set {missing}, or BOTS_WORKERS=1", problem=True)
    if settings.redis_url and not is_postgres:
        said = "Redis has no effect with SQLite: nothing is shared"
        return judge("stores", said, f"set {missing}, or unset BOTS_REDIS_URL", warning=True)
    if missing:
        said = f"{'PostgreSQL' if is_postgres else 'SQLite'} and this process's memory: one process serves the database"
    else:
        said = f"PostgreSQL and Redis, {settings.workers} processes here; more machines may join"
    return judge("stores", said)


def _address(settings: Settings, *, database_answers: bool) -> Finding:
    said = f"listens on {settings.host}:{settings.port}"
    if is_loopback(settings.host):
        return judge("address", f"{said}: only this machine can reach it")
    if settings.admin_key is not None or (database_answers and is_guarded(settings)):
        return judge("address", f"{said}, and requires keys")
    if settings.insecure:
        said += " without keys, because BOTS_INSECURE is set"
        return judge("address", said, "let only trusted machines reach it, or set BOTS_ADMIN_KEY", warning=True)
    said += ", which other machines can reach, and requires no keys"
    return judge("address", said, "set BOTS_ADMIN_KEY, or BOTS_HOST=127.0.0.1", problem=True)


# --- databases -------------------------------------------------------------------------------------------------------

LEAST_FREE, LITTLE_FREE = 100 * 2**20, GIB  # bytes; a journal grows by some kilobytes a step


def _sqlite(url: URL) -> Iterator[Finding]:
    path = Path(url.database or "").absolute()
    folder = next(each for each in path.parents if each.exists())
    places = [folder, path] if path.exists() else [folder]
    can_write = folder.is_dir() and all(os.access(place, os.W_OK) for place in places)
    said = f"{places[-1]} {'can' if can_write else 'can not'} be written"
    yield judge("database folder", said, "change its owner, or name another BOTS_DATA_DIR", problem=not can_write)
    free = shutil.disk_usage(folder).free
    said, advice = f"{free / GIB:.1f} GiB free at {path.parent}", "free some space: with a full disk every report fails"
    yield judge("disk", said, advice, problem=free < LEAST_FREE, warning=free < LITTLE_FREE)


def _database(settings: Settings, url: URL) -> Iterator[Finding]:
    """Yield what is found in the database itself; in a SQLite file only if it is there, as looking would make it."""
    if is_missing(url):
        yield tables(None, migrate_on_start=settings.migrate_on_start)
        return
    host = url.query.get("host") or f"{url.host}:{url.port or 5432}"
    where = f"{host if isinstance(host, str) else ','.join(host)}/{url.database}" if url.host or url.query else ""
    try:
        with connected(settings.sql_url) as connection:
            through_pooler = is_pooled(connection)
            if url.get_backend_name() == "postgresql":
                facts = connection.execute(_POSTGRES_FACTS).mappings().one()
                said, is_old = f"PostgreSQL {facts['version_shown']} at {where}", facts["version"] < POSTGRES_VERSION
                yield judge("database", said, "use PostgreSQL 14 or later", problem=is_old)
                needed = settings.database_pool * settings.workers
                yield from judge_postgres({**facts, "is_pooled": through_pooler}, needed=needed)
            found = revision_of(connection)
            yield tables(found, migrate_on_start=settings.migrate_on_start, through_pooler=through_pooler)
    except StorageUnavailableError as error:
        said = f"{where} can't be used: {_without_secrets(error, url.password)}".strip()
        advice = "start it, or correct BOTS_DATABASE_URL: check the host, port, user, password and name, or the file"
        yield judge("database", said, advice, problem=True)


POSTGRES_VERSION = 140_000  # older ones get no security fixes any more
_POSTGRES_FACTS = text("""
    SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_shown,
           current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('default_transaction_read_only') AS read_only,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               AS connections,
           pg_is_in_recovery() AS is_standby,
           (SELECT count(*) FROM pg_stat_replication) > 0 AND (
               current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') = 'local'
           ) AS may_lose
""")


def judge_postgres(facts: dict[str, Any], *, needed: int) -> Iterator[Finding]:
    """Judge what PostgreSQL says of itself. needed: connections for one machine."""
    role = "a standby" if facts["is_standby"] else "read-only" if facts["read_only"] == "on" else "primary"
    advice = "name the primary, or all servers and target_session_attrs=read-write"
    if role == "read-only":
        advice = "set default_transaction_read_only = off for the server, the database or the user"
    yield judge("database role", role, advice, problem=role != "primary")
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if facts[name] == "off"]
    said = f"{' and '.join(off)} off: acknowledged reports may be lost if its machine crashes"
    advice = f"set {' and '.join(f'{name} = on' for name in off)}"
    fit = f"fsync on, synchronous_commit {facts['synchronous_commit']}"
    yield judge("durability", said if off else fit, advice, problem=bool(off))
    if facts["may_lose"]:
        advice = "set synchronous_standby_names, and synchronous_commit = on"
        yield judge("standbys", "one that takes over may miss acknowledged reports", advice, warning=True)
    if facts["is_pooled"]:
        yield judge("connections", f"through a pooler, which limits them: at most {needed} per machine")
        return
    machines = facts["connections"] // needed
    said = f"{facts['connections']} connections, {needed} needed per machine with these settings: enough for {machines}"
    advice = f"raise max_connections to {2 * needed + 10} or more, so that a second machine gets some, too"
    yield judge("connections", said, advice, problem=machines < 1, warning=machines < 2)


def tables(revision: str | None, *, migrate_on_start: bool, through_pooler: bool = False) -> Finding:
    """Judge whether the tables are those that this version works with, or will be once the service has started."""
    try:
        is_fit = is_new_enough(revision)
    except StorageUnavailableError as error:
        return judge("tables", str(error), "use a database of this service, or an empty one", problem=True)
    if is_fit:
        is_newest = revision == head()
        said = f"at the newest revision, {revision}" if is_newest else f"at revision {revision}, newer than {head()}"
        return judge("tables", said + ("" if is_newest else ", which this version can use"))
    said = f"at revision {revision}, not {head()}" if revision else "none yet"
    if migrate_on_start and not through_pooler:
        return judge("tables", f"{said}; the service migrates them to {head()} when it starts")
    return judge("tables", said, MIGRATE_DIRECTLY if through_pooler else "run `bots migrate`", problem=True)


# --- Redis -----------------------------------------------------------------------------------------------------------


def redis(url: str, *, timeout_s: float) -> Iterator[Finding]:
    """Yield what is found at the Redis that BOTS_REDIS_URL names. timeout_s: longest wait for its answer."""
    parts = urlsplit(url)
    try:
        info = asyncio.run(_info(url, timeout_s))
    except StorageUnavailableError as error:
        said = _without_secrets(error, parts.password, unquote(parts.password or ""))
        advice = "start it, or correct BOTS_REDIS_URL: check the host, port, user and password; give the user its "
        yield judge("redis", said, advice + "rights: ACL SETUSER NAME ~bots:* +@all -@dangerous +info", problem=True)
    else:
        yield from judge_redis(info, parts.netloc.rpartition("@")[2])
    if parts.scheme == "redis" and parts.password and not is_loopback(parts.hostname or "localhost"):
        yield judge("redis url", "the password is sent unencrypted", "use rediss:// if Redis has TLS", warning=True)


async def _info(url: str, timeout_s: float) -> dict[str, str]:
    server = RedisServer(url, timeout_s=timeout_s)
    try:
        return await server.info()
    finally:
        await server.close()


def judge_redis(info: dict[str, str], where: str) -> Iterator[Finding]:
    """Judge what Redis at this address says of itself. info: what INFO answers, by Redis's own names."""
    version = info["redis_version"]
    is_old = tuple(map(int, version.split(".")[:2])) < MIN_VERSION
    yield judge("redis", f"Redis {version} at {where}", "use Redis 6.2 or later", problem=is_old)
    mode, advice = info.get("redis_mode", "standalone"), "name one Redis that has all keys in BOTS_REDIS_URL"
    yield judge("redis role", mode, advice, problem=mode != "standalone")
    policy = info.get("maxmemory_policy", "unknown")
    evicts = policy != "noeviction"
    said = policy + (": it may evict keys that the service needs, if its memory has a limit" if evicts else "")
    advice = "set maxmemory-policy noeviction"
    yield judge("redis eviction", said, advice, problem=evicts and info.get("maxmemory") != "0", warning=evicts)
    has_log = info.get("aof_enabled") == "1"
    said = "append-only file" if has_log else "no append-only file: if Redis restarts, leases and selections are lost"
    advice = "set appendonly yes; reports are safe in SQL in any case"
    yield judge("redis persistence", said, advice, warning=not has_log)


def _without_secrets(error: Exception, *secrets: str | None) -> str:
    line = " ".join(str(error).split()) or type(error).__name__
    for secret in filter(None, secrets):
        line = line.replace(secret, "***")
    return line
