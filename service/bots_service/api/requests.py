"""What a route is given: the application's services, the request's parameters and its body, answered once under a key.

Headers are checked first, then bytes are counted; senders that are too slow are cut off.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
from fastapi import Path, Query
from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive

from bots_service.api.decoding import decode_plain
from bots_service.api.responses import REPLAYED
from bots_service.core.checks import NAME, Name
from bots_service.errors import (
    ConflictError,
    Flaw,
    InvalidInputError,
    MalformedBodyError,
    NotFoundError,
    PayloadTooLargeError,
    SlowSenderError,
    UnsupportedMediaTypeError,
)
from bots_service.metrics import Metrics
from bots_service.records import Answer, IdempotencyKey
from bots_service.services import Services

if TYPE_CHECKING:  # both import this module
    from bots_service.api.overload import Line
    from bots_service.api.uploads import UploadLimits

Value = TypeVar("Value")

# --- the application -------------------------------------------------------------------------------------------------


@dataclass
class AppState:
    """The typed state of one application; Starlette's own `app.state` is untyped.

    schema: revision of the database's tables.
    metrics: of this process.
    line: the queue of training requests.
    downloads: the queue of answers that hold a whole pool.
    services: set while the application runs, because its stores are opened at the start.
    metrics_of_all: returns the metrics of all workers; None if there is only this process.
    """

    uploads: "UploadLimits"
    schema: str
    metrics: Metrics
    line: "Line"
    downloads: "Line"
    services: Services = field(init=False)
    metrics_of_all: Callable[[], Awaitable[bytes]] | None = None


def state_of(app: Starlette) -> AppState:
    """Return the state of an application."""
    return cast(AppState, app.state.typed)


def services_of(request: Request) -> Services:
    """Return what the routes may call. Not a FastAPI dependency: that would cost more than the rest of a hot route."""
    return state_of(request.app).services


# --- parameters ------------------------------------------------------------------------------------------------------

DatasetName = Annotated[str, Path(pattern=NAME, description="The dataset's name.")]
RunName = Annotated[str, Path(pattern=NAME, description="The run's name; each dataset has a run `default`.")]
PredictionsName = Annotated[str, Path(pattern=NAME, description="The name of the predictions, as of their predictor.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="`next_cursor` of the page before.")]

# A cursor is the position after which the next page of a list begins, as base64url of JSON, whose numbers are exact in
# every language up to this size; indices, steps and seqs are much smaller.
AfterNumber = Annotated[int, Meta(ge=0, le=2**53)]
AfterTask = tuple[str, float, AfterNumber]  # of tasks in an order, the task with this value and index
AfterRun = tuple[str, Annotated[int, Meta(ge=0, le=2)], float, Name, Name]  # of runs: group, value, dataset and run


def write_cursor(position: str | int | tuple[str | float, ...]) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def read_cursor(cursor: str, kind: Any) -> Any:
    """Return the position of a cursor.

    Raises:
        InvalidInputError: it is not a cursor of this kind of list.
    """
    padding = "=" * (-len(cursor) % 4)
    try:
        return msgspec.json.decode(base64.b64decode(cursor + padding, altchars=b"-_", validate=True), type=kind)
    except ValueError as error:  # from base64, UTF-8 or msgspec
        raise _broken_cursor() from error


def read_sorted_cursor(cursor: str | None, kind: Any, sort: str) -> Any:
    """Return the position of a cursor in a list in this order, without the order; None for the first page.

    Raises:
        InvalidInputError: it is not a cursor of this kind of list, or of another order.
    """
    if cursor is None:
        return None
    order, *position = read_cursor(cursor, kind)
    if order != sort:
        raise _broken_cursor()
    return tuple(position)


def _broken_cursor() -> InvalidInputError:
    flaw = Flaw(("query", "cursor"), "not a cursor of this list; leave it out for the first page")
    return InvalidInputError("invalid cursor", (flaw,))


# --- bodies ----------------------------------------------------------------------------------------------------------

SILENCE_S = 10.0  # longest time without a byte
GRACE_S = 10.0  # before the average rate is checked
FLOOR_BYTES_PER_S = 64 * 1024  # 8 MiB in about two minutes; a phone is faster


class Pace:
    """The incoming body of one request, with a minimum rate."""

    def __init__(self, receive: Receive, *, is_complete: bool) -> None:
        """Wrap a receive channel. is_complete: whether the request has no body."""
        self._receive = receive
        self._waited_s = 0.0  # for the sender; the time that we take ourselves is not its fault
        self._count = 0
        self.is_complete = is_complete

    async def __call__(self) -> Message:
        """Return the next message.

        Raises:
            SlowSenderError: the sender is too slow.
        """
        if self.is_complete:  # the only remaining message is the disconnect
            return await self._receive()
        left_s = GRACE_S + self._count / FLOOR_BYTES_PER_S - self._waited_s
        started = monotonic()
        try:
            async with asyncio.timeout(min(SILENCE_S, left_s)):
                message = await self._receive()
        except TimeoutError as error:
            said = f"{self._count} bytes of the body came, then too few for too long; send it again"
            raise SlowSenderError(said) from error
        self._waited_s += monotonic() - started
        self._count += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        return message


MIB = 2**20
CONTROL_LIMIT = MIB  # settings etc. are much smaller
TRAINING_LIMIT = 8 * MIB  # 65,536 outcomes with short ids take about 4 MiB
DATASET_LIMIT = 64 * MIB  # loaded into memory; larger pools are streamed as NDJSON or Parquet

JSON = "application/json"
NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"

KEY_HEADER = "Idempotency-Key"
KEY_PATTERN = "^[ -~]{1,128}$"  # printable ASCII
_KEY = re.compile(KEY_PATTERN.removesuffix("$"))


class Body:
    """One request's body; read it once."""

    def __init__(self, request: Request, limits: dict[str, int] | None = None) -> None:
        """Check the headers.

        Args:
            request: the request.
            limits: accepted media types -> maximum size in bytes; None: the route reads no body.

        Raises:
            InvalidInputError: the idempotency key is not 1 to 128 printable ASCII characters.
            UnsupportedMediaTypeError: the body is of another type, or compressed.
            PayloadTooLargeError: its Content-Length is too large.
        """
        self.key = request.headers.get(KEY_HEADER)
        if self.key is not None and not _KEY.fullmatch(self.key):
            flaw = Flaw(("header", KEY_HEADER), "a key has 1 to 128 printable ASCII characters")
            raise InvalidInputError("invalid idempotency key", (flaw,))
        self.scope = f"{request.method} {request.scope['path']}"  # of the key, such as "PUT /datasets/guru"
        self.request = request
        self._count, self._complete = 0, limits is None
        media_type = request.headers.get("content-type", "")
        target = "\0".join([request.method, request.url.path, request.url.query, media_type, ""])
        self._hash = None if self.key is None else hashlib.blake2b(target.encode(), digest_size=16)
        self.media_type = media_type.partition(";")[0].strip().lower()
        if limits is None:
            return
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaTypeError(
                "compressed bodies are not supported; send the body without Content-Encoding"
            )
        if self.media_type not in limits:
            raise UnsupportedMediaTypeError(f"Content-Type must be {' or '.join(limits)}")
        self._limit_bytes = limits[self.media_type]
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit_bytes:
            raise self._too_large()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, or the rest of it, in chunks.

        Raises:
            PayloadTooLargeError: it is too large.
            MalformedBodyError: the client disconnected.
        """
        try:
            async for chunk in self.request.stream():
                self._count += len(chunk)
                if self._count > self._limit_bytes:
                    raise self._too_large()
                if self._hash is not None:
                    self._hash.update(chunk)
                yield chunk
        except ClientDisconnect as error:
            raise MalformedBodyError("the connection was closed before the body was complete") from error
        self._complete = True

    async def whole(self) -> bytes:
        """Return the complete body."""
        return b"".join([chunk async for chunk in self.chunks()])

    def idempotency_key(self) -> IdempotencyKey | None:
        """Return the key with the request's fingerprint, once the body was read; None without a key."""
        if self.key is None or self._hash is None:
            return None
        return IdempotencyKey(self.key, self._hash.hexdigest(), self.scope)

    async def first_answer(self, kind: type[Value]) -> Answer[Value] | None:
        """Return what the write came to under the request's key before; None if there is no key, or it is new.

        Raises:
            KeyReusedError: the key came with another request.
        """
        answers = services_of(self.request).store.answers
        first = None if self.key is None else await answers.find(self.scope, self.key, kind)
        if first is None:
            return None
        if not self._complete:
            async for _ in self.chunks():
                pass
        key = self.idempotency_key()
        if key is not None:
            key.require_same(first.fingerprint)
        return first

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"the body is larger than {self._limit_bytes} bytes, the limit of this route")


async def read_json(request: Request, kind: type[Value], limit: int = CONTROL_LIMIT) -> tuple[Body, Value]:
    """Return the request's body, and the value of this type that it holds as JSON. limit: in bytes."""
    body = Body(request, {JSON: limit})
    return body, decode_plain(kind, await body.whole())


async def answered_once(
    body: Body, kind: type[Value], act: Callable[[], Awaitable[Value]], respond: Callable[[Value], Response]
) -> Response:
    """Return the response to what the write came to when it happened: now, or before under the request's key.

    Args:
        body: of the request.
        kind: the class of the result.
        act: does the work, and keeps its result under the key.
        respond: makes the response of the result.

    Raises:
        KeyReusedError: the key came with another request before.
    """
    first = await body.first_answer(kind)
    if first is None:
        try:
            return respond(await act())
        except (ConflictError, NotFoundError):
            # The same request may have been answered while this one was at work; what it deleted is not found then.
            first = await body.first_answer(kind)
            if first is None:
                raise
    response = respond(first.result)
    response.headers.update(REPLAYED)
    return response
