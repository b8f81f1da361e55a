"""The health of a training job's connection to the service."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts since the process started, except `kept`, which is current.

    is_away: the last call could not reach the service.
    kept: reports that wait on disk, as far as this process knows.
    selects, local_selects: all selections, and those made by the client while the service was away.
    replaced: selected tasks that the trainer does not have; the client sampled others instead.
    reports: submitted reports; replayed: reports delivered from disk.
    refused: reports that the service refused for good (see `last_error`); they stay on disk for inspection.
    lost: reports that were never delivered: the disk failed, is damaged or full, or more than spool_bytes waited.
    left_out_rollouts: rollouts without a usable reward (None, NaN or infinite), which are no evidence.
    select_seconds, report_seconds: total time spent waiting.
    last_error: the last error; "" if there was none.
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

    def as_metrics(self, prefix: str = "bots/") -> dict[str, float]:
        """Return all but `last_error` as numbers under names such as "bots/kept", for W&B or TensorBoard."""
        values = asdict(self)
        del values["last_error"]
        return {f"{prefix}{name}": float(value) for name, value in values.items()}


class HealthCounters:
    """The counters of a process, safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._health = Health()
        self._kept: dict[str, int] = {}

    @property
    def health(self) -> Health:
        """The current values."""
        return self._health

    def add(self, **counts: float) -> None:
        """Increase counters by name."""
        with self._lock:
            now = {name: getattr(self._health, name) + count for name, count in counts.items()}
            self._health = replace(self._health, **now)

    def set(self, **values: bool | int | str) -> None:
        """Set values that are not sums."""
        with self._lock:
            self._health = replace(self._health, **values)  # type: ignore[arg-type]

    def set_kept(self, spool: str, waiting: int) -> None:
        """Set the number of reports that wait in one spool."""
        with self._lock:
            self._kept[spool] = waiting
            self._health = replace(self._health, kept=sum(self._kept.values()))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the duration of the block, in seconds, to a counter."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(**{name: time.perf_counter() - begun})
