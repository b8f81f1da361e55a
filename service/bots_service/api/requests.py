"""The bodies that routes read, but for uploads of tasks."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from bots_service.api.parameters import NAME, whole
from bots_service.core.run_settings import CapabilityRule, Strategy
from bots_service.usecases.put_run import ForkFrom
from bots_service.usecases.report_outcomes import Outcome

MAX_OUTCOMES = 65_536
MAX_IDS = 100_000

Name = Annotated[str, whole(NAME)]
TaskId = Annotated[str, Meta(min_length=1, max_length=256)]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]
Share = Annotated[float, Meta(gt=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=100_000)]


class SelectRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks are wanted.

    tags: only tasks that carry one of these. quotas: tag -> how many of the tasks must carry it (a whole
    number), or which share of them (a number with a fraction: 0.75, 1.0).
    exclude: tasks that are not wanted. first: tasks that are wanted before any others, in flight or not;
    those that are excluded or retired, or lack the tags, are passed over. uniform_share: the share of the others that
    is chosen uniformly.
    """

    dataset: Name
    count: Count
    run: Name = "default"
    tags: Annotated[tuple[Tag, ...], Meta(max_length=64)] = ()
    quotas: Annotated[dict[Tag, Count | Share], Meta(max_length=64)] = {}
    exclude: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    first: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    uniform_share: Annotated[float, Meta(ge=0, le=1)] = 0.0


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What rollouts showed.

    selection_id: the selection whose tasks these are. close_step: whether the training step closes now; left out, it
    does, unless the run closes steps by itself (tasks_per_step).
    """

    dataset: Name
    outcomes: Annotated[list[Outcome], Meta(max_length=MAX_OUTCOMES)]
    run: Name = "default"
    selection_id: Annotated[str, Meta(max_length=256)] | None = None
    close_step: bool | None = None


class SettingsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run; those left out stay as they are."""

    forgetting: float | UnsetType = UNSET
    implicit_weight: float | UnsetType = UNSET
    rollouts_per_task: float | UnsetType | None = UNSET
    target: float | UnsetType = UNSET
    prior: tuple[float, float] | UnsetType = UNSET
    capability: CapabilityRule | UnsetType = UNSET
    capability_momentum: float | UnsetType = UNSET
    strategy: Strategy | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    tasks_per_step: int | UnsetType | None = UNSET
    reward_range: tuple[float, float] | UnsetType = UNSET
    lease_seconds: float | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        """Return the settings that were not left out."""
        return {
            name: value
            for name, value in structs.asdict(self).items()
            if name in SettingsRequest.__struct_fields__ and value is not UNSET
        }


class ForkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run starts: another run, at a step that closed there (left out: the last)."""

    run: Name
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class RunRequest(SettingsRequest, frozen=True, forbid_unknown_fields=True):
    """Settings of a new run, and where it starts."""

    fork: ForkRequest | None = None

    def fork_from(self) -> ForkFrom | None:
        """Return where the run starts; None for an empty journal."""
        return None if self.fork is None else ForkFrom(self.fork.run, self.fork.step)


class RewindRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The step that the run goes back to."""

    step: Annotated[int, Meta(ge=0, le=2**53)]


class RetireRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks that are no longer handed out."""

    ids: Annotated[list[TaskId], Meta(min_length=1, max_length=MAX_IDS)]
