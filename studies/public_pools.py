"""Public pools whose pass rates move through time as measured on real models, and variants of them that go wrong.

A pool doesn't react to what is selected: a belief is asked how well it follows, not how well a model learns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from bots_service.demo.replay import REFERENCE_MODELS, STEPS, VISITS_POOLED, VISITS_WEAK, Recording
from bots_service.demo.replay import recorded_run as read_recording
from studies.environment import Batch

DATA = Path(__file__).parent / "data"
REASONING_STEPS = 400
LADDER = ("gemma-3-27b-it", "mistral-small-3.1-24b", "claude-3.5-sonnet", "llama-4-maverick", "deepseek-r1")
LADDER_REFERENCES = ("llama-3.3-70b-instruct", "claude-sonnet-4")
REFERENCE_ATTEMPTS = 16
REFERENCE_SEED = 5


@dataclass(frozen=True, slots=True)
class PublicPool:
    """A pool of tasks and the model that is trained on it.

    success: [steps, N] the model's probability of success, before each step.
    references: [N, M] pass rates of the reference models, weakest first.
    reference_models: their M names.
    tags: [N] the number of each task's tag; None: it has none.
    """

    name: str
    success: Floats
    references: Floats
    reference_models: tuple[str, ...]
    tags: Tasks | None = None


def with_both_references(recording: Recording) -> Recording:
    """Return the problems whose 7B pass rate is known."""
    known = np.flatnonzero(~np.isnan(recording.strong))
    ids = tuple(recording.ids[problem] for problem in known.tolist())
    solved, visits, strong = recording.solved[known], recording.visits[known], recording.strong[known]
    return replace(recording, ids=ids, solved=solved, visits=visits, strong=strong)


def recorded_run() -> PublicPool:
    """Return the 678 problems of the recorded GRPO run that both references tried, over its 500 steps.

    A problem's success at a visit is the mean of the five visits around it, and linear in time between visits. The weak
    reference is the model's first two visits.
    """
    recording = with_both_references(read_recording())
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
    each, drawn from their pass rates. A task's tag is its domain.
    """
    rates = reasoning_rates()
    rungs = np.stack([rates[model] for model in LADDER])  # [5, N]
    place = np.linspace(0, len(LADDER) - 1, REASONING_STEPS)
    below = np.minimum(place.astype(int), len(LADDER) - 2)
    share = (place - below)[:, None]
    success = (1 - share) * rungs[below] + share * rungs[below + 1]
    references = np.stack([rates[model] for model in LADDER_REFERENCES], axis=1)
    with np.load(DATA / "reasoning_gym_easy.npz") as arrays:
        tags = arrays["domain_of"].astype(np.int32)
    return PublicPool("reasoning gym", success, attempted(references, REFERENCE_ATTEMPTS), LADDER_REFERENCES, tags)


def reasoning_rates() -> dict[str, Floats]:
    """Return [N] pass rates of each of nine models at reasoning gym's easy tasks, by name, in the order of means."""
    with np.load(DATA / "reasoning_gym_easy.npz") as arrays:
        columns = (arrays["successes"] / arrays["attempts"]).T
        return dict(zip(arrays["models"].tolist(), columns, strict=True))


def attempted(rates: Floats, attempts: int) -> Floats:
    """Return [N, M] what so many attempts of each model would measure of its pass rates ([N, M])."""
    rng = np.random.default_rng(REFERENCE_SEED)
    return np.stack([rng.binomial(attempts, column) / attempts for column in rates.T], axis=1)


def permuted(pool: PublicPool) -> PublicPool:
    """Return the pool with each task's references handed to another task: they say nothing of it."""
    order = np.random.default_rng(0).permutation(len(pool.references))
    return replace(pool, references=pool.references[order])


def inverted(pool: PublicPool) -> PublicPool:
    """Return the pool with references that fail where they succeeded."""
    return replace(pool, references=1 - pool.references)


def without_references(pool: PublicPool) -> PublicPool:
    """Return the pool without references."""
    return replace(pool, references=pool.references[:, :0], reference_models=())


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


POOLS: dict[str, Callable[[], PublicPool]] = {"recorded run": recorded_run, "reasoning gym": reasoning_gym}
REFERENCE_CASES: dict[str, Callable[[PublicPool], PublicPool]] = {
    "permuted": permuted,
    "inverted": inverted,
    "none": without_references,
}
MODEL_CASES: dict[str, Callable[[PublicPool], PublicPool]] = {
    "static": static,
    "sudden": sudden,
    "collapsing": collapsing,
}


class Replayed:
    """The environment of a pool that moves on step by step, whatever is trained on."""

    def __init__(self, pool: PublicPool) -> None:
        """Begin before the pool's first step."""
        self.pool = pool
        self.name, self.references, self.reference_models = pool.name, pool.references, pool.reference_models
        self.tags: Tasks | None = pool.tags
        self.steps = len(pool.success)
        self._step = 0

    @classmethod
    def of(cls, pool: str, case: str | None = None) -> "Replayed":
        """Return a named pool's environment, as it was measured or in one of the cases."""
        return cls(varied(pool, case))

    def success(self) -> Floats:
        """[N] the model's probabilities of success; after the last step those before it."""
        success: Floats = self.pool.success[min(self._step, self.steps - 1)]
        return success

    def accuracy(self) -> float:
        """Return the mean success probability of the pool."""
        return float(self.success().mean())

    def train(self, batch: Batch) -> None:  # noqa: ARG002  a recording does not react
        """Move on by a step."""
        self._step += 1


@lru_cache(maxsize=4)
def varied(pool: str, case: str | None) -> PublicPool:
    """Return a named pool, in a case if one is given; kept, because many trials in a row use it."""
    if case is None:
        return POOLS[pool]()
    return (REFERENCE_CASES | MODEL_CASES)[case](varied(pool, None))
