"""Request bodies: checked by their headers first, then counted as they stream in; who sends too slowly is cut off."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from time import monotonic

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from bots_service.api.parameters import key_of
from bots_service.errors import MalformedBodyError, PayloadTooLargeError, SlowSenderError, UnsupportedMediaTypeError
from bots_service.ports.records import IdempotencyKey

SILENCE_S = 10.0  # without one byte
GRACE_S = 10.0  # before the whole of a body is held against its size
FLOOR_BYTES_PER_S = 64 * 1024  # 8 MiB in about two minutes; a telephone manages more


class Pace:
    """The body of one request, as it comes."""

    def __init__(self, receive: Receive, *, is_complete: bool) -> None:
        """Read a request's body.

        Args:
            receive: where it comes from.
            is_complete: there is none.
        """
        self._receive = receive
        self._waited_s = 0.0  # for the sender; the time that we take ourselves is not its fault
        self._count = 0
        self.is_complete = is_complete

    async def __call__(self) -> Message:
        """Return the next message.

        Raises:
            SlowSenderError: it did not come in time.
        """
        if self.is_complete:  # only the end of the connection is still to come
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
CONTROL_LIMIT = MIB  # settings and the like: far below
TRAINING_LIMIT = 8 * MIB  # 65,536 outcomes with short ids take about 4 MiB
DATASET_LIMIT = 64 * MIB  # read as a whole; larger pools come as NDJSON or Parquet, streamed

JSON = "application/json"


class Body:
    """One request's body; read it once."""

    def __init__(self, request: Request, limits: dict[str, int]) -> None:
        """Check the headers.

        Args:
            request: the request.
            limits: media types that the route reads -> how many bytes.

        Raises:
            InvalidInputError: its idempotency key is not possible.
            UnsupportedMediaTypeError: the body is of another type, or compressed.
            PayloadTooLargeError: it says that it is too large.
        """
        self.key = key_of(request)
        self.scope = _scope(request)
        self._request = request
        self._count, self._complete = 0, False
        self._hash = None if self.key is None else hashlib.blake2b(_target(request), digest_size=16)
        self.media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = request.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
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
        """Yield the body, or what is left of it, piece by piece.

        Raises:
            PayloadTooLargeError: it is too large.
            MalformedBodyError: the client went away.
        """
        try:
            async for chunk in self._request.stream():
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
        """Return all of the body."""
        return b"".join([chunk async for chunk in self.chunks()])

    def idempotency_key(self) -> IdempotencyKey | None:
        """Return the key with the request's fingerprint, once the body was read; None without a key."""
        if self.key is None or self._hash is None:
            return None
        return IdempotencyKey(self.key, self._hash.hexdigest(), self.scope)

    async def read_idempotency_key(self) -> IdempotencyKey | None:
        """Read what is left of the body, then return the key with the request's fingerprint; None without a key."""
        if not self._complete:
            async for _ in self.chunks():
                pass
        return self.idempotency_key()

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"the body is larger than {self._limit_bytes} bytes, the most that is read here")


class NoBody:
    """Stands where a route reads no body."""

    def __init__(self, request: Request) -> None:
        self.key = key_of(request)
        self.scope = _scope(request)
        self._request = request

    def idempotency_key(self) -> IdempotencyKey | None:
        """Return the key with the request's fingerprint; None without a key."""
        if self.key is None:
            return None
        fingerprint = hashlib.blake2b(_target(self._request), digest_size=16).hexdigest()
        return IdempotencyKey(self.key, fingerprint, self.scope)

    async def read_idempotency_key(self) -> IdempotencyKey | None:
        """Return the same: there is nothing to read."""
        return self.idempotency_key()


def _scope(request: Request) -> str:
    """Return what the request's key is good for, as in "PUT /datasets/guru"."""
    return f"{request.method} {request.scope['path']}"


def _target(request: Request) -> bytes:
    """Return what the request is about, apart from its body."""
    media_type = request.headers.get("content-type", "")
    return "\0".join([request.method, request.url.path, request.url.query, media_type, ""]).encode()
