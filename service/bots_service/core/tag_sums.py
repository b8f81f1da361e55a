"""What a step amounts to by tag, for the tags that most tasks carry: a dataset may have more than anybody looks at."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.evidence import Evidence

MOST_TAGS = 16  # that are told apart: each costs Prometheus four series a run
OTHER = "(other)"


@dataclass(frozen=True, slots=True)
class ToldTags:
    """The tags of a pool that are told apart.

    names: [T] by falling number of tasks; OTHER comes last, where there are tags that are not told apart.
    carried: [N] one number a task; its bit t is set where the task carries tag t, or for OTHER one of those tags.
    """

    names: tuple[str, ...]
    carried: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class TagSums:
    """Sums over the tasks that carry a tag, [T] each; a task with several tags counts under each of them.

    names: [T] of the tags.
    reported: tasks; effective: those whose group of rollouts has a gradient: its rewards differ.
    rollouts, solved: summed over the tasks; fractional rewards give fractional sums.
    """

    names: tuple[str, ...]
    reported: Floats
    effective: Floats
    rollouts: Floats
    solved: Floats


def told_tags(tags: Mapping[str, Tasks], size: int) -> ToldTags:
    """Return the tags with most tasks, and all others as one.

    Args:
        tags: for each tag, the tasks that carry it. One that is called like OTHER is one of the others.
        size: how many tasks there are (N).
    """
    by_tasks = sorted(tags, key=lambda tag: (tag == OTHER, -len(tags[tag]), tag))
    names = [tag for tag in by_tasks[:MOST_TAGS] if tag != OTHER]
    carried = np.zeros(size, np.uint32)
    for bit, tag in enumerate(names):
        carried[tags[tag]] |= np.uint32(1 << bit)
    others = by_tasks[len(names) :]
    for tag in others:
        carried[tags[tag]] |= np.uint32(1 << len(names))
    return ToldTags((*names, *([OTHER] if others else [])), frozen(carried))


def sums_by_tag(told: ToldTags, evidence: Evidence) -> TagSums:
    """Return what the evidence amounts to by tag.

    Args:
        told: the pool's tags.
        evidence: each task once.
    """
    carries = (told.carried[evidence.tasks, None] >> np.arange(len(told.names), dtype=np.uint32)) & 1  # [B, T]
    solved, failed = evidence.successes, evidence.failures
    of_tasks = np.stack([np.ones(len(evidence)), evidence.effective, solved + failed, solved])
    return TagSums(told.names, *frozen(of_tasks @ carries.astype(np.float64)))
