"""What is run: sizes, rates and ways of choosing, the same for every seed. Torch is not needed to read it."""

from dataclasses import dataclass
from typing import TypedDict

from examples.grpo_cpu.tasks import LEVELS


class Choosing(TypedDict, total=False):
    """Settings of a run by which arms differ."""

    belief: str
    strategy: str


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of choosing tasks, and what the service knows of them.

    settings: of the run in the service.
    references: whether tasks come with the pass rates of two other models; tags: whether with their number of digits.
    """

    settings: Choosing
    references: bool = False
    tags: bool = False


BASE = "shuffle"  # what trainers do, which the others are compared with
ARMS = {
    BASE: Arm({"strategy": "shuffle"}),
    "bots-r2": Arm({"strategy": "thompson"}, references=True),
    "pass-r2": Arm({"belief": "tracker", "strategy": "pass"}, references=True),
    "nearest-r2": Arm({"belief": "tracker", "strategy": "thompson"}, references=True),
    "pass": Arm({"belief": "tracker", "strategy": "pass"}),
    "pass-tags": Arm({"belief": "tracker", "strategy": "pass"}, tags=True),
}
REGISTERED = (BASE, "bots-r2", "pass-r2", "nearest-r2")  # what runs if nothing else is asked for


@dataclass(frozen=True, slots=True)
class Lessons:
    """A warm-up: supervised steps from random weights, which give three models.

    weak, start, strong: when each is taken: once the mean probability of being right, over problems of all levels, is
        this high. Training begins with the second; the two others serve another seed's training as references.
    steps: where it ends at last.
    batch: problems in a step; shares: of each level among them.
    learning_rate: at first; slower: its share once `settling` of the answers are right, so that all becomes certain.
    looked_every: steps between two looks at what is right, then fewer by `closer`; looked_at: problems of each level.
    effective: the effective task ratio to expect of uniform choice. Seeds differ in how sure their models are of what
        they write; the weights of the last layer are scaled until this ratio is that of real pools.
    """

    weak: float = 0.48
    start: float = 0.60
    strong: float = 0.68
    steps: int = 2500
    batch: int = 96
    shares: tuple[float, ...] = (0.4, 0.25, 0.16, 0.1, 0.055, 0.03, 0.001)
    learning_rate: float = 2e-3
    slower: float = 0.25
    settling: float = 0.25
    looked_every: int = 20
    closer: int = 4
    looked_at: int = 20
    effective: float = 0.30


@dataclass(frozen=True, slots=True)
class Plan:
    """One comparison. `docs/trainers/grpo_fast.md` says how the values were found.

    steps: of GRPO, each with tasks_per_step tasks of rollouts rollouts.
    learning_rate: of GRPO, reached after rising steps.
    pool: tasks of each level; held_out_per_level: tasks that only evaluations see.
    evaluate_every: steps between two evaluations.
    lessons: of the warm-ups, one for each seed.
    related: whether a seed's references are models of its own warm-up, one from before the start and one from after it,
        as models of one family are related; otherwise they are those of the next seed's.
    attempts: rollouts by which each reference model's pass rates are measured.
    """

    steps: int = 400
    tasks_per_step: int = 16
    rollouts: int = 8
    learning_rate: float = 1e-4
    rising: int = 5
    pool: tuple[int, ...] = (60, 130, 130, 110, 110, 140, 280)  # the last level is nearly hopeless: 29 % of the pool
    held_out_per_level: int = 40
    evaluate_every: int = 20
    lessons: Lessons = Lessons()
    attempts: int = 16
    related: bool = True

    @property
    def sizes(self) -> dict[int, int]:
        """How many tasks of each level the pool has."""
        return dict(zip(LEVELS, self.pool, strict=True))

    @property
    def evaluations(self) -> int:
        """How many evaluations a run has, the one before the first step included."""
        return self.steps // self.evaluate_every + 1


# Shows that all parts work together, in a minute or so; nothing is learned in so few steps.
SMALL = Plan(
    steps=20,
    pool=(12,) * 7,
    held_out_per_level=4,
    evaluate_every=10,
    lessons=Lessons(weak=0.01, start=0.02, strong=0.03, steps=60, batch=32, looked_at=4),
    attempts=4,
)
