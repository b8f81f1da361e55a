"""The values that storage keeps and returns: datasets, runs, selections, and what is told of their journals."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from bots_service.core.arrays import Floats, Tasks, united
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary import UniformEstimate
from bots_service.core.task_ids import TaskIds
from bots_service.errors import KeyReusedError

Result = TypeVar("Result")
EvaluationName = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,256}\Z")]
EvaluationValue = Annotated[float, Meta(ge=-1e15, le=1e15)]  # so that a difference is finite
Evaluations = dict[EvaluationName, tuple[tuple[Annotated[int, Meta(ge=0, le=2**53)], EvaluationValue], ...]]
"""What was measured of a run's model: by name, steps in ascending order with their values."""


@dataclass(frozen=True, slots=True)
class TaskBlock:
    """Consecutive tasks of a dataset.

    ids: [n], distinct within the dataset.
    references: [n, M] pass rates in the order of the dataset's reference models; NaN where unknown.
    tags: [n] the tags of each task, sorted.
    """

    ids: list[str]
    references: Floats
    tags: list[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits on the amount of data.

    tasks: of a dataset, including retired ones.
    datasets: of the service; datasets_per_key: accessible by an API key that is limited to some datasets.
    runs: of a dataset.
    """

    tasks: int = 10_000_000  # their ids take 310 MB in each process that has the dataset open
    datasets: int = 10_000
    datasets_per_key: int = 1_000
    runs: int = 1_000


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Facts about a dataset's content.

    reference_models: as given by the user.
    reference_order: indices into `reference_models`, weakest model first.
    offset_tags: the tags that tell profiles apart; chosen when the dataset was made.
    size: tasks ever, retired ones included; profiles: distinct pairs of reference pass rates and offset tags.
    tags: tag -> number of tasks with it, including retired ones.
    digest: of the tasks; does not depend on the upload's format.
    """

    description: str
    reference_models: tuple[str, ...]
    reference_order: tuple[int, ...]
    offset_tags: tuple[str, ...]
    size: int
    profiles: int
    tags: dict[str, int]
    digest: str


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A version of a dataset. version: increases with each change of tasks or retired ones."""

    id: int
    name: str
    version: int
    retired: int
    created_at: float
    facts: DatasetFacts

    @property
    def live(self) -> int:
        """Number of tasks without retired ones."""
        return self.facts.size - self.retired


@dataclass(frozen=True, slots=True)
class OpenDataset:
    """A dataset in memory, ready to select from.

    subsets: the pool, with all tasks outside a subset retired.
    """

    row: DatasetRow
    ids: TaskIds
    pool: Pool
    subsets: dict[str, Pool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes: of its ids, its tags, and the profiles of each subset."""
        columns = self.pool.models + len(self.pool.offset_tags) + 1
        profiled = 3 * self.pool.profile_of.nbytes + 8 * self.pool.profiles * 3 * columns
        tagged = sum(tasks.nbytes for tasks in self.pool.tags.values())
        return self.ids.nbytes + tagged + profiled * (1 + len(self.subsets))


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that another one continues.

    step: the parent's step after which it begins.
    seq: the last entry with which it begins: copies of the parent's, and what leads from there; later ones are its own.
    """

    run: str
    step: int
    seq: int


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as stored in SQL.

    uid: random; a run that is deleted and created again, or gets new settings while empty, has a new one.
    settings: of the empty journal; later ones are in the state.
    head: the last seq; epoch: number of rewinds.
    evaluations: by then. finished_seq: the head when its trainer said that training ended.
    """

    id: int
    uid: str
    dataset_id: int
    name: str
    settings: RunSettings
    head: int
    epoch: int
    created_at: float
    parent: Parent | None = None
    evaluations: Evaluations = field(default_factory=dict)
    finished_seq: int | None = None

    @property
    def origin_step(self) -> int:
        """The step at which the run begins: 0 unless it continues another run's steps."""
        return 0 if self.parent is None else self.parent.step


@dataclass(frozen=True, slots=True)
class Head:
    """Where a run stands in SQL.

    seq: of its last entry; epoch: number of rewinds.
    dataset_version: of its dataset.
    uniform: the estimate of uniform sampling after its last entry.
    """

    uid: str
    seq: int
    epoch: int
    dataset_version: int
    uniform: UniformEstimate


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Makes a write happen once: its key, and a fingerprint of the request.

    scope: what the key is good for, as in "PUT /datasets/guru"; the keys of a journal and of selections are good for
    their run, whatever the scope.
    """

    key: str
    fingerprint: str
    scope: str = ""

    def require_same(self, fingerprint: str | None) -> None:
        """Raise KeyReusedError if the key came with another request before, one of this fingerprint."""
        if fingerprint != self.fingerprint:
            raise KeyReusedError(f"idempotency key {self.key!r} was already used with a different request")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Result]):
    """What a write came to when it happened: all that its answer is made of, then and at each retry."""

    fingerprint: str
    result: Result


class Subset(Struct, frozen=True, rename={"name": "subset"}):
    """Some of a dataset's tasks, and how they stand in it.

    subset: its name, for select; null if the dataset does not have some of the tasks, and nothing was kept.
    tasks: how many of the tasks the dataset has, retired ones included.
    retired: how many of these are retired.
    others: how many tasks the dataset has besides them.
    missing: the places of the tasks that the dataset does not have, in the order in which they came, from 0.
    """

    dataset: str
    name: str | None
    tasks: int
    retired: int
    others: int
    missing: tuple[int, ...]


class StoredReceipt(Receipt, frozen=True, kw_only=True):
    """A receipt, and when its entry was appended (seconds since 1970, UTC)."""

    created_at: float


class Point(Struct, frozen=True):
    """Consecutive closed steps, aggregated.

    first_step, last_step: the first and the last of them.
    capability: the estimate after the last of them; null without references and with the belief `tracker`.
    success_rate, brier, log_loss: the mean over their rollouts; null without rollouts.
    uniform_effective_task_ratio: what the run's belief expected uniform sampling to have, the mean over their tasks.
    distribution: shares of the pool by expected success probability, in equal bins from 0 to 1, by a sample of 512
        tasks; null where the service did not look in these steps.
    time: when the last of them closed (RFC 3339, UTC).
    """

    first_step: int
    last_step: int
    reported: int
    effective: int
    effective_task_ratio: float | None
    rollouts: float
    success_rate: float | None
    capability: float | None
    brier: float | None
    log_loss: float | None
    uniform_effective_task_ratio: float | None
    distribution: tuple[float, ...] | None
    distinct_tasks: int
    time: datetime


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of one select.

    draws: [n] the drawn success probabilities, NaN where the strategy drew none.
    means: [n] expected success probabilities.
    effective: [n] how likely each task's group of rollouts has some that succeed and some that fail.
    reused: how many tasks were on lease already: too few others were left, or they were wanted `first`.
    """

    id: str
    epoch: int
    step: int
    seq: int
    degraded: bool
    reused: int
    tasks: Tasks
    draws: Floats
    means: Floats
    effective: Floats

    @property
    def expected_effective(self) -> float:
        """How many of the groups will be effective, on average."""
        return float(self.effective.sum())

    @property
    def leased(self) -> Tasks:
        """The tasks that no other selection may have meanwhile, sorted."""
        return united(self.tasks)


@dataclass(frozen=True, slots=True)
class RefusedReports:
    """Reports of a run that were refused as invalid.

    count: how many.
    last_at: when the last one was (RFC 3339, UTC).
    reason: of the last one.
    """

    count: int
    last_at: datetime
    reason: str


EntryKind = Literal["report", "settings", "rewind", "probe"]


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One entry of a run's journal.

    seq: the number of the entry.
    epoch: the epoch that it was appended in.
    step: number of closed steps after it.
    kind: report, settings, rewind or probe.
    tasks: how many outcomes a report has, or values a probe.
    effective: how many of these groups have a gradient.
    rollouts: how many rollouts a report has.
    closed: whether a report closed a step.
    to_step: the step that a rewind went back to.
    changed: the names and values that a change of settings set.
    hidden: whether a rewind undid it.
    time: when it was appended (RFC 3339, UTC).
    """

    seq: int
    epoch: int
    step: int
    kind: str
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None
    hidden: bool
    time: datetime


@dataclass(frozen=True, slots=True)
class LeaseTtls:
    """The tasks in flight.

    tasks: sorted.
    ttl_s: seconds until the lease of each ends, above 0, by the store's clock; equal for tasks leased together.
    degraded: others may have more tasks in flight, for the shared store is away.
    """

    tasks: Tasks
    ttl_s: Floats
    degraded: bool = False
