"""Can PostgreSQL keep what the service promises?"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL

from bots_service.doctor import finding as clock
from bots_service.doctor.finding import Finding, ok, problem, warning, without_secrets
from bots_service.storage.sql.url import ENCODING

MIN_VERSION = 140_000  # older ones get no security fixes any more

_FACTS = """
    SELECT current_setting('server_version_num')::int, current_setting('server_version'),
           current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
           current_setting('default_transaction_read_only'), current_setting('server_encoding'),
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
           pg_is_in_recovery(), current_setting('synchronous_standby_names'),
           (SELECT count(*) FROM pg_stat_replication), pg_backend_pid() <> %s,
           has_schema_privilege(current_schema(), 'CREATE'), extract(epoch FROM clock_timestamp())::float8
"""


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """What the server says of itself.

    connections: how many users who are no superusers may open, in all.
    is_standby: it follows another server.
    synchronous_standbys: the setting synchronous_standby_names; empty if a commit waits for no standby.
    standbys: how many servers follow it.
    is_pooled: something like PgBouncer is between us and the server.
    can_create: the user may make tables; None where the user's schema does not exist.
    now: its clock, in seconds since 1970.
    """

    version: int
    version_shown: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    read_only: str
    encoding: str
    connections: int
    is_standby: bool
    synchronous_standbys: str
    standbys: int
    is_pooled: bool
    can_create: bool | None
    now: float


def examine(url: URL, *, timeout_s: float, connections: int) -> Iterator[Finding]:
    """Yield what is found.

    Args:
        url: of the database.
        timeout_s: longest wait for it.
        connections: what the processes of one machine may open.
    """
    import psycopg

    where = where_to(url)
    before = time.time()
    try:
        facts = ask(url, timeout_s=timeout_s)
    except psycopg.Error as error:
        advice = "start it, or correct BOTS_DATABASE_URL: check the host, port, user, password and database name"
        said = without_secrets(error, url.password)
        yield problem("database", f"PostgreSQL at {where} can't be used: {said}", advice)
        return
    after = time.time()
    yield version(facts, where)
    yield role(facts)
    yield durability(facts)
    if facts.standbys or facts.synchronous_standbys:
        yield standbys(facts)
    yield encoding(facts)
    yield rights(facts)
    yield room(facts, needed=connections)
    yield clock.compare("database clock", facts.now, before=before, after=after)


def ask(url: URL, *, timeout_s: float) -> PostgresFacts:
    """Return what the server says of itself.

    Raises:
        psycopg.Error: it can't be reached, or does not let us in.
    """
    import psycopg

    with psycopg.connect(**{**_arguments(url), "connect_timeout": max(2, round(timeout_s))}) as connection:
        # libpq waits 2 s at least. Not as an option of the connection: PgBouncer refuses those.
        connection.execute("SELECT set_config('statement_timeout', %s, true)", [f"{timeout_s * 1000:.0f}ms"])
        row = connection.execute(_FACTS, [connection.info.backend_pid]).fetchone()
    if row is None:
        raise ValueError("one row always answers a SELECT without FROM")
    return PostgresFacts(*row)


def where_to(url: URL) -> str:
    """Return hosts, ports and database, with nothing that opens them."""
    arguments = _arguments(url)
    hosts = str(arguments.get("host", "localhost")).split(",")
    ports = str(arguments.get("port", "")).split(",")
    ports += [""] * (len(hosts) - len(ports))
    places = ",".join(f"{host}:{port or 5432}" for host, port in zip(hosts, ports, strict=True))
    return f"{places}/{url.database or ''}"


def _arguments(url: URL) -> dict[str, Any]:
    """Return the driver's arguments; whatever the database's encoding is, it answers in UTF8."""
    url = url.set(drivername="postgresql+psycopg")
    return {**url.get_dialect()().create_connect_args(url)[1], "client_encoding": ENCODING}


def version(facts: PostgresFacts, where: str) -> Finding:
    """Judge the server's version."""
    said = f"PostgreSQL {facts.version_shown} at {where}"
    if facts.version < MIN_VERSION:
        return problem("database", said, "use PostgreSQL 14 or later")
    return ok("database", said)


def role(facts: PostgresFacts) -> Finding:
    """Judge whether it takes writes."""
    if facts.is_standby:
        advice = "name the primary in BOTS_DATABASE_URL, or all servers and target_session_attrs=read-write"
        return problem("database role", "it is a standby, which is read-only", advice)
    if facts.read_only == "on":
        advice = "set default_transaction_read_only = off for the server, the database or the user"
        return problem("database role", "its transactions are read-only", advice)
    return ok("database role", "primary")


def durability(facts: PostgresFacts) -> Finding:
    """Judge whether what it acknowledged survives a crash of its machine."""
    named = ("fsync", "full_page_writes", "synchronous_commit")
    if wrong := [name for name in named if getattr(facts, name) == "off"]:
        said = f"{' and '.join(wrong)} off: acknowledged reports may be lost if its machine crashes"
        return problem("durability", said, f"set {' and '.join(f'{name} = on' for name in wrong)}")
    return ok("durability", f"fsync on, synchronous_commit {facts.synchronous_commit}")


def standbys(facts: PostgresFacts) -> Finding:
    """Judge whether a standby that takes over has what was acknowledged."""
    said = f"{facts.standbys} connected, synchronous_standby_names {facts.synchronous_standbys or 'empty'}"
    if facts.synchronous_standbys and not facts.standbys:
        return problem("standbys", f"{said}: every commit waits for one", "start a standby, or empty the setting")
    if not facts.synchronous_standbys or facts.synchronous_commit == "local":
        advice = "set synchronous_standby_names, and synchronous_commit = on"
        return warning("standbys", f"{said}: one that takes over may miss acknowledged reports", advice)
    return ok("standbys", said)


def encoding(facts: PostgresFacts) -> Finding:
    """Judge whether it can hold every task's id."""
    if facts.encoding != ENCODING:
        said = f"the database's encoding is {facts.encoding}: it can't store all ids"
        return problem("encoding", said, "create the database with ENCODING 'UTF8' TEMPLATE template0")
    return ok("encoding", ENCODING)


def rights(facts: PostgresFacts) -> Finding:
    """Judge whether the user may make tables."""
    if not facts.can_create:
        return warning(
            "rights",
            "this user has no right to create tables",
            "run `bots migrate` as the owner, or GRANT CREATE ON SCHEMA public",
        )
    return ok("rights", "this user can create tables")


def room(facts: PostgresFacts, *, needed: int) -> Finding:
    """Judge how many machines, with as many processes as this one, it has connections for."""
    if facts.is_pooled:
        return ok(
            "connections", f"through a pooler, which limits them: at most {needed} per machine with these settings"
        )
    machines = facts.connections // needed
    said = f"{facts.connections} connections, {needed} needed per machine with these settings"
    if machines < 1:
        advice = f"raise max_connections to {needed + 10} or more, or lower BOTS_DATABASE_POOL"
        return problem("connections", said, advice)
    if machines < 2:
        return warning(
            "connections", said, "a second machine, or this one's replacement, would get none: raise max_connections"
        )
    return ok("connections", f"{said}: enough for {machines}")
