"""Jobs that wait for a thread of a pool, in the order in which they came, within limits of number and of time."""

from collections import deque
from threading import Condition, Lock
from typing import Any

from bots_service.errors import StorageUnavailableError
from bots_service.storage.database import Job
from bots_service.storage.lifeline import Lifeline
from bots_service.storage.promise import Promise


class WaitingJob:
    """A job, from when it comes until it is done, or its time is over."""

    def __init__(self, job: Job[Any], promise: Promise, *, deadline: float, is_read: bool, lane: object) -> None:
        """Keep a job.

        Args:
            job: what to do.
            promise: told what came of it.
            deadline: when its time is over, on the monotonic clock.
            is_read: whether it only reads.
            lane: of one lane, one job is done at a time; None: of none.
        """
        self.job = job
        self.promise = promise
        self.deadline = deadline
        self.is_read = is_read
        self.lane = lane
        self._lock = Lock()
        self._is_over = False
        self._lifeline: Lifeline | None = None

    @property
    def is_over(self) -> bool:
        """Whether its time is over."""
        return self._is_over

    def hold(self, lifeline: Lifeline) -> None:
        """Remember the connection that the job is done on; it is cut when the job's time is over."""
        with self._lock:
            self._lifeline = lifeline
            if self._is_over:
                lifeline.cut()

    def let_go(self) -> None:
        """Forget the connection: from now on others may use it."""
        with self._lock:
            self._lifeline = None

    def give_up(self, error: StorageUnavailableError) -> None:
        """End the job: its caller gets the error, and its thread is freed by cutting the connection."""
        with self._lock:
            self._is_over = True
            if self._lifeline is not None:
                self._lifeline.cut()
        self.promise.fail(error)


class WaitingJobs:
    """The line, and those that are being done."""

    def __init__(self, most: int) -> None:
        """Make room for so many jobs that wait."""
        self._most = most
        self._line: deque[WaitingJob] = deque()
        self._running: set[WaitingJob] = set()
        self._changed = Condition()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return len(self._line)

    @property
    def running(self) -> int:
        """How many are being done."""
        return len(self._running)

    def put(self, job: WaitingJob) -> None:
        """Put a job in line.

        Raises:
            StorageUnavailableError: the line is full, or closed.
        """
        with self._changed:
            if self._closed:
                raise StorageUnavailableError("the database is closed: the service is stopping")
            if len(self._line) >= self._most:
                raise StorageUnavailableError(f"{self._most} calls wait for the database already")
            self._line.append(job)
            self._changed.notify()

    def take(self) -> WaitingJob | None:
        """Wait for the next job whose lane is free and return it; None once the line is closed and empty."""
        with self._changed:
            while (job := self._next()) is None:
                if self._closed and not self._line:
                    return None
                self._changed.wait()
            self._line.remove(job)
            self._running.add(job)
            return job

    def done(self, job: WaitingJob) -> None:
        """Free the job's lane."""
        with self._changed:
            self._running.remove(job)
            if self._closed:  # else the thread that calls this comes back for what the lane held up
                self._changed.notify_all()

    def late(self, now: float) -> list[WaitingJob]:
        """Return the jobs whose time is over; they leave the line."""
        with self._changed:
            late = [job for job in self._line if job.deadline <= now]
            if late:
                self._line = deque(job for job in self._line if job.deadline > now)
                self._changed.notify_all()
            return late + [job for job in self._running if job.deadline <= now and not job.is_over]

    def close(self) -> None:
        """Take no more jobs; those in line are still done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> WaitingJob | None:
        busy = {job.lane for job in self._running} - {None}
        return next((job for job in self._line if job.lane not in busy), None)
