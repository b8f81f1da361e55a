"""The server: uvicorn's, with a graceful end."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import uvicorn

from bots_service.api.requests import state_of
from bots_service.api.routing import WORKING_ON, RouteKind
from bots_service.serving.connection import Connections, HttpConnection
from bots_service.serving.peers import Peers
from bots_service.serving.process import calm_garbage_collection, keep_freed_memory, set_up_logs
from bots_service.serving.starting import BACKLOG, let_nobody_in, listen
from bots_service.settings import Settings
from bots_service.wiring import build_app

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
HANGS_S = 30  # a worker that says nothing for so long is killed; some requests hold the interpreter's lock for seconds


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


class Config(uvicorn.Config):
    """uvicorn's configuration, as this service has it.

    settings: the service's.
    peers: the other processes, if it is one of several.
    """

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
        """Prepare a server. when_serving: called once requests are accepted."""
        super().__init__(config)
        self.server_state = Connections()
        self._when_serving = when_serving
        self._when_draining: Callable[[], object] = lambda: None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the application's stores, serve, close them.

        Raises:
            CannotStartError: another process listened at the address first.
            StorageUnavailableError: the database can't be opened, or another process has it.
        """
        calm_garbage_collection()
        keep_freed_memory()
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
        """Accept requests.

        Raises:
            CannotStartError: another process listened at the address first.
        """
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
        """Wait until it is so, time is up, or somebody is in a hurry."""
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
