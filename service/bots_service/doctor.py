"""What `bots doctor` checks: whether what the settings name is there, and fit to keep what the service promises."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import URL

from bots_service.errors import StorageUnavailableError
from bots_service.retention import PROBES_S
from bots_service.serving.starting import is_guarded, is_loopback
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.redis import MIN_VERSION, PROBE_KEY, refusal, require_files, source_of
from bots_service.storage.sql.migrate import MIGRATE_DIRECTLY, current, head, is_new_enough
from bots_service.storage.sql.url import ENCODING, connected, is_pooled, sql_url

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
    try:
        url = sql_url(settings.sql_url)
    except StorageUnavailableError as error:
        advice = "set BOTS_DATABASE_URL to postgresql://USER:PASSWORD@HOST/NAME"
        yield judge("database", str(error), advice, problem=True)
        return
    yield stores(settings, is_postgres=url.get_backend_name() == "postgresql")
    if url.get_backend_name() == "postgresql":
        connections = settings.database_pool * settings.workers
        database = list(postgres(url, timeout_s=settings.database_timeout_s, connections=connections))
    else:
        database = list(sqlite(url))
    yield from database
    answers = not any(each.about == "database" and each.grade is Grade.PROBLEM for each in database)
    if answers:
        yield tables(settings.sql_url, migrate_on_start=settings.migrate_on_start)
    else:
        yield judge("tables", "not checked: the database can't be used", "fix the database first", problem=True)
    yield address(settings, database_answers=answers)
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


def address(settings: Settings, *, database_answers: bool) -> Finding:
    """Judge where the service will listen, and whether those who reach it there need a key."""
    said = f"listens on {settings.host}:{settings.port}"
    if is_loopback(settings.host):
        return judge("address", f"{said}: only this machine can reach it")
    try:
        has_keys = settings.admin_key is not None or (database_answers and is_guarded(settings))
    except StorageUnavailableError:  # the tables are a finding of their own
        has_keys = False
    if has_keys:
        return judge("address", f"{said}, and requires keys")
    if settings.insecure:
        said += " without keys, because BOTS_INSECURE is set"
        return judge("address", said, "let only trusted machines reach it, or set BOTS_ADMIN_KEY", warning=True)
    said += ", which other machines can reach, and requires no keys"
    return judge("address", said, "set BOTS_ADMIN_KEY, or BOTS_HOST=127.0.0.1", problem=True)


LEAST_FREE, LITTLE_FREE = 100 * 2**20, GIB  # bytes; a journal grows by some kilobytes a step


def disk(folder: Path, *, free: int) -> Finding:
    """Judge the room that is left, in bytes."""
    said, advice = f"{free / GIB:.1f} GiB free at {folder}", "free some space: with a full disk every report fails"
    return judge("disk", said, advice, problem=free < LEAST_FREE, warning=free < LITTLE_FREE)


# --- databases -------------------------------------------------------------------------------------------------------

SQLITE_HEADER = b"SQLite format 3\0"


def sqlite(url: URL) -> Iterator[Finding]:
    """Yield what is found at a SQLite file, without opening it as a database: a service may be using it."""
    if not url.database or url.database == ":memory:":
        said = "an in-memory database is lost when the process ends"
        yield judge("database", said, "name a file: BOTS_DATABASE_URL=sqlite:////PATH/bots.db", problem=True)
        return
    path = Path(url.database).absolute()
    folder = next(each for each in path.parents if each.exists())
    can_write = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    said = f"{folder} {'can' if can_write else 'can not'} be written"
    yield judge("database folder", said, "change its owner, or name another BOTS_DATA_DIR", problem=not can_write)
    if path.exists():
        yield sqlite_file(path)
    yield disk(path.parent, free=shutil.disk_usage(folder).free)


def sqlite_file(path: Path) -> Finding:
    """Judge the database's file by its rights and its first bytes."""
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
        said = f"{path} can't be read and written"
        return judge("database file", said, "change its owner or its permissions", problem=True)
    with path.open("rb") as opened:
        is_database = opened.read(len(SQLITE_HEADER)) in (SQLITE_HEADER, b"")  # an empty file becomes a database
    said = f"{path} is {'a' if is_database else 'not a'} SQLite database"
    return judge("database file", said, "name another file, or restore a backup", problem=not is_database)


POSTGRES_VERSION = 140_000  # older ones get no security fixes any more
_POSTGRES_FACTS = """
    SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_shown,
           current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('default_transaction_read_only') AS read_only,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               AS connections,
           pg_is_in_recovery() AS is_standby, pg_backend_pid() <> %s AS is_pooled,
           (SELECT count(*) FROM pg_stat_replication) > 0 AND (
               current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') = 'local'
           ) AS may_lose
"""


def postgres(url: URL, *, timeout_s: float, connections: int) -> Iterator[Finding]:
    """Yield what is found at PostgreSQL. connections: how many the processes of one machine may open."""
    import psycopg

    driver = url.set(drivername="postgresql+psycopg").get_dialect()()
    # libpq waits 2 s at least. Whatever the database's encoding is, it answers in UTF8.
    waits = {"client_encoding": ENCODING, "connect_timeout": max(2, round(timeout_s))}
    arguments = {**driver.create_connect_args(url)[1], **waits}
    hosts = url.query.get("host") or f"{url.host or 'localhost'}:{url.port or 5432}"
    where = f"{hosts if isinstance(hosts, str) else ','.join(hosts)}/{url.database or ''}"
    try:
        with psycopg.connect(**arguments, row_factory=psycopg.rows.dict_row) as connection:
            # Not as an option of the connection: PgBouncer refuses those.
            connection.execute("SELECT set_config('statement_timeout', %s, true)", [f"{timeout_s * 1000:.0f}ms"])
            (facts,) = connection.execute(_POSTGRES_FACTS, [connection.info.backend_pid])
    except psycopg.Error as error:
        said = f"PostgreSQL at {where} can't be used: {without_secrets(error, url.password)}"
        advice = "start it, or correct BOTS_DATABASE_URL: check the host, port, user, password and database name"
        yield judge("database", said, advice, problem=True)
        return
    said = f"PostgreSQL {facts['version_shown']} at {where}"
    yield judge("database", said, "use PostgreSQL 14 or later", problem=facts["version"] < POSTGRES_VERSION)
    yield from judge_postgres(facts, needed=connections)


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


def tables(url: str, *, migrate_on_start: bool) -> Finding:
    """Judge whether the tables are those that this version works with, or will be once the service has started."""
    parsed, through_pooler, found = sql_url(url), False, None
    try:
        # Looking into a SQLite file that isn't there would make it.
        if parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").exists():
            with connected(url) as connection:
                through_pooler = is_pooled(connection)
            found = current(url)
        if found != head() and is_new_enough(found):
            return judge("tables", f"at revision {found}, newer than this version's {head()}, which can use them")
    except StorageUnavailableError as error:
        return judge("tables", str(error), "use a database of this service, or an empty one", problem=True)
    if found == head():
        return judge("tables", f"at the newest revision, {found}")
    said = f"at revision {found}, not {head()}" if found else "none yet"
    if migrate_on_start and not through_pooler:
        return judge("tables", f"{said}; the service migrates them to {head()} when it starts")
    advice = MIGRATE_DIRECTLY if through_pooler else "run `bots migrate`: BOTS_MIGRATE_ON_START is false"
    return judge("tables", said, advice, problem=True)


# --- Redis -----------------------------------------------------------------------------------------------------------


def redis(url: str, *, timeout_s: float) -> Iterator[Finding]:
    """Yield what is found at the Redis that BOTS_REDIS_URL names. timeout_s: longest wait for each answer."""
    from redis import Redis, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or not parts.netloc:
        said = "BOTS_REDIS_URL is not a Redis URL"
        yield judge("redis url", said, "write redis://USER:PASSWORD@HOST:6379/0", problem=True)
        return
    is_open = parts.scheme == "redis" and parts.password and not is_loopback(parts.hostname or "localhost")
    said = f"{parts.scheme}:// URL" + (", and the password is sent unencrypted" if is_open else "")
    yield judge("redis url", said, "use rediss:// if Redis supports TLS", warning=bool(is_open))
    where = parts.netloc.rpartition("@")[2]
    waits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "protocol": 2}
    try:
        require_files(url)
        with Redis.from_url(url, **waits, retry=Retry(NoBackoff(), 0)) as client:
            info = client.info()
            yield from judge_redis(info, where)
            yield _scripts(client)
    except (RedisError, StorageUnavailableError, TypeError, ValueError) as error:
        said = without_secrets(error, parts.password, unquote(parts.password or ""))
        advice = refusal(error) or "start it, or correct BOTS_REDIS_URL: check the host, port, user and password"
        yield judge("redis", f"Redis at {where} can't be used: {said}", advice, problem=True)


def judge_redis(info: dict[str, Any], where: str) -> Iterator[Finding]:
    """Judge what Redis at this address says of itself. info: what INFO answers, by Redis's own names."""
    version = info["redis_version"]
    is_old = tuple(int(part) for part in str(version).split(".")[:2]) < MIN_VERSION
    yield judge("redis", f"Redis {version} at {where}", "use Redis 6.2 or later", problem=is_old)
    mode, role = info.get("redis_mode", "standalone"), info.get("role")
    kind = mode if mode != "standalone" else "primary" if role == "master" else "replica, which is read-only"
    advice = "name one Redis that has all keys and takes writes in BOTS_REDIS_URL"
    yield judge("redis role", f"it is a {kind}", advice, problem=kind != "primary")
    policy = info.get("maxmemory_policy", "unknown")
    evicts = policy != "noeviction"
    said = policy + (": it may evict keys that the service needs, if its memory has a limit" if evicts else "")
    advice = "set maxmemory-policy noeviction"
    yield judge("redis eviction", said, advice, problem=evicts and bool(info.get("maxmemory")), warning=evicts)
    has_log = bool(info.get("aof_enabled"))
    said = "append-only file" if has_log else "no append-only file: if Redis restarts, leases and selections are lost"
    advice = "set appendonly yes; reports are safe in SQL in any case"
    yield judge("redis persistence", said, advice, warning=not has_log)


def _scripts(client: Any) -> Finding:
    """Judge whether the user may run scripts such as the service's: with its own probe, which writes a key for 60 s."""
    from redis import ResponseError

    try:
        client.eval(source_of("probe"), 1, PROBE_KEY, int(PROBES_S))
    except ResponseError as error:
        advice = "allow scripts and what they call on keys bots:*: ACL SETUSER NAME ~bots:* +@all -@dangerous +info"
        return judge("redis scripts", f"refused: {error}", advice, problem=True)
    return judge("redis scripts", "this user can run them")


def without_secrets(error: Exception, *secrets: str | None) -> str:
    """Return what an error says, in one line and without the secrets."""
    line = " ".join(str(error).split()) or type(error).__name__
    for secret in filter(None, secrets):
        line = line.replace(secret, "***")
    return line
