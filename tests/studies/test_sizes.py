"""Pools of any size: what rises, what is read, and what is timed."""

import numpy as np
import pytest

from studies.environment import Batch, batch_of
from studies.overhead import QUICK_STEPS, WARM, Timed, pool_of_size, times_faster
from studies.overhead import trial as timed_trial
from studies.published import MoPPS
from studies.sizes import DEFAULTS, FOR_SIXTEEN, READ_EVERY, SIZES, Rising, SeldomRead, times, trial


def batch(tasks: list[int]) -> Batch:
    counts = np.full(len(tasks), 8.0)
    return batch_of(np.array(tasks, np.int32), counts, counts, np.full(len(tasks), True))


def test_the_model_rises_by_a_tenth_of_a_logit_every_tenth_step():
    environment = Rising(100, tasks=50)
    before = environment.success()
    for _ in range(9):
        environment.train(batch([0, 1]))
    assert environment.success() is before
    environment.train(batch([0, 1]))
    risen = np.log(environment.success() / (1 - environment.success())) - np.log(before / (1 - before))
    assert risen == pytest.approx(0.1)
    assert environment.teaching == pytest.approx([float(np.mean(4 * before[:2] * (1 - before[:2])))] * 10)


def test_predictions_are_read_seldom():
    method = SeldomRead(MoPPS(50, 0), every=READ_EVERY)
    read = [step for step in range(60) if method.means() is not None]
    assert read == [2, 27, 52]
    # A trial scores the predictions of all tasks in every fifth step, from the third on.
    assert {step % 5 for step in read} == {2}


@pytest.mark.parametrize("size", DEFAULTS)
def test_each_size_is_varied_while_the_others_stay(size):
    (table,) = [table for table in SIZES.tables if table.name == size]
    shown = [cell.labels for cell in SIZES.cells if table.shows(cell.labels)]
    assert len({labels[size] for labels in shown}) >= 4
    for other in set(DEFAULTS) - {size}:
        assert {labels[other] for labels in shown} == {DEFAULTS[other]}
    assert any(labels["method"] == FOR_SIXTEEN for labels in shown) == (size == "rollouts")


def test_a_trial_has_the_sizes_of_its_labels():
    labels = {"tasks": "1000", "batch": "8", "rollouts": "4", "method": "BOTS"}
    measures = trial(labels, 0, False)
    assert measures.rollouts == measures.steps * 8 * 4
    assert measures.distinct_tasks <= 1000
    assert measures.pool_log_loss is not None
    assert 0 < measures.extra["teaching"] < 1


def test_times_a_measure_and_nothing_where_the_baselines_is_0():
    pairs = [({"etr": 0.6, "extra": {"x": 1.0}}, {"etr": 0.4, "extra": {"x": 0.5}})] * 2
    assert times("etr", pairs) == "1.50"
    assert times("x", pairs) == "2.00"
    assert times("etr", [*pairs, ({"etr": 0.0}, {"etr": 0.0})]) == ""


def test_a_pool_to_time_has_references_that_say_something():
    pool = pool_of_size(3000)
    assert pool.references.shape == (3000, 2)
    assert np.corrcoef(pool.references[:, 0], pool.success())[0, 1] > 0.9
    assert np.corrcoef(pool.references[:, 1], pool.success())[0, 1] > 0.7


def test_each_selection_and_report_is_timed():
    method = Timed(MoPPS(50, 0))
    for _ in range(3):
        method.report(batch(sorted(method.select(4).tolist())))
    assert len(method.select_seconds) == len(method.report_seconds) == 3
    assert method.means() is None


def test_shares_of_a_step_follow_from_the_times():
    measures = timed_trial("1000", "BOTS", 0, True)
    assert measures.steps == QUICK_STEPS > WARM
    extra = measures.extra
    both = extra["select, ms"] + extra["report, ms"]
    assert extra["% of a step of 10 s"] == pytest.approx(100 * both / 10_000)
    assert extra["% of a step of 60 s"] == pytest.approx(100 * both / 60_000)
    dense = {"extra": {"select, ms": 3 * extra["select, ms"], "report, ms": 3 * extra["report, ms"]}}
    assert times_faster([(measures.as_dict(), dense)] * 2).startswith("3.0")
