"""The last closed steps by tag: what the run selected of each, and the outcomes of the rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import contained
from bots_service.core.pool import Pool
from bots_service.core.receipt import NO_COUNTS, Receipt, TagCounts

MOST_TAGS_LISTED = 100  # those with most tasks: a table of more is not readable


@dataclass(frozen=True, slots=True)
class TagRow:
    """One tag, over some steps.

    tag: the tag.
    tasks: how many of the available tasks carry it.
    pool_share: the share of the available tasks that carry it.
    reported: how many of its tasks were reported, each once a step.
    selected_share: the share of all reported tasks that carry it; null if nothing was reported.
    effective: how many of its reported tasks had a gradient.
    effective_task_ratio: effective / reported; null if none was reported.
    rollouts: how many rollouts of its tasks were reported.
    mean_pass_rate: mean over the reported tasks of the share of successful rollouts; null if none was reported.
    earlier_mean_pass_rate: the same over the steps before.
    """

    tag: str
    tasks: int
    pool_share: float
    reported: int
    selected_share: float | None
    effective: int
    effective_task_ratio: float | None
    rollouts: float
    mean_pass_rate: float | None
    earlier_mean_pass_rate: float | None


def tag_rows(pool: Pool, steps: Sequence[Receipt], earlier: Sequence[Receipt]) -> list[TagRow]:
    """Return the tags with most available tasks, these first.

    Args:
        pool: the tasks.
        steps: the last ones.
        earlier: the steps before.
    """
    available, reported = len(pool) - len(pool.retired), sum(step.reported for step in steps)
    rows = []
    for tag, tasks in listed_tags(pool):
        own, before = (_summed(tag, some) for some in (steps, earlier))
        rows.append(
            TagRow(
                tag=tag,
                tasks=tasks,
                pool_share=tasks / available,
                reported=own.reported,
                selected_share=own.reported / reported if reported else None,
                effective=own.effective,
                effective_task_ratio=own.effective / own.reported if own.reported else None,
                rollouts=own.rollouts,
                mean_pass_rate=own.mean_pass_rate,
                earlier_mean_pass_rate=before.mean_pass_rate,
            )
        )
    return rows


def listed_tags(pool: Pool) -> list[tuple[str, int]]:
    """Return the tags with most available tasks, and how many these are, most first; equals by name."""
    tasks = {
        tag: len(pool.tags[tag]) - int(np.count_nonzero(contained(pool.retired, (pool.tags[tag],))))
        for tag in pool.watched_tags.names
    }
    found = sorted((-count, tag) for tag, count in tasks.items() if count)
    return [(tag, -count) for count, tag in found[:MOST_TAGS_LISTED]]


def _summed(tag: str, steps: Sequence[Receipt]) -> TagCounts:
    found = NO_COUNTS
    for step in steps:
        found = found.plus(step.tags.get(tag, NO_COUNTS))
    return found
