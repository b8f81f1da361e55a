"""The draw by profiles has the distribution of the draw of every task, whatever the windows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import draw as drawing
from bots_service.core.draw import draw_nearest, nearest
from tests.core.like_dense import always_windows, assert_draws_like_dense
from tests.core.pools import assert_same_values, betas, normals

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
    reach, low, share = drawing._window(betas([1e-3], [1e-3]), np.array([10**6]), 5, 0.0, 1.0)
    assert 0 < reach <= 1
    assert 0 <= low[0] <= low[0] + share[0] <= 1


def test_redrawing_gives_up_where_nothing_lies_outside_the_window():
    assert len(drawing._outside(betas([2.0], [2.0]), 0.5, 0.9, np.random.default_rng(0))) == 1


def test_which_of_equals_is_nearest_is_left_to_chance():
    rng = np.random.default_rng(3)
    chosen = [nearest(np.array([0.5, 0.1, 0.5, 0.5]), 2, rng) for _ in range(300)]
    assert all(first == 1 for first, _ in chosen)
    assert {int(second) for _, second in chosen} == {0, 2, 3}
    assert nearest(np.array([0.3, 0.2]), 5, rng).tolist() == [1, 0]
