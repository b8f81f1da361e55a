"""One call over HTTP: where the service is, the request, attempts within a deadline, and the answer."""

import copy
import dataclasses
import ipaddress
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import uuid4

import httpx

from bots_client import __version__
from bots_client._errors import (
    BUSY,
    BotsClientError,
    DeadlineExceededError,
    InvalidRequestError,
    ServiceError,
    UnreachableError,
    error_of,
)
from bots_client._inputs import checked, plain

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound="HttpClient")
Progress = Callable[[int, int | None], None]  # bytes sent, total bytes (None: unknown)
Source = str | os.PathLike[str] | Callable[[], Iterable[bytes]]  # of an upload

DEFAULT_URL = "http://127.0.0.1:8765"
FILE_URL = "sqlite:///"  # begins the URL of a database file, whose service the training job starts
KEY = "Idempotency-Key"
NDJSON = "application/x-ndjson"
MEDIA_TYPES = {".ndjson": NDJSON, ".jsonl": NDJSON}
CALL_DEADLINE_S = 10.0
MAX_KEY_LENGTH = 128  # characters of an Idempotency-Key; the service's limit
CHUNK_BYTES = 256 * 1024  # of an upload; progress is reported once per chunk
ANSWER_BYTES = 8 * 2**20  # the longest answer to a training job, whose receipts and runs have a few KiB
LISTING_BYTES = 64 * 2**20  # the longest page or chart: a thousand leases of a thousand tasks have 40 MiB
RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
MIN_TIMEOUT_S = 0.001  # a socket timeout of 0 would mean non-blocking
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PARAMETERS = {"datasets": "dataset", "runs": "run", "tasks": "task", "keys": "key_id"}  # path segment -> the next one
# type -> what JSON has for it, and what to call that in an error
SCALARS: dict[Any, tuple[type | UnionType, str]] = {
    str: (str, "a text"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    bool: (bool, "true or false"),
    datetime: (str, "a time"),
}

# From the operating system: workers forked from one trainer share the state of `random`, and would all wait equally.
system_random = random.SystemRandom().random

logger = logging.getLogger("bots_client")


def url_of(url: str | None) -> str:
    """Return the service's URL: the argument, or BOTS_URL, or the local default.

    A ValueError if it is not an http(s) URL, or contains a password, which would appear in messages.
    """
    url = url or os.environ.get("BOTS_URL") or DEFAULT_URL
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"url is not a URL: {error}") from error
    if parsed.userinfo:
        raise ValueError("url contains a user name or password; pass api_key= instead")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"url {url!r} must begin with http:// or https:// and a host, such as {DEFAULT_URL}")
    if parsed.query or parsed.fragment:
        raise ValueError(f"url {url!r} has a query or fragment; pass only scheme, host, port and path")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Return whether a URL is a loopback address, which needs no proxy and is private to this machine."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def headers_of(api_key: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers of every request; the key is the argument, or BOTS_API_KEY, or none.

    A ValueError if a value is not valid in a header; the message does not show it, because it may be a secret.
    """
    sent = {"User-Agent": f"bots-client/{__version__}", **(headers or {})}
    key = (api_key or os.environ.get("BOTS_API_KEY") or "").strip()  # a key read from a file ends with a newline
    if " " in key:
        raise ValueError("api_key contains a blank; pass only the key")
    if key:
        sent["Authorization"] = f"Bearer {key}"
    for name, value in sent.items():
        if not (value.isascii() and value.isprintable()):
            raise ValueError(
                f"the value of {name} (from api_key= or headers=) contains a character that is not allowed in a header"
            )
    return sent


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is tried, and how long it waits between attempts; the call's deadline limits the total.

    Full jitter (each wait is uniform between 0 and a bound that doubles) spreads the clients of a restarted service
    best: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

    attempts: maximum number of attempts; 1 means no retries.
    first_wait_s: longest wait after the first attempt; doubles with each attempt.
    longest_wait_s: upper limit of the doubling. A longer Retry-After of the service is honoured.
    """

    attempts: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {self.attempts}")
        if not (0 <= self.first_wait_s < math.inf and 0 <= self.longest_wait_s < math.inf):
            raise ValueError(
                f"waits must be finite and not negative, got {self.first_wait_s} and {self.longest_wait_s} s"
            )

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Return the wait after an attempt (1 for the first), at least as long as the service's Retry-After."""
        bound_s = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(attempt - 1, 60))
        # The sum, not the maximum: clients that were turned away together must not return together.
        return (retry_after_s or 0.0) + system_random() * bound_s


class Deadline:
    """The deadline of a call with all its attempts and waits."""

    def __init__(self, seconds: float) -> None:
        if not math.isfinite(seconds):
            raise ValueError(f"a deadline must be a number of seconds, got {seconds}")
        self.seconds = seconds
        self.restart()

    def restart(self) -> None:
        self._end = time.monotonic() + self.seconds

    def left_s(self) -> float:
        """Return the seconds left; 0 or less if the deadline has passed."""
        return self._end - time.monotonic()


class TimeLeft(dict[str, float | None]):
    """httpx's dict of timeouts, whose every value is the time left until the deadline.

    httpx reads it again for each phase (connect, write, read), so that all phases share the deadline. Plain numbers
    would give each phase the whole time.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(dict.fromkeys(("connect", "read", "write", "pool"), deadline.seconds))
        self._deadline = deadline

    def get(self, phase: str, default: object = None) -> float:  # noqa: ARG002 - all phases share the deadline
        return max(self._deadline.left_s(), MIN_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how to read its answer. It only reads, or has an Idempotency-Key: it is safe to send again.

    parse: body of a successful response -> result; raises ValueError for an invalid body.
    deadline_s: for the whole call with its retries, unless the client has one.
    max_bytes: of an answer that is read as a whole; a longer one is a ServiceError.
    """

    method: str
    path: str
    parse: Callable[[bytes], T]
    params: tuple[tuple[str, Any], ...] = ()
    body: "bytes | Upload | None" = None
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float = CALL_DEADLINE_S
    max_bytes: int = LISTING_BYTES

    @property
    def asked(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Upload:
    """A streamed body; opened again for each attempt.

    length: in bytes; None if unknown. head: what is sent before it, and is not counted.
    """

    open: Callable[[], Iterable[bytes]]
    length: int | None = None
    on_progress: Progress | None = None
    head: bytes = b""

    def chunks(self, require_time: Callable[[], None]) -> Iterator[bytes]:
        """Yield the body from its beginning; before each chunk `require_time` raises if the deadline has passed.

        An InvalidRequestError if the source does not have `length` bytes.
        """
        source, sent = self.open(), 0
        try:
            if self.head:
                yield self.head
            for chunk in source:
                require_time()  # reading a slow file counts too
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


class HttpClient:
    """The base of `Client`, which documents the arguments: connections, and calls with their retries."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        deadline_s: float | None = None,
        retries: Retries = Retries(),
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url_of(url)
        self._deadline_s = deadline_s
        self._retries = retries
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers_of(api_key, headers),
            transport=transport,
            trust_env=not is_loopback(self.url),
            verify=httpx.URL(self.url).scheme == "https",  # reading the known authorities takes 20 ms
        )

    def __enter__(self: ClientT) -> ClientT:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def within(self: ClientT, deadline_s: float | None, *, attempts: int | None = None) -> ClientT:
        """Return a client on the same connections with another deadline, and with so many attempts."""
        other = copy.copy(self)
        other._deadline_s = deadline_s
        if attempts is not None:
            other._retries = replace(self._retries, attempts=attempts)
        return other

    def send(self, call: Call[T]) -> T:
        """Send a call, with its retries, and return the parsed answer; a BotsClientError says how it failed."""
        attempts = self._attempts(call)
        while True:
            try:
                with self._answer(attempts) as response:
                    body = attempts.whole_body(response)
            except httpx.RequestError as error:
                wait_s = attempts.wait_after_failure(error)
            else:
                if response.is_success:
                    return attempts.parsed(response, body)
                wait_s = attempts.wait_after_refusal(response, body)
            time.sleep(wait_s)

    def stream(self, call: Call[bytes]) -> Generator[bytes, None, None]:
        """Yield the body of the answer as it arrives. Once it has begun, there are no further attempts."""
        attempts, has_begun = self._attempts(call), False
        while True:
            try:
                with self._answer(attempts) as response:
                    if response.is_success:
                        has_begun = True
                        attempts.deadline.restart()  # httpx reads it now, for each of the chunks
                        yield from response.iter_bytes()
                        return
                    body = attempts.whole_body(response)
            except httpx.RequestError as error:
                wait_s = attempts.wait_after_failure(error, is_last=has_begun)
            else:
                wait_s = attempts.wait_after_refusal(response, body)
            time.sleep(wait_s)

    def _attempts(self, call: Call[T]) -> "_Attempts[T]":
        deadline_s = call.deadline_s if self._deadline_s is None else self._deadline_s
        return _Attempts(call, self.url, self._retries, Deadline(deadline_s))

    @contextmanager
    def _answer(self, attempts: "_Attempts[Any]") -> Iterator[httpx.Response]:
        """Make one attempt; yield the response before its body is read."""
        response = self._http.send(self._http.build_request(**attempts.next_request()), stream=True)
        try:
            attempts.check_encoding(response)
            yield response
        finally:
            response.close()


class _Attempts(Generic[T]):
    """The attempts of one call within its deadline: the next request, and what each answer or failure means."""

    def __init__(self, call: Call[T], url: str, retries: Retries, deadline: Deadline) -> None:
        self.deadline = deadline
        self._call = call
        self._url = url
        self._retries = retries
        self._made = 0

    def next_request(self) -> dict[str, Any]:
        """Return the next attempt, as httpx's build_request takes it."""
        self._require_time()
        self._made += 1
        call = self._call
        # Not compressed: a few bytes of gzip can become gigabytes, and the service compresses none of these answers.
        headers = {"Accept-Encoding": "identity", **call.headers}
        if isinstance(call.body, Upload) and call.body.length is not None:
            headers["Content-Length"] = str(len(call.body.head) + call.body.length)
        return {
            "method": call.method,
            "url": call.path,
            "params": call.params or None,
            "headers": headers,
            "content": call.body.chunks(self._require_time) if isinstance(call.body, Upload) else call.body,
            "extensions": {"timeout": TimeLeft(self.deadline)},
        }

    def check_encoding(self, response: httpx.Response) -> None:
        """Raise ServiceError if the body is compressed although no request allows it."""
        if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
            raise ServiceError(
                f"{self._url} answered {self._call.asked} with Content-Encoding {encoding}, which the request does not"
                " allow: is it the BOTS service, and does a proxy before it change its answers?"
            )

    def whole_body(self, response: httpx.Response) -> bytes:
        """Return the body; a ServiceError if it is longer than the call allows."""
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            self._require_time()
            if len(body) > self._call.max_bytes:
                raise ServiceError(
                    f"{self._url} answered {self._call.asked} with more than {self._call.max_bytes:,} bytes; is it the"
                    " BOTS service?"
                )
        return bytes(body)

    def parsed(self, response: httpx.Response, body: bytes) -> T:
        try:
            return self._call.parse(body)
        except (ValueError, RecursionError) as error:
            said = f"{self._url} answered {response.status_code} to {self._call.asked} with an invalid body: {error}"
            request_id = response.headers.get("x-request-id")
            raise ServiceError(said, status=response.status_code, request_id=request_id) from error

    def wait_after_refusal(self, response: httpx.Response, body: bytes) -> float:
        """Return the wait before the next attempt; the refusal if another is useless, or there is no time for it."""
        error = error_of(response.status_code, response.headers, body, asked=self._call.asked)
        if response.status_code not in RETRIED_STATUSES and error.type != BUSY:
            raise error
        return self._wait_s(error)

    def wait_after_failure(self, error: Exception, *, is_last: bool = False) -> float:
        """Return the wait before the next attempt; the failure if another is useless, or there is no time for it."""
        if isinstance(error, httpx.LocalProtocolError):
            raise InvalidRequestError(f"{self._call.asked} can't be sent: {error}") from error
        failure = self._failure(error)
        failure.__cause__ = error
        return self._wait_s(failure, is_last=is_last)

    def _wait_s(self, error: BotsClientError, *, is_last: bool = False) -> float:
        """Return the wait before the next attempt, or raise the error if there is none."""
        wait_s = self._retries.wait_s(self._made, error.retry_after_s)
        if is_last or self._made >= self._retries.attempts or wait_s >= self.deadline.left_s():
            raise error
        logger.info("attempt %d: %s; again in %.2f s", self._made, error, wait_s)
        return wait_s

    def _failure(self, error: Exception) -> UnreachableError:
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            return self._too_late(reason)
        if isinstance(error, httpx.ConnectError):
            hint = "start it with `make serve`, or pass its address with url= or BOTS_URL"
            return UnreachableError(f"no BOTS service at {self._url}: {reason}; {hint}")
        attempt = f"attempt {self._made} of {self._retries.attempts}"
        return UnreachableError(f"lost the connection to {self._url} during {self._call.asked}, {attempt}: {reason}")

    def _too_late(self, reason: str) -> DeadlineExceededError:
        what = f"no full answer from {self._url} to {self._call.asked} within {self.deadline.seconds:g} s"
        return DeadlineExceededError(f"{what}, attempt {self._made} of {self._retries.attempts} ({reason})")

    def _require_time(self) -> None:
        if self.deadline.left_s() <= 0:
            raise self._too_late("the deadline passed")


def nearest_name(text: str) -> str:
    """Return the name that is nearest to a text; empty if there is none."""
    return re.sub("[^A-Za-z0-9._-]+", "-", text)[:128].lstrip("._-")


def path(*parts: str) -> str:
    """Return a path of words and names. Raises InvalidRequestError: what is no name might lead to another path."""
    for before, part in zip(("", *parts), parts, strict=False):
        what = PARAMETERS.get(before, "name")
        if not NAME.fullmatch(checked(part, str, what)):
            similar = nearest_name(part)
            rule = 'a name has up to 128 letters, digits, ".", "_" and "-", and begins with a letter or digit'
            raise InvalidRequestError(f"{what} {part[:256]!r}: {rule}" + (f"; try {similar!r}" if similar else ""))
    return "/" + "/".join(parts)


def run_path(dataset: str, run: str, *more: str) -> str:
    return path("datasets", dataset, "runs", run, *more)


def write_call(
    method: str,
    where: str,
    parse: Callable[[bytes], T],
    content: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
) -> Call[T]:
    """Return a write: a JSON body, and one Idempotency-Key for all attempts; None: a new one."""
    if content is None:
        return Call(method, where, parse, headers=key_header(key))
    headers = {**key_header(key), "Content-Type": "application/json"}
    return Call(method, where, parse, body=json_bytes(content), headers=headers)


def key_header(key: str | None) -> dict[str, str]:
    key = uuid4().hex if key is None else key
    if not (1 <= len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        raise InvalidRequestError(f"idempotency key {key!r} is not 1 to {MAX_KEY_LENGTH} printable ASCII characters")
    return {KEY: key}


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None; the service has defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


def json_bytes(content: object) -> bytes:
    """Return a body as JSON; encoded once, so that every attempt sends the same bytes."""
    try:
        # `default` converts numpy's numbers, which are common in trainers.
        return json.dumps(content, allow_nan=False, separators=(",", ":"), default=plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the request can't be encoded as JSON: {error}") from error


def upload_of(
    given: Any,
    wires_of: Callable[[Any], Iterable[object]],
    media_type: str | None,
    on_progress: Progress | None,
    head: Mapping[str, Any] | None = None,
) -> tuple[Upload | bytes, str]:
    """Return a body to upload, and its media type.

    given: a `Source`, or items, of which `wires_of` makes the JSON of a line each.
    media_type: None: by the file's suffix. head: the JSON of a line before all others; empty: none.
    """
    first = json_bytes(head) + b"\n" if head else b""
    if callable(given):
        upload = Upload(given, None, on_progress, first)
    elif isinstance(given, str | os.PathLike):
        suffix = Path(given).suffix.lower()
        if suffix == ".parquet":
            raise InvalidRequestError(
                "the service reads no Parquet: let `bots datasets import` read the file, or pass"
                " what you make of its rows, which are pyarrow.parquet.read_table(...).to_pylist()"
            )
        upload = Upload(lambda: _chunks_of(given), Path(given).stat().st_size, on_progress, first)
        media_type = media_type or MEDIA_TYPES.get(suffix)
    else:
        return first + b"".join(json_bytes(wire) + b"\n" for wire in wires_of(given)), NDJSON
    if media_type is None:
        raise InvalidRequestError(
            f"the format is not known: give a file that ends with one of {', '.join(MEDIA_TYPES)}; in Python you can"
            f" also pass media_type={NDJSON!r}"
        )
    return upload, media_type


def _chunks_of(file: str | os.PathLike[str]) -> Iterator[bytes]:
    with Path(file).open("rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            yield chunk


def into(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a JSON body as the dataclass, or raises ValueError.

    Unknown fields are ignored and fields with a default may be missing, so that an older client understands a newer
    service. A value of the wrong type raises an error that says where it is, so that it never reaches a training loop.
    """
    return lambda body: _decoded(json.loads(body), kind, "")


def page_of(kind: type[T], name: str) -> Callable[[bytes], tuple[tuple[T, ...], str | None]]:
    """Return a function that decodes one page of a list: its items in the field `name`, and the next page's cursor."""

    def read(body: bytes) -> tuple[tuple[T, ...], str | None]:
        page = _of_kind(json.loads(body), "", dict, "an object")
        items = _decoded(page.get(name), tuple[kind, ...], name)  # type: ignore[valid-type]
        return items, _decoded(page.get("next_cursor"), str | None, "next_cursor")

    return read


def nothing(body: bytes) -> None:
    """Ignore the body of an answer whose status is its result."""


def _decoded(value: Any, kind: Any, place: str) -> Any:
    """Return a value of JSON as a type of a field; `place` is where it stands in the answer, for errors."""
    if kind in SCALARS:
        return _scalar(value, kind, place)
    origin, parts = _shape(kind)
    if origin is UnionType:
        return _one_of(value, parts, place)
    if origin is tuple:
        items = _of_kind(value, place, list, "a list")
        kinds = (parts[0],) * len(items) if parts[-1] is ... else parts
        if len(items) != len(kinds):
            raise ValueError(f"{place}: {len(items)} values instead of {len(kinds)}")
        return tuple([_decoded(item, kinds[at], f"{place}.{at}") for at, item in enumerate(items)])
    given = _of_kind(value, place, dict, "an object")
    if origin is Mapping:
        return {name: _decoded(item, parts[1], f"{place}.{name}") for name, item in given.items()}
    found = {}
    for name, own, usual, is_required in parts:
        if name in given:
            item = given[name]
            found[name] = item if type(item) is usual else _decoded(item, own, f"{place}.{name}" if place else name)
        elif is_required:
            raise ValueError(f"{place}.{name}: missing".lstrip("."))
    return kind(**found)


@cache
def _shape(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type's origin and arguments.

    For a dataclass, its fields: name, type, the one that values mostly have and need no look then, whether it must be
    there. A selection may have thousands of tasks.
    """
    if not dataclasses.is_dataclass(kind):
        origin = get_origin(kind)
        return UnionType if origin is Union else origin, get_args(kind)
    hints, missing, fields = get_type_hints(kind), dataclasses.MISSING, []
    for each in dataclasses.fields(kind):
        own = hints[each.name]
        usual = get_args(own)[0] if get_origin(own) in (Union, UnionType) else own
        is_required = each.default is missing and each.default_factory is missing
        fields.append((each.name, own, usual, is_required))
    return kind, tuple(fields)


def _one_of(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not NoneType)
    for kind in others:
        try:
            return _decoded(value, kind, place)
        except ValueError:
            continue
    return _decoded(value, last, place)


def _scalar(value: Any, kind: Any, place: str) -> Any:
    """Return a plain value; true and false are no numbers."""
    accepted, wanted = SCALARS[kind]
    if isinstance(value, bool) and kind is not bool:
        raise _unfit(value, place, wanted)
    _of_kind(value, place, accepted, wanted)
    try:
        if kind is datetime:  # Z: from Python 3.11
            return datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)
        return float(value) if kind is float else value
    except (ValueError, OverflowError) as error:
        raise _unfit(value, place, wanted) from error


def _of_kind(value: Any, place: str, kind: type | UnionType, wanted: str) -> Any:
    if isinstance(value, kind):
        return value
    raise _unfit(value, place, wanted)


def _unfit(value: Any, place: str, wanted: str) -> ValueError:
    return ValueError(f"{place or 'response'}: expected {wanted}, got {str(value)[:60]!r}")
