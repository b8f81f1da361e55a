"""The state machine of one call: the next request, and what each response or failure means.

The part that both clients share. They send, sleep and pass on results; `Exchange` decides. It does no I/O, and takes
its clock as an argument.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import httpx

from bots_client._call import Call, Reply, Upload
from bots_client._errors import (
    BUSY,
    BotsClientError,
    DeadlineExceededError,
    InvalidRequestError,
    ServiceError,
    UnreachableError,
    error_of,
    problem_of,
)
from bots_client._retry import RETRIED_STATUSES, Deadline, Retries, TimeLeft

T = TypeVar("T")

logger = logging.getLogger("bots_client")


class Exchange(Generic[T]):
    """A call with its attempts so far and its deadline."""

    def __init__(self, call: Call[T], *, url: str, retries: Retries, deadline_s: float) -> None:
        self.call = call
        self._url = url
        self._retries = retries
        self._attempts = 0
        self._has_begun_to_answer = False
        deadline_s = deadline_s if call.deadline_s is None else call.deadline_s
        self.deadline = Deadline(deadline_s, retries.clock)

    def request(self) -> dict[str, Any]:
        """Return the next attempt, as httpx's build_request takes it; its `content` may be an iterator to be read.

        Raises:
            DeadlineExceededError: no time is left for it.
        """
        self._require_time()
        self._attempts += 1
        call = self.call
        # Not compressed: a few bytes of gzip can become gigabytes, and the service compresses none of these answers.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **call.headers}
        content = self._chunks(call.body) if isinstance(call.body, Upload) else call.body
        if isinstance(call.body, Upload) and call.body.length is not None:
            headers["Content-Length"] = str(call.body.length)
        return {
            "method": call.method,
            "url": call.path,
            "params": call.params or None,
            "headers": headers,
            "content": content,
            "extensions": {"timeout": TimeLeft(self.deadline)},
        }

    def check_encoding(self, headers: Mapping[str, str]) -> None:
        """Raise ServiceError if the body is compressed although no request allows it."""
        if (encoding := headers.get("content-encoding", "identity")) != "identity":
            raise ServiceError(
                f"{self._url} answered {self.call.asked} with Content-Encoding {encoding}, which the request does not"
                " allow: is it the BOTS service, and does a proxy before it change its answers?"
            )

    def check_received(self, count: int) -> None:
        """Check how many bytes of the body have arrived by now.

        Raises:
            DeadlineExceededError: the deadline has passed.
            ServiceError: they are more than the call allows.
        """
        self._require_time()
        if count > self.call.max_bytes:
            raise ServiceError(
                f"{self._url} answered {self.call.asked} with more than {self.call.max_bytes:,} bytes; is it the"
                " BOTS service?"
            )

    def begin_to_deliver(self) -> None:
        """Switch to streaming: no further attempts, and the deadline restarts with each chunk."""
        self._has_begun_to_answer = True
        self.deadline.restart()

    def result(self, reply: Reply) -> T:
        """Parse a successful response.

        Raises:
            ServiceError: the response is invalid.
        """
        try:
            return self.call.parse(reply.body)
        except (ValueError, RecursionError) as error:
            problem = problem_of(reply.status, reply.headers, b"", retry_after_s=None)
            raise ServiceError(
                f"{self._url} answered {reply.status} to {self.call.asked} with an invalid body: {error}",
                problem,
            ) from error

    def after_refusal(self, reply: Reply) -> float:
        """Return the wait before the next attempt, after an unsuccessful response.

        Raises:
            BotsClientError: another attempt is useless, or there is no time for it.
        """
        retry_after_s = self._retries.retry_after_s(reply.headers.get("retry-after"))
        problem = problem_of(reply.status, reply.headers, reply.body, retry_after_s=retry_after_s)
        error = error_of(problem, asked=self.call.asked)
        if reply.status not in RETRIED_STATUSES and error.type != BUSY:
            raise error
        return self._wait_s(error, retry_after_s)

    def after_failure(self, error: Exception) -> float:
        """Return the wait before the next attempt, after no response or an incomplete one.

        Raises:
            BotsClientError: another attempt is useless, or there is no time for it.
        """
        if isinstance(error, httpx.LocalProtocolError):
            raise InvalidRequestError(f"{self.call.asked} can't be sent: {error}") from error
        failure = self._failure(error)
        failure.__cause__ = error
        if self._has_begun_to_answer:
            raise failure
        return self._wait_s(failure, None)

    def _wait_s(self, error: BotsClientError, retry_after_s: float | None) -> float:
        """Return the wait before the next attempt, or raise the error if there is none."""
        wait_s = self._retries.wait_s(self._attempts, retry_after_s)
        is_last = self._attempts >= self._retries.attempts or wait_s >= self.deadline.left_s()
        if is_last or not self.call.retried:
            raise error
        logger.info("attempt %d: %s; again in %.2f s", self._attempts, error, wait_s)
        return wait_s

    def _failure(self, error: Exception) -> UnreachableError:
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            return self._too_late(reason)
        if isinstance(error, httpx.ConnectError):
            hint = "start it with `make serve`, or pass its address with url= or BOTS_URL"
            return UnreachableError(f"no BOTS service at {self._url}: {reason}; {hint}")
        attempt = f"attempt {self._attempts} of {self._retries.attempts}"
        return UnreachableError(f"lost the connection to {self._url} during {self.call.asked}, {attempt}: {reason}")

    def _too_late(self, reason: str) -> DeadlineExceededError:
        what = f"no full answer from {self._url} to {self.call.asked} within {self.deadline.seconds:g} s"
        return DeadlineExceededError(f"{what}, attempt {self._attempts} of {self._retries.attempts} ({reason})")

    def _require_time(self) -> None:
        if self.deadline.left_s() <= 0:
            raise self._too_late("the deadline passed")

    def _in_time(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._require_time()
            yield chunk

    def _chunks(self, upload: Upload) -> Iterator[bytes]:
        """Yield the body of one attempt, until the deadline: reading a slow file counts too."""
        return self._in_time(upload.chunks())
