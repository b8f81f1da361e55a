"""A selection keeps every promise of its request, and Thompson's is the dense draw."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.draw.context import DrawContext
from bots_service.core.draw.selection import NamedTasks, select_tasks, tag_quotas
from bots_service.core.run_settings import RunSettings, StrategyName
from bots_service.errors import PoolTooSmallError
from tests.core.journals import replay, report_of
from tests.core.like_dense import always_windows
from tests.core.pools import (
    a_request,
    assert_same_shares,
    assert_same_values,
    belief,
    beliefs,
    candidates,
    context_of,
    dense_thompson,
    normal_beliefs,
    pool,
    pools,
    requests,
    some_attempts,
    some_settings,
    some_tasks,
    tasks,
)
from tests.sizes import examples, size

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


def selected(request, leased=NONE, exclude=NONE, first=NONE, about=POOL, of=BELIEF, context=None, repeatable=False):
    named, context = NamedTasks(np.unique(exclude), first), context or context_of()
    return select_tasks(of, about, request, context, named=named, leased=leased, repeatable=repeatable)


def is_inside(of, about, task, request):
    """Whether a task lies within the request's bounds, asked of the belief for this task alone."""
    return request.min_mean <= float(of.distributions(about, tasks(task)).mean[0]) <= request.max_mean


@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_a_selection_keeps_every_promise(data):
    about = data.draw(pools())
    request, run = data.draw(requests(about)), data.draw(some_settings())
    leased, exclude = data.draw(some_tasks(about)), data.draw(some_tasks(about))
    of = data.draw(beliefs(about) | normal_beliefs(about))
    allowed = candidates(about, request.tags, barred=exclude)
    step, attempts = data.draw(some_attempts(about))
    context = DrawContext(run, data.draw(st.integers(0, 99)), np.random.default_rng(0), step=step, attempts=attempts)
    try:
        got = selected(request, leased, exclude, about=about, of=of, context=context)
    except PoolTooSmallError:
        assert len(allowed) < request.count or any(request.quotas.values())
        return
    assert len(allowed) >= request.count
    chosen = got.tasks.tolist()
    assert len(set(chosen)) == len(got.draws) == request.count
    assert set(chosen) <= set(allowed)
    assert got.reused == len(set(chosen) & set(leased.tolist()))
    assert all(len(set(chosen) & set(about.tags[tag].tolist())) >= quota for tag, quota in request.quotas.items())
    if not any(request.quotas.values()):
        free = len(set(allowed) - set(leased.tolist()))
        assert got.reused == max(0, request.count - free)
    if not any(request.quotas.values()):
        inside = {task for task in set(allowed) - set(leased.tolist()) if is_inside(of, about, task, request)}
        assert len(set(chosen) & inside) == min(len(inside), request.count)
    drawn = int((~np.isnan(got.draws)).sum())
    by_chance = round(request.count * request.uniform_share)
    expected = request.count - by_chance if run.strategy == "thompson" else 0
    assert drawn >= expected if got.reused else drawn == expected


@settings(deadline=None, max_examples=examples(40))
@given(st.data())
def test_the_same_seed_gives_the_same_selection(data):
    about = data.draw(pools())
    of, leased = data.draw(beliefs(about) | normal_beliefs(about)), data.draw(some_tasks(about))
    request, run = data.draw(requests(about)), data.draw(some_settings())
    history = data.draw(some_attempts(about))

    def again():
        context = replace(DrawContext(run, 0, np.random.default_rng(0)), step=history[0], attempts=history[1])
        return selected(request, leased, about=about, of=of, context=context)

    try:
        one = again()
    except PoolTooSmallError:
        return
    other = again()
    assert one.tasks.tolist() == other.tasks.tolist()
    np.testing.assert_array_equal(one.draws, other.draws)


def dense_selection(of, request, leased, exclude, target, rng):
    """Quota by quota, then the rest, each a draw of every eligible task."""
    chosen: list[int] = []
    draws: list[float] = []
    rest = request.count - sum(request.quotas.values())
    for tag, count in [*request.quotas.items(), (None, rest)]:
        barred = {*exclude.tolist(), *leased.tolist(), *chosen}
        among = candidates(POOL, request.tags, tag, barred)
        got, values = dense_thompson(of, POOL, among, min(count, len(among)), target, rng)
        chosen += got.tolist()
        draws += values.tolist()
        if len(got) < count:
            busy = [task for task in candidates(POOL, request.tags, tag, exclude) if task in leased]
            got, values = dense_thompson(of, POOL, busy, count - len(got), target, rng)
            chosen += got.tolist()
            draws += values.tolist()
    return chosen, draws


SELECTIONS = size(300, 700)
CASES = {
    "all": (a_request(5), 0.5, NONE, NONE),
    "tag": (a_request(5, tags=("math",)), 0.7, NONE, tasks(12, 1)),
    "quotas": (a_request(6, quotas={"math": 3, "code": 2}), 0.5, tasks(31, 0), tasks(14, 4)),
    "reused": (a_request(4, tags=("code",)), 0.5, NONE, tasks(3, 4, 5, 16, 17, 18)),
    "low target": (a_request(6, quotas={"math": 3, "code": 2}), 0.1, tasks(31, 0), tasks(14, 4)),
    "high target": (a_request(5, tags=("math", "code")), 0.9, tasks(13), tasks(12, 1)),
    "target zero": (a_request(5, tags=("math",)), 0.0, NONE, tasks(12, 1)),
    "target one": (a_request(5, quotas={"code": 4}), 1.0, tasks(31), tasks(14, 4)),
}


BELIEFS = {"betas": BELIEF, "normals": TRACKED}
COMPARED = [
    *(("betas", case, windowed) for case in ("all", "tag", "quotas", "reused") for windowed in (True, False)),
    *(("normals", case, True) for case in CASES),
    ("normals", "quotas", False),
]


@pytest.mark.no_cover
@pytest.mark.parametrize(("kind", "case", "windowed"), COMPARED)
def test_thompson_selects_like_one_draw_per_task(kind, case, windowed, monkeypatch):
    if windowed:
        always_windows(monkeypatch)
    of = BELIEFS[kind]
    request, target, exclude, leased = CASES[case]
    rng = np.random.default_rng(17)
    rows = []
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


def test_chance_takes_its_share_of_every_quota():
    request = a_request(10, quotas={"math": 4, "code": 4}, uniform_share=0.5)
    split = tag_quotas({"math": 4, "code": 4}, 10, 0.5)
    assert [(one.tag, one.count, one.uniform_count) for one in split] == [
        ("math", 4, 2),
        ("code", 4, 2),
        (None, 2, 1),
    ]
    drawn = ~np.isnan(selected(request).draws)
    assert drawn.tolist() == [True, True, False, False, True, True, False, False, True, False]


def test_a_pool_that_is_too_small_is_refused_with_the_numbers():
    with pytest.raises(PoolTooSmallError, match=r"requested 35 tasks; 34 are available\. Request fewer"):
        selected(a_request(35))
    with pytest.raises(PoolTooSmallError, match=r"9 tasks tagged math; 8 are available \(2 of 10 are excluded"):
        selected(a_request(9, tags=("math",)), exclude=tasks(0, 1))
    with pytest.raises(PoolTooSmallError, match="9 of them tagged code; 8 tagged code are available"):
        selected(a_request(12, quotas={"code": 9}))


def test_unknown_tags_are_our_own_mistake():
    with pytest.raises(ValueError, match="no task is tagged \\['art', 'law'\\]"):
        selected(a_request(1, tags=("law", "math"), quotas={"art": 1}))


def test_parts_are_kept_and_bounded():
    about = pool([0, 1, 0], tags={"math": [0, 2], "code": [2]})
    assert about.part(("math", "code")) is about.part(("code", "math", "math"))
    assert about.part() is about.part()
    assert about.part((), "code").members.order.tolist() == [2]
    assert about.part(("math",), "code").keep(tasks(0, 2)).tolist() == [2]


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


def test_tasks_wanted_first_count_towards_the_quotas():
    math, code = set(POOL.tags["math"].tolist()), set(POOL.tags["code"].tolist())
    got = selected(a_request(8, quotas={"math": 4, "code": 0.5}), first=tasks(0, 1, 31)).tasks.tolist()

    assert got[:3] == [0, 1, 31]
    assert len(math & set(got[3:5])) == 2
    assert len(code & set(got[5:])) == 3
    crowded = selected(a_request(4, quotas={"code": 3}), first=tasks(0, 1, 2)).tasks.tolist()
    assert crowded[:3] == [0, 1, 2]
    assert crowded[3] in code


@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_tasks_outside_the_bounds_come_once_the_others_are_used_up_and_before_those_in_flight(strategy):
    bounds = {"min_mean": 0.4, "max_mean": 0.55}
    inside = [task for task in candidates(POOL) if is_inside(BELIEF, POOL, task, a_request(1, **bounds))]
    outside = sorted(set(candidates(POOL)) - set(inside))
    assert min(len(inside), len(outside)) > 4
    context, leased = context_of(strategy=strategy), tasks(*inside[:2])
    some = selected(a_request(len(inside) - 2, **bounds), leased=leased, context=context)
    assert sorted(some.tasks.tolist()) == inside[2:]
    more = selected(a_request(len(inside) + 1, **bounds), leased=leased, context=context)
    assert set(inside[2:]) < set(more.tasks.tolist()) <= set(inside[2:]) | set(outside)
    assert (len(set(more.tasks.tolist()) & set(outside)), more.reused) == (3, 0)
    every = selected(a_request(len(candidates(POOL)), **bounds), leased=leased, context=context)
    assert (sorted(every.tasks.tolist()), every.reused) == (candidates(POOL), 2)


def test_bounds_bind_the_uniform_share_and_not_the_tasks_wanted_first():
    request = a_request(6, uniform_share=1.0, max_mean=0.3)
    first = tasks(13)  # with a mean of 40 / 84
    got = selected(request, first=first).tasks.tolist()
    assert got[0] == 13
    assert all(is_inside(BELIEF, POOL, task, request) for task in got[1:])


# --- repeatable tasks ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(50))
@given(st.data(), st.integers(1, 3))
def test_repeatable_tasks_come_again_only_where_there_are_too_few(data, times):
    about = data.draw(pools())
    request, run = data.draw(requests(about)), data.draw(some_settings())
    request = structs.replace(request, count=request.task_count * times, quotas={})
    exclude = data.draw(some_tasks(about))
    of = data.draw(beliefs(about) | normal_beliefs(about))
    allowed = candidates(about, request.tags, barred=exclude)
    if not len(allowed):
        with pytest.raises(PoolTooSmallError):
            selected(request, exclude=exclude, about=about, of=of, repeatable=True)
        return
    got = selected(
        request,
        exclude=exclude,
        about=about,
        of=of,
        context=DrawContext(run, 0, np.random.default_rng(0)),
        repeatable=True,
    )
    counts = np.array([np.count_nonzero(got.tasks == task) for task in allowed])
    assert counts.sum() == len(got.draws) == request.count
    assert counts.max() == 1 or request.count > len(allowed)
    assert run.mix or counts.max() - counts.min() <= 1
    assert got.reused == 0


def test_a_quota_of_repeatable_tasks_may_want_more_than_there_are():
    got = selected(a_request(9, quotas={"code": 8}), exclude=tasks(17, 18, 31, 32), repeatable=True)
    assert np.isin(got.tasks, [3, 4, 5, 16]).sum() >= 8
    plain = selected(a_request(6), context=context_of(3))
    assert selected(a_request(6), context=context_of(3), repeatable=True).tasks.tolist() == plain.tasks.tolist()
