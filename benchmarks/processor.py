"""How much processor time processes took."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil


def processor_of(pids: Sequence[int]) -> Callable[[], float]:
    """Return what reads the seconds of processor time that these processes took so far, their descendants included.

    A descendant that ended in between is left out of what is read later, so only differences over times in which none
    ends mean something.
    """

    def read() -> float:
        return sum(map(_seconds, pids))

    return read


def _seconds(pid: int) -> float:
    total = 0.0
    process = psutil.Process(pid)
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total
