"""Overload protection: limits on concurrent work, buffered bodies and time, whatever clients do."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from time import monotonic

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api.problems import problem_response
from bots_service.api.requests import MIB, PacedReceive, state_of
from bots_service.api.routing import WORKING_ON, RouteKind
from bots_service.errors import BotsError, DeadlinePassedError, OverloadedError, SlowSenderError

BUFFERED_BYTES = 256 * MIB  # of bodies in memory; once for training requests, once for all others
REMEMBERED = 256  # completions from which the rate is computed
LATELY_S = 10.0
LONGEST_WAIT_S = 30.0


class RequestQueue:
    """A bounded queue for turns of one kind of request."""

    def __init__(self, *, concurrent: int, waiting: int) -> None:
        self._turns = asyncio.Semaphore(concurrent)
        self._room = concurrent + waiting
        self.working = self.waiting = 0
        self._finished: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def is_busy(self) -> bool:
        return self._turns.locked()

    @property
    def is_full(self) -> bool:
        # `waiting` still counts a request whose turn was just released to it.
        return self.working + self.waiting >= self._room

    async def acquire(self) -> None:
        """Wait for a turn; `release` ends it. Raises OverloadedError: too many requests wait."""
        if self.is_full:
            raise self.refusal()
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        self.working += 1

    def release(self) -> None:
        self.working -= 1
        self._finished.append(monotonic())
        self._turns.release()

    def refusal(self) -> OverloadedError:
        """Return the error for a request that may not wait; the queue is expected to be shorter in 1 to 30 s."""
        said = f"{self.working} requests are in progress and {self.waiting} wait; try again later"
        now = monotonic()
        while self._finished and now - self._finished[0] > LATELY_S:
            self._finished.popleft()
        per_s = len(self._finished) / max(now - self._finished[0], 1.0) if self._finished else 1.0
        expected_s = min(max(1.0, (self.working + self.waiting) / per_s), LONGEST_WAIT_S / 1.5)
        jitter = random.uniform(1.0, 1.5)  # noqa: S311 - spreads callers, hides nothing
        return OverloadedError(said, retry_after_s=expected_s * jitter)


class Buffer:
    """The bytes of all request bodies in memory, with a limit."""

    def __init__(self) -> None:
        self.held = 0

    def acquire(self, count: int) -> None:
        """Add bytes. Raises OverloadedError: the limit would be exceeded."""
        if self.held + count > BUFFERED_BYTES:
            raise OverloadedError(f"{self.held} bytes of request bodies are queued; try again later")
        self.held += count

    def release(self, count: int) -> None:
        self.held -= count


UPLOADS_AT_ONCE = 4  # each may hold a body of 64 MiB and its tasks
UPLOADS_WAITING = 64
DOWNLOADS_AT_ONCE = 4  # each holds a state, and some megabytes of what it sends
DOWNLOADS_WAITING = 64
SENT_BYTES = MIB  # of a download at a time, so that a slow reader, of 35 kB/s, takes each piece before it is cut
CONTROL_S = 60.0  # for everything else: much longer than any call takes

# An ASGI extension of our server. Its "callbacks" are called when the client disconnects before the answer.
CLIENT_LEFT_EXTENSION = "bots.client_left"

SMALL_REST = 64 * 1024  # of an unwanted body: receiving it is cheaper than a new connection
LINGER_S = 2.0  # for a larger rest: a client that still sends when the connection closes may miss its answer


class Admission:
    """Gives each request a deadline and, once its body has arrived, a turn if it needs one."""

    def __init__(self, *, timeout_s: float, concurrent: int, waiting: int) -> None:
        """Have nobody in line. All is about training requests. timeout_s: their deadline."""
        self.training = RequestQueue(concurrent=concurrent, waiting=waiting)
        self._uploads = RequestQueue(concurrent=UPLOADS_AT_ONCE, waiting=UPLOADS_WAITING)
        self.downloads = RequestQueue(concurrent=DOWNLOADS_AT_ONCE, waiting=DOWNLOADS_WAITING)
        self._training_bodies, self._bodies = Buffer(), Buffer()
        self._timeout_s = timeout_s

    async def __call__(
        self, app: ASGIApp, kind: RouteKind, scope: Scope, receive: Receive, send: Send, *, ends_with_client: bool
    ) -> None:
        WORKING_ON.set(kind)
        pace = PacedReceive(receive, is_complete=has_no_body(scope))
        if kind is RouteKind.TRAINING:
            queued = QueuedRequest(pace, self._timeout_s, self.training, self._training_bodies)
        elif kind is RouteKind.UPLOAD:
            queued = QueuedRequest(pace, CONTROL_S, self._uploads, None)
        else:
            queued = QueuedRequest(pace, CONTROL_S, None, self._bodies)
        parting = LingeringClose(scope, pace, send, queued)
        try:
            async with asyncio.timeout(queued.work_s) as queued.deadline:
                if ends_with_client:
                    left = scope.get("extensions", {}).get(CLIENT_LEFT_EXTENSION, {})
                    left.get("callbacks", []).append(queued.end_early)
                await app(scope, queued, parting)
        except BotsError as error:
            if parting.has_begun:
                raise
            await refuse(scope, pace, send, error)
        except TimeoutError:
            if not queued.deadline.expired():
                raise
            if not queued.has_left:
                said = f"the request took longer than {queued.work_s:g} s; try again with the same Idempotency-Key"
                await refuse(scope, pace, send, DeadlinePassedError(said))
        finally:
            queued.leave()


class QueuedRequest:
    """An incoming request: its caller is checked, then its body is received, then it waits for its turn."""

    deadline: asyncio.Timeout
    has_left = False  # its client did, and nobody waits for an answer

    def __init__(self, pace: PacedReceive, work_s: float, line: RequestQueue | None, bodies: Buffer | None) -> None:
        """Begin with its body.

        work_s: deadline, once more when the body has arrived. line: None where it needs no turn. bodies: counts its
        bytes; None where it is worked on while it arrives, so that the turn comes first, and without a deadline.
        """
        self._pace = pace
        self.work_s = work_s
        self._line = line
        self._bodies = bodies
        self._has_turn = False
        self._held = 0

    async def __call__(self) -> Message:
        """Return the body's next chunk; the last one only when it is the request's turn."""
        if self._pace.is_complete:
            return await self._pace()
        if self._bodies is None:
            await self._take_turn()
        self.deadline.reschedule(None)  # the pace has its own limits
        message = await self._pace()
        if self._bodies is None:
            return message
        self._bodies.acquire(size := len(message.get("body", b"")))
        self._held += size
        if not message.get("more_body", False):
            self.deadline.reschedule(asyncio.get_running_loop().time() + self.work_s)  # from now on
            has_waited = self._line is not None and self._line.is_busy
            await self._take_turn()
            if has_waited and await is_gone(self._pace):
                return {"type": "http.disconnect"}
        return message

    async def _take_turn(self) -> None:
        if self._line is not None and not self._has_turn:
            await self._line.acquire()
            self._has_turn = True

    def end_early(self) -> None:
        """End the work, because the client left: under load, clients time out and retry, and others wait for a turn."""
        with suppress(RuntimeError):  # the request is over already
            self.deadline.reschedule(0.0)
            self.has_left = True

    def leave(self) -> None:
        if self._bodies is not None:
            self._bodies.release(self._held)
        if self._line is not None and self._has_turn:
            self._line.release()


async def refuse(scope: Scope, pace: PacedReceive, send: Send, error: BotsError) -> None:
    response = problem_response(Request(scope), error)
    await response(scope, pace, LingeringClose(scope, pace, send))


class LingeringClose:
    """Sends an answer. Where the client still sends what nobody reads, it is the connection's last, and not cut off."""

    def __init__(self, scope: Scope, pace: PacedReceive, send: Send, queued: QueuedRequest | None = None) -> None:
        """Answer a request. queued: has a deadline for the answer to begin."""
        self._scope = scope
        self._pace = pace
        self._send = send
        self._queued = queued
        self._lingers = False
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            if self._queued is not None:
                self._queued.deadline.reschedule(None)
            length = Headers(scope=self._scope).get("content-length", "")
            is_small = length.isdecimal() and 0 < int(length) <= SMALL_REST
            if not self._pace.is_complete and not is_small:
                MutableHeaders(scope=message)["Connection"] = "close"
                self._lingers = True
            await self._send(message)
        elif self._lingers and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            with suppress(TimeoutError, SlowSenderError):
                async with asyncio.timeout(LINGER_S):  # receive the rest for a moment
                    while not self._pace.is_complete:
                        await self._pace()
            await self._send({"type": "http.response.body"})
        else:
            await self._send(message)


class Download(StreamingResponse):
    """An answer that holds a whole pool: made in turn, and sent piece by piece as the client reads."""

    def __init__(
        self, request: Request, pieces: AsyncGenerator[bytes], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with what makes the pieces of the body: all work is done in them, none before the turn."""
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._line = state_of(request.app).admission.downloads
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; what keeps the first piece from being made, is raised."""
        has_waited = self._line.is_busy
        await self._line.acquire()
        try:
            async with aclosing(self._pieces):
                if has_waited and await is_gone(receive):
                    return
                self.body_iterator = self._parts(await anext(self._pieces))
                await super().__call__(scope, receive, send)
        finally:
            self._line.release()

    async def _parts(self, piece: bytes | None) -> AsyncIterator[memoryview]:
        while piece is not None:
            for first in range(0, len(piece), SENT_BYTES):
                yield memoryview(piece)[first : first + SENT_BYTES]
            piece = await anext(self._pieces, None)


def has_no_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"


async def is_gone(receive: Receive) -> bool:
    coming = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    if coming.done():
        return bool(coming.result()["type"] == "http.disconnect")
    coming.cancel()
    return False
