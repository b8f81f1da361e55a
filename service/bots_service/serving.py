"""Runs the application until it is told to end."""

import asyncio
import contextlib
import ctypes
import gc
import ipaddress
import logging
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy import make_url

from bots_service.errors import BotsError
from bots_service.settings import Settings
from bots_service.wiring import build_app

DRAIN_S = 20  # requests under way at SIGTERM may take this long to be answered
BACKLOG = 2048
# Threads for draws and large folds. They hold the interpreter's lock most of the time, so more would only pass it to
# and fro; a second one, so that a draw over ten million tasks holds up nobody's small one.
WORKERS = 2
MIB = 2**20
MALLOC = ((-1, 128 * MIB), (-2, 64 * MIB), (-3, 32 * MIB))  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h


class CannotListenError(BotsError):
    """The service can't listen where it was told to."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; requests that were sent are answered first.

    Raises:
        CannotListenError: the address is taken, or beyond loopback without being told so.
        StorageUnavailableError: the database can't be opened, or another process has it.
        SystemExit: it was told to end.
    """
    set_up_logs(settings)
    calm_garbage_collection()
    keep_freed_memory()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    app = build_app(settings)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",  # `run` opens the stores itself, so that what goes wrong is raised to whoever called
        server_header=False,
        proxy_headers=False,  # nothing here asks where a request came from
        timeout_graceful_shutdown=DRAIN_S,
    )
    with listen(settings) as listener, asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run(app, config, listener, settings))


async def run(app: FastAPI, config: uvicorn.Config, listener: socket.socket, settings: Settings) -> None:
    """Open the application's stores, serve, close them."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WORKERS, thread_name_prefix="bots-worker"))
    async with app.router.lifespan_context(app):
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        where = make_url(settings.sql_url).render_as_string(hide_password=True)
        sys.stderr.write(f"BOTS listens on http://{shown}:{port} (documentation at /docs), data in {where}\n")
        await uvicorn.Server(config).serve(sockets=[listener])


def end(number: int, _frame: object) -> NoReturn:
    """End the process, closing what is open on the way. uvicorn raises the signal again once it has drained."""
    raise SystemExit(0 if number == signal.SIGTERM else 128 + number)


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket.

    Raises:
        CannotListenError: the address is taken, or beyond loopback without being told so.
    """
    if not settings.insecure and not is_loopback(settings.host):
        raise CannotListenError(
            f"{settings.host} can be reached from other machines, and no keys guard the service; "
            "listen on 127.0.0.1, or say --insecure if your network guards it"
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        message = f"can't listen on {settings.host}:{settings.port}: {error.strerror}; choose another --port"
        raise CannotListenError(message) from error


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach the address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def calm_garbage_collection() -> None:
    """Collect seldom: imported modules live for ever, and requests leave few cycles behind.

    Seen by hand on report(32), on a noisy machine: 7 to 20 % less processor time a request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def keep_freed_memory() -> None:
    """Keep freed arrays for the next request, where the C library is glibc: it gives large ones back to the kernel.

    Seen by hand with 64 callers on 50 runs, on a noisy machine: report(32) 9 % more a second, report(512) 21 %; and
    select(512) of 1e5 tasks with real-valued references took half the time.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library: nothing to set
        library = ctypes.CDLL(None)
        for parameter, size in MALLOC:
            library.mallopt(parameter, size)


def set_up_logs(settings: Settings) -> None:
    """Write log lines to stderr: for people, or one JSON object a line."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    # Tracebacks without local variables: those hold users' data, and rendering them took 4 s of the event loop.
    rendering = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
