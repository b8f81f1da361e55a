"""A client's connection: uvicorn's, with bounds in bytes and in time on all that a client can make the service hold.

They hold before a request reaches the application, and so before its key is read. httptools is the only parser, and
uvicorn serves no WebSockets here, so no connection goes another way.
"""

import asyncio
import fcntl
import resource
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nsmallest

import httptools
import structlog
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bots_service.api.overload import CLIENT_LEFT_EXTENSION, has_no_body
from bots_service.api.problems import kind_of, problem_response
from bots_service.api.requests import finish_headers, request_id_of
from bots_service.errors import BotsError, HeadersTooLargeError, MalformedRequestError

log = structlog.get_logger("bots_service.serving")

MIB = 2**20
HEAD_BYTES = 64 * 1024  # of a request line with its headers; of trailers and whatever else is no body
HEADERS = 256  # each takes some 150 bytes besides its text
HEADERS_S = 10.0  # for what HEAD_BYTES counts, and for the rest of a body after its answer
SILENCE_S = 30.0  # for a reader that stands still
PARTING_S = 0.25  # between our end of a connection and the socket's; longer than a round trip
PIPELINED = 32  # requests that wait for the answer to one before them, per connection; each takes about 4 kB
UNREAD_BYTES = 64 * MIB  # of answers, on all connections together
FILES_OF_ITS_OWN = 128  # of the open files that are allowed: the libraries', the database's, the logs', the pools'
PIECE_BYTES = 16 * 1024  # parsed at a time, so that a bound is noticed soon after it is passed


class Connections(ServerState):
    """All connections of this process. draining: each answer is its connection's last."""

    def __init__(self) -> None:
        super().__init__()
        self.draining = False
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(files - FILES_OF_ITS_OWN, files // 2) if files >= 0 else sys.maxsize
        self._made_room = 0.0
        self._cut: Counter[str] = Counter()
        self._unread: dict[HttpConnection, int] = {}  # -> bytes; the one that has stood still for longest is the first
        self._unread_bytes = 0

    def has_room(self) -> bool:
        """Say whether another connection may stay; if they are too many, end some that were idle for longest."""
        now = time.monotonic()
        if len(self.connections) > self._most and now - self._made_room > PARTING_S:
            self._made_room = now
            idle = (connection for connection in self.open() if connection.is_idle)
            for connection in nsmallest(self._most // 8, idle, key=lambda one: one.heard):
                self.count_cut("idle")
                connection.shutdown()
        return len(self.connections) <= self._most + FILES_OF_ITS_OWN // 4  # those that end have not ended yet

    def open(self) -> Iterator["HttpConnection"]:
        """Yield the connections; they may close meanwhile."""
        for connection in list(self.connections):
            if isinstance(connection, HttpConnection):
                yield connection

    def cut_stuck(self) -> None:
        """Cut the connections that wait for what does not come; log how many were cut since the last call."""
        now = time.monotonic()
        for connection in self.open():
            connection.cut_if_stuck(now)
        if self._cut:
            log.warning("connections_cut", **self._cut)
            self._cut.clear()

    def count_cut(self, reason: str) -> None:
        self._cut[reason] += 1

    def hold(self, connection: "HttpConnection", count: int) -> None:
        """Count an answer that its client doesn't read; where they are too many bytes, cut who stands still longest."""
        self.release(connection)
        self._unread[connection] = count
        self._unread_bytes += count
        while self._unread_bytes > UNREAD_BYTES and len(self._unread) > 1:
            longest = next(iter(self._unread))
            self.release(longest)
            longest.cut("unread-answers")

    def release(self, connection: "HttpConnection") -> None:
        self._unread_bytes -= self._unread.pop(connection, 0)


class PipelineFlow(FlowControl):
    """uvicorn's flow control, which reads nothing more while a request waits for the answer to one before it."""

    def __init__(self, connection: "HttpConnection") -> None:
        super().__init__(connection.transport)
        self._connection = connection

    def resume_reading(self) -> None:
        if not self._connection.pipeline and not self._connection.has_left:
            super().resume_reading()


TOO_LARGE = f"the request line and its headers may have {HEAD_BYTES} bytes and {HEADERS} headers"


class HttpConnection(HttpToolsProtocol):
    """uvicorn's connection, which knows whether a request is on its way, and counts what comes besides bodies."""

    server_state: Connections
    begun: float | None = None  # when the request that is arriving began
    has_headers = False
    head_bytes = 0  # of its request line and headers that are complete
    heard = 0.0  # when the last bytes came, or the connection was made
    bare_bytes = 0  # that came since headers, a part of a body or a request were complete
    bare_since: float | None = None
    rest_since: float | None = None  # since when the rest of a body is on its way to nobody
    blocked: float | None = None  # since when the client reads nothing
    has_left = False
    when_left: list[Callable[[], None]]  # what the newest request wants called when its client leaves

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.flow = PipelineFlow(self)
        self.heard = time.monotonic()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        if not self.server_state.has_room():
            self.cut("too-many")

    def data_received(self, data: bytes) -> None:
        """Parse received data in pieces, unless this end is closed: what gets no response must not be processed."""
        self.heard = time.monotonic()
        self._unset_keepalive_if_required()
        if self.bare_since is not None and self.heard - self.bare_since > HEADERS_S:
            self.cut("slow-headers")
        for first in range(0, len(data), PIECE_BYTES):
            if self.has_left:
                return
            self._receive(data[first : first + PIECE_BYTES])

    def _receive(self, piece: bytes) -> None:
        self.bare_bytes += len(piece)  # the parser's callbacks take back what is none
        self.bare_since = self.bare_since or self.heard
        try:
            self._parse(piece)
            if self.bare_bytes > HEAD_BYTES:
                raise HeadersTooLargeError(TOO_LARGE)
        except BotsError as error:
            self._refuse(error)
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback raised
            self._refuse(cause if isinstance(cause, BotsError) else MalformedRequestError(str(error)))

    def _parse(self, piece: bytes) -> None:
        while piece:
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:  # we speak nothing else: it is a request like any other
                piece = piece[upgrade.args[0] :]
            else:
                return

    def on_message_begin(self) -> None:
        """Note that a request begins; refuse one behind which too many wait."""
        if len(self.pipeline) == PIPELINED:
            said = f"{PIPELINED} requests wait on this connection; read their answers first"
            raise MalformedRequestError(said)
        super().on_message_begin()
        self.when_left = []
        self.scope["extensions"] = {CLIENT_LEFT_EXTENSION: {"callbacks": self.when_left}}
        self.begun = self.bare_since = self.heard
        self.has_headers, self.head_bytes = False, 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; leave out a trailer, which could pass for one."""
        if not self.has_headers:
            self._count_head(len(name) + len(value) + 4)  # as written, with a colon, a space, and the line's end
            super().on_header(name, value)

    def _count_head(self, count: int) -> None:
        self.head_bytes += count
        if self.head_bytes > HEAD_BYTES or len(self.headers) == HEADERS:
            raise HeadersTooLargeError(TOO_LARGE)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and not has_no_body({**self.scope}):  # it would parse the body as a request
            said = "a request with a body can't be upgraded; leave out the header Upgrade (in Java: set HTTP_1_1)"
            raise MalformedRequestError(said)
        super().on_headers_complete()
        self.has_headers = True
        self._end_bare()
        if self.server_state.draining:
            self.finish()

    def on_body(self, body: bytes) -> None:
        self._end_bare()
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._end_bare()
        self.begun = None

    def _end_bare(self) -> None:
        self.bare_bytes, self.bare_since = 0, None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.server_state.release(self)
        if self.is_answering:
            for leave in self.when_left:
                leave()

    def pause_writing(self) -> None:
        self.blocked = time.monotonic()
        self.server_state.hold(self, self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        self.blocked = None
        self.server_state.release(self)
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

    def cut(self, reason: str) -> None:
        self.has_left = True
        self.server_state.count_cut(reason)
        self.transport.abort()

    def _refuse(self, error: BotsError) -> None:
        """Answer a problem after the answers to earlier requests, and close; only close where no answer fits in."""
        is_too_large, (_, name) = isinstance(error, HeadersTooLargeError), kind_of(type(error))
        if self.begun is not None and self.has_headers:  # it came within a body, or behind it
            if is_too_large or self.pipeline or self.cycle.response_started:
                self.cut("trailers" if is_too_large else name)
                return
            self.cycle.disconnected = True  # who waits for this body gets no more of it, and answers nothing
            self.cycle.message_event.set()
            self.cycle = None  # type: ignore[assignment]  # as before the first
        self.server_state.count_cut(name)
        self.has_left = True
        self.flow.pause_reading()
        super().on_message_begin()
        self.url, self.app = b"/", partial(self._answer_refused, error)
        super().on_headers_complete()
        self.finish()
        self.begun = None
        self._end_bare()

    async def _answer_refused(self, error: BotsError, scope: Scope, receive: Receive, send: Send) -> None:
        async def part(message: Message) -> None:
            if message["type"] == "http.response.body":  # a socket that is closed with bytes unread resets what it sent
                await send({**message, "more_body": True})
                await asyncio.sleep(PARTING_S)
                message = {"type": "http.response.body"}
            await send(message)

        response = problem_response(Request(scope), error)
        finish_headers(response.headers, request_id_of(scope))
        await response(scope, receive, part)

    @property
    def is_idle(self) -> bool:
        return self.begun is None and not self.is_answering and not self._has_unread()

    @property
    def is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first
        return cycle is not None and not cycle.response_complete

    def _has_unread(self) -> bool:
        fileno = self.transport.get_extra_info("socket").fileno()
        if fileno < 0:
            return False
        # How many bytes the kernel holds that the event loop has not read yet.
        return any(fcntl.ioctl(fileno, termios.FIONREAD, b"\0" * 4))

    def cut_if_stuck(self, now: float) -> None:
        """Break the connection if it waits for what does not come."""
        if self.flow.read_paused and self.bare_since is not None:
            self.bare_since = now  # we don't read
        if self.transport.is_closing() and self.blocked is None:
            self.blocked = now  # by the last bytes, however few
        is_rest = self.begun is not None and self.has_headers and not self.is_answering
        self.rest_since = (self.rest_since or now) if is_rest else None
        if self.bare_since is not None and now - self.bare_since > HEADERS_S:
            self.cut("slow-headers")
        elif self.rest_since is not None and now - self.rest_since > HEADERS_S:
            self.cut("slow-body")
        elif self.blocked is not None and now - self.blocked > SILENCE_S:
            self.cut("unread-answers")
