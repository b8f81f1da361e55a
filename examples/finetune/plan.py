"""What is run: sizes, rates and ways of choosing, the same for every seed. Torch is not needed to read it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict


class Choosing(TypedDict, total=False):
    """Settings of a run by which arms differ."""

    belief: str
    strategy: str


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of choosing tasks, and what the service knows of them.

    settings: of the run in the service.
    references: whether tasks come with the pass rates of two other models.
    tags: whether tasks come with what a user could say of them.
    knows_all: whether the trainer itself chooses, by the true success probabilities: a ceiling.
    wants: whether it asks the service for as many tasks as are expected to give `Plan.effective_groups`.
    refills: whether it learns only once it has so many effective groups, from as many batches as that takes (DAPO,
        arXiv:2503.14476).
    """

    settings: Choosing
    references: bool = False
    tags: bool = False
    knows_all: bool = False
    wants: bool = False
    refills: bool = False


BASE = "shuffle"  # what trainers do, which the others are compared with
SHUFFLE, PASS, BOTS = (
    Choosing(belief=belief, strategy=strategy)
    for belief, strategy in (("bots", "shuffle"), ("tracker", "pass"), ("bots", "thompson"))
)
ARMS = {
    BASE: Arm(SHUFFLE),
    "bots-r2": Arm(BOTS, references=True),
    "pass-r2": Arm(PASS, references=True),
    "nearest-r2": Arm({"belief": "tracker", "strategy": "thompson"}, references=True),
    "pass": Arm(PASS),
    "bots": Arm(BOTS),
    "pass-tags": Arm(PASS, tags=True),
    "pass-r2-tags": Arm(PASS, references=True, tags=True),
    "oracle": Arm({}, knows_all=True),
    "refill": Arm(SHUFFLE, refills=True),
    "pass-wanted": Arm(PASS, wants=True),
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a model, a Llama; by default it has 280,000 weights.

    width: of what is known of a token; inner: of the gated network; layers; heads: of each layer's attention.
    spread: standard deviation of the random weights. With a fifth of the default, the default model takes longer to
        begin to add, and then learns all at once.
    """

    width: int = 96
    inner: int = 192
    layers: int = 3
    heads: int = 4
    spread: float = 0.1


@dataclass(frozen=True, slots=True)
class Lessons:
    """A warm-up: supervised steps from random weights, which give three models.

    weak, start, strong: when each is taken: once the mean probability of being right, over problems of all groups, is
        this high. Training begins with the second; the two others serve as references.
    steps: where it ends at last.
    batch: problems in a step; shares: of each group among them.
    learning_rate: at first; slower: its share once `settling` of the answers are right, so that all becomes certain.
    looked_every: steps between two looks at what is right, then fewer by `closer`; looked_at: problems of each group.
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
    """One comparison. `docs/studies/finetuning.md` says how the values were found.

    kind: of the tasks, by its name in `kinds`.
    loop: what trained: "torch", or "trl" in a comparison that this code no longer runs.
    model: its sizes; device: what computes it, as torch names it: "cpu" or "cuda".
    steps: of GRPO, each with tasks_per_step tasks of rollouts rollouts. An arm whose batches have other sizes is
        evaluated, and ends, after as many rollouts.
    learning_rate: of GRPO, reached after rising updates.
    pool: tasks of each group; held_out_per_group: tasks that only evaluations see.
    evaluate_every: steps between two evaluations; look_every: between two looks at the whole pool, a multiple of it.
    lessons: of the warm-ups, one for each seed.
    attempts: rollouts by which the pass rates of both reference models are measured. These models are of the seed's own
        warm-up, one from before the start and one from after it, as models of one family are related.
    effective_groups: that an arm wants or waits for.
    """

    kind: str = "additions"
    loop: str = "torch"
    model: ModelConfig = ModelConfig()
    device: str = "cpu"
    steps: int = 400
    tasks_per_step: int = 16
    rollouts: int = 8
    learning_rate: float = 1e-4
    rising: int = 5
    pool: tuple[int, ...] = (60, 130, 130, 110, 110, 140, 280)  # the last is nearly hopeless: 29 % of the pool
    held_out_per_group: int = 40
    evaluate_every: int = 20
    lessons: Lessons = Lessons()
    attempts: int = 16
    look_every: int = 20
    effective_groups: int = 20

    @property
    def reference_rollouts(self) -> int:
        """How many rollouts the references' pass rates of a pool cost: two models try every task."""
        return 2 * self.attempts * sum(self.pool)

    @property
    def evaluations(self) -> int:
        """How many evaluations a run has, the one before the first step included."""
        return self.steps // self.evaluate_every + 1

    @property
    def work(self) -> float:
        """How many products of one run's weights its rollouts take, to compare plans."""
        weights = self.model.layers * self.model.width * (4 * self.model.width + 3 * self.model.inner)
        return float(self.steps * self.tasks_per_step * self.rollouts * weights)

    def made_small(self) -> "Plan":
        """Return a plan with the same parts, which takes seconds; nothing is learned in so few steps."""
        lessons = replace(self.lessons, weak=0.01, start=0.02, strong=0.03, steps=30, batch=16, looked_at=4)
        return replace(
            self,
            model=ModelConfig(width=32, inner=48, layers=2, heads=2),
            device="cpu",
            steps=12,
            tasks_per_step=8,
            pool=(12,) * len(self.pool),
            held_out_per_group=4,
            evaluate_every=4,
            look_every=4,
            lessons=lessons,
            attempts=4,
            effective_groups=3,
        )


# The second kind: seven families that are learned at unequal speed, and noise, which no lesson teaches.
FAMILIES = Plan(
    kind="families",
    pool=(120,) * 8,
    lessons=Lessons(
        weak=0.42,
        start=0.48,
        strong=0.54,
        steps=1000,
        shares=(0.5, 1.0, 1.0, 0.5, 0.8, 1.7, 1.7, 0.0),
        settling=0.40,
    ),
)
# A model of 25 million weights, and a pool that is seen some four times in the course: it needs a GPU.
UNBOUNDED = Plan(
    model=ModelConfig(width=512, inner=1376, layers=8, heads=8, spread=0.05),
    device="cuda",
    tasks_per_step=64,
    learning_rate=4e-5,
    pool=(60, 900, 900, 740, 740, 940, 1880),  # the last is nearly hopeless: 31 % of the pool
    lessons=Lessons(steps=1500, batch=256, learning_rate=3e-4),
)
LARGE = replace(UNBOUNDED, look_every=80)
# Between both, for a processor: it learns enough for a belief to lose touch.
MIDDLE = Plan(
    model=ModelConfig(width=192, inner=512, layers=4, heads=4, spread=0.07),
    steps=800,
    pool=(60, 225, 225, 185, 185, 235, 470),
    lessons=Lessons(learning_rate=1e-3),
)
# A pool as real ones are: a quarter is solved, a third impossible, a tenth of that by wrong labels, the rest graded.
REAL = Plan(
    kind="real",
    pool=(60, 180, 90, 90, 90, 80, 50, 32, 288),
    lessons=Lessons(
        weak=0.40, start=0.50, strong=0.58, shares=(0.4, 0.25, 0.16, 0.1, 0.055, 0.03, 0.001, 0, 0), effective=0.25
    ),
)
REAL_LARGE = replace(
    LARGE,
    kind="real",
    pool=(60, 1480, 560, 560, 560, 500, 386, 205, 1849),
    lessons=replace(REAL.lessons, steps=1500, batch=256, learning_rate=3e-4),
)


class Job(NamedTuple):
    """A run of one arm of one seed."""

    seed: int
    arm: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is registered: the sizes, and the seeds of each arm."""

    plan: Plan
    seeds: dict[str, range]

    def jobs(self, seeds: Sequence[int] = (), arms: Iterable[str] = ()) -> list[Job]:
        """Return what is to run, arm by arm; by default all that is registered."""
        return [Job(seed, arm) for arm in arms or self.seeds for seed in seeds or self.seeds[arm]]


def alike(seeds: range, *arms: str) -> dict[str, range]:
    """Return the same seeds for every arm."""
    return dict.fromkeys(arms, seeds)


COMPARISONS = {
    "additions": Comparison(
        Plan(),
        {
            **alike(range(20, 36), BASE, "bots-r2", "pass-r2"),
            **alike(range(20, 28), "bots", "pass", "pass-tags", "pass-r2-tags", "oracle"),
            "nearest-r2": range(20, 23),
        },
    ),
    "replication": Comparison(Plan(), alike(range(60, 76), BASE, "pass", "pass-r2", "pass-tags")),
    "families": Comparison(FAMILIES, alike(range(40, 48), BASE, "bots-r2", "pass-r2", "pass-r2-tags")),
    "trl": Comparison(Plan(loop="trl", steps=200), alike(range(20, 24), BASE, "pass-r2")),
    "large-unbounded": Comparison(
        UNBOUNDED,
        {**alike(range(80, 96), BASE, "pass", "pass-tags", "pass-r2", "bots-r2"), "oracle": range(80, 88)},
    ),
    "large-faster": Comparison(
        replace(UNBOUNDED, learning_rate=6e-5), alike(range(96, 104), BASE, "pass", "pass-tags")
    ),
    "middle": Comparison(MIDDLE, alike(range(110, 116), BASE, "pass", "pass-tags", "oracle")),
    "large": Comparison(LARGE, alike(range(120, 128), BASE, "pass", "pass-tags", "pass-r2", "bots-r2", "oracle")),
    "real": Comparison(REAL, alike(range(140, 148), BASE, "pass", "pass-tags", "oracle")),
    "real-large": Comparison(REAL_LARGE, alike(range(150, 158), BASE, "pass", "pass-tags", "oracle")),
    "groups": Comparison(LARGE, alike(range(130, 138), BASE, "refill", "pass", "pass-wanted")),
}
