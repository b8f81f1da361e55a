"""The server: uvicorn's, with a graceful end."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from types import FrameType

import structlog
import uvicorn

from bots_service.serving.connection import Connections
from bots_service.serving.listening import let_nobody_in, listen

log = structlog.get_logger("bots_service.serving")


FINISH_S = 20.0  # requests under way when nothing is accepted any more may take this long to be answered
LAST_WORDS_S = 0.25  # for clients that are busy, but between two requests when nothing is accepted any more
CANCEL_S = 1.0  # what was cancelled may tidy up this long
LOOK_S = 0.02
READY = "ready"  # what a worker says to its supervisor once it could answer


class DrainingServer(uvicorn.Server):
    """uvicorn's server with three phases at its end: lame duck, last answers, parting.

    As a lame duck it accepts and answers everything, and each answer closes its connection, so that at the end no
    client that spoke holds an open one. Then it accepts nothing more, answers what was sent, and parts from those
    connections that were idle all the while.
    """

    server_state: Connections

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        drain_s: float,
        when_serving: Callable[[], object],
        when_draining: Callable[[], object],
    ) -> None:
        """Prepare a server.

        Args:
            config: uvicorn's.
            drain_s: how long it is a lame duck.
            when_serving: called once requests are accepted.
            when_draining: called as soon as the service is asked to stop.
        """
        super().__init__(config)
        self.server_state = Connections()
        self._drain_s = drain_s
        self._when_serving = when_serving
        self._when_draining = when_draining
        self._supervisor: Pipe | None = None

    def obey(self, supervisor: Pipe) -> None:
        """Accept requests when the supervisor says so, end when it does, and leave Ctrl-C to it."""
        self._supervisor = supervisor

    async def _is_let_in(self, supervisor: Pipe) -> bool:
        """Say that requests could be answered; return whether they may be accepted, else this is to end."""
        try:
            supervisor.send(READY)
            while not supervisor.poll():
                if self.should_exit:
                    return False
                await asyncio.sleep(LOOK_S)
            supervisor.recv()
        except (EOFError, OSError):
            self._lose(supervisor)
            return False
        asyncio.get_running_loop().add_reader(supervisor.fileno(), self._lose, supervisor)
        return True

    def _lose(self, supervisor: Pipe) -> None:
        asyncio.get_running_loop().remove_reader(supervisor.fileno())
        log.warning("supervisor_lost")
        self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second Ctrl-C ends at once."""
        if self._supervisor is not None and sig == signal.SIGINT:
            return
        self._when_draining()
        self.server_state.draining = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests.

        Raises:
            CannotListenError: another process listened at the address first.
        """
        if self._supervisor is not None and not await self._is_let_in(self._supervisor):
            return
        for listener in sockets or []:
            listen(listener)  # uvicorn would, too, but uvloop keeps a failure to itself
        await super().startup(sockets)
        self._when_serving()

    async def on_tick(self, counter: int) -> bool:
        """Cut what is stuck, once a second; say whether to end."""
        if counter % 10 == 0:
            self.server_state.cut_stuck()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then close everything."""
        self._when_draining()
        self.server_state.draining = True
        for connection in self.server_state.open():
            connection.finish()
        await self._until(lambda: False, self._drain_s)
        await self._stop_accepting(sockets or [])
        await self._until(lambda: not self.server_state.connections, LAST_WORDS_S)
        for connection in self.server_state.open():
            connection.shutdown()
        if not await self._until(lambda: not (self.server_state.connections or self.server_state.tasks), FINISH_S):
            await self._give_up()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait until it is so, time is up, or somebody is in a hurry; say whether it is so."""
        give_up = time.monotonic() + seconds
        while not is_so():
            left_s = give_up - time.monotonic()
            if self.force_exit or left_s <= 0:
                return False
            await asyncio.sleep(min(LOOK_S, left_s))
            self.server_state.cut_stuck()
        return True

    async def _stop_accepting(self, listeners: Sequence[socket.socket]) -> None:
        """Close the listeners, but serve the connections that the kernel has completed: closing would reset them."""
        let_in = []
        for listener in listeners:
            if self._supervisor is None:  # otherwise others still use the same socket
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
        protocol: type[asyncio.Protocol] = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state={})  # type: ignore[call-arg]

    async def _give_up(self) -> None:
        """Cancel what is still under way."""
        log.error("requests_cancelled", tasks=len(self.server_state.tasks), after_s=FINISH_S)
        for connection in self.server_state.open():
            connection.transport.abort()
        if tasks := set(self.server_state.tasks):
            for task in tasks:
                task.cancel("the service is stopping")
            await asyncio.wait(tasks, timeout=CANCEL_S)
