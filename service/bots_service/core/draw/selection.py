"""One selection: which tasks to hand out next, under tags, quotas, a uniform share, and leases."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, united, without
from bots_service.core.belief.protocol import Belief
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.strategies import STRATEGIES, Aim, Chosen, StrategyName, uniform
from bots_service.core.pool import Pool
from bots_service.errors import InvalidSelectionError, PoolTooSmallError

Quotas = Mapping[str, int | float]  # an int is a number of tasks, a float in (0, 1] a share of the selection

SLACK = 1e-6  # by which shares may add up to more than 1, as numbers that a program computed do
DIGITS = 9  # of a number of tasks; 0.29 * 100 is 28.999999999999996


def wanted_in_all(quotas: Quotas, count: int) -> float:
    """Return how many of `count` tasks the quotas ask for, on average."""
    shares = math.fsum(quota for quota in quotas.values() if isinstance(quota, float))
    return sum(quota for quota in quotas.values() if isinstance(quota, int)) + shares * count


def fit(quotas: Quotas, count: int) -> bool:
    """Say whether so many tasks can keep the quotas."""
    return wanted_in_all(quotas, count) <= count * (1 + SLACK)


def in_tasks(quotas: Quotas, count: int, rng: np.random.Generator) -> dict[str, int]:
    """Return the quotas as numbers of tasks.

    A share x of n tasks becomes floor(n x) or ceil(n x), whose expectation is n x exactly: over many selections each
    tag gets its share, also where every selection has room for one of them only. One draw decides for all (systematic
    sampling: W. G. Madow, Annals of Mathematical Statistics 20, 1949), so that the sum, too, is rounded up or down.

    Args:
        quotas: such as `fit`.
        count: n.
        rng: is drawn from only where there are shares.
    """
    wanted = {tag: quota for tag, quota in quotas.items() if isinstance(quota, int)}
    shares = {tag: quota for tag, quota in quotas.items() if isinstance(quota, float)}
    if not shares:
        return wanted
    room = count - sum(wanted.values())
    ends = np.minimum(np.round(np.cumsum([0.0, *shares.values()]) * count, DIGITS), room)
    lots = np.diff(np.ceil(ends - rng.random())).astype(int)
    of_shares = dict(zip(shares, lots.tolist(), strict=True))
    return {tag: wanted.get(tag, of_shares.get(tag, 0)) for tag in quotas}


NO_TASKS: Tasks = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """What is asked for.

    count: how many tasks, >= 1.
    tags: tasks carrying any of these; none of them: all tasks.
    quotas: so many tasks, or this share of them, carry this tag; each is chosen on its own, in this order; the rest
        come from all.
    exclude: tasks that may not be chosen, in any order.
    first: distinct tasks that are handed out before any others, in this order, in flight or not; those that may not be
        chosen are passed over. They count towards the quotas.
    uniform_share: share of the tasks that are chosen at random, in [0, 1].
    temperature: of `softmax`, > 0.
    seed: of `shuffle`, >= 0.

    Raises:
        InvalidSelectionError: the quotas add up to more than `count`, or one is negative.
        ValueError: another number is out of its range.
    """

    count: int
    tags: tuple[str, ...] = ()
    quotas: Quotas = field(default_factory=dict)
    exclude: Tasks = field(default_factory=lambda: NO_TASKS)
    first: Tasks = field(default_factory=lambda: NO_TASKS)
    uniform_share: float = 0.0
    strategy: StrategyName = "thompson"
    target: float = 0.5
    temperature: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.seed < 0 or not 0 < self.temperature < np.inf:
            raise ValueError(f"{self.count} tasks, seed {self.seed}, temperature {self.temperature}")
        if not 0 <= self.uniform_share <= 1 or not 0 <= self.target <= 1:
            raise ValueError(f"share {self.uniform_share} or target {self.target} is not in [0, 1]")
        if any(quota < 0 for quota in self.quotas.values()):
            raise InvalidSelectionError(f"a quota is negative: {dict(self.quotas)}")
        if not fit(self.quotas, self.count):
            raise InvalidSelectionError(f"quotas {dict(self.quotas)} add up to more than {self.count} tasks")


@dataclass(frozen=True, slots=True)
class Selected:
    """What is handed out.

    tasks: [n] distinct; those wanted first, then quota by quota, each nearest first where the strategy knows distances.
    draws: [n] the success probability drawn for each task; NaN where nothing was drawn.
    reused: how many of them are leased already.
    """

    tasks: Tasks
    draws: Floats
    reused: int


@dataclass(frozen=True, slots=True)
class Portion:
    """So many tasks that carry a tag (None: any), of which `by_chance` are chosen at random."""

    tag: str | None
    count: int
    by_chance: int


def select_tasks(
    belief: Belief,
    pool: Pool,
    request: SelectionRequest,
    *,
    leased: Tasks,
    position: int,
    rng: np.random.Generator,
) -> Selected:
    """Return exactly `request.count` distinct tasks.

    Leased tasks are left out unless too few others are eligible; then the strategy chooses among them too. Quotas are
    filled in order, each without regard to those that follow.

    Args:
        leased: tasks in flight, in any order.
        position: how many tasks were reported so far, >= 0.

    Raises:
        PoolTooSmallError: fewer tasks than asked for may be handed out, even with the leased ones.
        ValueError: a tag is unknown.
    """
    aim = Aim(request.target, request.temperature, request.seed, position)
    gone, in_flight = united(request.exclude), united(leased)
    quotas = in_tasks(request.quotas, request.count, rng)
    ahead = foremost(pool, request, gone)
    chosen = [Chosen(ahead, np.full(len(ahead), np.nan))]
    reused = len(ahead) - len(without(united(ahead), in_flight))
    gone, quotas = united(gone, ahead), less(quotas, pool, ahead, request.count - len(ahead))
    for portion in portions(request, quotas, request.count - len(ahead)):
        parts, again = fill(belief, pool, request, portion, gone=gone, leased=in_flight, aim=aim, rng=rng)
        gone = united(gone, *(one.tasks for one in parts))
        chosen += parts
        reused += again
    tasks = np.concatenate([one.tasks for one in chosen])
    return Selected(tasks, np.concatenate([one.draws for one in chosen]), reused)


def foremost(pool: Pool, request: SelectionRequest, gone: Tasks) -> Tasks:
    """Return the tasks that are wanted first and may be handed out, as many as are asked for."""
    if not len(request.first):
        return request.first
    may_be = request.first[pool.part(request.tags).holds(request.first) & ~contained(request.first, (gone,))]
    return may_be[: request.count]


def less(quotas: dict[str, int], pool: Pool, ahead: Tasks, room: int) -> dict[str, int]:
    """Return what is left of the quotas when some tasks are handed out ahead, and so many more in all."""
    if not len(ahead):
        return quotas
    left: dict[str, int] = {}
    for tag, wanted in quotas.items():
        left[tag] = min(max(wanted - int(pool.part((), tag).holds(ahead).sum()), 0), room)
        room -= left[tag]
    return left


def portions(request: SelectionRequest, quotas: Mapping[str, int], in_all: int) -> Iterator[Portion]:
    """Yield the quotas and the rest; round(count * uniform_share) tasks by chance are spread over them evenly."""
    rest = in_all - sum(quotas.values())
    through = chance_before = 0
    for tag, count in [*quotas.items(), (None, rest)]:
        through += count
        chance_through = round(through * request.uniform_share)
        if count:
            yield Portion(tag, count, chance_through - chance_before)
        chance_before = chance_through


def fill(
    belief: Belief,
    pool: Pool,
    request: SelectionRequest,
    portion: Portion,
    *,
    gone: Tasks,
    leased: Tasks,
    aim: Aim,
    rng: np.random.Generator,
) -> tuple[list[Chosen], int]:
    """Choose one portion; return the choices and how many of their tasks are leased.

    Args:
        gone: sorted tasks that are excluded or chosen already.
        leased: sorted tasks in flight.
    """
    part = pool.part(request.tags, portion.tag)
    gone = part.keep(gone)
    busy = without(part.keep(leased), gone)
    free = len(part) - len(gone) - len(busy)
    if free + len(busy) < portion.count:
        raise PoolTooSmallError(too_small(request, portion, tasks=len(part), gone=len(gone)))
    strategy = STRATEGIES[request.strategy]
    barred = united(gone, busy)
    by_merit = min(portion.count - portion.by_chance, free)
    by_chance = min(portion.by_chance, free - by_merit)
    again = portion.count - by_merit - by_chance
    chosen = []
    if by_merit:
        chosen.append(strategy(Eligible(pool, belief, part, barred), by_merit, aim, rng))
    if by_chance:
        barred = united(barred, *(one.tasks for one in chosen))
        chosen.append(uniform(Eligible(pool, belief, part, barred), by_chance, aim, rng))
    if again:
        chosen.append(strategy(Eligible(pool, belief, pool.listed(busy), NO_TASKS), again, aim, rng))
    return chosen, again


def too_small(request: SelectionRequest, portion: Portion, *, tasks: int, gone: int) -> str:
    """Say what was asked for and what there is."""
    among = f" tagged {' or '.join(request.tags)}" if request.tags else ""
    quota = "" if portion.tag is None else f", {portion.count} of them tagged {portion.tag}"
    return (
        f"asked for {request.count} tasks{among}{quota}, but of {tasks} such tasks {gone} are excluded or chosen "
        "already; ask for fewer, or append tasks"
    )
