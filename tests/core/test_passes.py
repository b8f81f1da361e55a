"""`pass`: each task at most once a pass, as often as it is expected to teach, and never starved."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy.stats import chisquare

from bots_service.core.draw import DrawContext, Eligible, NamedTasks, select_tasks, walk_pass
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.walks import Walk, Walks
from tests import sizes
from tests.core.plain_pass import LEAST_CHANCE, plain_pass
from tests.core.pools import (
    LEVEL,
    ArrayBelief,
    a_request,
    belief,
    beliefs,
    normal_beliefs,
    normals,
    pools,
    some_tasks,
    tasks,
)

PASS = RunSettings(strategy="pass", seed=3)
NOBODY = tasks()


def context_of(walks=None, seed=3, group_size=8.0):
    chosen = structs.replace(PASS, seed=seed)
    return DrawContext(chosen, np.random.default_rng(0), walks or Walks(), group_size)


def chances_of(of, about, group_size=8.0):
    return of.distributions(about, np.arange(len(about), dtype=np.int32)).effective(group_size)


@dataclass
class Listening(ArrayBelief):
    """A belief that is asked through a function of the test's own."""

    ask: Any

    def distributions(self, pool, asked):
        return self.ask(pool, asked)


def made_up(size, *, seed=0):
    """A pool without references, and a belief with evidence of every task."""
    rng = np.random.default_rng(seed)
    about = Pool.of_tasks(np.empty((size, 0)), {"math": tasks(*range(0, size, 3)), "code": tasks(*range(1, size, 2))})
    return about, belief([1.0], [1.0], range(size), *rng.integers(1, 15, (2, size)))


def selections(about, of, count, steps, walks=None, **context):
    """Select and report at once, again and again; yield the tasks and where the walk then stands."""
    walks = walks or Walks()
    for _ in range(steps):
        got = walk_pass(Eligible(about, of, about.part(), NOBODY), count, context_of(walks, **context))
        walks = walks.moved(got.walks)
        yield got.tasks.tolist(), got.walks[0]


@settings(deadline=None)
@given(st.data())
def test_a_pass_is_what_its_plain_form_says(data):
    about = data.draw(pools())
    of = data.draw(beliefs(about) | normal_beliefs(about))
    excluded = np.unique(data.draw(some_tasks(about)))
    allowed = set(about.part().order.tolist()) - set(excluded.tolist())
    if not allowed:
        return
    count, seed = data.draw(st.integers(1, len(allowed))), data.draw(st.integers(0, 9))
    begun = data.draw(st.integers(1, len(about)))
    walk = Walk(0, data.draw(st.integers(0, 3)), data.draw(st.integers(0, 70)), begun).beginning(len(about))
    excluded = about.part().keep(excluded)

    got = walk_pass(Eligible(about, of, about.part(), excluded), count, context_of(Walks(0, (walk,)), seed))

    at = (walk.turn, walk.place, walk.size)
    chosen, end = plain_pass(chances_of(of, about).item, allowed, count, at, size=len(about), seed=seed)
    assert got.tasks.tolist() == chosen
    assert got.walks == (Walk(0, *end),)
    assert np.isnan(got.draws).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(0, 9), st.data())
def test_each_task_is_chosen_at_most_once_a_pass(size, seed, data):
    about, of = made_up(size, seed=seed)
    began, chosen_in = 0, Counter[tuple[int, int]]()
    for chosen, end in selections(about, of, data.draw(st.integers(1, size)), 12):
        if end.turn == began:  # else nobody knows which of the two passes gave which
            chosen_in.update((end.turn, task) for task in chosen)
        began = end.beginning(size).turn
    assert max(chosen_in.values(), default=1) == 1


@pytest.mark.no_cover
def test_visits_are_in_proportion_to_the_probability_of_being_effective_and_to_a_twentieth_at_least():
    about, _ = made_up(60)
    rng = np.random.default_rng(0)
    solved = np.where(np.arange(60) % 3, rng.integers(1, 15, 60), 500)
    of = belief([1.0], [1.0], range(60), solved, np.where(np.arange(60) % 3, rng.integers(1, 15, 60), 1))
    visits = Counter(task for chosen, _ in selections(about, of, 4, sizes.size(1_500, 4_000)) for task in chosen)
    chances = np.maximum(chances_of(of, about), LEAST_CHANCE)
    assert (chances == LEAST_CHANCE).sum() == 20

    counts = np.array([visits[task] for task in range(60)])
    assert chisquare(counts, chances / chances.sum() * counts.sum()).pvalue > LEVEL


@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("location", [-1e6, -30.0, 0.0, 800.0])
def test_no_task_starves_whatever_the_belief(location, variance):
    size = 30
    about = Pool.of_tasks(np.empty((size, 0)))
    locations = np.where(np.arange(size) % 2, location, 0.0)
    of = belief([1.0], [1.0])
    of = replace(
        of, shared=normals([0.0], [1.0]), own_tasks=tasks(*range(size)), own=normals(locations, [variance] * size)
    )
    met = Counter(task for chosen, _ in selections(about, of, 20, 60) for task in chosen)
    assert set(met) == set(range(size))


def test_every_tag_of_a_mix_has_a_walk_of_its_own():
    about, of = made_up(90)
    of = replace(of, own_tasks=NOBODY, own=of.own.at(NOBODY.astype(np.int64)))  # nothing is known of any
    walks, met = Walks(), Counter[int]()
    mixed = structs.replace(PASS, mix={"code": 1.0, "math": 2.0})
    for step in range(240):
        context = replace(context_of(walks), settings=mixed if step % 2 else PASS)
        got = select_tasks(of, about, a_request(6), context, named=NamedTasks(), leased=NOBODY)
        assert len(got.walks) == (2 if step % 2 else 1)
        walks = walks.moved(got.walks)
        met.update(got.tasks.tolist())
    assert len(walks.walks) == len({walk.part for walk in walks.walks}) == 3
    only_math = np.setdiff1d(about.tags["math"], about.tags["code"])  # a task with both counts for code
    assert {walk.size for walk in walks.walks} == {90, len(about.tags["code"]), len(only_math)}
    assert set(met) == set(range(90))


def test_tasks_in_flight_are_passed_over_and_the_rest_is_decided_as_before():
    about, of = made_up(60)
    first = select_tasks(of, about, a_request(8), context_of(), named=NamedTasks(), leased=NOBODY)
    second = select_tasks(of, about, a_request(8), context_of(), named=NamedTasks(), leased=first.tasks)
    together = select_tasks(of, about, a_request(16), context_of(), named=NamedTasks(), leased=NOBODY)
    assert first.tasks.tolist() + second.tasks.tolist() == together.tasks.tolist()
    assert second.walks == together.walks


def test_where_too_few_are_free_those_in_flight_are_ranked_and_no_walk_moves():
    about, of = made_up(20)
    got = select_tasks(of, about, a_request(6), context_of(), named=NamedTasks(tasks(0)), leased=tasks(*range(1, 20)))
    assert got.reused == 6
    assert 0 not in got.tasks
    assert got.walks == ()


def test_appended_tasks_join_with_the_next_pass_and_retired_ones_are_passed_over():
    about, of = made_up(40)
    [_, (gone, walk)] = selections(about, of, 3, 2)
    larger, of_larger = made_up(50)
    larger = replace(larger, retired=tasks(*sorted(gone)))
    met = list(selections(larger, of_larger, 3, 300, Walks(0, (walk,))))
    in_first = {task for chosen, end in met if end.turn == 0 for task in chosen}
    later = {task for chosen, end in met if end.turn > 0 for task in chosen}
    assert in_first
    assert in_first <= set(range(40)) - set(gone)
    assert later == set(range(50)) - set(gone)


def test_a_large_pool_is_hardly_looked_at():
    size = 200_000
    about = Pool.of_tasks(np.linspace(0, 1, size)[:, None])
    of = belief([1.0], [1.0])

    looked = list[int]()

    def believed(_pool, asked):
        looked.append(len(asked))
        return of.shared.at(np.zeros(len(asked), np.int64))

    listening = cast(Any, Listening(of.shared, of.own_tasks, of.own, believed))
    got = walk_pass(Eligible(about, listening, about.part(), NOBODY), 32, context_of())
    assert len(got.tasks) == 32
    assert sum(looked) <= 4 * 32
