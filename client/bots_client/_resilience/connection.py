"""A client that is asked only while the service is there, and given up in time."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bots_client._call import Call
from bots_client._calls import run_calls
from bots_client._client import Client
from bots_client._errors import BotsClientError, DeadlineExceededError, RequestError, ServiceError
from bots_client._resilience.breaker import Breaker
from bots_client._resilience.deadline import call_within
from bots_client._resilience.health import Health, Tally
from bots_client._resilience.watch import Watch

T = TypeVar("T")

OWN_SHARE = 0.9  # of a deadline is the client's, which can say more about what went wrong than "too late"

logger = logging.getLogger("bots_client")


class Connection:
    """One process's connection; tells when the service goes away and when it is back.

    Args:
        client: what calls.
        breaker: decides whether to.
        watch: looks for the service while it is away, and says `found`.
        tally: where what happens is counted.
        on_change: called with the health when the service goes away or is back, on any thread; must be quick.
    """

    def __init__(
        self,
        client: Client,
        breaker: Breaker,
        watch: Watch,
        tally: Tally,
        on_change: Callable[[Health], object] | None,
    ) -> None:
        self.client = client
        self.tally = tally
        self._breaker = breaker
        self._watch = watch
        self._on_change = on_change
        self._away_since = 0.0
        self._complained_of = ""

    def is_there(self) -> bool:
        """Say whether the service can be asked, as far as is known; while it is away, it is looked for."""
        if self._breaker.is_open:
            self._watch.begin()
            return False
        return True

    def reaches(self, dataset: str, run: str, seconds: float) -> bool:
        """Say whether the service answers of a run, be it with a refusal."""
        try:
            self.ask(run_calls.run(dataset, run), seconds)
        except RequestError:
            return True
        except BotsClientError:
            return False
        return True

    def found(self) -> None:
        """Note that the service is back."""
        if self._breaker.found():
            self.tally.put(is_away=False)
            logger.warning("the BOTS service is back after %.0f s", time.monotonic() - self._away_since)
            self._tell()

    def ask(self, call: Call[T], seconds: float) -> T:
        """Return what the service answers.

        Raises:
            BotsClientError: whatever went wrong, within `seconds`.
        """
        if seconds <= 0:  # what came before took it all: no fault of the service
            raise DeadlineExceededError(f"no time is left for {call.asked}")
        call = replace(call, deadline_s=seconds * OWN_SHARE)
        try:
            answer = call_within(lambda: self.client.send(call), seconds, asked=call.asked)
        except RequestError:
            self._breaker.succeeded()  # it is there, and says no
            raise
        except BotsClientError as error:
            if call.retried or error.status is None:  # "busy now" to a single attempt is no outage
                self._note_failure(error)
            raise
        except Exception as error:  # no thread to be had, no file handle, a flaw of ours: training goes on
            failure = ServiceError(f"{call.asked} failed: {error!r}")
            self._note_failure(failure)
            raise failure from error
        self._breaker.succeeded()
        return answer

    def complain(self, error: Exception | str) -> None:
        """Log what went wrong, once for as long as it is the same."""
        what = _without_request(error)
        if what != self._complained_of:
            logger.error("%s", str(error))
        self._complained_of = what
        self.tally.put(last_error=str(error))

    def _note_failure(self, error: BotsClientError) -> None:
        self.tally.put(is_away=True, last_error=str(error))
        self._complained_of = _without_request(error)  # the warning says it
        if self._breaker.failed(error.problem.retry_after_s):
            self._away_since = time.monotonic()
            logger.warning(
                "the BOTS service cannot be used (%s); until it is back, tasks are chosen uniformly here and reports"
                " kept on disk",
                str(error),  # who keeps what was logged would keep all that the error's frames refer to
            )
            self._tell()
        self._watch.begin()

    def _tell(self) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(self.tally.health)
        except Exception:
            logger.exception("on_change= failed")


def _without_request(error: Exception | str) -> str:
    """Return what went wrong without what tells one request from the next."""
    if isinstance(error, BotsClientError) and error.status is not None:
        return f"{error.status} {error.type} {error.detail}"
    return str(error)
