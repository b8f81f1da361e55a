"""A selection keeps every promise of its request, and Thompson's is the dense draw."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.draw import DrawContext, NamedTasks, select_tasks
from bots_service.core.run_settings import RunSettings
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


@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_a_selection_keeps_every_promise(data):
    about = data.draw(pools())
    request, run = data.draw(requests(about)), data.draw(some_settings())
    leased, exclude = data.draw(some_tasks(about)), data.draw(some_tasks(about))
    of = data.draw(beliefs(about) | normal_beliefs(about))
    allowed = candidates(about, request.tags, barred=exclude)
    context = DrawContext(run, data.draw(st.integers(0, 99)), np.random.default_rng(0))
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


@settings(deadline=None, max_examples=examples(40))
@given(st.data())
def test_the_same_seed_gives_the_same_selection(data):
    about = data.draw(pools())
    of, leased = data.draw(beliefs(about) | normal_beliefs(about)), data.draw(some_tasks(about))
    request, run = data.draw(requests(about)), data.draw(some_settings())

    def again():
        context = DrawContext(run, 0, np.random.default_rng(0))
        return selected(request, leased, about=about, of=of, context=context)

    try:
        one = again()
    except PoolTooSmallError:
        return
    other = again()
    assert one.tasks.tolist() == other.tasks.tolist()
    np.testing.assert_array_equal(one.draws, other.draws)


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


# --- repeatable tasks ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(50))
@given(st.data(), st.integers(1, 3))
def test_repeatable_tasks_come_again_only_where_there_are_too_few(data, times):
    about = data.draw(pools())
    request, run = data.draw(requests(about)), data.draw(some_settings())
    request = structs.replace(request, count=request.task_count * times)
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


def test_where_repeatable_tasks_suffice_the_draw_is_that_of_others():
    plain = selected(a_request(6), context=context_of(3))
    assert selected(a_request(6), context=context_of(3), repeatable=True).tasks.tolist() == plain.tasks.tolist()
