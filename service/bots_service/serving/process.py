"""What each process of the service is set to: its logs, its garbage collector, its memory allocator."""

import contextlib
import ctypes
import gc
import logging
import sys

import structlog

from bots_service.settings import Settings

MIB = 2**20
MALLOC = ((-1, 128 * MIB), (-2, 64 * MIB), (-3, 32 * MIB))  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h


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
