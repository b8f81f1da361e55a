"""What a selection may ask of its groups of rollouts: a budget, or a number of effective ones."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RolloutsBudget:
    """A number of rollouts that the tasks of a selection share.

    total: of all tasks together.
    least: of each task; None: 2.
    most: of each task; None: four times the mean.
    """

    total: int
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class EffectiveGroups:
    """A number of effective groups that the tasks of a selection shall give.

    groups: wanted.
    confidence: with which probability the tasks give them, in [0.5, 0.999]; None: 0.9.
    max_count: the most tasks; None: eight times as many as groups.
    """

    groups: int
    confidence: float | None = None
    max_count: int | None = None


def budget_of(wanted: int | RolloutsBudget | None) -> RolloutsBudget | None:
    """Return a budget that may be given as its total."""
    return wanted if wanted is None or isinstance(wanted, RolloutsBudget) else RolloutsBudget(wanted)


def groups_of(wanted: int | EffectiveGroups | None) -> EffectiveGroups | None:
    """Return a wish for effective groups that may be given as their number."""
    return wanted if wanted is None or isinstance(wanted, EffectiveGroups) else EffectiveGroups(wanted)


def wire_of_budget(wanted: int | RolloutsBudget | None) -> dict[str, Any]:
    """Return a budget as fields of a request."""
    budget = budget_of(wanted)
    if budget is None:
        return {}
    return {"rollouts_budget": budget.total, "min_rollouts": budget.least, "max_rollouts": budget.most}


def wire_of_groups(wanted: int | EffectiveGroups | None) -> dict[str, Any]:
    """Return a wish for effective groups as fields of a request."""
    wish = groups_of(wanted)
    if wish is None:
        return {}
    return {"want_effective": wish.groups, "confidence": wish.confidence, "max_count": wish.max_count}
