"""Where passes stand follows from the journal: reports move them, rewinds take them back."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import SettingsChange
from bots_service.core.evidence import NO_EVIDENCE
from bots_service.core.run_settings import RunSettings
from bots_service.core.walks import (
    MOST_WALKS,
    WHOLE,
    Walk,
    Walks,
    fractions,
    items_at,
    key_of,
    places_of_pass,
    rectangle,
)
from tests import sizes
from tests.core.journals import pool_of, replay, report_of

POOL = pool_of((0.25,), (0.5,), (0.75,))
walk = st.builds(Walk, st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.just(5))


def report_with(*walks, made_at=0):
    return replace(report_of((0, 1.0, 3.0), made_at=made_at), walks=walks)


@given(st.lists(st.lists(walk, max_size=3)))
def test_the_farthest_of_each_part_stays_in_whatever_order_reports_come(reports):
    forwards, backwards = Walks(), Walks()
    for ends in reports:
        forwards = forwards.moved(ends)
    for ends in reversed(reports):
        backwards = backwards.moved(ends)
    farthest: dict[int, Walk] = {}
    for end in (end for ends in reports for end in ends):
        farthest[end.part] = max(farthest.get(end.part, end), end, key=lambda one: (one.turn, one.place))
    assert set(forwards.walks) == set(backwards.walks) == set(farthest.values())


def test_beyond_the_limit_the_walk_that_stood_still_for_longest_is_dropped():
    walks = Walks().moved(Walk(part, 0, 1, 5) for part in range(MOST_WALKS))
    walks = walks.moved([Walk(0, 0, 2, 5), Walk(999, 0, 1, 5)])
    parts = {one.part for one in walks.walks}
    assert len(walks.walks) == MOST_WALKS
    assert parts == {*range(MOST_WALKS), 999} - {1}


def test_a_pass_goes_on_with_the_tasks_that_it_began_with_and_the_next_has_all():
    end = places_of_pass(10)
    assert Walk(0, 2, 5, 10).beginning(12) == Walk(0, 2, 5, 10)
    assert Walk(0, 2, end, 10).beginning(12) == Walk(0, 3, 0, 12)
    assert Walk(0, 2, 0, 10).beginning(12) == Walk(0, 2, 0, 12)
    assert Walk(0, 2, 5, 10).beginning(9) == Walk(0, 3, 0, 9)  # no part gets smaller: nobody selected there
    assert Walks(4).of(7, 12) == Walk(7, 4, 0, 12)


def test_a_report_moves_the_walks_of_its_selection_even_where_all_was_aborted():
    nothing = replace(report_with(Walk(0, 1, 2, 3)), evidence=NO_EVIDENCE)
    state = replay(POOL, [report_with(Walk(0, 0, 2, 3)), nothing], RunSettings())
    assert state.walks.walks == (Walk(0, 1, 2, 3),)


def test_a_report_of_tasks_that_were_not_selected_here_begins_passes_that_nobody_walked():
    state = replay(POOL, [report_with(Walk(0, 4, 2, 3)), report_of((1, 1.0, 3.0))], RunSettings())
    assert state.walks == Walks(5, finished=4)
    late = replay(POOL, [report_with(Walk(0, 4, 3, 3))], RunSettings(), state)  # selected before
    assert late.walks == Walks(5, finished=4)
    assert replay(POOL, [report_of(close=True)], RunSettings(), late).walks == Walks(5, finished=4)  # it only closes


def test_only_passes_that_reached_their_end_count_as_done():
    end = places_of_pass(3)
    unselected = report_of((1, 1.0, 3.0))
    state = replay(POOL, [unselected, unselected], RunSettings())
    assert state.walks.passes(3) == 0.0
    state = replay(POOL, [report_with(Walk(0, 2, 1, 3)), report_with(Walk(0, 2, 2, 3))], RunSettings(), state)
    assert (state.walks.passes(3), state.walks.first_turn) == (2 / end, 2)
    state = replay(POOL, [report_with(Walk(0, 3, 1, 3)), unselected], RunSettings(), state)
    assert state.walks.passes(3) == 1.0  # the second pass was given up
    state = replay(POOL, [report_with(Walk(0, 4, end, 3)), unselected], RunSettings(), state)
    assert state.walks.passes(3) == 2.0
    assert decode_state(encode_state(state)).walks == state.walks == Walks(5, (), 2)


def test_another_seed_begins_other_passes_and_other_settings_do_not():
    begun = [report_with(Walk(0, 4, 2, 3))]
    assert replay(POOL, [*begun, SettingsChange({"seed": 5})], RunSettings()).walks == Walks(5, finished=4)
    assert (
        replay(POOL, [*begun, SettingsChange({"seed": 0, "target": 0.4})], RunSettings()).walks.walks == begun[0].walks
    )


def test_the_pass_that_is_shown_is_that_of_the_part_that_was_walked_last():
    whole, part = Walk(WHOLE, 3, 10, 40), Walk(7, 2, 5, 20)
    walks = Walks().moved([whole]).moved([part])
    assert walks.passes(40) == 2 + 5 / places_of_pass(20)
    assert walks.moved([Walk(WHOLE, 3, 12, 40)]).passes(40) == 3 + 12 / places_of_pass(40)
    assert walks.restarted().passes(40) == 2.0


# --- keyed permutations and hashes: each item once, every order as likely as any other, anywhere at once -------------

ORDERS = sizes.size(1500, 4000)


@given(st.integers(0, 3000), st.integers(0, 2**64 - 1))
def test_each_item_stands_at_one_place(size: int, key: int) -> None:
    numbers = items_at(np.arange(places_of_pass(size)), size, key)

    assert sorted(numbers.tolist()) == list(range(places_of_pass(size)))


@given(st.integers(1, 2**31 - 1))
def test_an_order_has_few_places_without_an_item(size: int) -> None:
    rows, columns = rectangle(size)

    assert size <= rows * columns <= size + 2 * size**0.5
    assert 0 <= rows - columns <= 1


@pytest.mark.no_cover
@pytest.mark.parametrize("size", [2, 5, 12])
def test_every_order_is_as_likely_as_any_other(size: int) -> None:
    places = np.arange(places_of_pass(size))
    ends = np.zeros((size, size))
    for number in range(ORDERS):
        order = items_at(places, size, key_of("order", size, number))
        order = order[order < size]
        ends[order[0], order[-1]] += 1

    apart = ~np.eye(size, dtype=bool)
    assert ends[~apart].sum() == 0
    assert chisquare(ends[apart]).pvalue > 1e-3


def test_orders_of_two_keys_have_nothing_in_common() -> None:
    size = 10_000
    one, other = (items_at(np.arange(size), size, key_of("seed", seed)) for seed in (1, 2))

    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / size**0.5
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 4 / size**0.5


def test_fractions_are_uniform_and_those_of_two_keys_independent() -> None:
    items = np.arange(20_000)
    one, other = fractions(items, key_of("u", 1)), fractions(items, key_of("u", 2))

    assert kstest(one, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / len(items) ** 0.5
    assert 0.0 <= one.min() < one.max() < 1.0
    assert fractions(items[500:501], key_of("u", 1))[0] == one[500]


def test_keys_tell_words_and_numbers_apart() -> None:
    keys = {key_of(*parts) for parts in [(1, 2), (12,), (1, "2", ""), ("", 1, 2), (2, 1), ()]}

    assert len(keys) == 6
    assert all(0 <= key < 2**64 for key in keys)
