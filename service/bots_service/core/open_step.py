"""The step that is open: evidence that waits until it closes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import Tasks, contained, first_places, frozen
from bots_service.core.costs import NO_COSTS, CostRows
from bots_service.core.evidence import NO_EVIDENCE, Evidence, joined, sum_by_task


@dataclass(frozen=True, slots=True)
class OpenStep:
    """Evidence that waits for its step to close.

    evidence: [P] in the order in which it came; tasks may repeat.
    made_at: [P] the step at which each piece's task was selected.
    late: how many of these pieces came after their step had closed.
    expired: how many came so late that they count for nothing.
    costs: what all of these rollouts cost, and those that were aborted.
    """

    evidence: Evidence
    made_at: Tasks
    late: int = 0
    expired: int = 0
    costs: CostRows = NO_COSTS

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

    def with_costs(self, costs: CostRows, *, counted: bool) -> "OpenStep":
        """Return the open step with what one report cost. counted: whether its evidence counts."""
        if len(costs) == 0:
            return self
        return replace(self, costs=self.costs.plus(costs if counted else costs.uncounted()))

    def whole(self) -> Evidence:
        """Return all that waits, each task once."""
        return sum_by_task(self.evidence)

    def groups(self, whole: Evidence, *, generators: bool) -> Evidence:
        """Return all that waits, each group of rollouts once.

        Args:
            whole: what `whole()` returned: a task has one group in a step, whatever its parts.
            generators: whether the tasks are generators; then each piece is the group of another task.
        """
        return self.evidence if generators else whole

    def first(self, count: int, *, generators: bool) -> tuple["OpenStep", "OpenStep"]:
        """Return the groups that came first, so many of them, and those after them.

        Args:
            count: how many; all, if there are fewer.
            generators: as above.
        """
        tasks = self.evidence.tasks
        begins = np.arange(len(tasks)) if generators else first_places(tasks)
        if count >= len(begins):
            return self, NOTHING_OPEN
        is_first = np.arange(len(tasks)) < begins[count]
        ours = contained(self.costs.tasks, (np.unique(tasks[~is_first]),)) & ~contained(
            self.costs.tasks, (np.unique(tasks[is_first]),)
        )
        return (
            OpenStep(
                self.evidence.where(is_first).frozen(),
                frozen(self.made_at[is_first]),
                self.late,
                self.expired,
                self.costs.where(~ours),
            ),
            OpenStep(
                self.evidence.where(~is_first).frozen(), frozen(self.made_at[~is_first]), costs=self.costs.where(ours)
            ),
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
