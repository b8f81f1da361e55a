"""Who is let in, and for how long: bounded work, bounded bodies, bounded time, whatever the clients do."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api.bodies import JSON, Pace
from bots_service.api.middleware import finish_headers, request_id_of
from bots_service.api.problems import answer_error
from bots_service.api.route_kinds import RouteKind, RouteKinds
from bots_service.errors import DeadlinePassedError, OverloadedError, SlowSenderError
from bots_service.metrics.process import RequestMetrics
from bots_service.spans import Span

log = structlog.get_logger("bots_service.overload")


MIB = 2**20
BUFFERED_BYTES = 256 * MIB  # of bodies whose requests wait or are worked on; of training requests, and of all others
REMEMBERED = 256  # completions that the rate is taken from
LATELY_S = 10.0
LONGEST_WAIT_S = 30.0


class Line:
    """Turns of one kind of request."""

    def __init__(self, *, concurrent: int, waiting: int) -> None:
        """Open a line.

        Args:
            concurrent: how many have a turn at once.
            waiting: how many may wait for theirs.
        """
        self._turns = asyncio.Semaphore(concurrent)
        self._room = concurrent + waiting
        self.working = self.waiting = self.refused = 0
        self._finished: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def is_busy(self) -> bool:
        """Whether a turn must be waited for."""
        return self._turns.locked()

    @property
    def is_full(self) -> bool:
        """Whether nobody may line up now."""
        # Not by who waits alone: a turn that was given back just now has its taker still counted among them.
        return self.working + self.waiting >= self._room

    async def take(self) -> None:
        """Wait for a turn; `give_back` ends it.

        Raises:
            OverloadedError: too many wait already.
        """
        if self.is_full:
            raise self.refusal()
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        self.working += 1

    def give_back(self) -> None:
        """End a turn."""
        self.working -= 1
        self._finished.append(monotonic())
        self._turns.release()

    def refusal(self) -> OverloadedError:
        """Return what a request is told that may not line up."""
        self.refused += 1
        said = f"{self.working} requests are being worked on and {self.waiting} wait; try again later"
        return OverloadedError(said, retry_after_s=self.retry_after_s())

    def retry_after_s(self) -> float:
        """Return in how many seconds the line will have moved on, 1 to 30; not the same for all who ask at once."""
        ahead = self.working + self.waiting
        expected_s = min(max(1.0, ahead / self._rate()), LONGEST_WAIT_S / 1.5)
        return expected_s * random.uniform(1.0, 1.5)  # noqa: S311 - spreads callers, hides nothing

    def _rate(self) -> float:
        """Return completions a second of late; 1 where nothing was completed."""
        now = monotonic()
        while self._finished and now - self._finished[0] > LATELY_S:
            self._finished.popleft()
        return len(self._finished) / max(now - self._finished[0], 1.0) if self._finished else 1.0


class Buffer:
    """Bytes of bodies that are held in memory, of all requests together."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.held = 0

    def take(self, count: int) -> None:
        """Count bytes in.

        Raises:
            OverloadedError: too many are held already.
        """
        if self.held + count > self._limit_bytes:
            raise OverloadedError(f"{self.held} bytes of request bodies are queued; try again later")
        self.held += count

    def give_back(self, count: int) -> None:
        """Count bytes out."""
        self.held -= count


UPLOADS_AT_ONCE = 4  # each may hold a body of 64 MiB and its tasks
UPLOADS_WAITING = 64
CONTROL_S = 60.0  # for everything else: far longer than any takes, and shorter than people's patience
TELL_EVERY_S = 1.0

# An ASGI extension of our server. Its "callbacks" are called when the client leaves before it is answered.
CLIENT_LEFT_EXTENSION = "bots.client_left"

SMALL_REST = 64 * 1024  # of a body that nobody wants: cheaper to receive than a new connection
LINGER_S = 2.0  # for larger ones: a client that is still sending when the connection closes may miss its answer


@dataclass(frozen=True, slots=True)
class Limits:
    """What training requests may take of one process."""

    request_timeout_s: float = 10.0
    max_concurrent: int = 64
    max_waiting: int = 256
    buffered_bytes: int = BUFFERED_BYTES


class Refusal:
    """Pure ASGI, the outermost: answers 503 at once while the line is full, and has spent next to nothing on it."""

    def __init__(self, app: ASGIApp, kind_of: RouteKinds, line: Line, metrics: RequestMetrics) -> None:
        self._app = app
        self._kind_of = kind_of
        self._line = line
        self._metrics = metrics
        self._told, self._told_at = 0, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if not (self._line.is_full and scope["type"] == "http" and self._kind_of(scope) is RouteKind.TRAINING):
            await self._app(scope, receive, send)
            return
        error = self._line.refusal()
        self._tell(error)
        response = await answer_error(Request(scope), error)
        finish_headers(response.headers, request_id_of(scope))
        self._metrics.answered(scope["method"], scope["path"], response.status_code, 0.0)
        await response(scope, receive, Parting(scope, Pace(receive, is_complete=has_no_body(scope)), send))

    def _tell(self, error: OverloadedError) -> None:
        """Write one line for all refusals of a second."""
        if monotonic() - self._told_at > TELL_EVERY_S:
            log.warning("overloaded", refused=self._line.refused - self._told, reason=str(error))
            self._told, self._told_at = self._line.refused, monotonic()


class Admission:
    """Pure ASGI: for each request a deadline, and a turn where it needs one, once its body is there."""

    def __init__(self, app: ASGIApp, kind_of: RouteKinds, line: Line, limits: Limits) -> None:
        self._app = app
        self._kind_of = kind_of
        self._training, self._uploads = line, Line(concurrent=UPLOADS_AT_ONCE, waiting=UPLOADS_WAITING)
        self._training_bodies, self._upload_bodies = Buffer(limits.buffered_bytes), Buffer(BUFFERED_BYTES)
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or (kind := self._kind_of(scope)) is RouteKind.PROBE:
            await self._app(scope, receive, send)
            return
        pace = Pace(receive, is_complete=has_no_body(scope))
        queued = self._queued(scope, kind, pace)
        seconds = self._limits.request_timeout_s if kind is RouteKind.TRAINING else CONTROL_S
        try:
            async with asyncio.timeout(seconds) as queued.deadline:
                await self._app(scope, queued, Parting(scope, pace, send, queued.deadline))
        except TimeoutError as error:
            if not queued.deadline.expired():
                raise
            said = f"the request was not done in {seconds:g} s; try again, under the same Idempotency-Key"
            refusal = DeadlinePassedError(said)
            refusal.__cause__ = error
            response = await answer_error(Request(scope), refusal)
            await response(scope, receive, Parting(scope, pace, send))
        finally:
            queued.leave()

    def _queued(self, scope: Scope, kind: RouteKind, pace: Pace) -> "QueuedRequest":
        if kind is RouteKind.TRAINING:
            return QueuedRequest(pace, self._training_bodies, self._training, work_s=self._limits.request_timeout_s)
        if kind is RouteKind.UPLOAD:
            is_streamed = not Headers(scope=scope).get("content-type", "").startswith(JSON)
            return QueuedRequest(pace, self._upload_bodies, self._uploads, work_s=None, is_streamed=is_streamed)
        return QueuedRequest(pace, self._upload_bodies, None, work_s=CONTROL_S)


class QueuedRequest:
    """One request on its way in: its caller is looked at first, then its body comes, then it waits for its turn."""

    deadline: asyncio.Timeout

    def __init__(
        self, pace: Pace, bodies: Buffer, line: Line | None, *, work_s: float | None, is_streamed: bool = False
    ) -> None:
        """Let a request in.

        Args:
            pace: its body.
            bodies: where its bytes count, unless it is streamed.
            line: where it gets its turn; None: it needs none.
            work_s: how long it may take once its body is there.
            is_streamed: it is worked on while it comes, so that it needs its turn before.
        """
        self._pace = pace
        self._bodies = bodies
        self._line = line
        self._work_s = work_s
        self._is_streamed = is_streamed
        self._has_turn = False
        self._held = 0

    async def __call__(self) -> Message:
        """Return the body's next piece, the last one once it is the request's turn.

        Raises:
            OverloadedError: too many wait for theirs, or for memory.
            SlowSenderError: the body comes too slowly.
        """
        if self._pace.is_complete:
            return await self._pace()
        if self._is_streamed:
            await self._take_turn()
        self.deadline.reschedule(None)  # the pace has its own limits
        message = await self._pace()
        if not self._is_streamed:
            self._bodies.take(size := len(message.get("body", b"")))
            self._held += size
        if not message.get("more_body", False):
            self._restart()
            has_waited = self._line is not None and self._line.is_busy
            await self._take_turn()
            if has_waited and await is_gone(self._pace):
                return {"type": "http.disconnect"}
        return message

    async def _take_turn(self) -> None:
        if self._line is not None and not self._has_turn:
            with Span("turn"):
                await self._line.take()
            self._has_turn = True

    def _restart(self) -> None:
        """Let the time that the work may take begin."""
        if self._work_s is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + self._work_s)

    def leave(self) -> None:
        """Give back what the request took."""
        self._bodies.give_back(self._held)
        if self._line is not None and self._has_turn:
            self._line.give_back()


class Parting:
    """Sends an answer. Where the client still sends what nobody reads, it is the connection's last, and not cut off."""

    def __init__(self, scope: Scope, pace: Pace, send: Send, deadline: asyncio.Timeout | None = None) -> None:
        self._scope = scope
        self._pace = pace
        self._send = send
        self._deadline = deadline  # for the answer to begin
        self._lingers = False

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            if self._deadline is not None:
                self._deadline.reschedule(None)
            if not self._pace.is_complete and not (declared_length(self._scope) or SMALL_REST + 1) <= SMALL_REST:
                MutableHeaders(scope=message)["Connection"] = "close"
                self._lingers = True
            await self._send(message)
        elif self._lingers and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            await self._send({"type": "http.response.body"})
        else:
            await self._send(message)

    async def _linger(self) -> None:
        """Receive the rest for a moment."""
        try:
            async with asyncio.timeout(LINGER_S):
                while not self._pace.is_complete:
                    await self._pace()
        except (TimeoutError, SlowSenderError):
            pass


def declared_length(scope: Scope) -> int | None:
    """Return the body's length as its headers say it, None if they don't."""
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdecimal() else None


def has_no_body(scope: Scope) -> bool:
    """Say whether the headers promise none."""
    headers = Headers(scope=scope)
    return "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"


async def while_client_waits(request: Request, work: Awaitable[Response]) -> Response:
    """Return the work's response; cancel the work once the client has left, and return a response that sends nothing.

    For work that helps nobody but this client. Under load, clients give up and ask again: the work for those who left
    would hold up the others until they leave, too.
    """
    extension = request.scope.get("extensions", {}).get(CLIENT_LEFT_EXTENSION, {})
    when_left: list[Callable[[], None]] = extension.get("callbacks", [])
    waiting = asyncio.timeout(None)
    try:
        async with waiting:
            when_left.append(lambda: waiting.reschedule(0.0))
            try:
                return await work
            finally:
                when_left.clear()
    except TimeoutError:
        if not waiting.expired():
            raise
        return NoResponse()


class NoResponse(Response):
    """For a client that left: nothing is sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


async def is_gone(receive: Receive) -> bool:
    """Say whether the client went away, so that nobody waits for the answer."""
    coming = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    if coming.done():
        return bool(coming.result()["type"] == "http.disconnect")
    coming.cancel()
    return False
