"""Several processes that share one listening socket: uvicorn's workers, each with our server."""

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from socket import socket

import structlog
from uvicorn.config import STARTUP_FAILURE
from uvicorn.server import Server
from uvicorn.supervisors import multiprocess as supervising

from bots_service.errors import BotsError
from bots_service.serving.peers import Peers
from bots_service.serving.server import Config, DrainingServer
from bots_service.serving.starting import let_nobody_in
from bots_service.settings import Settings

log = structlog.get_logger("bots_service.serving")

READY_S = 0.1  # between two questions whether a worker serves


class Worker(supervising.Process):
    """One of the processes. uvicorn's own would build uvicorn's own server, which does not drain."""

    config: Config

    @property
    def server(self) -> Server:
        """The server of this process."""
        if self._server is None:
            self._server = DrainingServer(self.config)
        return self._server

    def target(self, sockets: list[socket] | None = None) -> None:
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

    def __init__(self, config: Config, sockets: list[socket], when_serving: Callable[[], object]) -> None:
        """Prepare. when_serving: called once any worker answers."""
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


def serve_in_workers(settings: Settings, listener: socket, when_serving: Callable[[], object]) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        SystemExit: no worker could start.
    """
    with tempfile.TemporaryDirectory(prefix="bots-") as folder:
        config = Config(settings, Peers(Path(folder)))
        workers = Workers(config, [listener], when_serving)
        workers.run()
    if not workers.has_served and any(process.exitcode == STARTUP_FAILURE for process in workers.processes):
        raise SystemExit(1)
