"""Request bodies: checked by their headers first, then counted as they stream in."""

import hashlib
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from bots_service.api.parameters import key_of
from bots_service.errors import MalformedBodyError, PayloadTooLargeError, UnsupportedMediaTypeError
from bots_service.ports.records import Once

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
        self._request = request
        self._count, self._complete = 0, False
        self._hash = None if self.key is None else hashlib.blake2b(_target(request), digest_size=16)
        self.media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = request.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise UnsupportedMediaTypeError("compressed bodies are not read; send it without Content-Encoding")
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

    def once(self) -> Once | None:
        """Return the key with the request's fingerprint, once the body was read; None without a key."""
        if self.key is None or self._hash is None:
            return None
        return Once(self.key, self._hash.hexdigest())

    async def once_read(self) -> Once | None:
        """Read what is left of the body, then return the key with the request's fingerprint; None without a key."""
        if not self._complete:
            async for _ in self.chunks():
                pass
        return self.once()

    def _too_large(self) -> PayloadTooLargeError:
        return PayloadTooLargeError(f"the body is larger than {self._limit_bytes} bytes, the most that is read here")


class NoBody:
    """Stands where a route reads no body."""

    def __init__(self, request: Request) -> None:
        self.key = key_of(request)
        self._request = request

    def once(self) -> Once | None:
        """Return the key with the request's fingerprint; None without a key."""
        if self.key is None:
            return None
        return Once(self.key, hashlib.blake2b(_target(self._request), digest_size=16).hexdigest())

    async def once_read(self) -> Once | None:
        """Return the same: there is nothing to read."""
        return self.once()


def _target(request: Request) -> bytes:
    """Return what the request is about, apart from its body."""
    media_type = request.headers.get("content-type", "")
    return "\0".join([request.method, request.url.path, request.url.query, media_type, ""]).encode()
