"""The choice of last resort."""

from hypothesis import given
from hypothesis import strategies as st

from bots_client._resilience.local_run import LocalPool

POOLS = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=12, unique=True)


@given(POOLS, st.integers(0, 30), st.data())
def test_a_choice_repeats_nothing_while_others_are_left_and_keeps_out_what_is_not_wanted(ids, count, data):
    unwanted = data.draw(st.lists(st.sampled_from(ids), unique=True))
    wanted = set(ids) - set(unwanted) or set(ids)

    chosen = LocalPool(ids, "seed").choose(count, unwanted)

    assert len(chosen) == count
    assert set(chosen) <= wanted
    assert len(set(chosen)) == min(count, len(wanted))


@given(POOLS, st.integers(1, 5))
def test_choices_go_on_through_the_pool_without_repeating(ids, count):
    pool = LocalPool(ids, "seed")

    chosen = [task for _ in range(len(ids) // count) for task in pool.choose(count)]

    assert len(set(chosen)) == len(chosen)
