"""How a run's visits spread over its pool: what the effective task ratio does not show.

A visit is a step that reported the task. W, a pass's worth of steps, is how many steps visit as many tasks as the pool
has; a data loader would meet each of them once in that time.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from bots_service.core.arrays import Tasks, contained
from bots_service.core.draw.strategies import IN_ORDER
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState

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
    reason = None
    if per_met is not None and pass_steps is not None and available >= SMALLEST_POOL:
        largest = _share(visits, available, reported)
        reason = _reason(state.settings, available, pass_steps=pass_steps, met=met, per_met=per_met, largest=largest)
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
        narrow=reason is not None,
        reason=reason,
    )


def _available(tasks: Tasks, pool: Pool) -> int:
    """Return how many of the tasks are not retired."""
    return len(tasks) - int(np.count_nonzero(contained(tasks, (pool.retired,))))


def _share(visits: Tasks, tasks: int, reported: int) -> float:
    """Return the share of all visits that a tenth of so many tasks took, rounded up; the most visited come first."""
    return int(visits[: ceil(tasks / 10)].sum(dtype=np.int64)) / reported


def _walked(state: RunState, pool: Pool, available: int) -> tuple[int | None, float | None]:
    """Return how many passes over the whole pool are done, and the share of the present one.

    Args:
        state: of the run.
        pool: with its retired tasks.
        available: tasks that are not retired.
    """
    strategy = state.settings.strategy
    if strategy == "pass" and state.settings.mix:  # with a mix, each tag has a pass of its own
        return None, None
    if strategy == "pass":
        return state.walks.done(len(pool))
    if strategy not in IN_ORDER or not available:
        return None, None
    done, place = divmod(state.totals.reported, available)
    return done, place / available


def _reason(
    settings: RunSettings, available: int, *, pass_steps: int, met: int, per_met: float, largest: float
) -> str | None:
    """Return why a run is narrow and what to do; None if it is not.

    Args:
        settings: of the run.
        available: tasks that are not retired.
        pass_steps: W.
        met: tasks that the last W steps reported.
        per_met: how often, on average.
        largest: the share of all visits that a tenth of the available tasks took.
    """
    found = []
    if per_met > MOST_VISITS_PER_MET_TASK:
        found.append(
            f"the last {pass_steps} steps, enough for a pass over all {available} tasks, reported {met} different ones,"
            f" {per_met:.1f} times each"
        )
    if largest > MOST_OF_VISITS:
        found.append(f"a tenth of the tasks took {100 * largest:.0f} % of all visits")
    if not found:
        return None
    return f"Few tasks take most visits: {', and '.join(found)}. {narrow_advice(settings)}"


def narrow_advice(settings: RunSettings) -> str:
    """Return what to do about a run that is narrow: the end of its reason."""
    if settings.strategy == "thompson":  # returns to what is nearest, again and again
        return (
            "A model that trains on few tasks may unlearn the others, however high the effective task ratio is: use the"
            " strategy pass, which meets each task at most once a pass."
        )
    few = "If requests don't name tags that few tasks carry, few tasks are of use by now"
    return f"{few}: add tasks of another difficulty."
