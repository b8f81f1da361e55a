"""The public pools with other references: other models, fewer attempts, other stages of training, or wrong ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from bots_service.core.arrays import Counts, Floats
from bots_service.demo.replay import VISITS_WEAK, Recording
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

REASONING_MODELS: dict[str, tuple[str, ...]] = {
    "the weaker alone": ("llama-3.3-70b-instruct",),
    "the stronger alone": ("claude-sonnet-4",),
    "two weak models": ("llama-3.3-70b-instruct", "llama-4-scout"),
    "two strong models": ("claude-sonnet-4", "o3-mini"),
    "two models far apart": ("llama-3.3-70b-instruct", "o3-mini"),
    "four models": ("llama-3.3-70b-instruct", "llama-4-scout", "claude-sonnet-4", "o3-mini"),
    "the model itself, before training": LADDER[:1],
    "the model itself, half-way": LADDER[2:3],
    "the model itself, after training": LADDER[-1:],
    "the model itself, before and after": (LADDER[0], LADDER[-1]),
}


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
    return [NONE, *others, *(name for name in REFERENCE_CASES if name not in (NONE, "one"))]


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
    visits, own = recording.visits, VISITS_WEAK * recording.rollouts_per_visit
    before, middle, after = (own_rates(recording, first) for first in (0 * visits, visits // 2, visits - VISITS_WEAK))
    strong = recording.strong
    few = attempted(np.stack([before, strong], axis=1), FEW_ATTEMPTS)
    return {
        RIGHT: partial(recorded_case, {"before": before, "7B": strong}, own + STRONG_ATTEMPTS),
        FEW: partial(recorded_case, {"before": few[:, 0], "7B": few[:, 1]}, 2 * FEW_ATTEMPTS),
        "the weaker alone": partial(recorded_case, {"before": before}, own),
        "the stronger alone": partial(recorded_case, {"7B": strong}, STRONG_ATTEMPTS),
        "four models": partial(
            recorded_case,
            {"before": before, "7B": strong, "half-way": middle, "after": after},
            3 * own + STRONG_ATTEMPTS,
        ),
        "the model itself, half-way": partial(recorded_case, {"half-way": middle}, own),
        "the model itself, after training": partial(recorded_case, {"after": after}, own),
        "the model itself, before and after": partial(recorded_case, {"before": before, "after": after}, 2 * own),
    }


def own_rates(recording: Recording, first: Counts) -> Floats:
    """Return [N] the trained model's pass rates in two visits, the first of which ([N]) is given."""
    each = np.arange(len(recording))
    solved = recording.solved[each, first + VISITS_WEAK] - recording.solved[each, first]
    rates: Floats = solved / (VISITS_WEAK * recording.rollouts_per_visit)
    return rates


def recorded_case(columns: dict[str, Floats], attempts: int) -> ReferenceCase:
    """Return the recorded run with these references, weakest first, of so many attempts a task in all."""
    references = np.stack(list(columns.values()), axis=1)
    pool = replace(recorded_run(), references=references, reference_models=tuple(columns))
    return ReferenceCase(pool, len(references) * attempts)
