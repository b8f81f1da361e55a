"""Do the settings fit each other?"""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from bots_service.doctor.finding import Finding, ok, problem, warning
from bots_service.errors import StorageUnavailableError
from bots_service.serving.listening import is_guarded, is_loopback
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.sql.url import is_postgresql

REDIS_SCHEMES = ("redis", "rediss")


def variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the names of the variables."""
    unknown = unknown_variables(environment)
    yield from (warning("variables", line, "") for line in unknown)
    if not unknown:
        yield ok("variables", "each BOTS_... has an effect")


def address(settings: Settings, *, database_answers: bool) -> Finding:
    """Judge where the service will listen, and who may speak to it there.

    Args:
        settings: the service's.
        database_answers: so that it can be asked for keys.
    """
    where = f"listens on {settings.host}:{settings.port}"
    if is_loopback(settings.host):
        return ok("address", f"{where}: only this machine can reach it")
    if settings.admin_key is not None or (database_answers and _has_keys(settings)):
        return ok("address", f"{where}, and requires keys")
    if settings.insecure:
        said = f"{where} without keys, because BOTS_INSECURE is set"
        return warning("address", said, "let only trusted machines reach it, or set BOTS_ADMIN_KEY")
    said = f"{where}, which other machines can reach, and requires no keys"
    return problem("address", said, "set BOTS_ADMIN_KEY, or BOTS_HOST=127.0.0.1")


def _has_keys(settings: Settings) -> bool:
    try:
        return is_guarded(settings)
    except StorageUnavailableError:  # the tables are a finding of their own
        return False


def stores(settings: Settings) -> Finding:
    """Judge whether the stores can serve as many processes as are asked for."""
    try:
        is_postgres = is_postgresql(settings.sql_url)
    except StorageUnavailableError:
        is_postgres = False
    missing = [
        name
        for name, is_there in (
            ("BOTS_DATABASE_URL=postgresql://...", is_postgres),
            ("BOTS_REDIS_URL=redis://...", settings.redis_url is not None),
        )
        if not is_there
    ]
    processes = f"{settings.workers} process{'es' if settings.workers > 1 else ''}"
    if not missing:
        return ok("stores", f"PostgreSQL and Redis, {processes} here; more machines may join")
    if settings.workers > 1:
        return problem(
            "stores", f"{processes} need PostgreSQL and Redis", f"set {' and '.join(missing)}, or BOTS_WORKERS=1"
        )
    if is_postgres:
        return ok("stores", "PostgreSQL and this process's memory: one process serves the database")
    if settings.redis_url is not None:
        return warning(
            "stores", "Redis has no effect with SQLite: nothing is shared", f"set {missing[0]}, or unset BOTS_REDIS_URL"
        )
    return ok("stores", "SQLite and this process's memory: one process on one machine")


def redis_url(url: str) -> Finding:
    """Judge the form of Redis's URL."""
    parts = urlsplit(url)
    if parts.scheme not in REDIS_SCHEMES or not parts.netloc:
        return problem("redis url", "BOTS_REDIS_URL is not a Redis URL", "write redis://USER:PASSWORD@HOST:6379/0")
    if parts.scheme == "redis" and parts.password and not is_loopback(parts.hostname or "localhost"):
        return warning("redis url", "the password is sent unencrypted", "use rediss:// if Redis supports TLS")
    return ok("redis url", f"{parts.scheme}:// URL")
