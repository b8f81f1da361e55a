"""The public pools with other references: one model, fewer attempts, or wrong ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from bots_service.core.arrays import Floats
from bots_service.demo.replay import VISITS_WEAK
from bots_service.demo.replay import recorded_run as read_recording
from studies.public_pools import (
    LADDER,
    LADDER_REFERENCES,
    REFERENCE_ATTEMPTS,
    REFERENCE_CASES,
    PublicPool,
    attempted,
    reasoning_gym,
    reasoning_rates,
    recorded_run,
    with_both_references,
)

STRONG_ATTEMPTS = 128  # of Qwen2.5-Math-7B at each problem
FEW_ATTEMPTS = 4
RIGHT, FEW, NONE = "as measured", "as measured, 4 attempts", "none"
OWN, STRONGER = "the model itself, before training", "the stronger alone"

REASONING_MODELS: dict[str, tuple[str, ...]] = {STRONGER: ("claude-sonnet-4",), OWN: LADDER[:1]}


@dataclass(frozen=True, slots=True)
class ReferenceCase:
    """A pool with some references, and what they cost.

    pool: the pool.
    rollouts: how many rollouts of reference models it took to measure them, over all tasks.
    """

    pool: PublicPool
    rollouts: int


@lru_cache(maxsize=4)
def reference_case(pool: str, name: str) -> ReferenceCase:
    """Return a case of a pool, by their names; kept, because many trials in a row use it.

    Raises:
        KeyError: the pool has no such case.
    """
    if name in REFERENCE_CASES:
        right = reference_case(pool, RIGHT)
        return ReferenceCase(REFERENCE_CASES[name](right.pool), 0 if name == NONE else right.rollouts)
    return (recorded_cases() if pool == "recorded run" else reasoning_cases())[name]()


def case_names(pool: str) -> list[str]:
    """Return the names of a pool's cases: none first, then other references, then wrong ones."""
    others = recorded_cases() if pool == "recorded run" else reasoning_cases()
    return [NONE, *others, *(name for name in REFERENCE_CASES if name != NONE)]


def reasoning_cases() -> dict[str, Callable[[], ReferenceCase]]:
    """Return what makes each case of reasoning gym."""
    return {
        RIGHT: partial(reasoning_case, LADDER_REFERENCES, REFERENCE_ATTEMPTS),
        FEW: partial(reasoning_case, LADDER_REFERENCES, FEW_ATTEMPTS),
        **{name: partial(reasoning_case, models, REFERENCE_ATTEMPTS) for name, models in REASONING_MODELS.items()},
    }


def reasoning_case(models: tuple[str, ...], attempts: int) -> ReferenceCase:
    """Return reasoning gym with references of these models, weakest first, of so many attempts each."""
    rates = reasoning_rates()
    references = attempted(np.stack([rates[model] for model in models], axis=1), attempts)
    pool = replace(reasoning_gym(), references=references, reference_models=models)
    return ReferenceCase(pool, references.size * attempts)


def recorded_cases() -> dict[str, Callable[[], ReferenceCase]]:
    """Return what makes each case of the recorded run: its own model is measured in two visits."""
    recording = with_both_references(read_recording())
    own, strong = VISITS_WEAK * recording.rollouts_per_visit, recording.strong
    before = recording.solved[:, VISITS_WEAK] / own
    few = attempted(np.stack([before, strong], axis=1), FEW_ATTEMPTS)
    return {
        RIGHT: partial(recorded_case, {"before": before, "7B": strong}, own + STRONG_ATTEMPTS),
        FEW: partial(recorded_case, {"before": few[:, 0], "7B": few[:, 1]}, 2 * FEW_ATTEMPTS),
        STRONGER: partial(recorded_case, {"7B": strong}, STRONG_ATTEMPTS),
        OWN: partial(recorded_case, {"before": before}, own),
    }


def recorded_case(columns: dict[str, Floats], attempts: int) -> ReferenceCase:
    """Return the recorded run with these references, weakest first, of so many attempts a task in all."""
    references = np.stack(list(columns.values()), axis=1)
    pool = replace(recorded_run(), references=references, reference_models=tuple(columns))
    return ReferenceCase(pool, len(references) * attempts)
