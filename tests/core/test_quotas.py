"""Quotas as numbers of tasks, and as shares of a selection."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bots_service.core.draw.selection import fit, in_tasks

SHARES = st.lists(st.floats(1e-6, 1.0), max_size=5)
SELECTIONS = 20_000


def drawn(quotas, count, seed=0):
    return in_tasks(quotas, count, np.random.default_rng(seed))


def named(shares):
    return {f"tag-{place}": share for place, share in enumerate(shares)}


@given(SHARES, st.integers(0, 40), st.integers(1, 10_000), st.integers(0, 99))
def test_a_share_becomes_the_number_below_or_above_it_and_all_fit(shares, number, count, seed):
    quotas = {"number": number, **named(shares)}
    assume(fit(quotas, count))

    tasks = drawn(quotas, count, seed)

    assert list(tasks) == list(quotas)
    assert tasks["number"] == number
    assert sum(tasks.values()) <= count
    for tag, share in named(shares).items():
        assert math.floor(share * count - 0.02) <= tasks[tag] <= math.ceil(share * count + 1e-9)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8), st.integers(1, 1000), st.integers(0, 99))
def test_shares_of_a_whole_leave_nothing_over(parts, count, seed):
    whole = math.fsum(parts)

    assert sum(drawn(named([part / whole for part in parts]), count, seed).values()) == count


@pytest.mark.no_cover
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_tag_gets_its_share_of_many_selections_however_small_they_are(count):
    shares = {"even": 0.75, "odd": 0.2}
    rng = np.random.default_rng(0)
    got = [in_tasks(shares, count, rng) for _ in range(SELECTIONS)]

    for tag, share in shares.items():
        mean = sum(tasks[tag] for tasks in got) / SELECTIONS
        assert mean == pytest.approx(share * count, abs=5 * 0.5 / math.sqrt(SELECTIONS))  # 5 sigma of a coin


def test_shares_that_come_out_whole_are_what_they_say():
    assert [drawn({"a": 0.29, "b": 0.71}, 100, seed) for seed in range(50)] == [{"a": 29, "b": 71}] * 50
    assert drawn({"a": 8, "b": 0.5}, 16) == {"a": 8, "b": 8}


def test_numbers_alone_draw_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state

    assert in_tasks({"a": 3, "b": 1}, 8, rng) == {"a": 3, "b": 1}
    assert rng.bit_generator.state == before


@pytest.mark.parametrize(
    ("quotas", "is_possible"),
    [
        ({"a": 0.5, "b": 0.5}, True),
        ({"a": 1 / 3 + 1e-8, "b": 1 / 3, "c": 1 / 3}, True),
        ({"a": 0.6, "b": 0.5}, False),
        ({"a": 4, "b": 0.6}, True),
        ({"a": 5, "b": 0.6}, False),
    ],
)
def test_quotas_fit_if_they_ask_for_no_more_than_there_is(quotas, is_possible):
    assert fit(quotas, 10) is is_possible
