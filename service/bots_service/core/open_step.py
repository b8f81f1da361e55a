"""The step that is open: evidence that waits until it closes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import Tasks, first_places, frozen
from bots_service.core.evidence import NO_COSTS, NO_EVIDENCE, Costs, Evidence, sum_by_task


@dataclass(frozen=True, slots=True)
class DatedEvidence(Evidence):
    """Evidence, and when it was asked for. made_at: [n] the step at which each group's task was selected."""

    made_at: Tasks


@dataclass(frozen=True, slots=True)
class OpenStep:
    """Evidence that waits for its step to close.

    evidence: in the order in which it came; tasks may repeat.
    late: how many of these groups came after their step had closed.
    expired: how many came so late that they count for nothing.
    costs: of the reports that came since the last step closed.
    """

    evidence: DatedEvidence
    late: int = 0
    expired: int = 0
    costs: Costs = NO_COSTS

    @property
    def tasks(self) -> int:
        """How many distinct tasks have evidence here."""
        return len(np.unique(self.evidence.tasks))

    def with_report(self, evidence: Evidence, made_at: int, *, late: bool) -> "OpenStep":
        """Return the open step with the evidence of one report, all of it selected at one step."""
        if len(evidence) == 0:
            return self
        dated = DatedEvidence(*(*evidence, np.full(len(evidence), made_at, np.int32)))
        whole = DatedEvidence.joined([self.evidence, dated])
        return replace(self, evidence=whole, late=self.late + late * len(evidence))

    def whole(self) -> Evidence:
        """Return all that waits, each task once."""
        return sum_by_task(self.evidence)

    def first(self, count: int) -> tuple["OpenStep", "OpenStep"]:
        """Return the groups that came first, so many of them, and those after them.

        Args:
            count: how many; all, if there are fewer.
        """
        begins = first_places(self.evidence.tasks)
        if count >= len(begins):
            return self, NOTHING_OPEN
        is_first = np.arange(len(self.evidence)) < begins[count]
        return replace(self, evidence=self.evidence.where(is_first)), OpenStep(self.evidence.where(~is_first))

    def not_before(self, step: int) -> "OpenStep":
        """Return the open step with nothing selected before this step: what is older counts as selected then."""
        made_at = frozen(np.maximum(self.evidence.made_at, step))
        return replace(self, evidence=replace(self.evidence, made_at=made_at)) if len(made_at) else self

    def by_step(self, whole: Evidence) -> Iterator[tuple[int, Evidence]]:
        """Yield, oldest first, each step of selection with its evidence, each task once.

        Args:
            whole: what `whole()` returned.
        """
        made_at = self.evidence.made_at
        steps = np.unique(made_at).tolist()
        for step in steps:
            yield step, whole if len(steps) == 1 else sum_by_task(self.evidence.where(made_at == step))


NOTHING_OPEN = OpenStep(DatedEvidence(*(*NO_EVIDENCE, frozen(np.empty(0, np.int32)))))
