"""Sums over a run."""

from dataclasses import dataclass

from bots_service.core.open_step import OpenStep
from bots_service.core.receipt import Tally


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all closed steps; a task counts once in each step that reported it.

    distinct: how many different tasks they reported.
    tokens, seconds: what their rollouts cost, as far as reports said it.
    """

    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    none_solved: int = 0
    rollouts: float = 0.0
    successes: float = 0.0
    late: int = 0
    expired: int = 0
    distinct: int = 0
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def rollouts_per_task(self) -> float | None:
        """How many rollouts a reported task had, on average; None before the first."""
        return self.rollouts / self.reported if self.reported else None

    def plus(self, step: Tally, open_step: OpenStep, new_tasks: int) -> "Totals":
        """Return the totals with one more closed step, of whose tasks so many were never reported before."""
        return Totals(
            reported=self.reported + step.reported,
            effective=self.effective + step.effective,
            all_solved=self.all_solved + step.all_solved,
            none_solved=self.none_solved + step.none_solved,
            rollouts=self.rollouts + step.rollouts,
            successes=self.successes + step.successes,
            late=self.late + open_step.late,
            expired=self.expired + open_step.expired,
            distinct=self.distinct + new_tasks,
            tokens=self.tokens + open_step.costs.tokens,
            seconds=self.seconds + open_step.costs.seconds,
        )
