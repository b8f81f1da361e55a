"""What the summaries of many runs are made of, read for all of them at once."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from bots_service.core.summary.course import NO_ESTIMATES, NO_STEPS, CourseSteps, StepSums, UniformEstimates
from bots_service.core.summary.gain import StepRange
from bots_service.core.summary.verdict import RefusedReports, RunFindings
from bots_service.ports.records import RunRow


class SeqRange(NamedTuple):
    """Entries after `after`, up to and including `last`."""

    after: int
    last: int


class RunHead(NamedTuple):
    """Where a run stands in SQL: the last seq, and how often it was rewound. A replaced run has a new uid.

    dataset_version: of its dataset.
    refused_reports: how many were refused as invalid; judged_at: when it was last judged. When one of them changes, its
        notes have.
    """

    run_id: int
    uid: str
    dataset: str
    head: int
    epoch: int
    dataset_version: int = 0
    refused_reports: int = 0
    judged_at: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run's journal up to entry `seq` says against it, with its dataset at a version."""

    epoch: int
    seq: int
    dataset_version: int
    findings: RunFindings

    def is_of(self, head: RunHead) -> bool:
        """Return whether neither the journal nor the dataset has changed since."""
        return (self.epoch, self.seq, self.dataset_version) == (head.epoch, head.head, head.dataset_version)


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What is stored of a run besides its journal: its last judgement, and the reports that were refused."""

    judgement: Judgement | None = None
    refused: RefusedReports | None = None


NO_NOTES = RunNotes()


@dataclass(frozen=True, slots=True)
class WantedCourse:
    """Which part of a run's course is asked for.

    entries: the entries whose steps and settings are asked for, in order.
    estimates: those whose outlooks are asked for; -1 as a beginning includes one from before the first entry.
    """

    run_id: int
    entries: tuple[SeqRange, ...]
    estimates: tuple[SeqRange, ...]


@dataclass(frozen=True, slots=True)
class CoursePart:
    """A part of a run's course.

    receipts: how many of the entries have a receipt: a crash may have kept the last ones from SQL.
    steps: that the entries closed.
    estimates: of uniform sampling.
    changed: settings that the entries set, the last of each name.
    """

    receipts: int = 0
    steps: CourseSteps = NO_STEPS
    estimates: UniformEstimates = NO_ESTIMATES
    changed: dict[str, Any] = field(default_factory=dict)


class WantedSums(NamedTuple):
    """Steps of a run, among the entries of its present history, whose sums are asked for."""

    run_id: int
    entries: tuple[SeqRange, ...]
    steps: StepRange


class Courses(Protocol):
    """Courses of many runs, a few statements for all. Every method may raise StorageUnavailableError."""

    async def heads(self, dataset: str | None = None) -> list[RunHead]:
        """Return where every run of a dataset stands; None: of all datasets."""
        ...

    async def rows(self, run_ids: list[int]) -> dict[int, RunRow]:
        """Return these runs by id, without deleted ones."""
        ...

    async def notes(self, run_ids: list[int]) -> dict[int, RunNotes]:
        """Return what is noted of these runs, by id, without deleted ones."""
        ...

    async def keep_judgement(self, run: RunRow, judgement: Judgement) -> None:
        """Keep a judgement in place of an older one; a newer one stays. Of a run that is gone, nothing is kept."""
        ...

    async def present(self, heads: list[RunHead]) -> dict[int, tuple[SeqRange, ...]]:
        """Return the entries of each run's present history up to its head, by id: those that no rewind hides."""
        ...

    async def read(self, wanted: list[WantedCourse]) -> dict[int, CoursePart]:
        """Return the parts by the run's id. All that they are made of never changes, except that outlooks may come."""
        ...

    async def sums(self, wanted: list[WantedSums]) -> list[StepSums]:
        """Return the sums over the steps asked for, in order."""
        ...
