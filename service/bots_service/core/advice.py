"""What somebody should know who relies on a run: where its settings and its pool bring little."""

from math import ceil

from bots_service.core.pool import Pool
from bots_service.core.run_settings import Strategy
from bots_service.core.state import RunState

BELIEVING: tuple[Strategy, ...] = ("thompson", "mean", "softmax")  # strategies that look at the belief


def advice(state: RunState, pool: Pool) -> tuple[str, ...]:
    """Return what to know about a run, a sentence or two each; nothing where all is well."""
    found = [_without_references(state, pool)]
    return tuple(text for text in found if text is not None)


def _without_references(state: RunState, pool: Pool) -> str | None:
    """Warn where what a report shows of a task is forgotten before the task can come up again.

    Then only reference pass rates could tell tasks apart. Evidence lasts about 1 / lambda steps, and going round a pool
    takes as many steps as it has batches. `benchmarks/without_references.py` measures what is left: next to nothing.
    """
    settings = state.settings
    if pool.has_references or settings.strategy not in BELIEVING or settings.forgetting == 0.0:
        return None
    enough = (len(pool) - len(pool.retired)) * settings.forgetting
    tasks_a_step = state.totals.reported / state.step if state.step else 1.0  # unknown yet: the fewest possible
    if tasks_a_step >= enough:
        return None
    return (
        "No task of this dataset has known reference pass rates, so a report says nothing about other tasks, and"
        f" evidence of a task lasts about {1 / settings.forgetting:.0f} steps. With fewer than {ceil(enough)} tasks a"
        " step, selection is little better than uniform choice. Create the dataset with the pass rates of one or more"
        " reference models."
    )
