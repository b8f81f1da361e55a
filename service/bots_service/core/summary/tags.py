"""The last closed steps by tag: what the run selected of each, and the outcomes of the rollouts."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Flags, contained
from bots_service.core.entries import Report
from bots_service.core.evidence import NO_EVIDENCE, NOTHING_OPEN, Evidence
from bots_service.core.groups import NOTHING_UNFINISHED
from bots_service.core.pool import Pool

MOST_TAGS_LISTED = 100  # those with most tasks: a table of more is not readable


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """What a closed step showed, each group of rollouts once. step: its number."""

    step: int
    evidence: Evidence


def closed_steps_of(
    reports: Iterable[tuple[int, Report]],
    closings: dict[int, tuple[int, int]],
    longest_lag: int,
    *,
    lease_s: float,
    earlier: Iterable[Report] = (),
) -> list[StepEvidence]:
    """Return the steps that some reports closed, as the fold closed them, without outcomes that were too late to count.

    Args:
        reports: the consecutive reports of a history, with their seqs, from the beginning of a step on.
        closings: the seqs of those that closed a step, in order, with the steps, and how many groups each had.
        longest_lag: how many steps late evidence may be and still count.
        lease_s: how long the lease of a task lasts.
        earlier: reports from just before, which may hold parts of groups that these complete.
    """
    found, open_step, step = list[StepEvidence](), NOTHING_OPEN, next(iter(closings.values()), (1, 0))[0] - 1
    unfinished = NOTHING_UNFINISHED
    for report in earlier:
        _, unfinished = unfinished.after(report, lease_s)
    for seq, report in reports:
        whole, unfinished = unfinished.after(report, lease_s)
        for each in whole:
            made_at = step if each.made_at is None else min(each.made_at, step)
            if step - made_at <= longest_lag:
                open_step = open_step.with_report(each.evidence, made_at, late=False)
        if seq in closings:
            step, count = closings[seq]
            closes, open_step = open_step.first(count)
            found.append(StepEvidence(step, closes.whole()))
    return found


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


def tag_rows(pool: Pool, steps: list[StepEvidence], earlier: list[StepEvidence]) -> list[TagRow]:
    """Return the tags with most available tasks, these first.

    Args:
        pool: the tasks.
        steps: the last ones.
        earlier: the steps before.
    """
    available = len(pool) - len(pool.retired)
    now, before = (evidence_of_steps(some) for some in (steps, earlier))
    rows = []
    for tag, tasks in listed_tags(pool):
        own, own_before = (some.where(carried_by(pool, tag, some)) for some in (now, before))
        reported, effective = len(own), int(np.count_nonzero(own.effective))
        rows.append(
            TagRow(
                tag=tag,
                tasks=tasks,
                pool_share=tasks / available,
                reported=reported,
                selected_share=reported / len(now) if len(now) else None,
                effective=effective,
                effective_task_ratio=effective / reported if reported else None,
                rollouts=float((own.successes + own.failures).sum()),
                mean_pass_rate=_mean_pass_rate(own),
                earlier_mean_pass_rate=_mean_pass_rate(own_before),
            )
        )
    return rows


def listed_tags(pool: Pool) -> list[tuple[str, int]]:
    """Return the tags with most available tasks, and how many these are, most first; equals by name."""
    tasks = {
        tag: len(carriers) - int(np.count_nonzero(contained(pool.retired, (carriers,))))
        for tag, carriers in pool.tags.items()
    }
    found = sorted((-count, tag) for tag, count in tasks.items() if count)
    return [(tag, -count) for count, tag in found[:MOST_TAGS_LISTED]]


def evidence_of_steps(steps: list[StepEvidence]) -> Evidence:
    """Return the evidence of all steps, one after the other."""
    return Evidence.joined([step.evidence for step in steps] or [NO_EVIDENCE])


def carried_by(pool: Pool, tag: str, evidence: Evidence) -> Flags:
    """Return [B] whether the task in each place carries a tag."""
    return contained(evidence.tasks, (pool.tags[tag],))


def _mean_pass_rate(evidence: Evidence) -> float | None:
    rates = evidence.successes / (evidence.successes + evidence.failures)
    return float(rates.mean()) if len(rates) else None
