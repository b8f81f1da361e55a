"""Can PostgreSQL keep what the service promises?"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import URL

from bots_service.doctor import finding as clock
from bots_service.doctor.finding import Finding, ok, problem, warning, without_secrets

MIN_VERSION = 140_000  # older ones get no security fixes any more

_FACTS = """
    SELECT current_setting('server_version_num')::int, current_setting('server_version'),
           current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
           current_setting('default_transaction_read_only'), current_setting('server_encoding'),
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
           pg_is_in_recovery(), has_schema_privilege(current_schema(), 'CREATE'),
           extract(epoch FROM clock_timestamp())::float8
"""


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """What the server says of itself.

    connections: how many users who are no superusers may open, in all.
    is_standby: it follows another server.
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

    where = f"{url.host or 'localhost'}:{url.port or 5432}/{url.database or ''}"
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

    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, connect_timeout=max(2, round(timeout_s))) as connection:  # libpq waits 2 s at least
        # Not as an option of the connection: poolers such as PgBouncer refuse those.
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [f"{timeout_s * 1000:.0f}ms"])
        row = connection.execute(_FACTS).fetchone()
    if row is None:
        raise ValueError("one row always answers a SELECT without FROM")
    return PostgresFacts(*row)


def version(facts: PostgresFacts, where: str) -> Finding:
    """Judge the server's version."""
    said = f"PostgreSQL {facts.version_shown} at {where}"
    if facts.version < MIN_VERSION:
        return problem("database", said, "use PostgreSQL 14 or later")
    return ok("database", said)


def role(facts: PostgresFacts) -> Finding:
    """Judge whether it takes writes."""
    if facts.is_standby:
        return problem("database role", "it is a standby, which is read-only", "name the primary in BOTS_DATABASE_URL")
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


def encoding(facts: PostgresFacts) -> Finding:
    """Judge whether it can hold every task's id."""
    if facts.encoding != "UTF8":
        said = f"the database's encoding is {facts.encoding}: it can't store all ids"
        return problem("encoding", said, "create the database with ENCODING 'UTF8' TEMPLATE template0")
    return ok("encoding", "UTF8")


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
