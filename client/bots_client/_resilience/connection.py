"""A client that is used only while the service is available, within deadlines."""

import logging
import math
import re
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
from bots_client._resilience.health import Health, HealthCounters
from bots_client._resilience.recovery_probe import RecoveryProbe

T = TypeVar("T")

AGAIN_S = 60.0
MAX_TEXTS = 64  # to remember
CLIENT_SHARE = 0.9  # of a deadline: the client's own timeout comes first, because its error says more than "too late"

logger = logging.getLogger("bots_client")


class Reminder:
    """Says when a text is due in a log: at first, then once a minute, so that it is neither missed nor floods it."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}

    def is_due(self, text: str) -> bool:
        """Return whether the text was not due within the last minute."""
        now = time.monotonic()
        if now - self._told_at.get(text, -math.inf) < AGAIN_S:
            return False
        if len(self._told_at) >= MAX_TEXTS:
            self._told_at.clear()
        self._told_at[text] = now
        return True


class Connection:
    """One process's connection to the service, with a circuit breaker.

    Args:
        client: sends the calls.
        breaker: decides whether calls are let through.
        probe: probes the service while it is away; its owner then calls `found`.
        counters: the process's counters.
        on_change: called with the health when the service goes away or is back, on any thread; must be quick.
    """

    def __init__(
        self,
        client: Client,
        breaker: Breaker,
        probe: RecoveryProbe,
        counters: HealthCounters,
        on_change: Callable[[Health], object] | None,
    ) -> None:
        self.client = client
        self.counters = counters
        self._breaker = breaker
        self._probe = probe
        self._on_change = on_change
        self._away_since = 0.0
        self._reminder = Reminder()

    def is_available(self) -> bool:
        """Return whether calls are let through; if not, make sure that the service is probed."""
        if self._breaker.is_open:
            self._probe.start()
            return False
        return True

    def probe(self) -> None:
        """Probe the service in the background, whether or not it is away; the probe's owner does what waited for it."""
        self._probe.start()

    def reaches(self, dataset: str, run: str, seconds: float) -> bool:
        """Return whether the service answers a request about a run, even with a 4xx."""
        try:
            self.ask(run_calls.run(dataset, run), seconds)
        except RequestError:
            return True
        except BotsClientError:
            return False
        return True

    def found(self) -> None:
        """Record that the service is back."""
        if self._breaker.found():
            self.counters.set(is_away=False)
            logger.warning("the BOTS service is back after %.0f s", time.monotonic() - self._away_since)
            self._notify()

    def ask(self, call: Call[T], seconds: float) -> T:
        """Send a call and return the service's answer.

        Raises:
            BotsClientError: any failure, raised within `seconds`.
        """
        if seconds <= 0:  # earlier work used up the deadline; the service did not fail
            raise DeadlineExceededError(f"no time is left for {call.asked}")
        call = replace(call, deadline_s=seconds * CLIENT_SHARE)
        try:
            answer = call_within(lambda: self.client.send(call), seconds, asked=call.asked)
        except RequestError:
            self._breaker.succeeded()  # a refusal is an answer
            raise
        except BotsClientError as error:
            if call.retried or error.status is None:  # a 503 to a single attempt is not an outage
                self._note_failure(error)
            raise
        except Exception as error:  # no thread, no file handle, a bug of ours: training must continue
            failure = ServiceError(f"{call.asked} failed: {error!r}")
            self._note_failure(failure)
            raise failure from error
        self._breaker.succeeded()
        return answer

    def lose(self, count: int, reason: str) -> None:
        """Count reports that can't be delivered any more, and log why."""
        self.counters.add(lost=count)
        self.log(reason)

    def log(self, error: Exception | str) -> None:
        """Log an error, unless it was logged within the last minute; keep it as `last_error`."""
        self.counters.set(last_error=str(error))
        if self._reminder.is_due(_kind(error)):
            health = self.counters.health
            counts = f" (so far {health.refused} reports were refused; {health.kept} wait)"
            logger.error("%s%s", str(error), counts if health.refused or health.kept else "")

    def _note_failure(self, error: BotsClientError) -> None:
        self.counters.set(is_away=True, last_error=str(error))
        self._reminder.is_due(_kind(error))  # the warning below says it
        if self._breaker.failed(error.problem.retry_after_s):
            self._away_since = time.monotonic()
            logger.warning(
                "the BOTS service is unavailable (%s); until it is back, tasks are sampled uniformly and reports are"
                " kept on disk",
                str(error),  # a log handler that keeps the error would keep everything that its frames refer to
            )
            self._notify()
        self._probe.start()

    def _notify(self) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(self.counters.health)
        except Exception:
            logger.exception("on_change= failed")


def _kind(error: Exception | str) -> str:
    """Return the error's text without the id of the request, and without names in quotes such as that of a task."""
    if isinstance(error, BotsClientError) and error.status is not None:
        return f"{error.status} {error.type} {error.detail}"
    return re.sub("'[^']*'", "", str(error))
