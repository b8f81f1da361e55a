"""The server: uvicorn's, with time-outs for connections and a graceful end."""

import asyncio
import contextlib
import fcntl
import signal
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection as Pipe
from types import FrameType

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bots_service.api.overload import CLIENT_LEFT_EXTENSION
from bots_service.serving.listening import let_nobody_in, listen

log = structlog.get_logger("bots_service.serving")


HEADERS_S = 10.0  # a request's headers take this long at most, from their first byte
SILENCE_S = 30.0  # what is left of a body that nobody reads any more, and a reader that stands still
PARTING_S = 0.25  # between our end of an idle connection and the socket's; longer than a round trip


class Connections(ServerState):
    """All connections of this process. draining: each answer is its connection's last."""

    def __init__(self) -> None:
        super().__init__()
        self.draining = False

    def open(self) -> Iterator["HttpConnection"]:
        """Yield the connections; they may close meanwhile."""
        for connection in list(self.connections):
            if isinstance(connection, HttpConnection):
                yield connection


class HttpConnection(HttpToolsProtocol):
    """uvicorn's connection, which knows whether a request is on its way."""

    server_state: Connections
    begun: float | None = None  # when the request that is arriving began
    has_headers = False
    heard = 0.0  # when its last byte came
    blocked: float | None = None  # since when the client reads nothing
    has_left = False
    when_left: list[Callable[[], None]]  # what the newest request wants called when its client leaves

    def data_received(self, data: bytes) -> None:
        """Accept received data, unless this end is closed: a request without a response must not be processed."""
        if not self.has_left:
            self.heard = self.loop.time()
            super().data_received(data)

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        super().on_message_begin()
        self.when_left = []
        self.scope["extensions"] = {CLIENT_LEFT_EXTENSION: {"callbacks": self.when_left}}
        self.begun, self.has_headers = self.heard, False

    def on_headers_complete(self) -> None:
        """Start the request."""
        super().on_headers_complete()
        self.has_headers = True
        if self.server_state.draining:
            self.finish()

    def on_message_complete(self) -> None:
        """Note that all of the request has come."""
        super().on_message_complete()
        self.begun = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request under way that its client left."""
        super().connection_lost(exc)
        if self.is_answering:
            for leave in self.when_left:
                leave()

    def pause_writing(self) -> None:
        """Note that the client is slow to read."""
        self.blocked = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it reads again."""
        self.blocked = None
        super().resume_writing()

    def finish(self) -> None:
        """Let the answer under way be the last, if there is one; it tells the client so."""
        if self.is_answering:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection after the answer under way; at once if nothing is under way or has just come."""
        if self.is_idle and not self.transport.is_closing():
            # Only our half: closing both would reset a request that crosses this, and lose what it asks in silence.
            self.has_left = True
            self.transport.write_eof()
            self.loop.call_later(PARTING_S, self.transport.close)
        else:
            self.finish()

    @property
    def is_idle(self) -> bool:
        """Whether no request is arriving or being answered."""
        return self.begun is None and not self.is_answering and not self._has_unread()

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first
        return cycle is not None and not cycle.response_complete

    def _has_unread(self) -> bool:
        """Say whether the kernel holds bytes that the event loop has not read yet."""
        fileno = self.transport.get_extra_info("socket").fileno()
        if fileno < 0:
            return False
        (unread,) = struct.unpack("i", fcntl.ioctl(fileno, termios.FIONREAD, b"\0" * 4))
        return bool(unread)

    def cut_if_stuck(self, now: float) -> None:
        """Break the connection if it waits for what does not come."""
        if self.begun is not None and not self.has_headers:
            stuck = now - self.begun > HEADERS_S
        elif self.begun is not None and not self.is_answering:
            stuck = now - self.heard > SILENCE_S
        else:
            stuck = self.blocked is not None and now - self.blocked > SILENCE_S
        if stuck:
            self.transport.abort()


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
            self._cut_stuck()
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
            self._cut_stuck()
        return True

    def _cut_stuck(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self.server_state.open():
            connection.cut_if_stuck(now)

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
