"""Cells hold profiles with nearly the same pass rates, and say by how much they differ."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import cells
from bots_service.core.cells import intervals_of
from bots_service.core.pool import Pool
from tests.core.pools import tasks

RATES = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]) | st.just(np.nan)


@pytest.fixture(autouse=True)
def _of_few_profiles(monkeypatch):
    for name in ("FEWEST_PROFILES", "FEWEST_MEMBERS"):
        monkeypatch.setattr(cells, name, 1)


def pool_at_random(size, models, tags=None, seed=1):
    tags = tags or {}
    return Pool.of_tasks(np.random.default_rng(seed).random((size, models)), tags, tuple(tags))


def assert_holds_its_profiles(pool):
    """Each task is in a cell whose middle, with the cell's reach, covers its pass rates and their logits."""
    found = pool.cells
    assert found is not None
    middles = found.middles[found.of_task]
    assert len(np.unique(found.of_task)) == len(found)
    some_task = np.unique(pool.profile_of, return_index=True)[1]
    assert (found.of_task[some_task[found.middles]] == np.arange(len(found))).all()
    rates = np.nan_to_num(pool.references)
    away = np.abs(rates[pool.profile_of] - rates[middles])
    assert (away <= found.reach.T[found.of_task]).all()
    features = pool.features[1 : 1 + pool.models]
    away = np.abs(features[:, pool.profile_of] - features[:, middles])
    assert (away <= found.logit_reach[:, found.of_task] + 1e-12).all()


@given(st.integers(1, 3).flatmap(lambda m: st.lists(st.lists(RATES, min_size=m, max_size=m), min_size=1, max_size=40)))
def test_a_cell_reaches_to_all_of_its_profiles(rows):
    assert_holds_its_profiles(Pool.of_tasks(np.unique(np.array(rows), axis=0)))


@pytest.mark.parametrize("models", [1, 2, 3])
def test_a_cell_is_no_wider_than_an_interval_of_the_grid(models):
    pool = pool_at_random(3000, models)
    assert pool.cells is not None
    assert (pool.cells.reach <= 1 / intervals_of(models, 1)).all()
    assert_holds_its_profiles(pool)


def test_a_middle_is_nearest_to_the_middle_of_its_cell():
    rates = np.array([0.5, 0.501, 0.5004, 0.9, 0.5003])[:, None]  # intervals of 1/2048 begin at 0.5 and 0.50049
    found = Pool.of_tasks(rates).cells
    assert found is not None
    assert found.of_task.tolist() == [0, 1, 0, 2, 0]
    assert found.middles.tolist() == [4, 1, 3]
    assert found.reach[0] == pytest.approx([0.0003, 0, 0])


def test_profiles_that_are_not_known_or_carry_other_tags_have_cells_of_their_own():
    rates = np.full((6, 2), 0.5) + np.arange(6)[:, None] * 1e-6
    rates[4:] = np.nan
    pool = Pool.of_tasks(rates, {"math": tasks(0, 1, 4)}, ("math",))
    assert pool.cells is not None
    of_task = pool.cells.of_task.tolist()
    assert of_task[0] == of_task[1] != of_task[2] == of_task[3]
    assert len({of_task[0], of_task[2], of_task[4], of_task[5]}) == 4
    assert_holds_its_profiles(pool_at_random(300, 2, {"math": tasks(*range(0, 300, 3)), "code": tasks(5, 7, 9)}))


def test_profiles_with_other_predictions_have_cells_of_their_own():
    pool = Pool.of_tasks(np.full((4, 1), 0.5) + np.arange(4)[:, None] * 1e-6)
    pool = pool.with_predictions(("guess",), np.array([[0.5], [np.nan], [0.5], [0.25]]))
    assert pool.cells is not None
    of_task = pool.cells.of_task.tolist()
    assert of_task[0] == of_task[2]
    assert len(set(of_task)) == 3


def test_the_more_kinds_there_are_the_wider_are_cells():
    assert [intervals_of(2, kinds) for kinds in (1, 20, 10_000)] == [45, 10, 2]
    assert [intervals_of(models, 1) for models in (1, 3, 11, 20)] == [2048, 12, 2, 2]


def test_pools_of_few_profiles_or_without_references_have_no_cells(monkeypatch):
    assert pool_at_random(50, 0).cells is None
    monkeypatch.setattr(cells, "FEWEST_MEMBERS", 8)
    assert pool_at_random(50, 2).cells is None
    monkeypatch.setattr(cells, "FEWEST_PROFILES", 51)
    assert pool_at_random(50, 1, seed=2).cells is None


def test_a_part_is_grouped_by_cell():
    pool = replace(pool_at_random(400, 2), retired=tasks(3, 5))
    assert pool.cells is not None
    members = pool.part().by_cell(pool.cells)
    assert sorted(members.order.tolist()) == [task for task in range(400) if task not in (3, 5)]
    assert (np.repeat(np.arange(len(pool.cells)), members.sizes) == pool.cells.of_task[members.order]).all()
    assert pool.part().by_cell(pool.cells) is members
