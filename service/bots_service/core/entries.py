"""What can stand in a run's journal."""

from dataclasses import dataclass, field
from typing import Any

from bots_service.core.arrays import Tasks
from bots_service.core.evidence import NO_COSTS, Costs, Evidence
from bots_service.core.groups import NO_PARTS, NO_TASKS, GroupParts
from bots_service.core.walks import Walk


@dataclass(frozen=True, slots=True)
class Report:
    """A report of rollouts.

    evidence: of whole groups; empty if all were aborted, or to close a step of partial reports.
    made_at: the step at which the tasks were selected, or that the evidence is as old as; None if neither is known.
    close: whether the step closes now; None leaves it to the settings.
    walks: how far their selection walked through passes.
    costs: what its rollouts cost, as far as it says.
    aborted: tasks of which nothing came.
    parts: of groups that are not whole yet.
    selection: the seq of the tasks' selection, and its place among the selections at that seq.
    at: when the service took the report, in seconds since 1970.
    """

    evidence: Evidence
    made_at: int | None
    close: bool | None
    walks: tuple[Walk, ...] = ()
    costs: Costs = NO_COSTS
    aborted: Tasks = field(default_factory=lambda: NO_TASKS)
    parts: GroupParts = NO_PARTS
    selection: tuple[int, int] = (0, 0)
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change of settings, from the next step on.

    values: setting names and values, as `settings_from` reads them. Only what changes, so that two changes at once on
    two replicas don't undo each other.
    """

    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Forget:
    """What was believed of some tasks alone is dropped, because they are other tasks now: a label was mended.

    tasks: sorted.
    """

    tasks: Tasks


@dataclass(frozen=True, slots=True)
class Rewind:
    """The run goes back to an earlier state: the one that stood after entry `to_seq`, when `to_step` had closed."""

    to_seq: int
    to_step: int


@dataclass(frozen=True, slots=True)
class Fork:
    """The run starts from another run's state.

    parent: the other run's name.
    parent_seq: the entry after which the state stood there.
    state: its bytes, so that the journal stands alone when the parent is deleted.
    """

    parent: str
    parent_seq: int
    state: bytes


Body = Report | SettingsChange | Forget | Rewind | Fork


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a run's journal.

    seq: 1, 2, 3, ... without a gap, in commit order.
    epoch: the run's epoch from this entry on; a rewind raises it.
    profiles: how many profiles the pool had when the entry was appended.
    """

    seq: int
    epoch: int
    profiles: int
    body: Body
