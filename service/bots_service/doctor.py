"""What `bots doctor` checks: whether what the settings name is there, and fit to keep what the service promises."""

import os
import resource
import shutil
import sqlite3
import time
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
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield from machine(settings, processors=available, files=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
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


# --- the settings and this machine -----------------------------------------------------------------------------------


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


FILES_OF_ITS_OWN = 128  # open files of the libraries, the database, the logs, the pools
LEAST_FREE, LITTLE_FREE = 100 * 2**20, GIB  # bytes; a journal grows by some kilobytes a step


def machine(settings: Settings, *, processors: int, files: int) -> Iterator[Finding]:
    """Judge this machine: its processors, and how many files one process may open; below 0: without a limit."""
    said, advice = f"{processors} for {settings.workers} workers", f"BOTS_WORKERS={processors} would need less memory"
    yield judge("processors", said, advice, warning=settings.workers > processors)
    needed = settings.max_concurrent + settings.max_waiting + FILES_OF_ITS_OWN
    said = f"at most {files}, idle connections included" if files >= 0 else "no limit"
    advice = f"raise the limit (`ulimit -n 65536`), or lower BOTS_MAX_WAITING; {needed} are needed"
    yield judge("open files", said, advice, problem=0 <= files < needed, warning=0 <= files < 4 * needed)


def disk(folder: Path, *, free: int) -> Finding:
    """Judge the room that is left, in bytes."""
    said, advice = f"{free / GIB:.1f} GiB free at {folder}", "free some space: with a full disk every report fails"
    return judge("disk", said, advice, problem=free < LEAST_FREE, warning=free < LITTLE_FREE)


# --- databases -------------------------------------------------------------------------------------------------------

SQLITE_VERSION = (3, 35)  # RETURNING
SQLITE_HEADER = b"SQLite format 3\0"
# Write-ahead logging needs memory that processes share, which network file systems don't offer.
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "gpfs", "ceph", "9p", "afs"}


def sqlite(url: URL) -> Iterator[Finding]:
    """Yield what is found at a SQLite file, without opening it as a database: a service may be using it."""
    if not url.database or url.database == ":memory:":
        said = "an in-memory database is lost when the process ends"
        yield judge("database", said, "name a file: BOTS_DATABASE_URL=sqlite:////PATH/bots.db", problem=True)
        return
    advice = "use a Python with SQLite 3.35 or later"
    outdated = sqlite3.sqlite_version_info < SQLITE_VERSION
    yield judge("database", f"SQLite {sqlite3.sqlite_version}", advice, problem=outdated)
    path = Path(url.database).absolute()
    folder = next(each for each in path.parents if each.exists())
    can_write = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    said = f"{folder} {'can' if can_write else 'can not'} be written"
    yield judge("database folder", said, "change its owner, or name another BOTS_DATA_DIR", problem=not can_write)
    if path.exists():
        yield sqlite_file(path)
    yield disk(path.parent, free=shutil.disk_usage(folder).free)
    kind = file_system_of(folder, Path("/proc/self/mounts"))
    if kind is not None:
        advice = "locks and the write-ahead log are unreliable there: move it to a local disk, or use PostgreSQL"
        yield judge("file system", f"the file is on {kind}", advice, problem=kind in NETWORK_FILE_SYSTEMS)


def sqlite_file(path: Path) -> Finding:
    """Judge the database's file by its rights and its first bytes."""
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
        said = f"{path} can't be read and written"
        return judge("database file", said, "change its owner or its permissions", problem=True)
    with path.open("rb") as opened:
        header = opened.read(20) or SQLITE_HEADER  # an empty file becomes a database
    if not header.startswith(SQLITE_HEADER):
        said = f"{path} is not a SQLite database"
        return judge("database file", said, "name another file, or restore a backup", problem=True)
    has_log = header[18:20] == b"\2\2"  # the versions for writing and reading: 2 says write-ahead log
    said = f"{path}, {'with a' if has_log else 'without a'} write-ahead log"
    return judge("database file", said, "start the service once: it enables the log", warning=not has_log)


def file_system_of(path: Path, mounts: Path) -> str | None:
    """Return the kind of file system that holds a folder, None where the kernel does not tell.

    Args:
        path: an existing folder.
        mounts: the kernel's list: what is mounted, where, its kind, and more, separated by blanks.
    """
    if not mounts.exists():
        return None
    listed = [line.split() for line in mounts.read_text("utf-8", errors="replace").splitlines()]
    holding = [(fields[1], fields[2]) for fields in listed if path.resolve().is_relative_to(fields[1])]
    # Of two at one place, the later one hides the earlier.
    return max(enumerate(holding), key=lambda item: (len(item[1][0]), item[0]))[1][1] if holding else None


POSTGRES_VERSION = 140_000  # older ones get no security fixes any more
_POSTGRES_FACTS = """
    SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_shown,
           current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
           current_setting('synchronous_commit') AS synchronous_commit, current_setting('server_encoding') AS encoding,
           current_setting('default_transaction_read_only') AS read_only,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
               AS connections,
           pg_is_in_recovery() AS is_standby, current_setting('synchronous_standby_names') AS synchronous_standbys,
           (SELECT count(*) FROM pg_stat_replication) AS standbys, pg_backend_pid() <> %s AS is_pooled,
           has_schema_privilege(current_schema(), 'CREATE') AS can_create,
           extract(epoch FROM clock_timestamp())::float8 AS now
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
    before = time.time()
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
    after = time.time()
    said = f"PostgreSQL {facts['version_shown']} at {where}"
    yield judge("database", said, "use PostgreSQL 14 or later", problem=facts["version"] < POSTGRES_VERSION)
    yield from judge_postgres(facts, needed=connections)
    yield clock("database clock", facts["now"], before=before, after=after)


def judge_postgres(facts: dict[str, Any], *, needed: int) -> Iterator[Finding]:
    """Judge what PostgreSQL says of itself. needed: connections for one machine."""
    role = "a standby" if facts["is_standby"] else "read-only" if facts["read_only"] == "on" else "primary"
    advice = "name the primary, or all servers and target_session_attrs=read-write"
    if role == "read-only":
        advice = "set default_transaction_read_only = off for the server, the database or the user"
    yield judge("database role", role, advice, problem=role != "primary")
    commit = facts["synchronous_commit"]
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if facts[name] == "off"]
    said = f"{' and '.join(off)} off: acknowledged reports may be lost if its machine crashes"
    advice = f"set {' and '.join(f'{name} = on' for name in off)}"
    yield judge("durability", said if off else f"fsync on, synchronous_commit {commit}", advice, problem=bool(off))
    standbys, names = facts["standbys"], facts["synchronous_standbys"]
    if standbys or names:
        said = f"{standbys} connected, synchronous_standby_names {names or 'empty'}"
        waits, may_lose = not standbys, not names or commit == "local"
        said += ": every commit waits for one" if waits else ""
        said += ": one that takes over may miss acknowledged reports" if may_lose else ""
        advice = "set synchronous_standby_names, and synchronous_commit = on"
        advice = "start a standby, or empty the setting" if waits else advice
        yield judge("standbys", said, advice, problem=waits, warning=may_lose)
    said, advice = facts["encoding"], "it can't store all ids: create it with ENCODING 'UTF8' TEMPLATE template0"
    yield judge("encoding", said, advice, problem=facts["encoding"] != ENCODING)
    said = f"this user {'can' if facts['can_create'] else 'has no right to'} create tables"
    advice = "run `bots migrate` as the owner, or GRANT CREATE ON SCHEMA public"
    yield judge("rights", said, advice, warning=not facts["can_create"])

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

NEARLY_FULL = 0.8  # of its memory


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
            if info.get("redis_mode") == "sentinel":  # which knows neither TIME nor EVAL
                return
            before = time.time()
            seconds, microseconds = client.time()
            yield clock("redis clock", seconds + microseconds / 1e6, before=before, after=time.time())
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
    if mode == "sentinel":
        return
    policy, used, limit = info.get("maxmemory_policy", "unknown"), info["used_memory"], info.get("maxmemory", 0)
    evicts = policy != "noeviction"
    said = policy + (": it may evict keys that the service needs, if its memory has a limit" if evicts else "")
    advice = "set maxmemory-policy noeviction"
    yield judge("redis eviction", said, advice, problem=evicts and bool(limit), warning=evicts)
    said = f"{used / 2**20:.0f} MiB used, " + (f"at most {limit / 2**20:.0f} MiB" if limit else "no limit")
    advice = "raise maxmemory: a full Redis accepts no new state, and each replica continues alone"
    yield judge("redis memory", said, advice, warning=bool(limit) and used > NEARLY_FULL * limit)
    has_log, is_failing = info.get("aof_enabled", 0), info.get("aof_last_write_status", "ok") != "ok"
    said = "append-only file" + (", whose last write failed" if is_failing else "")
    advice = "check its disk and its log"
    if not has_log:
        said = "no append-only file: if Redis restarts, all leases and selections are lost"
        advice = "set appendonly yes; reports are safe in SQL in any case"
    yield judge("redis persistence", said, advice, problem=bool(has_log) and is_failing, warning=not has_log)


def _scripts(client: Any) -> Finding:
    """Judge whether the user may run scripts such as the service's: with its own probe, which writes a key for 60 s."""
    from redis import ResponseError

    try:
        client.eval(source_of("probe"), 1, PROBE_KEY, int(PROBES_S))
    except ResponseError as error:
        advice = "allow scripts and what they call on keys bots:*: ACL SETUSER NAME ~bots:* +@all -@dangerous +info"
        return judge("redis scripts", f"refused: {error}", advice, problem=True)
    return judge("redis scripts", "this user can run them")


# --- both ------------------------------------------------------------------------------------------------------------

TOLERATED_S = 2.0  # leases last minutes; what people read in a history should still be in order


def clock(about: str, theirs: float, *, before: float, after: float) -> Finding:
    """Judge another machine's time, asked for between two times of ours; all in seconds since 1970."""
    apart_s = max(before - theirs, theirs - after, 0.0)
    said = f"its clock and this machine's differ by {apart_s:.1f} s" if apart_s else "its clock agrees with ours"
    return judge(about, said, "run NTP on both machines", warning=apart_s > TOLERATED_S)


def without_secrets(error: Exception, *secrets: str | None) -> str:
    """Return what an error says, in one line and without the secrets."""
    line = " ".join(str(error).split()) or type(error).__name__
    for secret in filter(None, secrets):
        line = line.replace(secret, "***")
    return line
