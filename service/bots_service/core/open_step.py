"""The step that is open: evidence that waits until it closes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import Tasks, first_places, frozen
from bots_service.core.evidence import NO_COSTS, NO_EVIDENCE, Costs, Evidence, joined, sum_by_task


@dataclass(frozen=True, slots=True)
class OpenStep:
    """Evidence that waits for its step to close.

    evidence: [P] in the order in which it came; tasks may repeat.
    made_at: [P] the step at which each piece's task was selected.
    late: how many of these pieces came after their step had closed.
    expired: how many came so late that they count for nothing.
    costs: of the reports that came since the last step closed.
    """

    evidence: Evidence
    made_at: Tasks
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
        old, steps = self.evidence, np.full(len(evidence), made_at, np.int32)
        if len(old) == 0:
            return OpenStep(evidence, frozen(steps), self.late + late * len(evidence), self.expired, self.costs)
        return OpenStep(
            joined([old, evidence]).frozen(),
            frozen(np.concatenate([self.made_at, steps])),
            self.late + late * len(evidence),
            self.expired,
            self.costs,
        )

    def whole(self) -> Evidence:
        """Return all that waits, each task once."""
        return sum_by_task(self.evidence)

    def first(self, count: int) -> tuple["OpenStep", "OpenStep"]:
        """Return the groups that came first, so many of them, and those after them.

        Args:
            count: how many; all, if there are fewer.
        """
        tasks = self.evidence.tasks
        begins = first_places(tasks)
        if count >= len(begins):
            return self, NOTHING_OPEN
        is_first = np.arange(len(tasks)) < begins[count]
        return (
            OpenStep(
                self.evidence.where(is_first).frozen(),
                frozen(self.made_at[is_first]),
                self.late,
                self.expired,
                self.costs,
            ),
            OpenStep(self.evidence.where(~is_first).frozen(), frozen(self.made_at[~is_first])),
        )

    def not_before(self, step: int) -> "OpenStep":
        """Return the open step with nothing selected before this step: what is older counts as selected then."""
        return self if not len(self.made_at) else replace(self, made_at=frozen(np.maximum(self.made_at, step)))

    def by_step(self, whole: Evidence) -> Iterator[tuple[int, Evidence]]:
        """Yield, oldest first, each step of selection with its evidence, each task once.

        Args:
            whole: what `whole()` returned.
        """
        if len(whole) and np.count_nonzero(self.made_at[:1] == self.made_at) == len(self.made_at):
            yield int(self.made_at[0]), whole
            return
        for step in np.unique(self.made_at).tolist():
            yield step, sum_by_task(self.evidence.where(self.made_at == step))


NOTHING_OPEN = OpenStep(NO_EVIDENCE, frozen(np.empty(0, np.int32)))
