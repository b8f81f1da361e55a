"""Starts the service, in this process or in several."""

import os
import signal
import sys
from typing import NoReturn

from bots_service.errors import BotsError
from bots_service.serving.listening import address_of, reserve
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.sql.url import is_postgresql, sql_url


class CannotShareError(BotsError):
    """Several processes were asked for, and they would share nothing."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; requests that were sent are answered first.

    Raises:
        CannotListenError: the address is in use, or it is beyond loopback without keys and without --insecure.
        CannotShareError: several workers, without a database and a Redis that they can share.
        StorageUnavailableError: the database can't be opened, or another process has it.
        SystemExit: a signal ended it.
    """
    require_shared(settings)
    for line in unknown_variables(os.environ):
        sys.stderr.write(f"bots: {line}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, exit_gracefully)
    with reserve(settings) as listener:
        said = greeting(settings, address_of(listener))
        if settings.workers == 1:
            from bots_service.serving.server import Config, DrainingServer  # not above: they load everything

            DrainingServer(Config(settings), when_serving=lambda: sys.stderr.write(said)).run([listener])
        else:
            from bots_service.serving.workers import serve_in_workers

            serve_in_workers(settings, listener, when_serving=lambda: sys.stderr.write(said))


def require_shared(settings: Settings) -> None:
    """Check that several workers would be one service.

    Raises:
        CannotShareError: they would not.
    """
    if settings.workers == 1:
        return
    if not is_postgresql(settings.sql_url) or settings.redis_url is None:
        raise CannotShareError(
            f"{settings.workers} workers need PostgreSQL and Redis to share their state: "
            "set BOTS_DATABASE_URL to a postgresql:// URL and BOTS_REDIS_URL, or start one worker"
        )


def greeting(settings: Settings, address: str) -> str:
    """Return the line that says where the service is."""
    where = sql_url(settings.sql_url).render_as_string(hide_password=True)
    of_workers = "" if settings.workers == 1 else f", {settings.workers} workers"
    return f"BOTS listens on {address} (a page for browsers; documentation at /docs){of_workers}, data in {where}\n"


def exit_gracefully(number: int, _frame: object) -> NoReturn:
    """End the process, closing what is open on the way. The server raises the signal again once it has drained."""
    raise SystemExit(0 if number == signal.SIGTERM else 128 + number)
