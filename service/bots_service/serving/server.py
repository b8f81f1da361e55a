"""The server: uvicorn's, with a graceful end."""

import asyncio
import contextlib
import ctypes
import gc
import ipaddress
import logging
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from io import StringIO
from types import FrameType
from typing import Any, NoReturn, TextIO, TypeVar

import structlog
import uvicorn
from structlog.typing import EventDict, ExcInfo, Processor

from bots_service.api.requests import state_of
from bots_service.api.routing import WORKING_ON, RouteKind
from bots_service.errors import BotsError
from bots_service.serving.connection import Connections, HttpConnection
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.sql.database import keys_exist, sql_url
from bots_service.wiring import build_app

log = structlog.get_logger("bots_service.serving")

Result = TypeVar("Result")

# They hold the interpreter's lock most of the time, so more would only pass it to and fro; a second one, so that a draw
# over ten million tasks holds up nobody's small one.
THREADS = 2
# Longer than clients and proxies keep an idle connection (httpx 5 s, nginx and AWS's balancers 60 s): the
# side that closes first may do so just as the other sends a request, and only the client knows that it sends none.
KEEP_ALIVE_S = 75
FINISH_S = 20  # requests under way when nothing is accepted any more may take this long to be answered
LAST_WORDS_S = 0.25  # for clients that are busy, but between two requests when nothing is accepted any more
LOOK_S = 0.02
MIB = 2**20
MALLOC = ((-1, 128 * MIB), (-2, 64 * MIB), (-3, 32 * MIB))  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h
BACKLOG = 2048
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction of a packet filter, "return 0": keep no byte


class CannotStartError(BotsError):
    """The service can't listen on the configured address, or may not."""


class Threads(ThreadPoolExecutor):
    """Threads for draws and large folds, and as many for all else: no read of a whole pool holds up a select."""

    def __init__(self) -> None:
        super().__init__(THREADS, thread_name_prefix="bots-training")
        self._others = ThreadPoolExecutor(THREADS, thread_name_prefix="bots-worker")

    def submit(self, work: Callable[..., Result], /, *args: Any, **options: Any) -> Future[Result]:
        """Let the work be done for the request that this is called for."""
        if WORKING_ON.get() is RouteKind.TRAINING:
            return super().submit(work, *args, **options)
        return self._others.submit(work, *args, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._others.shutdown(wait, cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)


def set_up_memory() -> None:
    """Run the garbage collector rarely, and keep freed arrays for the next request."""
    # Imported modules live forever, and requests leave few cycles. Seen by hand on report(32), on a noisy machine: 7 to
    # 20 % less processor time a request.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    # glibc gives large arrays back to the kernel. Seen by hand with 64 callers on 50 runs: report(32) 9 % more a
    # second, report(512) 21 %; and select(512) of 1e5 tasks with real-valued references took half the time.
    with contextlib.suppress(OSError, AttributeError):  # another C library: nothing to set
        library = ctypes.CDLL(None)
        for parameter, size in MALLOC:
            library.mallopt(parameter, size)


def set_up_logs(settings: Settings) -> None:
    """Write log lines to stderr: for people, or one JSON object a line."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    # Tracebacks without local variables: those hold users' data, and rendering them took 4 s of the event loop.
    for_people = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_traceback)
    rendering: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [_show_escapes, for_people]
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
    # What libraries log looks like our own lines: who parses those expects nothing else.
    formatting = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    shared.append(structlog.stdlib.add_logger_name)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=formatting, foreign_pre_chain=shared))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])
    # Of a connection that broke it warns, and raises the error too.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


# Callers choose request ids, names and parts of messages: a terminal must act on none of them.
def _show_escapes(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {key: _printable(value) if isinstance(value, str) else value for key, value in event.items()}


def _write_traceback(stream: TextIO, error: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write("\n".join(map(_printable, text.getvalue().split("\n"))))


def _printable(text: str) -> str:
    """Return the text with each character that is not printable (control and bidirectional ones) as in repr()."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


class Config(uvicorn.Config):
    """uvicorn's configuration, as this service has it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        super().__init__(
            partial(build_app, settings),
            factory=True,
            http=HttpConnection,
            ws="none",
            loop="uvloop",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            lifespan="off",  # the server opens the stores itself, so that its caller gets the errors
            server_header=False,
            proxy_headers=False,  # nothing here asks where a request came from
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=FINISH_S,
        )

    def configure_logging(self) -> None:
        set_up_logs(self.settings)


class DrainingServer(uvicorn.Server):
    """uvicorn's server with a lame duck's time before its end.

    As a lame duck it accepts and answers everything, and each answer closes its connection, so that at the end no
    client that spoke holds an open one. Then it accepts nothing more, answers what was sent, and parts from those
    connections that were idle all the while.
    """

    config: Config
    server_state: Connections

    def __init__(self, config: Config, when_serving: Callable[[], object] = lambda: None) -> None:
        super().__init__(config)
        self.server_state = Connections()
        self._when_serving = when_serving
        self._when_draining: Callable[[], object] = lambda: None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the application's stores, serve, close them. Raises StorageUnavailableError: they can't be opened."""
        set_up_memory()
        asyncio.get_running_loop().set_default_executor(Threads())
        self.config.load()
        app = self.config.loaded_app
        async with app.router.lifespan_context(app):
            self._when_draining = state_of(app).services.readiness.drain
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in sockets or []:
            listen(listener)  # uvicorn would, too, but uvloop keeps a failure to itself
        await super().startup(sockets)
        self._when_serving()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second Ctrl-C ends at once."""
        self._when_draining()
        self.server_state.draining = True
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Cut what is stuck, once a second; say whether to end."""
        if counter % 10 == 0:
            self.server_state.cut_stuck()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in self.server_state.open():
            connection.finish()
        await self._until(lambda: False, self.config.settings.drain_s)
        await self._stop_accepting(sockets or [])
        await self._until(lambda: not self.server_state.connections, LAST_WORDS_S)
        await super().shutdown(sockets)

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        give_up = time.monotonic() + seconds
        while not is_so():
            left_s = give_up - time.monotonic()
            if self.force_exit or left_s <= 0:
                return
            await asyncio.sleep(min(LOOK_S, left_s))
            self.server_state.cut_stuck()

    async def _stop_accepting(self, listeners: Sequence[socket.socket]) -> None:
        """Close the listeners, but serve the connections that the kernel has completed: closing would reset them."""
        let_in = []
        for listener in listeners:
            let_nobody_in(listener)
            with contextlib.suppress(BlockingIOError):
                while True:
                    let_in.append(listener.accept()[0])
        for server in self.servers:
            server.close()
        for listener in listeners:
            listener.close()
        loop = asyncio.get_running_loop()
        for accepted in let_in:
            accepted.setblocking(False)
            with contextlib.suppress(OSError):  # it went away meanwhile
                await loop.connect_accepted_socket(self._connect, accepted)

    def _connect(self) -> asyncio.Protocol:
        return HttpConnection(config=self.config, server_state=self.server_state, app_state={})


# --- the socket ------------------------------------------------------------------------------------------------------


def reserve(settings: Settings) -> socket.socket:
    """Return a socket that has its address; the kernel refuses connections to it until a process listens on it."""
    require_guarded(settings)
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    try:
        # A restart must not wait for the connections of the process before it, which linger for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(settings.host, settings.port, error) from error
    return listener


def listen(listener: socket.socket) -> None:
    """Let callers in, unless another service listened at the address first."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _cannot_listen(host, port, error) from error


def require_guarded(settings: Settings) -> None:
    """Raise CannotStartError if others may reach the service without a key, StorageUnavailableError: who knows?"""
    if settings.insecure or is_loopback(settings.host) or settings.admin_key is not None:
        return
    if not keys_exist(settings.sql_url):
        raise CannotStartError(
            f"{settings.host} is reachable from other machines, and the service requires no keys; "
            "set BOTS_ADMIN_KEY, listen on 127.0.0.1, or pass --insecure if your network protects it"
        )


def let_nobody_in(listener: socket.socket) -> None:
    """Make the kernel ignore new connections from now on; those that it has completed can still be accepted.

    Without this, a connection made between our last accept and our close would be completed and then reset. Now its
    client asks the kernel once more and is refused, so nothing that it sent is lost. Linux only; elsewhere that gap
    stays.
    """
    instructions = ctypes.create_string_buffer(DROP_ALL)
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(instructions)))


def is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _cannot_listen(host: str, port: int, error: OSError) -> CannotStartError:
    return CannotStartError(f"can't listen on {host}:{port}: {error.strerror}; choose another --port")


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, which raise SystemExit; requests that were sent are answered first.

    Raises CannotStartError; StorageUnavailableError: the database can't be opened, or another process has it.
    """
    for line in unknown_variables(os.environ):
        sys.stderr.write(f"bots: {line}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, exit_gracefully)
    with reserve(settings) as listener:
        host, port = listener.getsockname()[:2]
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        where = sql_url(settings.sql_url).render_as_string(hide_password=True)
        said = f"BOTS listens on {address} (a page for browsers; documentation at /docs), data in {where}\n"
        DrainingServer(Config(settings), when_serving=lambda: sys.stderr.write(said)).run([listener])


def exit_gracefully(number: int, _frame: object) -> NoReturn:
    """End the process, closing what is open on the way. The server raises the signal again once it has drained."""
    raise SystemExit(0 if number == signal.SIGTERM else 128 + number)
