"""The bodies that routes answer with."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from bots_service.core.run_settings import RunSettings
from bots_service.core.state import Totals
from bots_service.ports.records import DatasetRow, Parent, SnapshotRow, StoredReceipt
from bots_service.usecases.describe import RunDescription
from bots_service.usecases.readiness import Status

encode = msgspec.json.Encoder().encode


def json_response(value: Any, status: int = 200, *, replayed: bool = False) -> Response:
    """Return a value as a JSON answer; `replayed` says that it is the first answer, given again."""
    return body_response(status, encode(value), replayed=replayed)


def body_response(status: int, body: bytes, *, replayed: bool = False) -> Response:
    """Return a JSON text as an answer; an empty one without a content type."""
    headers: Mapping[str, str] | None = {"Idempotent-Replayed": "true"} if replayed else None
    return Response(body, status, headers, media_type="application/json" if body else None)


def moment(seconds: float) -> datetime:
    """Return a time as RFC 3339 wants it."""
    return datetime.fromtimestamp(seconds, UTC)


class Dataset(Struct, frozen=True):
    """A dataset. tasks: how many can be selected; profiles: distinct reference pass rates; tags: tag -> tasks."""

    name: str
    description: str
    reference_models: tuple[str, ...]
    tasks: int
    retired: int
    profiles: int
    tags: dict[str, int]
    digest: str
    created_at: datetime

    @classmethod
    def of(cls, row: DatasetRow) -> "Dataset":
        """Return the answer for a row."""
        facts = row.facts
        return cls(
            name=row.name,
            description=facts.description,
            reference_models=facts.reference_models,
            tasks=row.live,
            retired=row.retired,
            profiles=facts.profiles,
            tags=facts.tags,
            digest=facts.digest,
            created_at=moment(row.created_at),
        )


class Datasets(Struct, frozen=True):
    """A page of datasets, by name."""

    datasets: list[Dataset]
    next_cursor: str | None


class Appended(Struct, frozen=True):
    """Tasks were appended. added: how many; tasks: how many can be selected now."""

    dataset: str
    added: int
    tasks: int


class Retired(Struct, frozen=True):
    """Tasks were retired. retired: how many are, all in all; tasks: how many can be selected now."""

    dataset: str
    retired: int
    tasks: int


class Run(Struct, frozen=True):
    """A run as it stands.

    rollouts_per_task: in use: the setting, or learned from what was reported; null before the first report.
    pending: tasks with evidence in the open step; leased: tasks in flight.
    degraded: other replicas may know a newer state and more tasks in flight, for the shared store is away.
    advice: what to know about the run, such as where selection brings little; a sentence or two each.
    """

    dataset: str
    run: str
    settings: RunSettings
    epoch: int
    step: int
    seq: int
    capability: float | None
    rollouts_per_task: float | None
    pending: int
    leased: int
    degraded: bool
    totals: Totals
    advice: tuple[str, ...]
    forked_from: Parent | None
    created_at: datetime

    @classmethod
    def of(cls, run: RunDescription) -> "Run":
        """Return the answer for a run."""
        row, state = run.row, run.state
        return cls(
            dataset=run.dataset,
            run=row.name,
            settings=state.settings,
            epoch=state.epoch,
            step=state.step,
            seq=state.seq,
            capability=state.belief.capability,
            rollouts_per_task=state.rollouts_per_task,
            pending=state.open_step.tasks,
            leased=run.leased,
            degraded=run.degraded,
            totals=state.totals,
            advice=run.advice,
            forked_from=row.parent,
            created_at=moment(row.created_at),
        )


class Runs(Struct, frozen=True):
    """A page of runs, by name."""

    runs: list[Run]
    next_cursor: str | None


class ClosedStep(Struct, frozen=True):
    """What a closed step brought. brier, log_loss: error of the predictions made before the step was folded."""

    step: int
    epoch: int
    seq: int
    reported: int
    effective: int
    effective_task_ratio: float | None
    mean_pass_rate: float | None
    rollouts: float
    capability: float | None
    brier: float | None
    log_loss: float | None
    late: int
    time: datetime

    @classmethod
    def of(cls, stored: StoredReceipt) -> "ClosedStep":
        """Return the answer for a stored receipt."""
        receipt = stored.receipt
        step = receipt.tally
        return cls(
            step=receipt.step,
            epoch=receipt.epoch,
            seq=receipt.seq,
            reported=step.reported,
            effective=step.effective,
            effective_task_ratio=step.effective / step.reported if step.reported else None,
            mean_pass_rate=step.mean_pass_rate,
            rollouts=step.rollouts,
            capability=receipt.capability,
            brier=receipt.brier,
            log_loss=receipt.log_loss,
            late=receipt.late,
            time=moment(stored.created_at),
        )


class History(Struct, frozen=True):
    """A page of closed steps, in order."""

    history: list[ClosedStep]
    next_cursor: str | None


class Snapshot(Struct, frozen=True):
    """A stored state."""

    seq: int
    epoch: int
    step: int
    bytes: int
    checksum: str
    created_at: datetime

    @classmethod
    def of(cls, row: SnapshotRow) -> "Snapshot":
        """Return the answer for a row."""
        return cls(row.seq, row.epoch, row.step, row.bytes, row.checksum, moment(row.created_at))


class Snapshots(Struct, frozen=True):
    """A page of stored states, by seq."""

    snapshots: list[Snapshot]
    next_cursor: str | None


class Alive(Struct, frozen=True):
    """The process serves requests."""

    status: str


class Readiness(Struct, frozen=True):
    """Whether requests should be sent here. checks: what each part said last, "ok" or what is wrong."""

    status: Status
    checks: dict[str, str]


class Version(Struct, frozen=True):
    """What the service runs on. schema: the revision of the database's tables."""

    version: str
    python: str
    numpy: str
    schema: str
