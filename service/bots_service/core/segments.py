"""Segments of a run's tasks: what to do about each of them, at a glance."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats
from bots_service.core.pool import Pool
from bots_service.core.state import RunState

Segment = Literal["untried", "aborting", "stuck", "teaching", "solved", "retired"]
SEGMENTS: tuple[Segment, ...] = ("untried", "aborting", "stuck", "teaching", "solved", "retired")
UNTRIED, ABORTING, STUCK, TEACHING, SOLVED, RETIRED = range(len(SEGMENTS))
SOLVED_MEAN = 0.9  # of 16 rollouts one still fails 4 times in 5, but most of the group's work is wasted

Segments = NDArray[np.int8]  # places in SEGMENTS


def segments_of_tried(successes: Floats, mean: Floats) -> Segments:
    """[n] the segment of each of some tasks that were tried and are not retired.

    Args:
        successes: [n] the sum over all rollouts of each.
        mean: [n] its expected success probability.
    """
    of_solvable = np.where(mean >= SOLVED_MEAN, SOLVED, TEACHING)
    return np.where(successes > 0, of_solvable, STUCK).astype(np.int8)


def segments_of_pool(state: RunState, pool: Pool) -> Segments:
    """[N] the segment of each task of the pool."""
    segments = np.full(len(pool), UNTRIED, np.int8)
    tried = state.attempts.whole
    segments[tried.tasks] = segments_of_tried(tried.successes, state.belief.distributions(pool, tried.tasks).mean)
    segments[state.aborts.always_aborted] = ABORTING
    segments[pool.retired] = RETIRED
    return segments


def counts_of(segments: Segments) -> dict[Segment, int]:
    """Return how many tasks each segment has."""
    return dict(zip(SEGMENTS, np.bincount(segments, minlength=len(SEGMENTS)).tolist(), strict=True))
