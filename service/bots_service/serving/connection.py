"""A client's connection: uvicorn's, which loses no request when it ends, and tells a request that its client left.

httptools is the only parser, and uvicorn serves no WebSockets here, so no connection goes another way.
"""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable, Iterator

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bots_service.api.overload import CLIENT_LEFT_EXTENSION

HEAD_BYTES = 64 * 1024  # of a request line with its headers
PARTING_S = 0.25  # between our end of a connection and the socket's; longer than a round trip


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
    is_asking = False  # a request is arriving
    is_in_head = False  # its headers are
    head_bytes = 0
    has_left = False
    when_left: list[Callable[[], None]]  # what the newest request wants called when its client leaves

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for a first request as long as for any other."""
        super().connection_made(transport)
        self._wait()

    def _wait(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Take data, unless this end is closed: what gets no response must not be processed."""
        if self.has_left:
            return
        super().data_received(data)
        self.head_bytes = self.head_bytes + len(data) if self.is_in_head else 0
        if self.head_bytes > HEAD_BYTES:  # before a key is read; the parser has no limit of its own
            self.transport.abort()
        elif self.is_in_head:
            self._wait()

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        super().on_message_begin()
        self.is_asking = self.is_in_head = True
        self.when_left = []
        self.scope["extensions"] = {CLIENT_LEFT_EXTENSION: {"callbacks": self.when_left}}

    def on_headers_complete(self) -> None:
        """Start the request."""
        super().on_headers_complete()
        self.is_in_head = False
        if self.server_state.draining:
            self.finish()

    def on_message_complete(self) -> None:
        """Note that all of the request has come."""
        super().on_message_complete()
        self.is_asking = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request under way that its client left."""
        super().connection_lost(exc)
        if self.is_answering:
            for leave in self.when_left:
                leave()

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
        return not self.is_asking and not self.is_answering and not self._has_unread()

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
