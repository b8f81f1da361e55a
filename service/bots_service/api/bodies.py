"""Request bodies: headers are checked first, then bytes are counted; senders that are too slow are cut off."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from time import monotonic

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from bots_service.api.parameters import key_of
from bots_service.errors import MalformedBodyError, PayloadTooLargeError, SlowSenderError, UnsupportedMediaTypeError
from bots_service.records import IdempotencyKey

SILENCE_S = 10.0  # longest time without a byte
GRACE_S = 10.0  # before the average rate is checked
FLOOR_BYTES_PER_S = 64 * 1024  # 8 MiB in about two minutes; a phone is faster


class Pace:
    """The incoming body of one request, with a minimum rate."""

    def __init__(self, receive: Receive, *, is_complete: bool) -> None:
        """Create it.

        Args:
            receive: the ASGI receive channel.
            is_complete: whether the request has no body.
        """
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


class Body:
    """One request's body; read it once."""

    def __init__(self, request: Request, limits: dict[str, int] | None = None) -> None:
        """Check the headers.

        Args:
            request: the request.
            limits: accepted media types -> maximum size in bytes; None: the route reads no body.

        Raises:
            InvalidInputError: the idempotency key is invalid.
            UnsupportedMediaTypeError: the body is of another type, or compressed.
            PayloadTooLargeError: its Content-Length is too large.
        """
        self.key = key_of(request)
        self.scope = _scope(request)
        self._request = request
        self._count, self._complete = 0, limits is None
        self._hash = None if self.key is None else hashlib.blake2b(_target(request), digest_size=16)
        self.media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if limits is None:
            return
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
        """Yield the body, or the rest of it, in chunks.

        Raises:
            PayloadTooLargeError: it is too large.
            MalformedBodyError: the client disconnected.
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
        """Return the complete body."""
        return b"".join([chunk async for chunk in self.chunks()])

    def idempotency_key(self) -> IdempotencyKey | None:
        """Return the key with the request's fingerprint, once the body was read; None without a key."""
        if self.key is None or self._hash is None:
            return None
        return IdempotencyKey(self.key, self._hash.hexdigest(), self.scope)

    async def read_idempotency_key(self) -> IdempotencyKey | None:
        """Read the rest of the body, then return the key with the request's fingerprint; None without a key."""
        if not self._complete:
            async for _ in self.chunks():
                pass
        return self.idempotency_key()

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"the body is larger than {self._limit_bytes} bytes, the limit of this route")


def _scope(request: Request) -> str:
    """Return the scope of the request's key, such as "PUT /datasets/guru"."""
    return f"{request.method} {request.scope['path']}"


def _target(request: Request) -> bytes:
    """Return the request's path and query, for its fingerprint."""
    media_type = request.headers.get("content-type", "")
    return "\0".join([request.method, request.url.path, request.url.query, media_type, ""]).encode()
