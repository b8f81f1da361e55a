"""One call of the service as data: the request, and how to parse the response. No I/O."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

from bots_client._arguments import checked_str
from bots_client._decode import page_of
from bots_client._errors import InvalidRequestError, ServiceError
from bots_client._inputs import plain

T = TypeVar("T")

CHUNK_BYTES = 256 * 1024  # of an upload; progress is reported once per chunk
PAGE = 100  # items; the service's default, so that it never refuses it
ANSWER_BYTES = 8 * 2**20  # the longest answer to a training job, whose receipts and runs have a few KiB
LISTING_BYTES = 64 * 2**20  # the longest page or chart: a thousand leases of a thousand tasks have 40 MiB
MAX_KEY_LENGTH = 128  # characters of an Idempotency-Key; the service's limit

# path segment -> name of the next segment
PARAMETERS = {"datasets": "dataset", "runs": "run", "tasks": "task", "keys": "key_id"}

Progress = Callable[[int, int | None], None]  # bytes sent, total bytes (None: unknown)


@dataclass(frozen=True, slots=True)
class Upload:
    """A streamed body; opened again for each attempt.

    length: in bytes; None if unknown.
    """

    open: Callable[[], Iterable[bytes]]
    length: int | None = None
    on_progress: Progress | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the body from its beginning.

        Raises:
            InvalidRequestError: the source does not have `length` bytes.
        """
        source, sent = self.open(), 0
        try:
            for chunk in source:
                sent += len(chunk)
                self._require(self.length is None or sent <= self.length)
                yield chunk
                if self.on_progress is not None:
                    self.on_progress(sent, self.length)
            self._require(self.length in (None, sent))
        finally:
            close = getattr(source, "close", None)  # files and generators have one, lists do not
            if close is not None:
                close()

    def _require(self, fits: bool) -> None:
        if not fits:
            raise InvalidRequestError(f"the file no longer has {self.length} bytes: it changed during the upload")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call. It only reads, or has an Idempotency-Key, so that it is always safe to send again.

    parse: body of a successful response -> result; raises ValueError for an invalid body.
    deadline_s: for the whole call with its retries; None: the client's.
    retried: False for probes, which ask for the current state.
    max_bytes: of an answer that is read as a whole; a longer one is a ServiceError.
    """

    method: str
    path: str
    parse: Callable[[bytes], T]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | Upload | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float | None = None
    retried: bool = True
    max_bytes: int = LISTING_BYTES

    @property
    def asked(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


Stream = Call[bytes]  # its response goes to the caller chunk by chunk
Probe = Call[None]  # its result is whether it succeeded


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Pages(Generic[T]):
    """A paginated list; `next_call` requests the next page and is None after the last.

    kind: dataclass of the items.
    limit: maximum number of items in total; None: all.
    """

    def __init__(self, kind: type[T], call: Call[tuple[tuple[T, ...], str | None]], limit: int | None = None) -> None:
        self.kind = kind
        self._first = call
        self._left = limit
        self._cursor: str | None = None
        self.next_call: Call[tuple[tuple[T, ...], str | None]] | None = (
            None if limit is not None and limit < 1 else call
        )

    def take(self, page: tuple[tuple[T, ...], str | None]) -> tuple[T, ...]:
        """Return the items of a page, up to the limit, and set `next_call`.

        Raises:
            ServiceError: the next cursor is the current one, which would loop.
        """
        items, cursor = page
        if self._left is not None:
            items = items[: self._left]
            self._left -= len(items)
        if cursor is None or self._left == 0:
            self.next_call = None
            return items
        if cursor == self._cursor:
            raise ServiceError(f"{self._first.asked}: the cursor {cursor!r} points to itself")
        self._cursor = cursor
        self.next_call = replace(self._first, params=(*self._first.params, ("cursor", cursor)))
        return items


def path(*parts: str) -> str:
    """Return a path of names, percent-encoded.

    Raises:
        InvalidRequestError: a name is empty, "." or "..", which would lead to another path.
        TypeError: a name is not a str.
    """
    for before, part in zip(("", *parts), parts, strict=False):
        checked_str(part, PARAMETERS.get(before, "name"))
        if part in ("", ".", ".."):
            raise InvalidRequestError(f"{part!r} is not the name of a dataset, run or task")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def listed(kind: type[T], name: str, where: str, limit: int | None, *params: tuple[str, str | int | None]) -> Pages[T]:
    """Return the pages of a list.

    Args:
        kind: dataclass of its items.
        name: field of the response that holds them.
        where: path.
        limit: maximum number of items in total; None: all.
        params: query parameters; None leaves one out.
    """
    size = limit if limit is not None and 0 < limit < PAGE else None
    query = tuple((key, str(value)) for key, value in (*params, ("limit", size)) if value is not None)
    return Pages(kind, Call("GET", where, page_of(kind, name), params=query), limit)


def written(
    method: str,
    where: str,
    parse: Callable[[bytes], T],
    content: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    deadline_s: float | None = None,
) -> Call[T]:
    """Return a write: a JSON body, and one Idempotency-Key for all attempts.

    Args:
        key: Idempotency-Key; None: a new one.
    """
    headers = key_header(key)
    if content is None:
        return Call(method, where, parse, headers=headers, deadline_s=deadline_s)
    headers["Content-Type"] = "application/json"
    return Call(method, where, parse, body=json_bytes(content), headers=headers, deadline_s=deadline_s)


def key_header(key: str | None) -> dict[str, str]:
    """Return the header with an Idempotency-Key; None: a new key."""
    key = uuid4().hex if key is None else key
    if not (1 <= len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise InvalidRequestError(f"idempotency key {key!r} is not 1 to {MAX_KEY_LENGTH} printable ASCII characters")
    return {"Idempotency-Key": key}


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None; the service has defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return a body as JSON; encoded once, so that every attempt sends the same bytes."""
    try:
        # `default` converts numpy's numbers, which are common in trainers.
        return json.dumps(content, allow_nan=False, separators=(",", ":"), default=plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the request can't be encoded as JSON: {error}") from error


def file_upload(file: str | os.PathLike[str], on_progress: Progress | None) -> Upload:
    """Return the upload of a file.

    Raises:
        OSError: the file can't be opened.
    """

    def read() -> Iterator[bytes]:
        with Path(file).open("rb") as opened:
            while chunk := opened.read(CHUNK_BYTES):
                yield chunk

    return Upload(read, Path(file).stat().st_size, on_progress)
