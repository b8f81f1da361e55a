"""The choice of last resort."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from bots_client._resilience.uniform import Deck, LocalPool

POOLS = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=12, unique=True)


def test_every_order_of_a_deck_is_as_likely_as_any_other():
    decks = [Deck(3, f"{seed}") for seed in range(6000)]
    orders = [(deck.deal(), deck.deal(), deck.deal()) for deck in decks]

    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    # chi squared with 5 degrees of freedom passes 20.5 once in a thousand times; the seeds are fixed
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 20.5


def test_dealing_a_few_of_a_million_remembers_a_few():
    tracemalloc.start()
    try:
        deck = Deck(1_000_000, "seed")
        dealt = [deck.deal() for _ in range(100)]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(set(dealt)) == 100
    assert peak_bytes < 1_000_000, "less than a byte for each of the million"


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
