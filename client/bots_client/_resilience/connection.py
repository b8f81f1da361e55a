"""A process's connection to the service: deadlines, health, and a probe that finds a service that was away."""

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TypeVar
from weakref import ReferenceType, WeakMethod, ref

from bots_client._client import Client
from bots_client._errors import (
    PROBLEM,
    BotsClientError,
    ConflictError,
    DeadlineExceededError,
    InvalidRequestError,
    RequestError,
    ServiceError,
)
from bots_client._http import system_random

T = TypeVar("T")

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0  # so that a service that is back is found within a minute
AGAIN_S = 60.0
MAX_TEXTS = 64  # to remember
CLIENT_SHARE = 0.9  # of a deadline: the client's own timeout comes first, because its error says more than "too late"
MARK = "_bots_mistake"  # attribute of an error that `Mistakes` raised
OUTCOMES = ("body", "outcomes")  # begins the location of an outcome's error; the outcome's index follows
SUBSET = ("body", "subset")  # the location of a selection's error, if the dataset has no such subset
RANGE_FIX = (
    "report how many rollouts solved the task (successes=, or Outcome.counts), next to rewards of any range; or, if the"
    " lowest reward means failed and the highest solved, as -1 and 1 do, pass Selector(reward_range=(-1, 1))"
)
FIXES = {
    f"{PROBLEM}unknown-dataset": "call Selector.register() first, which creates it, or correct the name",
    f"{PROBLEM}unknown-run": "call Selector.register() first, which creates it, or correct the name",
    f"{PROBLEM}unauthenticated": "pass api_key=, or set BOTS_API_KEY",
    f"{PROBLEM}forbidden": "pass the key of a trainer of this dataset with api_key= or BOTS_API_KEY",
    f"{PROBLEM}invalid-outcomes": f"rewards outside the run's range: {RANGE_FIX}. Missing tasks: Selector.register()",
}

logger = logging.getLogger("bots_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts since the process started, except `kept`, which is current.

    is_away: the last call could not reach the service. last_error: "" if there was none.
    kept: reports that wait on disk, as far as this process knows.
    selects, local_selects: all selections, and those made by the client while the service was away.
    replaced: selected tasks that the trainer does not have; the client sampled others instead.
    reports: submitted reports; replayed: reports delivered from disk.
    refused: reports that the service refused for good (see `last_error`); they stay on disk for inspection.
    lost: reports that were never delivered: the disk failed, is damaged or full, or more than spool_bytes waited.
    left_out_rollouts: rollouts without a usable reward (None, NaN or infinite), which are no evidence.
    select_seconds, report_seconds: total time spent waiting.
    """

    is_away: bool = False
    kept: int = 0
    selects: int = 0
    local_selects: int = 0
    replaced: int = 0
    reports: int = 0
    replayed: int = 0
    refused: int = 0
    lost: int = 0
    left_out_rollouts: int = 0
    select_seconds: float = 0.0
    report_seconds: float = 0.0
    last_error: str = ""

    def as_metrics(self) -> dict[str, float]:
        """Return all but `last_error` as numbers under names such as "bots/kept", for W&B or TensorBoard."""
        values = asdict(self)
        del values["last_error"]
        return {f"bots/{name}": float(value) for name, value in values.items()}


class HealthCounters:
    """The counts of a process, safe to share between threads."""

    def __init__(self) -> None:
        self.health = Health()
        self._lock = threading.Lock()
        self._kept: dict[str, int] = {}

    def add(self, **counts: float) -> None:
        with self._lock:
            now = {name: getattr(self.health, name) + count for name, count in counts.items()}
            self.health = replace(self.health, **now)

    def set(self, **values: bool | int | str) -> Health:
        """Set values that are not sums; return the health before."""
        with self._lock:
            before, self.health = self.health, replace(self.health, **values)  # type: ignore[arg-type]
            return before

    def set_kept(self, spool: str, waiting: int) -> None:
        with self._lock:
            self._kept[spool] = waiting
            self.health = replace(self.health, kept=sum(self._kept.values()))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the duration of the block, in seconds, to a counter."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(**{name: time.perf_counter() - begun})


class Reminder:
    """Says when a text is due in a log: at first, then once a minute, so that it is neither missed nor floods it."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}

    def is_due(self, text: str) -> bool:
        now = time.monotonic()
        if now - self._told_at.get(text, -math.inf) < AGAIN_S:
            return False
        if len(self._told_at) >= MAX_TEXTS:
            self._told_at.clear()
        self._told_at[text] = now
        return True


class Connection:
    """One process's connection to the service: a circuit breaker (M. Nygard, Release It!, 2nd ed., 2018).

    One failure opens it, because a call fails only after it was retried until its deadline. No call is let through
    then until a probe, in the background, finds the service. A forked process needs a connection of its own.

    catch_up: a method that probes the service once, does what waited for it, and returns whether it is back. Its owner
        may be collected: the background thread keeps neither it nor the process alive.
    """

    def __init__(self, client: Client, catch_up: Callable[[], bool]) -> None:
        self.client = client
        self.counters = HealthCounters()
        self._catch_up = WeakMethod(catch_up)
        self._reminder = Reminder()
        self._away_since = 0.0
        self._asked_for_s = 0.0  # the service's Retry-After
        self._probes = 0  # since the last call that succeeded
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._prober: threading.Thread | None = None
        self._is_closed = False

    def is_available(self) -> bool:
        """Return whether calls are let through; if not, make sure that the service is probed."""
        if self.counters.health.is_away:
            self.probe()
            return False
        return True

    def ask(self, question: Callable[[Client], T], seconds: float, *, once: bool = False) -> T:
        """Return the answer to a question such as `lambda bots: bots.run("guru")`; any failure raises within `seconds`.

        The question is asked on a thread of its own, because some calls can't be interrupted: a lookup of a host name
        has no timeout, and neither has an answer that arrives byte by byte. An abandoned thread ends with its call.

        once: don't try again; an overloaded service's refusal is then no outage.
        """
        if seconds <= 0:  # earlier work used up the deadline; the service did not fail
            raise DeadlineExceededError("no time is left to ask the service")
        bots = self.client.within(seconds * CLIENT_SHARE, attempts=1 if once else None)
        try:
            answer = call_within(lambda: question(bots), seconds)
        except RequestError:  # a refusal is an answer
            self._succeeded()
            raise
        except BotsClientError as error:
            if not once or error.status is None:
                self._failed(error)
            raise
        except Exception as error:  # no thread, no file handle, a bug of ours: training must continue
            failure = ServiceError(f"asking the service failed: {error!r}")
            self._failed(failure)
            raise failure from error
        self._succeeded()
        return answer

    def tried(self, ask: Callable[[], T]) -> T | None:
        """Return what `ask` returns, which asks the service; None if it is away or fails, which is logged."""
        if self.is_available():
            try:
                return ask()
            except BotsClientError as error:
                self.log(error)
        return None

    def found(self) -> None:
        if self.counters.set(is_away=False).is_away:
            logger.warning("the BOTS service is back after %.0f s", time.monotonic() - self._away_since)

    def lose(self, count: int, reason: str) -> None:
        self.counters.add(lost=count)
        self.log(reason)

    def log(self, error: Exception | str) -> None:
        """Log an error, unless it was logged within the last minute; keep it as `last_error`."""
        self.counters.set(last_error=str(error))
        if self._reminder.is_due(_kind(error)):
            health = self.counters.health
            counts = f" (so far {health.refused} reports were refused; {health.kept} wait)"
            logger.error("%s%s", str(error), counts if health.refused or health.kept else "")

    def probe(self) -> None:
        """Probe the service in the background until it is back, whether or not it is away; do then what waited."""
        with self._lock:
            if self._is_closed or self._prober is not None:
                return
            self._wake.clear()
            thread = threading.Thread(target=_probe, args=(ref(self), self._wake), name="bots-probe", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads, or the interpreter is shutting down; the next call tries again
                return
            self._prober = thread

    def probe_now(self) -> None:
        self._wake.set()

    def close(self, seconds: float) -> None:
        """Stop probing, and close the connections; wait at most this long for a probe that is under way."""
        with self._lock:
            self._is_closed = True
            thread = self._prober
        self._wake.set()
        if thread is not None:
            thread.join(max(seconds, 0.0))
        self.client.close()

    def _succeeded(self) -> None:
        if not self.counters.health.is_away:
            self._probes = 0

    def _failed(self, error: BotsClientError) -> None:
        self._reminder.is_due(_kind(error))  # the warning below says it
        self._asked_for_s = error.retry_after_s or 0.0
        if not self.counters.set(is_away=True, last_error=str(error)).is_away:
            self._away_since = time.monotonic()
            logger.warning(
                "the BOTS service is unavailable (%s); until it is back, tasks are sampled uniformly and reports are"
                " kept on disk",
                str(error),  # a log handler that keeps the error would keep everything that its frames refer to
            )
        self.probe()

    def _is_back(self) -> bool:
        """Probe once; return whether no further probe is needed."""
        catch_up = self._catch_up()
        if self._is_closed or catch_up is None:
            return True
        try:
            return catch_up()
        except Exception:  # keep the thread alive: nothing else probes
            logger.exception("probing the BOTS service failed")
            return False


class Mistakes:
    """One process's mistakes about one run, each kept until a call of the training's thread can raise it.

    A refusal is a mistake if it is about an outcome, or if this kind of question has never worked in this process. A
    dataset that is gone or a key that was revoked in the middle of a training is none.

    raises: False: mistakes are only logged, once a minute.
    """

    def __init__(self, connection: Connection, *, raises: bool) -> None:
        self.raises = raises
        self._connection = connection
        self._worked: set[str] = set()
        self._found: Exception | None = None

    def ask(self, kind: str, question: Callable[[Client], T], seconds: float, *, is_own: bool = True) -> T:
        """Return the answer to a question of a kind such as "select"; note a refusal that is a mistake.

        is_own: False: another process or an earlier job made the content.
        """
        try:
            answer = self._connection.ask(question, seconds)
        except RequestError as error:
            if self._is_mistake(error, kind, is_own):
                self.note(error)
            raise
        self._worked.add(kind)
        return answer

    def note(self, error: Exception) -> None:
        """Log a mistake, and keep it for `raise_found`."""
        fix = FIXES.get(error.type) if isinstance(error, BotsClientError) else None
        if fix is not None and not str(error).endswith(fix):
            error = type(error)(f"{error}\n  {fix}", **vars(error))
        self._connection.log(error)
        if self.raises and self._found is None:
            self._found = error

    def raise_found(self) -> None:
        """Raise the mistake that was noted since the last call of this method, if there is one."""
        error, self._found = self._found, None
        if error is not None:
            vars(error)[MARK] = True
            raise error

    def _is_mistake(self, error: RequestError, kind: str, is_own: bool) -> bool:
        if isinstance(error, ConflictError):  # with what others do at the same time, or did before
            return False
        if (isinstance(error, InvalidRequestError) and not is_own) or is_about_subset(error):
            return False
        return kind not in self._worked or any(flaw.loc[:2] == OUTCOMES for flaw in error.errors)


def is_mistake(error: Exception) -> bool:
    """Return whether an error is a mistake of the calling program, which is to be raised into it."""
    return getattr(error, MARK, False)


def is_about_subset(error: RequestError) -> bool:
    """Return whether a selection was refused because the dataset does not have its subset any more."""
    return any(flaw.loc == SUBSET for flaw in error.errors)


def _probe(connection_of: "ReferenceType[Connection]", wake: threading.Event) -> None:
    """Probe until the service is back, or nobody uses the connection any more."""
    while (connection := connection_of()) is not None:
        pause = pause_s(connection._probes, connection._asked_for_s)
        connection._probes += 1
        del connection  # so that it can be collected during the pause
        wake.wait(pause)
        wake.clear()
        connection = connection_of()
        if connection is not None and connection._is_back():
            with connection._lock:
                connection._prober = None
            return


def pause_s(probes: int, asked_for_s: float) -> float:
    """Return a random pause after so many probes, whose bound doubles with each: jobs lost the service together.

    asked_for_s: the service's Retry-After, which is kept up to a minute.
    """
    bound_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(probes, 60))
    return max(bound_s * (1 + system_random()) / 2, min(asked_for_s, MAX_PAUSE_S))


def call_within(ask: Callable[[], T], seconds: float) -> T:
    """Return what `ask` returns on a thread of its own; a DeadlineExceededError if it takes longer."""
    answer = Future[T]()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    try:
        threading.Thread(target=run, name="bots-client", daemon=True).start()
    except RuntimeError:  # too many threads, or the interpreter is shutting down: rely on the call's own deadline
        return ask()
    wait([answer], max(seconds, 0.0))
    if not answer.done():
        raise DeadlineExceededError(f"the service gave no full answer within {round(seconds, 2):g} s")
    return answer.result()


def _kind(error: Exception | str) -> str:
    """Return the error's text without the id of the request, and without names in quotes such as that of a task."""
    if isinstance(error, BotsClientError) and error.status is not None:
        return f"{error.status} {error.type} {error.detail}"
    return re.sub("'[^']*'", "", str(error))
