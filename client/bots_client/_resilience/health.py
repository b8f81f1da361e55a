"""How things stand between a training job and the service."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts since this process began, but for `kept`.

    is_away: the service could not be used the last time that it was asked.
    kept: reports on disk that wait for the service, as far as this process knows.
    selects, local_selects: selections in all, and those chosen here because the service was away.
    replaced: tasks that the service selected and the trainer lacks, in whose place others were chosen here.
    reports: handed in; replayed: delivered from disk.
    refused: reports that the service will never take (`last_error` says why); they stay on disk to be looked at.
    lost: reports that could not be kept, because the disk failed or the limit on kept reports was reached.
    select_seconds, report_seconds: spent waiting, in all.
    last_error: what went wrong last; "" if nothing did.
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
    select_seconds: float = 0.0
    report_seconds: float = 0.0
    last_error: str = ""

    def as_metrics(self, prefix: str = "bots/") -> dict[str, float]:
        """Return all but `last_error` as numbers under names such as "bots/kept", for W&B or TensorBoard."""
        values = asdict(self)
        del values["last_error"]
        return {f"{prefix}{name}": float(value) for name, value in values.items()}


class Tally:
    """The counts of a process, safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._health = Health()
        self._kept: dict[str, int] = {}

    @property
    def health(self) -> Health:
        """How things stand now."""
        return self._health

    def add(self, **counts: float) -> None:
        """Add to counts, by their names."""
        with self._lock:
            now = {name: getattr(self._health, name) + count for name, count in counts.items()}
            self._health = replace(self._health, **now)

    def put(self, **values: bool | int | str) -> None:
        """Set what is no sum."""
        with self._lock:
            self._health = replace(self._health, **values)  # type: ignore[arg-type]

    def put_kept(self, spool: str, waiting: int) -> None:
        """Set how many reports wait in one of the spools."""
        with self._lock:
            self._kept[spool] = waiting
            self._health = replace(self._health, kept=sum(self._kept.values()))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the seconds that what stands inside takes."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(**{name: time.perf_counter() - begun})
