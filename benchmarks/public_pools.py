"""Public pools whose pass rates move through time as measured on real models, and variants of them that go wrong.

A pool doesn't react to what is selected: a belief is asked how well it follows, not how well a model learns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bots_client import Task
from bots_service.core.arrays import Floats
from bots_service.demo.recording import REFERENCE_MODELS, STEPS, VISITS_POOLED, VISITS_WEAK
from bots_service.demo.recording import recorded_run as read_recording

DATA = Path(__file__).parent / "data"
REASONING_STEPS = 400
LADDER = ("gemma-3-27b-it", "mistral-small-3.1-24b", "claude-3.5-sonnet", "llama-4-maverick", "deepseek-r1")
LADDER_REFERENCES = ("llama-3.3-70b-instruct", "claude-sonnet-4")
REFERENCE_ATTEMPTS = 16
REFERENCE_SEED = 5
SHIFT = 0.3  # of a reference that is too optimistic


@dataclass(frozen=True, slots=True)
class PublicPool:
    """A pool of tasks and the model that is trained on it.

    success: [steps, N] the model's probability of success, before each step.
    references: [N, M] pass rates of the reference models, weakest first.
    reference_models: their M names.
    """

    name: str
    success: Floats
    references: Floats
    reference_models: tuple[str, ...]

    def tasks(self) -> list[Task]:
        """Return the tasks for the service, called "0", "1", and so on."""
        return [Task(str(task), rates) for task, rates in enumerate(self.references.tolist())]

    def shortened(self, steps: int) -> "PublicPool":
        """Return the first so many steps."""
        return replace(self, success=self.success[:steps])


def recorded_run() -> PublicPool:
    """Return the 678 problems of the recorded GRPO run that both references tried, over its 500 steps.

    A problem's success at a visit is the mean of the five visits around it, and linear in time between visits. The weak
    reference is the model's first two visits.
    """
    recording = read_recording().with_both_references()
    rates = np.diff(recording.solved, axis=1) / recording.rollouts_per_visit  # [N, V]
    steps, window = np.arange(STEPS), np.full(VISITS_POOLED, 1 / VISITS_POOLED)
    success = np.empty((STEPS, len(recording)))
    for problem, visits in enumerate(recording.visits.tolist()):
        padded = np.pad(rates[problem, :visits], VISITS_POOLED // 2, mode="edge")
        visited_at = (np.arange(visits) + 0.5) / visits * STEPS
        success[:, problem] = np.interp(steps, visited_at, np.convolve(padded, window, "valid"))
    references = np.stack([rates[:, :VISITS_WEAK].mean(axis=1), recording.strong], axis=1)
    return PublicPool("recorded run", success, references, REFERENCE_MODELS)


def reasoning_gym() -> PublicPool:
    """Return the 4,490 easy tasks of reasoning gym, over 400 steps of a model that climbs a ladder of five real ones.

    Its success is linear in time between the pass rates of neighbours. Two other models are the references: 16 attempts
    each, drawn from their pass rates.
    """
    with np.load(DATA / "reasoning_gym_easy.npz") as arrays:
        columns = (arrays["successes"] / arrays["attempts"]).T
        rates: dict[str, Floats] = dict(zip(arrays["models"].tolist(), columns, strict=True))
    rungs = np.stack([rates[model] for model in LADDER])  # [5, N]
    place = np.linspace(0, len(LADDER) - 1, REASONING_STEPS)
    below = np.minimum(place.astype(int), len(LADDER) - 2)
    share = (place - below)[:, None]
    success = (1 - share) * rungs[below] + share * rungs[below + 1]
    rng = np.random.default_rng(REFERENCE_SEED)
    drawn = [rng.binomial(REFERENCE_ATTEMPTS, rates[model]) / REFERENCE_ATTEMPTS for model in LADDER_REFERENCES]
    return PublicPool("reasoning gym", success, np.stack(drawn, axis=1), LADDER_REFERENCES)


def permuted(pool: PublicPool) -> PublicPool:
    """Return the pool with each task's references handed to another task: they say nothing of it."""
    order = np.random.default_rng(0).permutation(len(pool.references))
    return replace(pool, references=pool.references[order])


def inverted(pool: PublicPool) -> PublicPool:
    """Return the pool with references that fail where they succeeded."""
    return replace(pool, references=1 - pool.references)


def shifted(pool: PublicPool) -> PublicPool:
    """Return the pool with references that are better by SHIFT, at most 1."""
    return replace(pool, references=np.minimum(pool.references + SHIFT, 1))


def scaled(pool: PublicPool) -> PublicPool:
    """Return the pool with references half as good."""
    return replace(pool, references=pool.references / 2)


def without_references(pool: PublicPool) -> PublicPool:
    """Return the pool without references."""
    return replace(pool, references=pool.references[:, :0], reference_models=())


def with_one_reference(pool: PublicPool) -> PublicPool:
    """Return the pool with the stronger reference alone."""
    return replace(pool, references=pool.references[:, -1:], reference_models=pool.reference_models[-1:])


def static(pool: PublicPool) -> PublicPool:
    """Return the pool of a model that stays as it began."""
    return replace(pool, success=pool.success[np.zeros(len(pool.success), int)])


def sudden(pool: PublicPool) -> PublicPool:
    """Return the pool of a model that stays as it began for half of the steps, and is then as it ended."""
    late = np.arange(len(pool.success)) >= len(pool.success) // 2
    return replace(pool, success=pool.success[np.where(late, -1, 0)])


def collapsing(pool: PublicPool) -> PublicPool:
    """Return the pool of a model that improves for half of the steps, and is then again as it began."""
    steps = np.arange(len(pool.success))
    return replace(pool, success=pool.success[np.where(steps < len(steps) // 2, steps, 0)])


POOLS: dict[str, Callable[[], PublicPool]] = {"recorded-run": recorded_run, "reasoning-gym": reasoning_gym}
CASES: dict[str, Callable[[PublicPool], PublicPool]] = {
    "references permuted": permuted,
    "references inverted": inverted,
    "references shifted": shifted,
    "references scaled": scaled,
    "no references": without_references,
    "one reference": with_one_reference,
    "static": static,
    "sudden": sudden,
    "collapsing": collapsing,
}
