"""Forecasts of effective groups learn from how they did, and say with which probability a wish comes true."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.draw.enough import MOST_TIMES, count_flaws, counted, enough_tasks
from bots_service.core.draw.selection import LARGEST_COUNT
from bots_service.core.entries import Entry, Rewind
from bots_service.core.evidence import NO_EVIDENCE
from bots_service.core.forecasts import KEPT, KEPT_ERRORS, LARGEST_GROUP, NO_FORECASTS, Forecasts, Sums
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state
from tests.core.journals import evidence_of, pool_of, replay, report_of
from tests.core.pools import a_request, normals, tasks

SETTLED = Forecasts(
    groups=2e6, expected=1e6, variance=1e5, effective=1e6, surprise=1e6, steps=1e6
)  # calibrated beyond doubt


def with_steps(steps: list[tuple[np.ndarray, int]], believed_p: float = 0.5) -> Forecasts:
    """Forecasts after steps, each with tasks of known success probability, some of whose groups were effective."""
    forecasts = NO_FORECASTS
    for counts, effective in steps:
        logit = float(np.log(believed_p / (1 - believed_p)))
        believed = normals([logit] * len(counts), [1e-12] * len(counts))
        rows = [(task, float(task < effective), float(n) - (task < effective)) for task, n in enumerate(counts)]
        forecasts = forecasts.with_step(believed, evidence_of(*rows))
    return forecasts


def test_one_step_gives_what_can_be_computed_by_hand():
    forecasts = with_steps([(np.full(10, 4), 3)])
    chance, first = 1 - 2 * 0.5**4, NO_FORECASTS
    assert first.spread == 1
    assert forecasts.groups == KEPT * first.groups + 10
    assert forecasts.expected == pytest.approx(KEPT * first.expected + 10 * chance)
    assert forecasts.variance == pytest.approx(KEPT * first.variance + 10 * chance * (1 - chance))
    assert forecasts.effective == pytest.approx(KEPT * first.effective + 3)
    variance = 10 * chance * (1 - chance) + first.doubt * (10 * chance) ** 2
    assert forecasts.surprise == pytest.approx(KEPT_ERRORS * first.surprise + (10 * chance - 3) ** 2 / variance)
    assert forecasts.steps == pytest.approx(KEPT_ERRORS * first.steps + 1)
    again = forecasts.with_step(normals([0.0], [1e-12]), evidence_of((0, 1.0, 3.0)))
    assert again.expected == pytest.approx(KEPT * forecasts.expected + chance)
    assert again.steps == pytest.approx(KEPT_ERRORS * forecasts.steps + 1)


def test_each_task_is_forecast_with_its_own_rollouts():
    forecasts = with_steps([(np.array([2, 9, 1, 4]), 1)])
    before = KEPT * NO_FORECASTS.expected
    assert forecasts.expected - before == pytest.approx(sum(1 - 2 * 0.5**n for n in (2, 9, 1, 4)))
    large = with_steps([(np.array([4096]), 1)], believed_p=0.999)
    assert large.expected - before == pytest.approx(1 - 0.999**LARGEST_GROUP - 0.001**LARGEST_GROUP)


@pytest.mark.parametrize("believed", [0.5, 0.03])
@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.95, 1.0])
def test_chances_become_what_the_steps_show(believed, share):
    forecasts = with_steps([(np.full(200, 12), int(200 * share))] * 30, believed)
    chance = 1 - believed**12 - (1 - believed) ** 12
    assert forecasts.corrected(np.full(200, chance)).mean() == pytest.approx(share, abs=0.01)


def test_errors_larger_than_those_of_independent_groups_make_forecasts_wider():
    calm = with_steps([(np.full(40, 4), 35)] * 80)
    wild = with_steps([(np.full(40, 4), 40), (np.full(40, 4), 22)] * 40)
    assert wild.spread > 4 * calm.spread
    sums = Sums.of(np.full(40, 0.8))
    assert wild.reached(26, sums) < 0.9 < calm.reached(26, sums)


@given(st.integers(1, 400), st.floats(0.02, 0.98), st.integers(1, 200))
def test_calibrated_forecasts_are_those_of_independent_groups(count, chance, wanted):
    exact = binom.sf(wanted - 1, count, chance)
    reached = SETTLED.reached(wanted, Sums.of(np.full(count, chance)))
    variance = count * chance * (1 - chance)
    assert reached == pytest.approx(exact, abs=0.03 if variance > 4 else 0.2)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.data())
def test_corrected_chances_are_chances_in_the_same_order_and_add_up(chances, data):
    believed, groups = np.sort(chances), 1e5 * len(chances)
    seen = data.draw(st.floats(0, 1))
    past = replace(SETTLED, groups=groups, expected=1e5 * float(believed.sum()), effective=seen * groups)
    corrected = past.corrected(believed)
    assert ((corrected >= 0) & (corrected <= 1)).all()
    assert (np.diff(corrected) >= 0).all()
    assert corrected.mean() == pytest.approx(seen, abs=0.01)


@st.composite
def wishes(draw):
    """Chances that do not depend on the count, a number of effective groups, and a probability."""
    some = draw(st.lists(st.floats(0.1, 0.95), min_size=60, max_size=60))
    return np.array(some), draw(st.integers(1, 15)), draw(st.sampled_from([0.5, 0.8, 0.9, 0.99]))


def slowly(chances: np.ndarray, wanted: int, confidence: float, forecasts: Forecasts) -> int:
    """The first count that gives so many with the probability; all where none does."""
    for count in range(1, len(chances)):
        if forecasts.reached(wanted, Sums.of(forecasts.corrected(chances[:count]))) >= confidence:
            return count
    return len(chances)


@given(wishes(), st.sampled_from([SETTLED, NO_FORECASTS]))
def test_it_is_the_first_count_that_is_enough_or_the_one_before(wish, forecasts):
    chances, wanted, confidence = wish
    slow = slowly(chances, wanted, confidence, forecasts)

    def asked(luck: float) -> int:
        return enough_tasks(
            lambda count: chances[:count], wanted, confidence=confidence, forecasts=forecasts, limit=60, luck=luck
        )

    assert asked(0.0) == slow
    assert asked(1 - 1e-9) in (slow - 1, slow)


def test_the_probability_is_exact_on_average():
    chances = np.full(40, 0.7)
    lucks = (np.arange(1000) + 0.5) / 1000
    counts = [
        enough_tasks(lambda count: chances[:count], 8, confidence=0.9, forecasts=SETTLED, limit=40, luck=luck)
        for luck in lucks.tolist()
    ]
    assert len(set(counts)) == 2
    assert np.mean([SETTLED.reached(8, Sums.of(chances[:count])) for count in counts]) == pytest.approx(0.9, abs=1e-3)


@pytest.mark.parametrize("wanted", [1, 10, 1000])
def test_where_no_count_is_enough_it_is_the_limit(wanted):
    asked: list[int] = []

    def hopeless(count: int) -> np.ndarray:
        asked.append(count)
        return np.zeros(count)

    limit = 4 * wanted
    assert enough_tasks(hopeless, wanted, confidence=0.9, forecasts=SETTLED, limit=limit, luck=0.5) == limit
    assert len(asked) <= 12
    assert max(asked) <= limit


def test_chances_that_keep_misleading_the_search_end_it_all_the_same():
    asked: list[int] = []

    def always_just_enough(count: int) -> np.ndarray:
        asked.append(count)
        return np.full(count, 210 / count)  # fewer of these tasks would not do, and yet fewer tasks do

    count = enough_tasks(always_just_enough, 200, confidence=0.9, forecasts=SETTLED, limit=900, luck=0.5)
    assert asked == list(range(300, 288, -1))
    assert count == asked[-1]


def test_a_request_for_groups_becomes_one_for_tasks():
    request = a_request(None, want_effective=8, max_count=20)
    asked: list[int] = []

    def select(one):
        asked.append(one.task_count)
        return tasks(*range(one.task_count))

    def count_of(one, *, available, chance=0.7):
        found = counted(
            one, select, lambda some: np.full(len(some), chance), forecasts=SETTLED, available=available, luck=0.0
        )
        return found.count

    assert count_of(request, available=50) == slowly(np.full(20, 0.7), 8, 0.9, SETTLED)
    assert asked
    assert max(asked) <= 20
    assert count_of(request, available=9) == 9
    assert count_of(request, available=0) == 1  # the draw says that no task is available
    assert count_of(a_request(None, want_effective=8), available=99, chance=0.0) == 8 * MOST_TIMES
    most = count_of(a_request(None, want_effective=99_000), available=10**7, chance=0.0)
    assert most == LARGEST_COUNT  # as many as a count may be


IMPOSSIBLE = [
    ({"count": None}, "count", "give either count or want_effective"),
    ({"count": 3, "want_effective": 2}, "want_effective", "give either count or want_effective, not both"),
    (
        {"count": None, "want_effective": 2, "rollouts_budget": 64},
        "rollouts_budget",
        "a budget needs count: with want_effective it is not known before",
    ),
    ({"count": None, "want_effective": 9, "max_count": 8}, "max_count", "8 tasks can't give 9 effective groups"),
]


@pytest.mark.parametrize(("wanted", "where", "what"), IMPOSSIBLE)
def test_what_can_not_be_asked_is_refused(wanted, where, what):
    (flaw,) = count_flaws(a_request(**wanted))
    assert (flaw.where, flaw.what) == (("body", where), what)


def test_quotas_of_a_request_without_a_count_are_shares():
    (flaw,) = count_flaws(a_request(None, want_effective=4, quotas={"math": 2, "code": 0.25}))
    assert flaw.where == ("body", "quotas", "math")
    assert "needs count; give a share" in flaw.what
    assert count_flaws(a_request(None, want_effective=4, quotas={"math": 1.0})) == []
    assert count_flaws(a_request(5, quotas={"math": 2})) == []


POOL = pool_of((0.25,), (0.5,), (0.75,))


@pytest.mark.parametrize("kind", ["tracker", "bots"])
def test_the_state_keeps_forecasts_of_closed_steps_alone(kind):
    settings = RunSettings(belief=kind)
    before = fresh_state(settings, POOL)
    opened = replay(POOL, [report_of((0, 1.0, 3.0), close=False)], settings)
    assert opened.forecasts == before.forecasts == NO_FORECASTS
    closed = replay(POOL, [report_of((0, 1.0, 3.0), (1, 0.0, 4.0))], settings)
    chances = before.belief.extended(POOL, POOL.profiles).distributions(POOL, tasks(0, 1)).effective(4.0)
    assert closed.forecasts.expected == pytest.approx(KEPT * NO_FORECASTS.expected + chances.sum())
    assert closed.forecasts.effective == pytest.approx(KEPT * NO_FORECASTS.effective + 1)
    assert decode_state(encode_state(closed)).forecasts == closed.forecasts
    nothing = NO_FORECASTS.with_step(normals([], []), NO_EVIDENCE)
    assert nothing is NO_FORECASTS


def test_a_rewind_takes_forecasts_back():
    first = replay(POOL, [report_of((0, 1.0, 3.0))], RunSettings())
    second = replay(POOL, [report_of((0, 1.0, 3.0)), report_of((1, 0.0, 4.0))], RunSettings())
    assert second.forecasts != first.forecasts
    back, _ = advance(second, Entry(3, 1, POOL.profiles, Rewind(1, 1)), POOL, base=first)
    assert back.forecasts == first.forecasts


def test_damaged_forecasts_are_refused():
    with pytest.raises(ValueError, match="not a finite number"):
        Forecasts.decoded([0.0, 0.0, float("nan"), 0.0, 0.0, 0.0])
