"""Pools and beliefs for the tests of the core, and the slow obvious selection they are compared with."""

from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, ks_2samp

from bots_service.core.belief.bots import BotsBelief
from bots_service.core.belief.distributions import Betas, Distributions, LogitNormals
from bots_service.core.draw import DrawContext, SelectRequest
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, StrategyName
from bots_service.core.state import RunState

LEVEL = 1e-3  # of each statistical test; all have fixed seeds, so they pass always or never
TAGS = ("math", "code", "hard")


def tasks(*numbers):
    return np.array(numbers, np.int32)


@dataclass
class ArrayBelief:
    """A belief given by its distributions: [G] for profiles, [T] for the tasks with evidence of their own."""

    shared: Distributions
    own_tasks: np.ndarray
    own: Distributions

    def profile_distributions(self, _pool):
        return self.shared

    def own_distributions(self, _pool):
        return self.own

    def distributions(self, pool, asked):
        places = pool.profile_of[asked].astype(np.int64)
        for place, task in enumerate(self.own_tasks):
            places[asked == task] = len(self.shared) + place
        return joined(self.shared, self.own).at(places)


def beta_parameters(believed: Distributions) -> tuple[np.ndarray, np.ndarray]:
    """Alpha and beta of what are known to be Beta distributions."""
    assert isinstance(believed, Betas)
    return believed.alpha, believed.beta


def joined(one, other):
    names = ("alpha", "beta") if isinstance(one, Betas) else ("location", "variance")
    return replace(one, **{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names})


def betas(alpha, beta, prior=(1.0, 1.0)):
    return Betas(np.array(alpha, float), np.array(beta, float), prior)


def normals(location, variance):
    return LogitNormals(np.array(location, float), np.array(variance, float))


def belief(shared_alpha, shared_beta, own_tasks=(), alpha=(), beta=(), prior=(1.0, 1.0)):
    return ArrayBelief(betas(shared_alpha, shared_beta, prior), tasks(*own_tasks), betas(alpha, beta, prior))


def bots_belief(state: RunState) -> BotsBelief:
    """The belief of a run of kind `bots`, whose inner parts a test may look at."""
    assert isinstance(state.belief, BotsBelief)
    return state.belief


def with_belief(state: RunState, **values: Any) -> RunState:
    return replace(state, belief=replace(bots_belief(state), **values))


def pool(profile_of, tags=None, retired=()):
    """A pool whose profile g has the reference pass rate g / 8."""
    references = np.arange(max(profile_of) + 1)[:, None] / 8
    tagged = {tag: tasks(*members) for tag, members in (tags or {}).items()}
    return Pool(references, tasks(*profile_of), tagged, tasks(*retired))


@st.composite
def pools(draw, max_size=60):
    size = draw(st.integers(1, max_size))
    models = draw(st.integers(0, 2))
    rate = st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan])
    rows = draw(st.lists(st.lists(rate, min_size=models, max_size=models), min_size=size, max_size=size))
    some = st.lists(st.integers(0, size - 1), unique=True).map(lambda chosen: tasks(*sorted(chosen)))
    offset_tags = tuple(draw(st.lists(st.sampled_from(TAGS), unique=True)))
    about = Pool.of_tasks(np.array(rows, float).reshape(size, models), {tag: draw(some) for tag in TAGS}, offset_tags)
    return replace(about, retired=draw(some))


@st.composite
def beliefs(draw, about, prior=(1.0, 1.0)):
    evidence = st.floats(1e-3, 1e7) | st.sampled_from([1e-3, 1.0, 17.0, 1e7])
    own = draw(own_tasks_of(about))
    several = [st.lists(evidence, min_size=size, max_size=size) for size in (about.profiles, len(own))]
    shared, apart = (betas(draw(numbers), draw(numbers), prior) for numbers in several)
    return ArrayBelief(shared, own, apart)


@st.composite
def normal_beliefs(draw, about):
    own = draw(own_tasks_of(about))
    sizes = (about.profiles, len(own))
    locations = [draw(st.lists(st.floats(-40, 40), min_size=size, max_size=size)) for size in sizes]
    variances = [draw(st.lists(st.floats(1e-6, 1e3), min_size=size, max_size=size)) for size in sizes]
    shared, apart = map(normals, locations, variances)
    return ArrayBelief(shared, own, apart)


def own_tasks_of(about):
    return st.sets(st.integers(0, len(about) - 1)).map(lambda chosen: tasks(*sorted(chosen)))


@st.composite
def some_tasks(draw, about):
    return tasks(*draw(st.lists(st.integers(0, len(about) - 1), max_size=len(about))))


@st.composite
def requests(draw, about):
    count = draw(st.integers(1, len(about)))
    return a_request(count, tags=tuple(draw(st.lists(st.sampled_from(TAGS), max_size=2))))


def a_request(count, **wanted):
    return SelectRequest("pool", count, **wanted)


@st.composite
def some_settings(draw):
    return RunSettings(
        strategy=draw(st.sampled_from(get_args(StrategyName))),
        target=draw(st.sampled_from([0.0, 0.5, 0.8, 1.0])),
        seed=draw(st.integers(0, 5)),
    )


def context_of(rng=0, **settings):
    """What a strategy may look at: `thompson`, unless the settings say; `rng` is a generator or a seed."""
    return DrawContext(RunSettings(**{"strategy": "thompson", **settings}), np.random.default_rng(rng))


def candidates(about, tags=(), barred=()):
    return [
        task
        for task in range(len(about))
        if task not in about.retired
        and task not in barred
        and (not tags or any(task in about.tags[tag] for tag in tags))
    ]


def dense_thompson(beliefs_of, about, among, count, target, rng):
    """Draw every task, sort, cut: what the paper says, in four lines."""
    among = rng.permutation(np.array(among, np.int32))
    values = beliefs_of.distributions(about, among).sample(rng)
    nearest = np.argsort(np.abs(values - target), kind="stable")[:count]
    return among[nearest], values[nearest]


def assert_same_shares(one, other):
    """Two independent samples of small whole numbers have one distribution (chi-square)."""
    table = np.array([np.bincount(sample, minlength=max(*one, *other) + 1) for sample in (one, other)])
    rare = table.sum(axis=0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] > 1:
        assert chi2_contingency(table).pvalue > LEVEL


def assert_same_values(one, other):
    """Two independent samples of numbers have one distribution (Kolmogorov-Smirnov)."""
    assert ks_2samp(one, other, method="asymp").pvalue > LEVEL
