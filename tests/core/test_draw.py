"""A selection keeps every promise of its request, and Thompson's is the dense draw."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core import draw as drawing
from bots_service.core.draw import (
    DrawContext,
    Eligible,
    NamedTasks,
    SelectRequest,
    draw_nearest,
    enough_tasks,
    nearest,
    pick_members,
    select_tasks,
    uniform,
)
from bots_service.core.run_settings import RunSettings
from bots_service.errors import PoolTooSmallError
from bots_service.selections import context_of as selecting
from tests.core.journals import replay, report_of
from tests.core.pools import (
    a_request,
    assert_same_shares,
    assert_same_values,
    belief,
    beliefs,
    betas,
    candidates,
    context_of,
    dense_thompson,
    joined,
    normal_beliefs,
    normals,
    pool,
    pools,
    requests,
    some_settings,
    some_tasks,
    tasks,
)
from tests.sizes import examples, size

REPEATS = size(300, 600)


def always_windows(monkeypatch):
    for name, value in {"WINDOW_MEMBERS": 1, "WINDOW_TASKS": 0, "WINDOW_SHARE": 1.0, "PLAIN_SHARE": 1.0}.items():
        monkeypatch.setattr(drawing, name, value)


def dense(alone, shared, sizes, count, target, rng):
    if target > 0.5:  # doubles are too coarse near 1 to tell a heap's members apart
        values, owners = dense(alone.mirrored(), shared.mirrored(), sizes, count, 1 - target, rng)
        return 1 - values, owners
    owners = rng.permutation(np.repeat(np.arange(len(sizes) + len(alone)), [*sizes, *[1] * len(alone)]))
    values = joined(shared, alone).at(owners).sample(rng)
    first = np.argsort(np.maximum(np.abs(values - target), 1e-300), kind="stable")[:count]
    return values[first], owners[first]


def samples(draw, target, seed):
    """Independent numbers, REPEATS of each: a random chosen owner, the nearest's, the first and last distance."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(REPEATS):
        values, owners = draw(rng)
        distances = np.abs(values - target)
        rows.append((rng.choice(owners), owners[0], distances[0], distances[-1], rng.choice(values)))
    return [np.array(column) for column in zip(*rows, strict=True)]


def assert_draws_like_dense(scenario, seed):
    alone, shared, sizes, count, target = scenario
    sizes = np.array(sizes)
    # Owners of one belief are exchangeable: where there are many, only their sums are often enough for a test.
    believed = joined(shared, alone)
    kind = np.unique(np.stack([believed.mean, *believed.interval()]), axis=1, return_inverse=True)[1]

    def by_profiles(rng):
        drawn = draw_nearest(alone, shared, sizes, count=count, target=target, rng=rng)
        assert len(drawn.values) == count
        assert (np.bincount(drawn.owners, minlength=len(sizes))[: len(sizes)] <= sizes).all()
        return drawn.values, drawn.owners

    ours = samples(by_profiles, target, seed)
    theirs = samples(lambda rng: dense(alone, shared, sizes, count, target, rng), target, seed + 1)
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        assert_same_shares(mine, other)
        assert_same_shares(kind[mine], kind[other])
    for mine, other in zip(ours[2:], theirs[2:], strict=True):
        assert_same_values(mine, other)


NONE = tasks()
POOL = pool(
    [0] * 12 + [1] * 14 + [2] * 10,
    tags={"math": [0, 1, 2, 3, 12, 13, 14, 15, 16, 30], "code": [3, 4, 5, 16, 17, 18, 31, 32]},
    retired=[7, 20],
)
TRACKED = replay(
    POOL,
    [report_of((1, 9.0, 9.0), (13, 40.0, 44.0), (14, 3.0, 30.0)), report_of((35, 1.0, 0.0), (1, 2.0, 1.0))],
    RunSettings(belief="tracker"),
).belief
BELIEF = belief([2, 6, 1], [5, 4, 1], own_tasks=[1, 13, 14, 35], alpha=[9, 40, 3, 0.2], beta=[9, 44, 30, 0.1])


def selected(request, leased=NONE, exclude=NONE, first=NONE, about=POOL, of=BELIEF, context=None):
    named, context = NamedTasks(np.unique(exclude), first), context or context_of()
    return select_tasks(of, about, request, context, named=named, leased=leased)


@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_a_selection_keeps_every_promise(data):
    about = data.draw(pools())
    request, run = data.draw(requests(about)), data.draw(some_settings())
    leased, exclude = data.draw(some_tasks(about)), data.draw(some_tasks(about))
    of = data.draw(beliefs(about) | normal_beliefs(about))
    allowed = candidates(about, request.tags, barred=exclude)
    context = DrawContext(run, np.random.default_rng(0))
    try:
        got = selected(request, leased, exclude, about=about, of=of, context=context)
    except PoolTooSmallError:
        assert len(allowed) < request.count
        return
    assert len(allowed) >= request.count
    chosen = got.tasks.tolist()
    assert len(set(chosen)) == len(got.draws) == request.count
    assert set(chosen) <= set(allowed)
    assert got.reused == len(set(chosen) & set(leased.tolist()))
    free = len(set(allowed) - set(leased.tolist()))
    assert got.reused == max(0, request.count - free)
    assert (~np.isnan(got.draws)).sum() == (request.count if run.strategy == "thompson" else 0)


def dense_selection(of, request, leased, exclude, target, rng):
    """A draw of every free task, and one of those in flight where too few are free."""
    among = candidates(POOL, request.tags, barred={*exclude.tolist(), *leased.tolist()})
    chosen, draws = dense_thompson(of, POOL, among, min(request.count, len(among)), target, rng)
    busy = [task for task in candidates(POOL, request.tags, barred=exclude) if task in leased]
    more, others = dense_thompson(of, POOL, busy, request.count - len(chosen), target, rng)
    return [*chosen.tolist(), *more.tolist()], [*draws.tolist(), *others.tolist()]


SELECTIONS = size(300, 700)
BELIEFS = {"betas": BELIEF, "normals": TRACKED}
# Which belief, what is asked for, the target, what is excluded, what is in flight, and whether windows are drawn.
COMPARED = {
    "tag": ("betas", a_request(5, tags=("math",)), 0.7, NONE, tasks(12, 1), True),
    "excluded": ("betas", a_request(6), 0.5, tasks(31, 0), tasks(14, 4), False),
    "reused": ("betas", a_request(4, tags=("code",)), 0.5, NONE, tasks(3, 4, 5, 16, 17, 18), True),
    "low target": ("normals", a_request(6), 0.1, tasks(31, 0), tasks(14, 4), True),
    "target one": ("normals", a_request(5, tags=("code",)), 1.0, tasks(31), tasks(14, 4), True),
    "each drawn": ("normals", a_request(6), 0.5, tasks(31, 0), tasks(14, 4), False),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("case", COMPARED)
def test_thompson_selects_like_one_draw_per_task(case, monkeypatch):
    kind, request, target, exclude, leased, windowed = COMPARED[case]
    if windowed:
        always_windows(monkeypatch)
    of, rng, rows = BELIEFS[kind], np.random.default_rng(17), []
    for _ in range(SELECTIONS):
        ours = selected(request, leased, exclude, of=of, context=context_of(rng, target=target))
        theirs, values = dense_selection(of, request, leased, exclude, target, rng)
        place = rng.integers(request.count)
        rows.append((ours.tasks[place], theirs[place], ours.draws[place], values[place]))
    our_tasks, their_tasks, our_draws, their_draws = (np.array(column) for column in zip(*rows, strict=True))
    assert_same_shares(our_tasks, their_tasks)
    assert_same_values(our_draws, their_draws)


def test_leased_tasks_come_only_when_the_others_are_used_up():
    leased = tasks(*range(30))
    got = selected(a_request(8), leased)
    assert got.reused == 2
    assert set(got.tasks[:6].tolist()) == {30, 31, 32, 33, 34, 35}
    assert set(got.tasks[6:].tolist()) <= set(range(30))
    everything = selected(a_request(3), tasks(*range(36)))
    assert everything.reused == 3
    assert not np.isnan(everything.draws).any()


def test_a_pool_that_is_too_small_is_refused_with_the_numbers():
    with pytest.raises(PoolTooSmallError, match=r"requested 35 tasks; 34 are available\. Request fewer"):
        selected(a_request(35))
    with pytest.raises(PoolTooSmallError, match=r"9 tasks tagged math; 8 are available \(2 of 10 are excluded"):
        selected(a_request(9, tags=("math",)), exclude=tasks(0, 1))


def test_unknown_tags_are_our_own_mistake():
    with pytest.raises(ValueError, match="no task is tagged \\['law'\\]"):
        selected(a_request(1, tags=("law", "math")))


def test_tasks_wanted_first_lead_even_if_in_flight_and_the_rest_is_chosen_as_ever():
    first = tasks(30, 5, 17)
    got = selected(a_request(6), first=first, leased=tasks(17, 2))

    assert got.tasks[:3].tolist() == [30, 5, 17]
    assert np.isnan(got.draws[:3]).all()
    assert not np.isnan(got.draws[3:]).any()
    assert got.reused == 1
    assert len(set(got.tasks.tolist())) == 6
    assert 2 not in got.tasks


def test_of_tasks_wanted_first_those_that_may_not_be_chosen_are_passed_over():
    first = tasks(7, 3, 9, 16, 30)  # 7 is retired, 3 excluded, 9 has no such tag
    got = selected(a_request(4, tags=("math",)), first=first, exclude=tasks(3))

    assert got.tasks[:2].tolist() == [16, 30]
    assert selected(a_request(2), first=tasks(31, 5, 17)).tasks.tolist() == [31, 5]


# --- each strategy against a slow obvious version of itself ----------------------------------------------------------


def offered(beliefs_of, about, barred=()):
    part = about.part()
    return Eligible(about, beliefs_of, part, part.keep(np.unique(tasks(*barred))))


# Profile means 1/3, 1/2, 1/2, 9/10; tasks 2 and 9 have evidence of their own.
SMALL_POOL = pool([0, 0, 0, 1, 1, 2, 2, 3, 3, 3], retired=[8])
SMALL_BELIEF = belief([1, 2, 3, 9], [2, 2, 3, 1], own_tasks=[2, 9], alpha=[1, 4], beta=[9, 6])
OFFERED = offered(SMALL_BELIEF, SMALL_POOL, barred=[3])


def test_uniform_takes_every_pair_equally_often():
    rng = np.random.default_rng(8)
    pairs = {pair: place for place, pair in enumerate(itertools.combinations([0, 1, 2, 4, 5, 6, 7, 9], 2))}
    drawn = [pairs[tuple(sorted(uniform(OFFERED, 2, context_of(rng)).tasks.tolist()))] for _ in range(2800)]
    assert_same_shares(np.array(drawn), np.arange(2800) % 28)


TRAINED_LESS = pool([0, 1, 2] * 4)


def passes(strategy, counts, *, about=TRAINED_LESS, **settings):
    """Select and report at once, step by step, without a selection's id."""
    state = replay(about, [], RunSettings(strategy=strategy, **settings))
    for count in counts:
        got = selected(
            a_request(count), about=about, of=state.belief, context=selecting(state, np.random.default_rng(0))
        )
        yield got.tasks.tolist()
        state = replay(about, [report_of(*((task, 1.0, 1.0) for task in got.tasks.tolist()))], state.settings, state)


@pytest.mark.parametrize("strategy", ["shuffle", "easy_to_hard"])
def test_a_baseline_meets_every_task_once_a_pass_whatever_is_retired_on_the_way(strategy):
    met = list(itertools.chain.from_iterable(passes(strategy, [5] * 12)))
    for begin in range(0, 60, 12):
        assert sorted(met[begin : begin + 12]) == list(range(12))
    assert (met[:12] == met[12:24]) == (strategy == "easy_to_hard")
    few = replace(TRAINED_LESS, retired=tasks(0, 3, 7))
    assert sorted(itertools.chain.from_iterable(passes(strategy, [3] * 3, about=few))) == [1, 2, 4, 5, 6, 8, 9, 10, 11]


def test_a_shuffle_is_fixed_by_its_seed():
    orders = [list(passes("shuffle", [12], seed=seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@given(pools())
def test_easy_to_hard_falls_in_pass_rates_with_the_unknown_last(about):
    def ease(task):
        rates = about.references[about.profile_of[task]].tolist()
        return (np.isnan(rates).any(), [-rate for rate in rates if not np.isnan(rate)], task)

    assert about.ease.argsort().tolist() == sorted(range(len(about)), key=ease)


@pytest.mark.parametrize("rounds", [0, 1, 16])
def test_members_are_picked_evenly_and_never_twice(rounds, monkeypatch):
    monkeypatch.setattr(drawing, "ROUNDS", rounds)
    rng = np.random.default_rng(2)
    order, starts, taken = tasks(5, 0, 3, 1, 2, 4, 6, 7), np.array([0, 3, 8]), (tasks(2), tasks(0, 7))
    picked = np.array([pick_members(order, starts, np.array([1, 0, 1]), taken, rng) for _ in range(1500)])
    assert (picked[:, 0] != picked[:, 2]).all()
    for place, free in enumerate([[1, 4, 6], [3, 5], [1, 4, 6]]):
        assert_same_shares(picked[:, place], np.resize(free, 1500))


# --- how many tasks are enough for so many effective groups ----------------------------------------------------------

CHANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300)


@given(CHANCES, st.integers(1, 40))
def test_no_fewer_tasks_are_enough_and_no_more_are_taken(chances, wanted):
    asked = []

    def expected(count):
        asked.append(count)
        return float(np.sum(chances[:count]))

    found = enough_tasks(expected, wanted, len(chances))
    enough = [count for count in range(1, len(chances)) if expected(count) >= wanted]
    asked = asked[: len(asked) - len(chances) + 1]
    assert found == (min(enough) if enough else len(chances))
    assert len(asked) <= 16
    assert all(1 <= count <= len(chances) for count in asked)


def test_of_tasks_that_all_teach_equally_few_are_looked_at():
    asked = []

    def expected(count):
        asked.append(count)
        return 0.4 * count

    assert enough_tasks(expected, 32, 256) == 80
    assert len(asked) <= 4


def test_a_wish_for_effective_groups_has_no_count():
    with pytest.raises(ValueError, match="without a count"):
        _ = SelectRequest("guru", want_effective=3).task_count


# --- the draw by profiles has the distribution of the draw of every task, whatever the windows -----------------------

NOBODY, SEVERAL = betas([], []), betas([2.0, 8.0, 1.0, 0.6], [5.0, 3.0, 1.0, 0.4])
NO_NORMALS, NORMALS = normals([], []), normals([-1.2, 1.0, 0.0, 3.0], [0.5, 2.0, 4.0, 16.0])

# Beliefs alone, beliefs of profiles, their sizes, count, target.
SCENARIOS = {
    "fresh": (NOBODY, SEVERAL, [40, 60, 50, 30], 6, 0.5),
    "some alone": (betas([3.0, 300.0, 2.0], [3.0, 310.0, 9.0]), SEVERAL, [40, 0, 50, 1], 6, 0.3),
    "most alone": (betas([3.0] * 30, [4.0] * 30), SEVERAL, [9, 3, 2, 5], 8, 0.6),
    "nearly all": (NOBODY, SEVERAL, [4, 3, 5, 2], 12, 0.5),
    "all but the target": (NOBODY, betas([1e5, 40.0], [1.0, 1.0]), [50, 50], 5, 0.5),
    "sharp": (NOBODY, betas([1e7, 1.001e7, 5e6], [1e7, 1e7, 5e6]), [30, 30, 20], 5, 0.5),
    "far tails": (NOBODY, betas([5e3, 1e7, 1e7], [1e7, 5e3, 1.0]), [30, 30, 30], 5, 0.4),
    "target zero": (NOBODY, SEVERAL, [40, 60, 50, 30], 6, 0.0),
    "target one": (NOBODY, SEVERAL, [40, 60, 50, 30], 6, 1.0),
    "heaps at zero": (betas([1e-3], [1.0]), betas([1e-3, 0.05, 2.0], [1e-3, 3.0, 2.0]), [10, 30, 20], 6, 0.0),
    "heaps at one": (NOBODY, betas([1e-3, 3.0, 1e7], [1e-3, 0.05, 1e-3]), [10, 30, 5], 6, 1.0),
    "heaps far away": (NOBODY, betas([1e-3, 1e-2], [1e-3, 1e-2]), [30, 40], 6, 0.5),
    "normals": (NO_NORMALS, NORMALS, [40, 60, 50, 30], 6, 0.5),
    "normals, low target": (NO_NORMALS, NORMALS, [40, 60, 50, 30], 6, 0.1),
    "normals, high target": (NO_NORMALS, NORMALS, [40, 60, 50, 30], 6, 0.9),
    "normals, target zero": (NO_NORMALS, NORMALS, [40, 60, 50, 30], 6, 0.0),
    "normals, target one": (NO_NORMALS, NORMALS, [40, 60, 50, 30], 6, 1.0),
    "some normals alone": (normals([0.1, -0.2, 4.0], [0.01, 1.0, 9.0]), NORMALS, [40, 0, 50, 1], 6, 0.4),
    "most normals alone": (normals([-0.3] * 30, [0.8] * 30), NORMALS, [9, 3, 2, 5], 8, 0.6),
    "nearly all normals": (NO_NORMALS, NORMALS, [4, 3, 5, 2], 12, 0.5),
    "sharp normals": (NO_NORMALS, normals([0.0, 2e-3, 0.0], [1e-6, 1e-6, 4e-6]), [30, 30, 20], 5, 0.5),
    "normals far away": (NO_NORMALS, normals([-20.0, -21.0, 19.0], [1.0, 4.0, 0.5]), [30, 30, 30], 5, 0.4),
    "normals without a middle": (NO_NORMALS, normals([0.0, 1.0], [400.0, 900.0]), [60, 60], 6, 0.5),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", SCENARIOS)
def test_windows_draw_like_one_draw_per_task(name, monkeypatch):
    always_windows(monkeypatch)
    if "heaps" in name:  # the smallest doubles, which are no nearer than others
        monkeypatch.setattr(drawing, "PLAIN_SHARE", 1 / 30)
    assert_draws_like_dense(SCENARIOS[name], seed=11)


@pytest.mark.parametrize("plain_share", [0.02, 0.9])
@pytest.mark.parametrize("name", ["some alone", "far tails", "normals, target one"])
def test_a_window_that_holds_too_few_does_not_change_the_draw(name, plain_share, monkeypatch):
    always_windows(monkeypatch)
    monkeypatch.setattr(drawing, "MARGIN", -1.0)
    monkeypatch.setattr(drawing, "SHARE", -1.0)
    monkeypatch.setattr(drawing, "SLACK", 1.2)
    monkeypatch.setattr(drawing, "PLAIN_SHARE", plain_share)
    assert_draws_like_dense(SCENARIOS[name], seed=21)


@pytest.mark.parametrize("name", ["fresh", "normals", "target one"])
def test_drawing_each_is_the_dense_draw(name):
    assert_draws_like_dense(SCENARIOS[name], seed=41)


def test_members_of_a_large_profile_inside_a_narrow_window_are_level():
    shared, sizes = betas([3.0], [4.0]), np.array([10_000_000])
    rng = np.random.default_rng(5)
    values = draw_nearest(NOBODY, shared, sizes, count=4000, target=0.4, rng=rng).values
    reach = np.abs(values - 0.4).max()
    assert reach < 1e-3
    assert_same_values(values[:-1], 0.4 + reach * (2 * rng.random(4000) - 1))


EVIDENCE = st.lists(st.floats(1e-3, 1e7), min_size=3, max_size=3)
ANY_BETAS = st.builds(betas, EVIDENCE, EVIDENCE)
ANY_NORMALS = st.builds(
    normals,
    st.lists(st.floats(-60, 60), min_size=3, max_size=3),
    st.lists(st.floats(1e-9, 1e4), min_size=3, max_size=3),
)


@given(
    ANY_BETAS | ANY_NORMALS,
    st.sampled_from([0.0, 1e-12, 0.2, 0.5, 0.9, 1.0]),
    st.integers(1, 300),
    st.integers(0, 2**32),
)
def test_any_beliefs_give_exactly_the_count(shared, target, count, seed):
    sizes, nobody = np.array([7000, 5, 3000]), shared.at(np.empty(0, int))
    drawn = draw_nearest(nobody, shared, sizes, count=count, target=target, rng=np.random.default_rng(seed))
    assert len(drawn.values) == count
    assert ((drawn.values >= 0) & (drawn.values <= 1)).all()
    assert (np.diff(np.abs(drawn.values - target)) >= -1e-15).all()
    assert (np.bincount(drawn.owners, minlength=3) <= sizes).all()


@pytest.mark.parametrize("tries", [1, 64])
def test_a_window_has_a_width_even_where_it_must_jump_over_a_heap(tries, monkeypatch):
    monkeypatch.setattr(drawing, "TRIES", tries)
    reach, share = drawing._window(betas([1e-3], [1e-3]), np.array([10**6]), 5, 0.0, 1.0)
    assert 0 < reach <= 1
    assert share[0] > 0


def test_where_a_task_stands_on_the_target_the_window_has_no_width():
    drawn = drawing._near(betas([2.0], [2.0]), np.array([4000]), np.array([1e-300]), 1, 0.5, np.random.default_rng(1))
    assert len(drawn.values) == len(drawn.owners) == 0


def test_redrawing_gives_up_where_nothing_lies_outside_the_window():
    assert len(drawing._outside(betas([2.0], [2.0]), 0.5, 0.9, np.random.default_rng(0))) == 1


def test_which_of_equals_is_nearest_is_left_to_chance():
    rng = np.random.default_rng(3)
    chosen = [nearest(np.array([0.5, 0.1, 0.5, 0.5]), 2, rng) for _ in range(300)]
    assert all(first == 1 for first, _ in chosen)
    assert {int(second) for _, second in chosen} == {0, 2, 3}
    assert nearest(np.array([0.3, 0.2]), 5, rng).tolist() == [1, 0]
