"""The result of one training run, as plain values."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The held-out tasks after a step.

    seconds: of training until then, without evaluations.
    accuracy: share of sampled answers that were right, in [0, 1]; by_level: the same of each level.
    """

    step: int
    seconds: float
    accuracy: float
    by_level: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One run.

    evaluations: from step 0 to the last.
    solved: rollouts that succeeded in each step; effective: tasks with some rollouts that did and some that didn't.
    seconds: of all steps; select_seconds, report_seconds: of those, spent waiting for the service.
    local_selects: selections made here because the service was away.
    kept: reports that the service had not taken at the end.
    """

    seed: int
    arm: str
    evaluations: list[Evaluation]
    solved: list[int]
    effective: list[int]
    seconds: float
    select_seconds: float
    report_seconds: float
    local_selects: int
    kept: int

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Course":
        """Return what `as_json` made the values of."""
        return cls(**{**values, "evaluations": [Evaluation(**one) for one in values["evaluations"]]})
