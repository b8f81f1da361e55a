"""The server: uvicorn's, with a graceful end, in one process or in several that share one socket and their counts."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, TypeVar

import structlog
import uvicorn
from structlog.typing import EventDict, ExcInfo, Processor
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import multiprocess as supervising

from bots_service.api.requests import state_of
from bots_service.api.routing import WORKING_ON, RouteKind
from bots_service.errors import BotsError
from bots_service.serving.connection import Connections, HttpConnection
from bots_service.serving.starting import BACKLOG, let_nobody_in, listen
from bots_service.settings import Settings
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
ASK_S = 1.0  # a worker that says nothing of its counts for so long is left out: it hangs, or begins
READY_S = 0.1  # between two questions whether a worker serves
HANGS_S = 30  # a worker that says nothing for so long is killed; some requests hold the interpreter's lock for seconds
MIB = 2**20
MALLOC = ((-1, 128 * MIB), (-2, 64 * MIB), (-3, 32 * MIB))  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h


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
        """End them."""
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


@dataclass(frozen=True, slots=True)
class Peers:
    """The workers of one service. folder: where their sockets lie; only this user may enter it."""

    folder: Path

    @contextlib.asynccontextmanager
    async def telling(self, own: Callable[[], bytes]) -> AsyncIterator[None]:
        """Send this worker's counts to each connection until the block ends."""

        def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(own())
            writer.close()  # once all is sent; who asked may have given up

        async with await asyncio.start_unix_server(tell, self.folder / f"{os.getpid()}"):
            yield

    async def all_of_them(self, own: Callable[[], bytes]) -> bytes:
        """Return the counts of all workers that answer."""
        others = [path for path in self.folder.iterdir() if path.name != f"{os.getpid()}"]
        replies = await asyncio.gather(*map(self._ask, others))
        texts = {int(path.name): text for path, text in zip(others, replies, strict=True) if text}
        return merged({**texts, os.getpid(): own()})

    async def _ask(self, path: Path) -> bytes:
        try:
            async with asyncio.timeout(ASK_S):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return await reader.read()
                finally:
                    writer.close()
        except ConnectionRefusedError:
            pass  # it died
        except (OSError, TimeoutError) as error:
            log.warning("worker_not_heard", worker=path.name, reason=repr(error))
        return b""


def merged(texts: Mapping[int, bytes]) -> bytes:
    """Return the metrics of workers, by their numbers, as one text of Prometheus's: each series with its number."""
    families: dict[bytes, list[bytes]] = {}  # the two lines that begin a family -> its samples
    for worker, text in sorted(texts.items()):
        head, samples, label = b"", list[bytes](), b'{worker="%d"' % worker
        for line in text.splitlines():
            if line.startswith(b"# HELP"):
                head = line
            elif line.startswith(b"#"):
                samples = families.setdefault(head + b"\n" + line, [])
            elif b"{" in line:  # `name{labels} value`
                samples.append(line.replace(b"{", label + b",", 1))
            else:  # `name value`
                samples.append(line.replace(b" ", label + b"} ", 1))
    return b"".join(line + b"\n" for head, samples in families.items() for line in (head, *samples))


class Config(uvicorn.Config):
    """uvicorn's configuration, as this service has it. peers: the other processes, if it is one of several."""

    def __init__(self, settings: Settings, peers: Peers | None = None) -> None:
        self.settings = settings
        self.peers = peers
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
            workers=settings.workers,
            timeout_worker_healthcheck=HANGS_S,
        )

    def configure_logging(self) -> None:
        """Set up our logs; uvicorn's go there, too."""
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
        app, peers = self.config.loaded_app, self.config.peers
        async with app.router.lifespan_context(app), contextlib.AsyncExitStack() as stack:
            state = state_of(app)
            self._when_draining = state.services.readiness.drain
            if peers is not None:
                await stack.enter_async_context(peers.telling(state.metrics.text))
                state.metrics_of_all = partial(peers.all_of_them, state.metrics.text)
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests."""
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
        """Drain, then close everything."""
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
            if self.config.peers is None:  # otherwise others still use the same socket
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


# --- several processes ------------------------------------------------------------------------------------------------


class Worker(supervising.Process):
    """One of the processes. uvicorn's own would build uvicorn's own server, which does not drain."""

    config: Config

    @property
    def server(self) -> uvicorn.Server:
        """The server of this process."""
        if self._server is None:
            self._server = DrainingServer(self.config)
        return self._server

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal ends it, or the supervisor is gone."""
        self.parent_conn.close()  # a copy of the supervisor's end: with it open, nobody would see that the other is not
        try:
            super().target(sockets)
        except BotsError as error:
            sys.stderr.write(f"bots: worker {os.getpid()}: {error}\n")
            sys.exit(STARTUP_FAILURE)

    def always_pong(self) -> None:
        """Answer the supervisor's questions; end when nobody is left to ask: the address would stay in use."""
        with contextlib.suppress(EOFError, OSError):
            super().always_pong()
        os.kill(os.getpid(), signal.SIGTERM)


supervising.Process = Worker  # type: ignore[misc] # what the supervisor makes its workers of


class Workers(supervising.Multiprocess):
    """Keeps the processes running until SIGTERM or SIGINT."""

    config: Config

    def __init__(self, config: Config, sockets: list[socket.socket], when_serving: Callable[[], object]) -> None:
        super().__init__(config, sockets)
        self._when_serving = when_serving
        self.has_served = False

    def init_processes(self) -> None:
        """Start the workers, and wait until one of them serves, all have ended, or a signal came."""
        super().init_processes()
        while not self.signal_queue and any(process.process.is_alive() for process in self.processes):
            if any(process.is_ready(READY_S) for process in self.processes):
                self.has_served = True
                self._when_serving()
                return
            time.sleep(READY_S)

    def keep_subprocess_alive(self) -> None:
        """Replace the workers that died or hang.

        Where none has served yet, one that can't start ends the service. Later the others go on, and it is tried again:
        the database may be away.
        """
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set() or process.is_alive(self.config.timeout_worker_healthcheck):
                continue
            process.kill()
            process.join()
            log.warning("worker_died", pid=process.pid, exit_code=process.exitcode)
            if process.exitcode == STARTUP_FAILURE and not self.has_served:
                self.should_exit.set()
                return
            self.processes[place] = Worker(self.config, self.sockets)
            self.processes[place].start()

    def join_all(self) -> None:
        """Wait for the end of the workers, which have their signal; let nobody in after their lame duck's time."""
        time.sleep(self.config.settings.drain_s)
        for listener in self.sockets:
            let_nobody_in(listener)
        super().join_all()


def serve_in_workers(settings: Settings, listener: socket.socket, when_serving: Callable[[], object]) -> None:
    """Serve until SIGTERM or SIGINT, or until it is clear that no worker can start, which raises SystemExit."""
    with tempfile.TemporaryDirectory(prefix="bots-") as folder:
        config = Config(settings, Peers(Path(folder)))
        workers = Workers(config, [listener], when_serving)
        workers.run()
    if not workers.has_served and any(process.exitcode == STARTUP_FAILURE for process in workers.processes):
        raise SystemExit(1)
