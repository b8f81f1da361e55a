"""Serves in this process."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI

from bots_service.api.app_state import state_of
from bots_service.api.route_kinds import WORKING_ON, RouteKind
from bots_service.serving.connection import HttpConnection
from bots_service.serving.listening import BACKLOG
from bots_service.serving.peers import Peers
from bots_service.serving.process import calm_garbage_collection, keep_freed_memory, set_up_logs
from bots_service.serving.server import DrainingServer
from bots_service.settings import Settings
from bots_service.wiring import build_app

Result = TypeVar("Result")

# They hold the interpreter's lock most of the time, so more would only pass it to and fro; a second one, so that a draw
# over ten million tasks holds up nobody's small one.
THREADS = 2
# Longer than clients and proxies keep an idle connection (httpx 5 s, nginx and AWS's balancers 60 s): the
# side that closes first may do so just as the other sends a request, and only the client knows that it sends none.
KEEP_ALIVE_S = 75


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


def work(
    settings: Settings,
    listener: socket.socket,
    *,
    when_serving: Callable[[], object] = lambda: None,
    supervisor: Pipe | None = None,
    peers: Peers | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        settings: the service's.
        listener: a socket with its address; this listens on it once it can answer, and closes it at the end.
        when_serving: called once requests are accepted.
        supervisor: the process that started this one, if it is one of several: it is notified when this can answer, and
            says when to accept; its end is this one's too.
        peers: the others, if it is one of several.

    Raises:
        CannotListenError: another service listened at the address first.
        StorageUnavailableError: the database can't be opened, or another process has it.
    """
    set_up_logs(settings)
    calm_garbage_collection()
    keep_freed_memory()
    app = build_app(settings)
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        ws="none",  # another protocol, without our bounds
        loop="uvloop",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
        lifespan="off",  # `run` opens the stores itself, so that its caller gets the errors
        server_header=False,
        proxy_headers=False,  # nothing here asks where a request came from
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run(app, config, listener, settings.drain_s, when_serving, supervisor, peers))


async def run(
    app: FastAPI,
    config: uvicorn.Config,
    listener: socket.socket,
    drain_s: float,
    when_serving: Callable[[], object],
    supervisor: Pipe | None,
    peers: Peers | None,
) -> None:
    """Open the application's stores, serve, close them."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(Threads())
    async with app.router.lifespan_context(app), AsyncExitStack() as stack:
        state = state_of(app)
        server = DrainingServer(
            config, drain_s=drain_s, when_serving=when_serving, when_draining=state.use_cases.readiness.drain
        )
        if supervisor is not None:
            server.obey(supervisor)
        if peers is not None:
            await stack.enter_async_context(peers.telling(state.metrics.text))
            state.metrics_of_all = partial(peers.all_of_them, state.metrics.text)
        await server.serve(sockets=[listener])
