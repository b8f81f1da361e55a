"""What is expected of a run, and how its visits spread over its pool: what the effective task ratio hides."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from bots_service.core.arrays import Tasks, contained
from bots_service.core.belief import Belief
from bots_service.core.draw.strategies import IN_ORDER
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState

BINS = 20  # equal ones, of [0, 1]
SAMPLE = 512  # tasks looked at: an effective task ratio is then right to about 0.015
EVERY = 16  # steps between two looks; before the EVERYth there are looks after 0, 1, 2, 4 and 8 steps


@dataclass(frozen=True, slots=True)
class Outlook:
    """What to expect of tasks that are chosen uniformly from those that are not retired.

    effective_task_ratio: the expected share of them with some rollouts that succeed and some that fail. Rewards other
        than 0 and 1 differ more often than that, so where they are reported uniform sampling reaches more.
    distribution: the share of them whose expected success probability lies in each of the BINS; they add up to 1.
    """

    effective_task_ratio: float
    distribution: tuple[float, ...]


def outlook(belief: Belief, pool: Pool, rollouts: float, *, seed: Sequence[int] = (0,)) -> Outlook | None:
    """Return what a belief expects of SAMPLE tasks drawn at random, with m rollouts; None where all are retired."""
    tasks = pool.part().members.order
    if not len(tasks):
        return None
    if len(tasks) > SAMPLE:
        tasks = tasks.take(np.random.default_rng(seed).choice(len(tasks), SAMPLE, replace=False))
    found = belief.distributions(pool, np.sort(tasks))
    ratio = float(found.effective(rollouts).mean())
    places = np.minimum((found.mean * BINS).astype(np.intp), BINS - 1)  # exactly 1 is in the last
    return Outlook(min(max(ratio, 0.0), 1.0), tuple((np.bincount(places, minlength=BINS) / len(tasks)).tolist()))


def outlook_of(state: RunState, pool: Pool) -> Outlook | None:
    """Return what a run's belief expects in a state."""
    rollouts = state.totals.rollouts_per_task or state.group_size
    return outlook(state.belief, pool, rollouts, seed=(state.settings.seed, state.step))


class UniformEstimate(NamedTuple):
    """What uniform sampling would have found instead of a run, by the run's own belief.

    ratio: the last estimate of its effective task ratio; None before the first.
    expected: how many of as many tasks would have been effective, by the estimates of the time.
    distribution: of the outlook that this estimate comes from; None where it comes from an earlier one.
    """

    ratio: float | None = None
    expected: float | None = None
    distribution: tuple[float, ...] | None = None

    @property
    def outlook(self) -> Outlook | None:
        """The outlook that it comes from; None where that was an earlier one's."""
        return None if self.ratio is None or self.distribution is None else Outlook(self.ratio, self.distribution)


def estimate_after(before: UniformEstimate, state: RunState, receipt: Receipt, pool: Pool) -> UniformEstimate:
    """Return the estimate after an entry. before: after the one before it; state: before the entry."""
    ratio, distribution = before.ratio, None
    if not receipt.closed:
        return UniformEstimate(ratio, before.expected)
    if (ratio is None or is_due(state.step)) and (found := outlook_of(state, pool)) is not None:
        ratio, distribution = found.effective_task_ratio, found.distribution
    if ratio is None:
        return before
    if before.expected is None:  # the first estimate stands for what came before it
        return UniformEstimate(ratio, ratio * receipt.total_reported, distribution)
    return UniformEstimate(ratio, before.expected + ratio * receipt.reported, distribution)


def is_due(step: int) -> bool:
    """Return whether the service looks at a run's pool when it closes the step after this one."""
    return step % EVERY == 0 if step >= EVERY else step & (step - 1) == 0


def advice(state: RunState, pool: Pool) -> tuple[str, ...]:
    """Return what to know about a run, a sentence or two each; nothing where all is well."""
    found = [_without_references(state, pool), _returning(state)]
    return tuple(text for text in found if text is not None)


def _without_references(state: RunState, pool: Pool) -> str | None:
    """Warn where what a report shows of a task is forgotten before the task can come up again.

    Then only reference pass rates could tell tasks apart. Evidence lasts about 1 / lambda steps, and going round a pool
    takes as many steps as it has batches. What is left then is next to nothing.
    """
    settings, forgotten = state.settings, state.belief.forgotten_share(state.settings)
    if pool.has_references or settings.strategy != "thompson" or forgotten == 0.0:
        return None
    enough = (len(pool) - len(pool.retired)) * forgotten
    tasks_a_step = state.totals.reported / state.step if state.step else 1.0  # unknown yet: the fewest possible
    if tasks_a_step >= enough:
        return None
    return (
        "No task of this dataset has known reference pass rates, so a report says nothing about other tasks, and"
        f" evidence of a task lasts about {1 / forgotten:.0f} steps. With fewer than {ceil(enough)} tasks a"
        " step, selection is little better than uniform sampling. Create a run with the belief 'tracker', which needs"
        " no references, or the dataset with the pass rates of one or more reference models."
    )


def _returning(state: RunState) -> str | None:
    """Warn where the same few tasks stay nearest to the target, because what is known of them is never forgotten."""
    settings = state.settings
    if settings.strategy != "thompson" or state.belief.forgotten_share(settings) > 0.0:
        return None
    return (
        "The belief of this run forgets nothing, so 'thompson' returns to the same few tasks near the"
        " target, and the model may unlearn the others. In our own pilot with the tracker, this had the best effective"
        " task ratio, and held-out accuracy fell by 0.06 to 0.09 compared with a shuffled pass. Change the strategy"
        " to 'pass'."
    )


# A shuffled pass came to at most 1.4 and .18, choice at random to 1.6 and .22, `pass` to 1.6 and .18 where 29 % of the
# pool is useless; the nearest to the target under a sharp belief came to 10 and .74.
MOST_VISITS_PER_MET_TASK = 3.0
MOST_OF_VISITS = 0.45  # for a tenth of the pool
SMALLEST_POOL = 20  # in smaller ones chance alone brings choice at random beyond these bounds, now and then


@dataclass(frozen=True, slots=True)
class Coverage:
    """What share of the pool a run meets, and how evenly.

    available_tasks: number of tasks that are not retired.
    distinct_tasks: number of different ones reported so far, retired ones included.
    reached_share: how much of the available tasks was reported at least once; None where all are retired.
    mean_visits, most_visits: of the reported tasks; None before the first.
    top_tenth_share: of all visits, those that the most visited tenth of the reported tasks took; None before the first.
    pass_steps: W; None before the first report.
    unmet_share: how much of the available tasks the last W steps did not report; None before so many steps closed.
    visits_per_met_task: how often the last W steps reported each task that they reported, on average, taking them for
        as large as all steps are on average; None where `unmet_share` is.
    passes_done, pass_share: how often the strategy walked through the pool, or the part that was walked last, and how
        far the present walk has come; None for a strategy that does not walk, and with a mix, whose tags have a pass
        each.
    narrow: whether few tasks take most visits.
    reason: why it is narrow, and what to do about it; None where it is not.
    """

    available_tasks: int
    distinct_tasks: int
    reached_share: float | None
    mean_visits: float | None
    most_visits: int | None
    top_tenth_share: float | None
    pass_steps: int | None
    unmet_share: float | None
    visits_per_met_task: float | None
    passes_done: int | None
    pass_share: float | None
    narrow: bool
    reason: str | None


def coverage(state: RunState, pool: Pool) -> Coverage:
    """Return how a run's visits spread over its pool; looks at each task that was tried."""
    available, reported = len(pool) - len(pool.retired), state.totals.reported
    rows = state.attempts.whole
    tasks, visits = rows.tasks, np.sort(rows.visits)[::-1]
    pass_steps = ceil(available * state.step / reported) if reported and available else None
    met, unmet_share, per_met = 0, None, None
    if pass_steps is not None and state.step >= pass_steps:
        window = tasks[rows.last_step > state.step - pass_steps]
        met = len(window)
        unmet_share = 1.0 - _available(window, pool) / available
        per_met = reported / state.step * pass_steps / met if met else None
    found = []
    if per_met is not None and available >= SMALLEST_POOL:
        largest = _share(visits, available, reported)
        if per_met > MOST_VISITS_PER_MET_TASK:
            found.append(
                f"the last {pass_steps} steps, enough for a pass over all {available} tasks, reported {met} different"
                f" ones, {per_met:.1f} times each"
            )
        if largest > MOST_OF_VISITS:
            found.append(f"a tenth of the pool took {100 * largest:.0f} % of all visits")
    why = f"Few tasks take most visits: {', and '.join(found)}. {narrow_advice(state.settings)}"
    passes_done, pass_share = _walked(state, pool, available)
    return Coverage(
        available_tasks=available,
        distinct_tasks=len(tasks),
        reached_share=_available(tasks, pool) / available if available else None,
        mean_visits=reported / len(tasks) if reported else None,
        most_visits=int(visits[0]) if reported else None,
        top_tenth_share=_share(visits, len(tasks), reported) if reported else None,
        pass_steps=pass_steps,
        unmet_share=unmet_share,
        visits_per_met_task=per_met,
        passes_done=passes_done,
        pass_share=pass_share,
        narrow=bool(found),
        reason=why if found else None,
    )


def _available(tasks: Tasks, pool: Pool) -> int:
    """Return how many of the tasks are not retired."""
    return len(tasks) - int(np.count_nonzero(contained(tasks, (pool.retired,))))


def _share(visits: Tasks, tasks: int, reported: int) -> float:
    """Return the share of all visits that a tenth of so many tasks took, rounded up; the most visited come first."""
    return int(visits[: ceil(tasks / 10)].sum(dtype=np.int64)) / reported


def _walked(state: RunState, pool: Pool, available: int) -> tuple[int | None, float | None]:
    """Return how many passes over the whole pool are done, and the share of the present one."""
    strategy = state.settings.strategy
    if strategy == "pass" and state.settings.mix:  # with a mix, each tag has a pass of its own
        return None, None
    if strategy == "pass":
        return state.walks.done(len(pool))
    if strategy not in IN_ORDER or not available:
        return None, None
    done, place = divmod(state.totals.reported, available)
    return done, place / available


def narrow_advice(settings: RunSettings) -> str:
    """Return what to do about a run that is narrow: the end of its reason."""
    if settings.strategy == "thompson":  # returns to what is nearest, again and again
        return (
            "A model that trains on few tasks may unlearn the others, however high the effective task ratio is: use the"
            " strategy pass, which meets each task at most once a pass."
        )
    few = "If requests don't name tags that few tasks carry, few tasks are of use by now"
    return f"{few}: add tasks of another difficulty."
