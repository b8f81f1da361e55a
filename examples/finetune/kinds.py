"""The kinds of task, by name."""

from examples.finetune.additions import Additions, Real
from examples.finetune.families import Families
from examples.finetune.plan import Plan
from examples.finetune.tasks import Kind, Problem

KINDS: dict[str, Kind] = {"additions": Additions(), "families": Families(), "real": Real()}


def kind_of(plan: Plan) -> Kind:
    """Return the kind of a plan's tasks."""
    return KINDS[plan.kind]


def problems_of(plan: Plan, seed: int) -> tuple[list[Problem], list[Problem]]:
    """Return a seed's pool, and the problems that only evaluations see."""
    return kind_of(plan).problems(seed, plan.pool, plan.held_out_per_group)
