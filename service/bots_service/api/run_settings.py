"""The settings of a run on the wire."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from bots_service.core.checks import Tag
from bots_service.core.run_settings import CapabilityRule, StrategyName


class SettingsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run; those left out stay as they are."""

    belief: str | UnsetType = UNSET
    forgetting: float | UnsetType = UNSET
    implicit_weight: float | UnsetType = UNSET
    rollouts_per_task: float | UnsetType | None = UNSET
    target: float | UnsetType = UNSET
    prior: tuple[float, float] | UnsetType = UNSET
    capability: CapabilityRule | UnsetType = UNSET
    capability_momentum: float | UnsetType = UNSET
    strategy: StrategyName | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    tasks_per_step: int | UnsetType | None = UNSET
    reward_range: tuple[float, float] | UnsetType = UNSET
    lease_seconds: float | UnsetType = UNSET
    mix: dict[Tag, float] | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        """Return the settings that were not left out."""
        return {
            name: value
            for name, value in structs.asdict(self).items()
            if name in SettingsRequest.__struct_fields__ and value is not UNSET
        }


class SettingsInUse(SettingsRequest, frozen=True):
    """The settings of a run. Those that its kind of belief doesn't have are left out: see docs/api.md."""
