"""What the service answers at each training step."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTask:
    """One task to train on next.

    draw: the success probability drawn for it; None for strategies that draw none.
    mean: posterior mean; evidence: the pseudo-counts behind the mean.
    """

    id: str
    draw: float | None = None
    mean: float | None = None
    evidence: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tasks to train on next; hand it to `report` with what came of them.

    selection_id: "" if a `ResilientClient` chose the tasks itself.
    epoch, step, seq: of the run when the tasks were chosen.
    degraded: another caller may be working on the same tasks, or the belief may be older than what was acknowledged.
    reused: how many of the tasks are also in another selection that is not reported yet.
    """

    selection_id: str
    dataset: str
    run: str
    tasks: tuple[SelectedTask, ...]
    epoch: int = 0
    step: int = 0
    seq: int = 0
    degraded: bool = False
    reused: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the tasks, nearest to the target first."""
        return tuple(task.id for task in self.tasks)

    @property
    def is_local(self) -> bool:
        """Whether the client chose the tasks itself, as the service was away."""
        return not self.selection_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of a report: it is on disk and counts.

    closed: whether a step was closed by it; `reported`, `effective` then tell of that step, else of the open one.
    late: outcomes that came after their step had closed; expired: too late to count.
    duplicate: the same report had already arrived; nothing changed.
    degraded: it is durable, but other replicas of the service see it only once their shared store is back.
    """

    seq: int
    step: int
    closed: bool = False
    reported: int = 0
    effective: int = 0
    effective_task_ratio: float | None = None
    capability: float | None = None
    late: int = 0
    expired: int = 0
    duplicate: bool = False
    degraded: bool = False
