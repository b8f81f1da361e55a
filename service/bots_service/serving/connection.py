"""One client's connection: what uvicorn's own does, and the time-outs and the gentle end that it lacks."""

import fcntl
import struct
import termios
from collections.abc import Iterator

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

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

    def data_received(self, data: bytes) -> None:
        """Take in what came, unless this end is closed: then it can't be answered, so it must not be done."""
        if not self.has_left:
            self.heard = self.loop.time()
            super().data_received(data)

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        super().on_message_begin()
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
