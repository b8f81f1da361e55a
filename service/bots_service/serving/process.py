"""What each process of the service is set to: its logs, its garbage collector, its memory allocator."""

import contextlib
import ctypes
import gc
import logging
import sys
from io import StringIO
from typing import TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from bots_service.settings import Settings

MIB = 2**20
MALLOC = ((-1, 128 * MIB), (-2, 64 * MIB), (-3, 32 * MIB))  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h


def calm_garbage_collection() -> None:
    """Run the garbage collector rarely: imported modules live forever, and requests leave few cycles.

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
    # Tracebacks without local variables: those hold users' data, and rendering them took 4 s of the event loop.
    rendering: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [
            show_escapes,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=shown_traceback),
        ]
    )
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _set_up_libraries_logs(max(level, logging.WARNING), shared, rendering)


def show_escapes(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Return the line with what a terminal would act on, or show in another order, written as an escape.

    Callers choose request ids, names and parts of messages.
    """
    return {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}


def shown_traceback(stream: TextIO, error: ExcInfo) -> None:
    """Write a traceback, line by line, with the same escapes."""
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write("\n".join(map(printable, text.getvalue().split("\n"))))


def printable(text: str) -> str:
    """Return the text with each character that is not printable (control and bidirectional ones) as in repr()."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _set_up_libraries_logs(level: int, shared: list[Processor], rendering: list[Processor]) -> None:
    """Write what libraries log like our own lines: who parses those expects nothing else."""
    handler = logging.StreamHandler(sys.stderr)
    formatting = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    shared = [*shared, structlog.stdlib.add_logger_name]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=formatting, foreign_pre_chain=shared))
    logging.basicConfig(level=level, handlers=[handler])
    # Of a connection that broke it warns, and raises the error too.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
