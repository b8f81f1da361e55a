"""What is known of some tasks, as columns; and segments: what to do about each task, at a glance."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, contained
from bots_service.core.belief import Belief
from bots_service.core.belief.distributions import Betas, Distributions
from bots_service.core.pool import Pool
from bots_service.core.state import RunState

Segment = Literal["untried", "aborting", "unsolved", "teaching", "solved", "retired"]
SEGMENTS: tuple[Segment, ...] = ("untried", "aborting", "unsolved", "teaching", "solved", "retired")
UNTRIED, ABORTING, STUCK, TEACHING, SOLVED, RETIRED = range(len(SEGMENTS))
SOLVED_MEAN = 0.9  # of 16 rollouts one still fails 4 times in 5, but most of the group's work is wasted

Segments = NDArray[np.int8]  # places in SEGMENTS


def segments_of_pool(state: RunState, pool: Pool) -> Segments:
    """[N] the segment of each task of the pool."""
    segments = np.full(len(pool), UNTRIED, np.int8)
    tried = state.attempts.whole
    is_solved = state.belief.distributions(pool, tried.tasks).mean >= SOLVED_MEAN
    segments[tried.tasks] = np.where(tried.successes > 0, np.where(is_solved, SOLVED, TEACHING), STUCK)
    segments[state.aborts.always_aborted] = ABORTING
    segments[pool.retired] = RETIRED
    return segments


def counts_of(segments: Segments) -> dict[Segment, int]:
    """Return how many tasks each segment has."""
    return dict(zip(SEGMENTS, np.bincount(segments, minlength=len(SEGMENTS)).tolist(), strict=True))


TRIED = {
    "attempts": "rollouts",
    "successes": "successes",
    "visits": "visits",
    "last_step": "last_step",
}  # of AttemptRows
SORTS = ("index", "mean", "distance", "effective", "variance", *TRIED)


TaskTable = dict[str, NDArray[Any]]  # columns by name


def task_table(state: RunState, pool: Pool, tasks: Tasks, segments: Segments) -> TaskTable:
    """Return the belief about n tasks, and how often they were tried: columns of [n]. segments: [N] of the whole pool.

    tasks: as given.
    alpha, beta: of the Beta distributions of the success probabilities; not there where they are no Betas.
    mean: expected success probability; low, high: its 5 % and 95 % quantiles.
    effective: how likely some of a group of rollouts succeed and some fail.
    variance: E[p (1 - p)], the expected variance of one rollout.
    attempts: rollouts that were reported; visits: how many steps reported any; last_step: the last of them, or 0.
    aborts: how often a selection of the task brought nothing; segment: places in SEGMENTS.
    """
    attempts, (believed, place) = state.attempts.of(tasks), _distinct(state.belief, pool, tasks)
    low, high = believed.interval()
    each = {
        "mean": believed.mean,
        "low": low,
        "high": high,
        "effective": believed.effective(state.group_size),
        "variance": believed.rollout_variance,
    }
    if isinstance(believed, Betas):
        each |= {"alpha": believed.alpha, "beta": believed.beta}
    columns = {name: values[place] for name, values in each.items()}
    tried = {name: getattr(attempts, TRIED[name]) for name in TRIED}
    return {"tasks": tasks, **columns, **tried, "aborts": state.aborts.of(tasks).aborts, "segment": segments[tasks]}


def ordered(sort: str, state: RunState, pool: Pool, tasks: Tasks) -> Floats:
    """Return the value by which each task is sorted, ascending; a leading "-" turns the order round."""
    name = sort.removeprefix("-")
    if name == "index":
        values = tasks.astype(float)
    elif name in TRIED:
        values = getattr(state.attempts.of(tasks), TRIED[name]).astype(float)
    else:
        believed, place = _distinct(state.belief, pool, tasks)
        if name == "effective":
            values = believed.effective(state.group_size)[place]
        elif name == "variance":
            values = believed.rollout_variance[place]
        else:
            values = believed.mean[place]
            values = np.abs(values - state.settings.target) if name == "distance" else values
    return -values if sort.startswith("-") else values


def _distinct(belief: Belief, pool: Pool, tasks: Tasks) -> tuple[Distributions, NDArray[np.intp]]:
    """Return the distributions of these tasks, one for those of a profile that share it, and [n] the place of each."""
    own, profiles = contained(tasks, (belief.own_tasks,)), pool.profile_of.take(tasks)
    one_of = np.full(pool.profiles, -1, np.int32)
    one_of[profiles[~own]] = tasks[~own]
    shared = one_of >= 0
    place = (np.cumsum(shared) - 1)[profiles]
    place[own] = np.count_nonzero(shared) + np.arange(np.count_nonzero(own))
    return belief.distributions(pool, np.concatenate([one_of[shared], tasks[own]])), place
