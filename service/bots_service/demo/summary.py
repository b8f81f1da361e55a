"""What a replay amounts to, as plain values for JSON."""

from typing import Any

from bots_service.demo.replay import RECENT, ROLLOUTS, Course, Replay


def summary(replay: Replay) -> dict[str, Any]:
    """Return what came out of a replay."""
    return {
        "problems": replay.problems,
        "with_both_references": replay.referenced,
        "steps": replay.steps_done,
        "count": replay.plan.count,
        "rollouts_per_task": ROLLOUTS,
        "seed": replay.plan.seed,
        "dataset": replay.dataset,
        "bots": _course(replay.bots),
        "uniform": _course(replay.uniform),
        "ratio": replay.ratio,
        "rollouts_spent": replay.rollouts_spent,
        "rollouts_saved": replay.rollouts_saved,
    }


def _course(course: Course) -> dict[str, Any]:
    known = [capability for capability in course.capabilities if capability is not None]
    return {
        "run": course.run,
        "reported": sum(course.reported),
        "effective": sum(course.effective),
        "effective_task_ratio": course.effective_task_ratio(),
        f"effective_task_ratio_last_{RECENT}": course.effective_task_ratio(RECENT),
        "capability": course.capability,
        "capability_least": min(known, default=None),
        "capability_most": max(known, default=None),
    }
