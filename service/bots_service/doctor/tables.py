"""Are the database's tables those that this version works with?"""

from pathlib import Path

from bots_service.doctor.finding import Finding, ok, problem
from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.migrate import MIGRATE_DIRECTLY, current, head, is_new_enough
from bots_service.storage.sql.url import connected, is_pooled, sql_url


def examine(address: str, *, migrate_on_start: bool) -> Finding:
    """Return what is found in the database of that address."""
    url = sql_url(address)
    try:
        # Looking into a SQLite file that isn't there would make it.
        is_missing = url.get_backend_name() == "sqlite" and not Path(url.database or "").exists()
        if is_missing:
            return judge(None, migrate_on_start=migrate_on_start)
        with connected(address) as connection:
            is_shared = is_pooled(connection)
        return judge(current(address), migrate_on_start=migrate_on_start, through_pooler=is_shared)
    except StorageUnavailableError as error:
        return problem("tables", str(error), "use a database of this service, or an empty one")


def judge(found: str | None, *, migrate_on_start: bool, through_pooler: bool = False) -> Finding:
    """Judge the tables' revision.

    Args:
        found: None if there are no tables.
        migrate_on_start: whether the service migrates them, where it can.
        through_pooler: a pooler such as PgBouncer reaches the database, through which they can't be migrated.

    Raises:
        StorageUnavailableError: it is another program's.
    """
    newest = head()
    if found == newest:
        return ok("tables", f"at the newest revision, {newest}")
    if is_new_enough(found):
        return ok("tables", f"at revision {found}, newer than this version's {newest}; this version can use them")
    said = f"at revision {found}, not {newest}" if found else "none yet"
    if through_pooler:
        return problem("tables", said, MIGRATE_DIRECTLY)
    if migrate_on_start:
        return ok("tables", f"{said}; the service migrates them to {newest} when it starts")
    return problem("tables", said, "run `bots migrate`: BOTS_MIGRATE_ON_START is false")
