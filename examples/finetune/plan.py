"""What is run: sizes, rates and ways of choosing, the same for every seed. Torch is not needed to read it."""

from dataclasses import dataclass, replace
from typing import TypedDict


class Choosing(TypedDict, total=False):
    """Settings of a run by which arms differ."""

    belief: str
    strategy: str


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of choosing tasks, and what the service knows of them.

    settings: of the run in the service.
    knows_all: whether the training process itself chooses, by the true success probabilities: a ceiling.
    references: whether tasks come with the pass rates of two other models.
    tags: whether tasks come with what a user could say of them.
    """

    settings: Choosing
    references: bool = False
    tags: bool = False
    knows_all: bool = False


BASE = "shuffle"  # what trainers do, which the others are compared with
ARMS = {
    BASE: Arm({"belief": "bots", "strategy": "shuffle"}),
    "bots-r2": Arm({"belief": "bots", "strategy": "thompson"}, references=True),
    "pass-r2": Arm({"belief": "tracker", "strategy": "pass"}, references=True),
    "nearest-r2": Arm({"belief": "tracker", "strategy": "thompson"}, references=True),
    "pass": Arm({"belief": "tracker", "strategy": "pass"}),
    "bots": Arm({"belief": "bots", "strategy": "thompson"}),
    "pass-tags": Arm({"belief": "tracker", "strategy": "pass"}, tags=True),
    "pass-r2-tags": Arm({"belief": "tracker", "strategy": "pass"}, references=True, tags=True),
    "oracle": Arm({}, knows_all=True),
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
    loop: what trains: "torch", the example's own, or "trl".
    model: its sizes; device: what computes it, as torch names it: "cpu" or "cuda".
    steps: of GRPO, each with tasks_per_step tasks of rollouts rollouts.
    learning_rate: of GRPO, reached after rising steps.
    pool: tasks of each group; held_out_per_group: tasks that only evaluations see.
    evaluate_every: steps between two evaluations.
    lessons: of the warm-ups, one for each seed.
    attempts: rollouts by which the pass rates of both reference models are measured. These models are of the seed's own
        warm-up, one from before the start and one from after it, as models of one family are related.
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

    @property
    def reference_rollouts(self) -> int:
        """How many rollouts the references' pass rates of a pool cost: two models try every task."""
        return 2 * self.attempts * sum(self.pool)

    @property
    def evaluations(self) -> int:
        """How many evaluations a run has, the one before the first step included."""
        return self.steps // self.evaluate_every + 1


# Shows that all parts work together, in a minute or so; nothing is learned in so few steps.
SMALL = Plan(
    steps=10,
    pool=(12,) * 7,
    held_out_per_group=4,
    evaluate_every=5,
    lessons=Lessons(weak=0.01, start=0.02, strong=0.03, steps=30, batch=16, looked_at=4),
    attempts=4,
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
LARGE = Plan(
    model=ModelConfig(width=512, inner=1376, layers=8, heads=8, spread=0.05),
    device="cuda",
    tasks_per_step=64,
    learning_rate=4e-5,
    pool=(60, 900, 900, 740, 740, 940, 1880),  # the last is nearly hopeless: 31 % of the pool
    lessons=Lessons(steps=1500, batch=256, learning_rate=3e-4),
)
# Between both, for a processor: it learns enough for a belief to lose touch.
MIDDLE = Plan(
    model=ModelConfig(width=192, inner=512, layers=4, heads=4, spread=0.07),
    steps=800,
    pool=(60, 225, 225, 185, 185, 235, 470),
    lessons=Lessons(learning_rate=1e-3),
)
SMALL_LARGE = replace(SMALL, model=ModelConfig(width=32, inner=48, layers=2, heads=2))
SMALL_FAMILIES = replace(
    SMALL, kind="families", pool=(12,) * 8, lessons=replace(SMALL.lessons, shares=FAMILIES.lessons.shares)
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is registered.

    plan: the sizes; small: the same parts in a minute or so, to show that they work together.
    seeds: of each arm, in the order in which a seed's arms run.
    main: the arms that run first, of all seeds.
    """

    plan: Plan
    small: Plan
    seeds: dict[str, range]
    main: tuple[str, ...] = (BASE, "bots-r2", "pass-r2")


COMPARISONS = {
    "additions": Comparison(
        Plan(),
        SMALL,
        {
            BASE: range(20, 36),
            "bots-r2": range(20, 36),
            "pass-r2": range(20, 36),
            "bots": range(20, 28),
            "pass": range(20, 28),
            "pass-tags": range(20, 28),
            "pass-r2-tags": range(20, 28),
            "oracle": range(20, 28),
            "nearest-r2": range(20, 23),
        },
    ),
    "replication": Comparison(
        Plan(),
        SMALL,
        {arm: range(60, 76) for arm in (BASE, "pass", "pass-r2", "pass-tags")},
        main=(BASE, "pass", "pass-r2", "pass-tags"),
    ),
    "families": Comparison(
        FAMILIES,
        SMALL_FAMILIES,
        {arm: range(40, 48) for arm in (BASE, "bots-r2", "pass-r2", "pass-r2-tags")},
        main=(BASE, "bots-r2", "pass-r2", "pass-r2-tags"),
    ),
    "large": Comparison(
        LARGE,
        SMALL_LARGE,
        {
            BASE: range(80, 96),
            "pass": range(80, 96),
            "pass-tags": range(80, 96),
            "pass-r2": range(80, 96),
            "bots-r2": range(80, 96),
            "oracle": range(80, 88),
        },
        main=(BASE, "pass", "pass-tags", "pass-r2", "bots-r2"),
    ),
    "large-faster": Comparison(
        replace(LARGE, learning_rate=6e-5),
        SMALL_LARGE,
        {arm: range(96, 104) for arm in (BASE, "pass", "pass-tags")},
        main=(BASE, "pass", "pass-tags"),
    ),
    "middle": Comparison(
        MIDDLE,
        SMALL_LARGE,
        {arm: range(110, 116) for arm in (BASE, "pass", "pass-tags", "oracle")},
        main=(BASE, "pass"),
    ),
    "trl": Comparison(
        Plan(loop="trl", steps=200),
        replace(SMALL, loop="trl"),
        {arm: range(20, 24) for arm in (BASE, "pass-r2")},
        main=(BASE, "pass-r2"),
    ),
}
