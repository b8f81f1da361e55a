"""Timing calls in turn, so that a busy machine disturbs all of them alike."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one call takes, in milliseconds, over some repeats."""

    median_ms: float
    min_ms: float
    max_ms: float
    repeats: int


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one comparison may take: until `seconds` are over, but `fewest` to `most` rounds."""

    seconds: float
    fewest: int
    most: int


TURN = 5  # calls in a row: the first finds what the other left in the processor's caches, the rest what they left
QUICK_S = 0.3  # slower rounds take one call a turn; their data is larger than any cache


def in_turn(calls: list[Callable[[], object]], patience: Patience) -> list[Timing]:
    """Time the calls in turn, five of one, five of the other, after one round that is not counted.

    The one round warms pages and lazily built tables for each of them alike.
    """
    times: list[list[float]] = [[] for _ in calls]
    begin = time.perf_counter()
    for call in calls:
        call()
    turn = TURN if time.perf_counter() - begin < QUICK_S else 1
    end = time.perf_counter() + patience.seconds
    for done in range(0, patience.most, turn):
        if done >= patience.fewest and time.perf_counter() > end:
            break
        for call, own in zip(calls, times, strict=True):
            own += [timed_ms(call) for _ in range(turn)]
    return [Timing(statistics.median(own), min(own), max(own), len(own)) for own in times]


def timed_ms(call: Callable[[], object]) -> float:
    """Return how long one call takes, in milliseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3
