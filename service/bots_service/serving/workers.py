"""Several processes that share one listening socket: uvicorn's workers, each with our server."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from socket import socket

from uvicorn.config import STARTUP_FAILURE
from uvicorn.server import Server
from uvicorn.supervisors import multiprocess as supervising

from bots_service.errors import BotsError
from bots_service.serving.listening import let_nobody_in
from bots_service.serving.peers import Peers
from bots_service.serving.server import Config, DrainingServer
from bots_service.settings import Settings

START_S = 60.0


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
        """Serve until a signal ends it."""
        try:
            super().target(sockets)
        except BotsError as error:
            sys.stderr.write(f"bots: worker {os.getpid()}: {error}\n")
            sys.exit(STARTUP_FAILURE)


supervising.Process = Worker  # type: ignore[misc] # what the supervisor makes its workers of


class Workers(supervising.Multiprocess):
    """Keeps the processes running until SIGTERM or SIGINT."""

    config: Config

    def __init__(self, config: Config, sockets: list[socket], when_serving: Callable[[], object]) -> None:
        """Prepare. when_serving: called once the first worker answers."""
        super().__init__(config, sockets)
        self._when_serving = when_serving

    def init_processes(self) -> None:
        """Start the workers, and wait until the first one serves."""
        super().init_processes()
        if self.processes[0].wait_until_ready(START_S):
            self._when_serving()

    def join_all(self) -> None:
        """Wait for the end of the workers, which have their signal; let nobody in after their lame duck's time."""
        time.sleep(self.config.settings.drain_s)
        for listener in self.sockets:
            let_nobody_in(listener)
        super().join_all()

    @property
    def could_start(self) -> bool:
        """Whether no worker failed before it served."""
        return all(process.exitcode != STARTUP_FAILURE for process in self.processes)


def serve_in_workers(settings: Settings, listener: socket, when_serving: Callable[[], object]) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        SystemExit: no worker could start.
    """
    with tempfile.TemporaryDirectory(prefix="bots-") as folder:
        config = Config(settings, Peers(Path(folder)))
        workers = Workers(config, [listener], when_serving)
        workers.run()
    if not workers.could_start:
        raise SystemExit(1)
