"""What a route is given and what it answers: services, parameters, a body that is answered once under a key; JSON.

Headers are checked first, then bytes are counted; senders that are too slow are cut off.
"""

import asyncio
import base64
import hashlib
import random
import re
from ast import literal_eval
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
from fastapi import Path, Query
from msgspec import UNSET, Meta, Struct, inspect
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from bots_service import errors
from bots_service.core.checks import NAME, NO_NAME, Name
from bots_service.errors import Flaw, InvalidInputError, MalformedBodyError
from bots_service.metrics import Metrics
from bots_service.records import Answer, IdempotencyKey
from bots_service.services import Services

if TYPE_CHECKING:  # it imports this module
    from bots_service.api.overload import Admission

Value = TypeVar("Value")
Made = TypeVar("Made", bound=Struct)

# --- the application -------------------------------------------------------------------------------------------------


@dataclass
class AppState:
    """The typed state of one application; Starlette's own `app.state` is untyped.

    upload_bytes: of the largest NDJSON body; schema: revision of the database's tables.
    admission: of all requests but probes; it has their queues.
    services: set while the application runs, because its stores are opened at the start.
    """

    upload_bytes: int
    schema: str
    metrics: Metrics
    admission: "Admission"
    services: Services = field(init=False)


def state_of(app: Starlette) -> AppState:
    return cast(AppState, app.state.typed)


def services_of(request: Request) -> Services:
    """Return what the routes may call. Not a FastAPI dependency: that would cost more than the rest of a hot route."""
    return state_of(request.app).services


# --- parameters ------------------------------------------------------------------------------------------------------

DatasetName = Annotated[str, Path(pattern=NAME, description="The dataset's name.")]
RunName = Annotated[str, Path(pattern=NAME, description="The run's name; each dataset has a run `default`.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="`next_cursor` of the page before.")]

# A cursor is the position after which the next page of a list begins, as base64url of JSON, whose numbers are exact in
# every language up to this size; indices, steps and seqs are much smaller.
AfterNumber = Annotated[int, Meta(ge=0, le=2**53)]
AfterTask = tuple[str, float, AfterNumber]  # of tasks in an order, the task with this value and index
AfterRun = tuple[str, Annotated[int, Meta(ge=0, le=2)], float, Name, Name]  # of runs: group, value, dataset and run


Position = str | int | tuple[str | float, ...]


def write_cursor(position: Position | None) -> str | None:
    if position is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def page_of(found: list[Value], limit: int, position: Callable[[Value], Position]) -> tuple[list[Value], str | None]:
    """Return a page of what was read for it and one more, and the cursor of the next page if there is one."""
    return found[:limit], write_cursor(position(found[limit - 1])) if len(found) > limit else None


def read_cursor(cursor: str | None, kind: Any, first: Position | None = None, *, sort: str | None = None) -> Any:
    """Return the position of a cursor of this kind of list, or `first` for the first page.

    sort: the order of the list, which its cursors begin with. Raises InvalidInputError: it is no such cursor.
    """
    if cursor is None:
        return first
    padding = "=" * (-len(cursor) % 4)
    try:
        position = msgspec.json.decode(base64.b64decode(cursor + padding, altchars=b"-_", validate=True), type=kind)
        if sort is None:
            return position
        if position[0] != sort:
            raise ValueError(position[0])
    except ValueError as error:  # from base64, UTF-8 or msgspec
        flaw = Flaw(("query", "cursor"), "not a cursor of this list; leave it out for the first page")
        raise InvalidInputError("invalid cursor", (flaw,)) from error
    return position[1:]


# --- JSON -------------------------------------------------------------------------------------------------------------

_PLACE = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_PART = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_CHOICE = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_FIELD = re.compile(r"(?:(?P<unknown>unknown)|required) field `(?P<name>.+)`$", re.DOTALL)
SHOWN = 200  # characters of a message that may contain client data


def decode(kind: type[Value], body: bytes, where: tuple[str | int, ...] = ("body",)) -> Value:
    """Return the value of this type in a JSON text. where: its location, for messages.

    Raises InvalidInputError: it is JSON of another shape; MalformedBodyError: it is none.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError("invalid request body", (_flaw(str(error), where, kind),)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = "" if where == ("body",) else f" at {'.'.join(map(str, where[1:]))}"
        raise MalformedBodyError(f"the body is not JSON{place}: {str(error)[:SHOWN]}") from error


def _flaw(message: str, where: tuple[str | int, ...], expected: Any) -> Flaw:
    """Return the flaw in a message of msgspec such as "Expected `int`, got `str` - at `$.outcomes[3].trials`"."""
    place = _PLACE.search(message)
    text = message[: place.start()] if place else message
    path: list[str | int] = []
    for name, index in _PART.findall(place["path"] if place else ""):
        path.append(name or (int(index) if index.isdecimal() else index))
    choice, field = _CHOICE.match(text), _FIELD.search(text)
    wrong = literal_eval(choice[1]) if choice else field["name"] if field and field["unknown"] else None
    if wrong is not None:
        text = errors.not_a_choice(wrong, _names_at(inspect.type_info(expected), path))
    if field:
        path.append(field["name"][:SHOWN])
    return Flaw((*where, *path), text if choice or field else in_words(text))


def in_words(text: str) -> str:
    """Return what a library says of a value, without patterns that only programmers read."""
    return NO_NAME if NAME.removesuffix("$") in text else text[:SHOWN]


def _names_at(expected: inspect.Type, path: Sequence[str | int]) -> list[str]:
    """Return what a type allows at a path: the values of an enumeration, the fields of an object."""
    match expected:
        case inspect.Metadata(type=inner):
            return _names_at(inner, path)
        case inspect.UnionType(types=types):
            return [name for each in types for name in _names_at(each, path)]
        case inspect.StructType(fields=fields) if path:
            types = tuple(field.type for field in fields if field.encode_name == path[0])
            return [name for each in types for name in _names_at(each, path[1:])]
        case inspect.ListType(item_type=item) | inspect.FrozenSetType(item_type=item) if path:
            return _names_at(item, path[1:])
        case inspect.StructType(fields=fields):
            return [field.encode_name for field in fields]
        case inspect.EnumType(cls=kind):
            return [str(member.value) for member in kind]
        case inspect.LiteralType(values=values):
            return [str(value) for value in values]
    return []


# --- answers ----------------------------------------------------------------------------------------------------------

encode = msgspec.json.Encoder().encode

REQUEST_ID = re.compile(r"[ -~]{1,128}")  # printable ASCII
REPLAYED = {"Idempotent-Replayed": "true"}


def json_response(value: Any, status: int = 200, *, replayed: bool = False) -> Response:
    """Return a value as a JSON response; `replayed` marks a repeated first answer."""
    return Response(encode(value), status, REPLAYED if replayed else None, media_type="application/json")


def no_content(_: None) -> Response:
    return Response(status_code=204)


def moment(seconds: float | None) -> datetime | None:
    """Return a time in UTC, which is encoded by RFC 3339."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def filled(kind: type[Made], *sources: object, **values: Any) -> Made:
    """Return a body: each of its fields is the value of that name, or else the attribute of that name of a source."""
    for name in set(kind.__struct_fields__) - values.keys():
        for source in sources:
            if (value := getattr(source, name, UNSET)) is not UNSET:
                values[name] = value
                break
    return kind(**values)


def finish_headers(headers: MutableHeaders, request_id: str) -> None:
    """Add the headers that every answer has; a route's own caching headers stay.

    No proxy or browser may cache answers, or interpret them as another media type.
    """
    headers["X-Request-Id"] = request_id
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")


def request_id_of(scope: Scope) -> str:
    """Return the request's own id if it is valid, otherwise a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    if REQUEST_ID.fullmatch(given):
        return given
    return f"{random.getrandbits(128):032x}"  # no secret; os.urandom would let other threads go first


# --- bodies ----------------------------------------------------------------------------------------------------------

SILENCE_S = 10.0  # longest time without a byte
GRACE_S = 10.0  # before the average rate is checked
FLOOR_BYTES_PER_S = 64 * 1024  # 8 MiB in about two minutes; a phone is faster


class PacedReceive:
    """The incoming body of one request, with a minimum rate."""

    def __init__(self, receive: Receive, *, is_complete: bool) -> None:
        """Wrap a receive channel. is_complete: whether the request has no body."""
        self._receive = receive
        self._waited_s = 0.0  # for the sender; the time that we take ourselves is not its fault
        self._count = 0
        self.is_complete = is_complete

    async def __call__(self) -> Message:
        """Return the next message. Raises SlowSenderError: the sender is too slow."""
        if self.is_complete:  # the only remaining message is the disconnect
            return await self._receive()
        left_s = GRACE_S + self._count / FLOOR_BYTES_PER_S - self._waited_s
        started = monotonic()
        try:
            async with asyncio.timeout(min(SILENCE_S, left_s)):
                message = await self._receive()
        except TimeoutError as error:
            said = f"{self._count} bytes of the body came, then too few for too long; send it again"
            raise errors.SlowSenderError(said) from error
        self._waited_s += monotonic() - started
        self._count += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        return message


MIB = 2**20
CONTROL_LIMIT = MIB  # settings etc. are much smaller
TRAINING_LIMIT = 8 * MIB  # 65,536 outcomes with short ids take about 4 MiB
DATASET_LIMIT = 64 * MIB  # loaded into memory; larger pools are streamed as NDJSON

JSON = "application/json"
NDJSON = "application/x-ndjson"

KEY_HEADER = "Idempotency-Key"
KEY_PATTERN = "^[ -~]{1,128}$"  # printable ASCII
_KEY = re.compile(KEY_PATTERN.removesuffix("$"))


class Body:
    """One request's body; read it once."""

    def __init__(self, request: Request, limits: dict[str, int] | None = None) -> None:
        """Check the headers. limits: accepted media types -> maximum size in bytes; None: the route reads no body.

        Raises InvalidInputError: the idempotency key is not 1 to 128 printable ASCII characters;
        UnsupportedMediaTypeError: the body is of another type, or compressed; PayloadTooLargeError.
        """
        self.key = request.headers.get(KEY_HEADER)
        if self.key is not None and not _KEY.fullmatch(self.key):
            flaw = Flaw(("header", KEY_HEADER), "a key has 1 to 128 printable ASCII characters")
            raise InvalidInputError("invalid idempotency key", (flaw,))
        self.scope = f"{request.method} {request.scope['path']}"  # of the key, such as "PUT /datasets/guru"
        self.request = request
        self._count, self._complete = 0, limits is None
        media_type = request.headers.get("content-type", "")
        target = self.scope.encode() + b"?" + request.scope["query_string"] + b"\0" + media_type.encode() + b"\0"
        self._hash = None if self.key is None else hashlib.blake2b(target, digest_size=16)
        self.media_type = media_type.partition(";")[0].strip().lower()
        if limits is None:
            return
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            said = "compressed bodies are not supported; send the body without Content-Encoding"
            raise errors.UnsupportedMediaTypeError(said)
        if self.media_type not in limits:
            raise errors.UnsupportedMediaTypeError(f"Content-Type must be {' or '.join(limits)}")
        self._limit_bytes = limits[self.media_type]
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limit_bytes:
            raise self._too_large()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, or the rest of it, in chunks. Raises MalformedBodyError: the client disconnected."""
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
        return b"".join([chunk async for chunk in self.chunks()])

    def idempotency_key(self) -> IdempotencyKey | None:
        """Return the key with the request's fingerprint, once the body was read; None without a key."""
        if self.key is None or self._hash is None:
            return None
        return IdempotencyKey(self.key, self._hash.hexdigest(), self.scope)

    async def first_answer(self, kind: type[Value]) -> Answer[Value] | None:
        """Return what the write came to under the request's key before; None if there is no key, or it is new."""
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

    def _too_large(self) -> errors.PayloadTooLargeError:
        said = f"the body is larger than {self._limit_bytes} bytes, the limit of this route"
        return errors.PayloadTooLargeError(said)


async def read_json(request: Request, kind: type[Value], limit: int = CONTROL_LIMIT) -> tuple[Body, Value]:
    """Return the request's body, and the value of this type that it holds as JSON. limit: in bytes."""
    body = Body(request, {JSON: limit})
    return body, decode(kind, await body.whole())


async def answered_once(
    body: Body, kind: type[Value], act: Callable[[], Awaitable[Value]], respond: Callable[[Value], Response]
) -> Response:
    """Return the response to what the write came to when it happened: now, or before under the request's key.

    act: does the work, and keeps its result, of this kind, under the key. Raises KeyReusedError: the key came before,
    with another request.
    """
    first = await body.first_answer(kind)
    if first is None:
        try:
            return respond(await act())
        except (errors.ConflictError, errors.NotFoundError):
            # The same request may have been answered while this one was at work; what it deleted is not found then.
            first = await body.first_answer(kind)
            if first is None:
                raise
    response = respond(first.result)
    response.headers.update(REPLAYED)
    return response
