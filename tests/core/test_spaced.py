"""`spaced` against a slow obvious version of itself, and what it promises over many steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from bots_service.core.attempts import no_attempts
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.spaced import Profiles, SpacedKeys, UntriedAges, spaced
from bots_service.core.permutation import fractions, items_at, keys_of, places_of_pass
from tests.core.journals import evidence_of
from tests.core.pools import (
    LEVEL,
    ArrayBelief,
    belief,
    beliefs,
    betas,
    candidates,
    context_of,
    normal_beliefs,
    normals,
    pool,
    pools,
    reported_steps,
    some_attempts,
    some_tasks,
    tasks,
)


def offered(of, about, barred=(), tags=()):
    part = about.part(tags)
    return Eligible(about, of, part, part.keep(np.unique(tasks(*barred))))


def shares_of(about, part, seed):
    """Of each task of the part, how much of its profile goes before it."""
    keys, found = SpacedKeys.of(seed), {}
    for profile, size in enumerate(part.members.sizes.tolist()):
        (order,), (offset,) = keys_of(tasks(profile), keys.order), fractions(tasks(profile), keys.offset)
        members = part.members.order[part.members.starts[profile] :]
        for place, item in enumerate(items_at(np.arange(places_of_pass(size)), size, int(order))):
            if item < size:
                found[int(members[item])] = (place + offset) / places_of_pass(size)
    assert set(found) == set(candidates(about) if part.included is None else np.flatnonzero(part.included).tolist())
    return found


def dense_spaced(of, about, part, barred, count, context):
    """Look at every task, one by one."""
    keys, shares = SpacedKeys.of(context.settings.seed), shares_of(about, part, context.settings.seed)
    last = dict(zip(context.attempts.whole.tasks.tolist(), context.attempts.whole.last_step.tolist(), strict=True))
    among, scored = tasks(*sorted(set(shares) - set(barred))), []
    variances, lucks = of.distributions(about, among).rollout_variance, fractions(among, keys.task)
    for task, variance, luck in zip(among.tolist(), variances.tolist(), lucks.tolist(), strict=True):
        share = luck if task in of.own_tasks else shares[task]
        age = context.step + len(part) / count * (1 - 0.5 * share)
        if task in last:
            age = context.step - last[task] + 1
        scored.append((-max(4 * variance, 1 / 20) * age, luck, task))
    return [task for _, _, task in sorted(scored)[:count]]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_it_is_the_dense_choice_task_by_task(data):
    about = data.draw(pools())
    of, barred = data.draw(beliefs(about) | normal_beliefs(about)), data.draw(some_tasks(about))
    tags = data.draw(st.sampled_from([(), ("math",), ("math", "code")]))
    among = offered(of, about, barred, tags)
    if not len(among):
        return
    step, attempts = data.draw(some_attempts(about))
    count, seed = data.draw(st.integers(1, len(among))), data.draw(st.integers(0, 5))
    context = context_of(step=step, attempts=attempts, seed=seed)

    chosen = spaced(among, count, context).tasks.tolist()

    assert chosen == dense_spaced(of, about, among.part, barred.tolist(), count, context)


@given(st.data())
def test_no_place_above_the_bound_is_missed(data):
    count = data.draw(st.integers(1, 12))
    several = {"min_size": count, "max_size": count}
    signals = data.draw(st.lists(st.sampled_from([1e-100, 1.0, 0.5]) | st.floats(1e-9, 1.0), **several))
    offsets = data.draw(st.lists(st.floats(0, 1, exclude_max=True), **several))
    places = data.draw(st.lists(st.integers(1, 60), **several))
    profiles = Profiles(np.arange(count), np.array(signals), np.array(offsets), np.array(places))
    ages = UntriedAges(data.draw(st.integers(0, 10**6)), data.draw(st.floats(1, 1e6)))
    looked_at = data.draw(st.integers(1, sum(places) + 1))

    best, bound = profiles.best(looked_at, ages)
    rows, at = best.places_above(bound, ages)

    met = set(zip(best.numbers[rows].tolist(), at.tolist(), strict=True))
    above = {
        (number, place)
        for number in range(count)
        for place in range(places[number])
        if profiles.values(np.array([number]), np.array([place]), ages)[0] > bound
    }
    assert len(met) == len(rows)
    assert above <= met
    # About as many as asked for: at most two more in each profile, and where a profile's values end another begins.
    assert len(met) <= looked_at + 3 * count


LARGE = pool([0] * 1500 + [1] * 500 + [2] * 7, retired=range(0, 1500, 7))
UNEVEN = belief([1, 1, 1], [1, 3, 1], own_tasks=[5, 1700], alpha=[40, 5], beta=[44, 5])
EVEN = belief([1, 1, 1], [1, 1, 1])


@pytest.mark.parametrize("count", [1, 64, 1400])
def test_it_finds_the_best_of_many_behind_those_that_were_reported_steps(count):
    context = context_of(seed=3)
    among = offered(UNEVEN, LARGE, barred=[4, 8, 15])
    early = dense_spaced(UNEVEN, LARGE, among.part, [4, 8, 15], 600, context)
    context = context_of(seed=3, step=2, attempts=reported_steps(early[:400], early[400:]))

    chosen = spaced(among, count, context).tasks.tolist()

    assert chosen == dense_spaced(UNEVEN, LARGE, among.part, [4, 8, 15], count, context)


def test_the_age_of_a_reported_task_counts_from_1_after_its_step():
    about, of = pool([0, 1, 2]), belief([1, 1, 1], [1, 1, 1])
    attempts = reported_steps([0], [1], [2], [1])
    # UntriedAges 4, 1 and 2 after four steps.
    assert spaced(offered(of, about), 3, context_of(step=4, attempts=attempts)).tasks.tolist() == [0, 2, 1]


def test_what_teaches_more_may_be_younger():
    about, of = pool([0, 1]), belief([1, 1], [1, 9])
    ratio = (1 / 6) / (9 / 110)  # of E[p (1 - p)] under Beta(1, 1) and Beta(1, 9)
    assert 2 < ratio < 3
    for age, nearer in ((2, 0), (3, 1)):
        attempts = reported_steps([1], *[[]] * (age - 2), [0])
        assert spaced(offered(of, about), 1, context_of(step=age, attempts=attempts)).tasks.tolist() == [nearer]


def test_profiles_that_teach_the_same_give_tasks_in_proportion_to_their_sizes():
    about = pool([0] * 3000 + [1] * 1000)
    for seed in range(20):
        chosen = spaced(offered(EVEN, about), 40, context_of(seed=seed)).tasks
        # Evenly spread over each profile's order; about 2.5 % of its places hold no task.
        assert abs(np.count_nonzero(chosen < 3000) - 30) <= 5


@pytest.mark.no_cover
def test_each_member_of_a_profile_is_as_likely_to_come_first():
    about = pool([0] * 12)
    first = [int(spaced(offered(EVEN, about), 1, context_of(seed=seed)).tasks[0]) for seed in range(1200)]
    assert chisquare(np.bincount(first, minlength=12)).pvalue > LEVEL


def test_equals_are_ordered_by_the_seed_and_not_by_their_number():
    about, attempts = pool([0] * 12), reported_steps(range(12))
    first = [
        int(spaced(offered(EVEN, about), 1, context_of(seed=seed, step=1, attempts=attempts)).tasks[0])
        for seed in range(1200)
    ]
    assert chisquare(np.bincount(first, minlength=12)).pvalue > LEVEL


def test_among_tasks_that_teach_nothing_the_age_decides():
    nothing = ArrayBelief(normals([800.0], [1e-6]), tasks(), normals([], []))
    assert nothing.shared.rollout_variance.tolist() == [0.0]
    among, attempts = offered(nothing, pool([0] * 40)), reported_steps([7], range(7), range(8, 39))
    chosen = spaced(among, 3, context_of(step=3, attempts=attempts)).tasks.tolist()
    assert chosen[:2] == [39, 7]  # never reported, and reported first
    assert chosen[2] < 7


def visits_of(of, about, count, steps):
    """How often each task is selected at a fixed belief, each step reported at once."""
    attempts, visits = no_attempts(), np.zeros(len(about), int)
    for step in range(steps):
        chosen = spaced(offered(of, about), count, context_of(step=step, attempts=attempts)).tasks
        visits[chosen] += 1
        attempts = attempts.with_step(evidence_of(*((task, 1.0, 1.0) for task in sorted(chosen.tolist()))), step + 1)
    return visits


def test_visits_are_in_proportion_to_what_tasks_teach():
    alphas = [1.0, 2.0, 4.0, 8.0, 20.0]
    about, of = pool([0, 1, 2, 3, 4] * 20), belief(alphas, [1.0] * 5)
    visits = visits_of(of, about, 8, 1500).reshape(20, 5)
    teaches = betas(alphas, [1.0] * 5).rollout_variance
    expected = 8 * 1500 * teaches / teaches.sum() / 20
    # UntriedAges are whole numbers, and the last visits and the next are up to an interval away.
    assert np.abs(visits / expected - 1).max() < 0.15


def test_every_task_comes_once_before_any_comes_often():
    about = pool([0] * 300 + [1] * 100)
    assert (visits_of(EVEN, about, 8, 100) > 0).all()


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others():
    one, again, other = (
        spaced(offered(UNEVEN, LARGE), 64, context_of(rng, seed=seed)).tasks.tolist()
        for rng, seed in ((0, 1), (5, 1), (0, 2))
    )
    assert one == again
    assert len(set(one) & set(other)) < 40
