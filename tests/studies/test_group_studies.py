"""Studies of groups: what the pages promise is what was kept, and their loops do what they say."""

from statistics import fmean

import numpy as np
import pytest

from studies.budget import CONSTANT, ORACLE, SHARED, SharingOut, gains_of
from studies.method import Served
from studies.public_pools import Replayed, recorded_run
from studies.results import kept
from studies.wanted import AS_MEASURED, CONFIDENCE, GROUPS, MOST_ROUNDS, ROUNDS, WANTED, filling, reaching

KEPT = [result for result in kept() if result.study == "wanted"]
POOLS = ("recorded run", "reasoning gym")


def mean_of(measure: str, **labels: str) -> float:
    """The mean over seeds of a measure of the cell with these labels."""
    wanted = {"case": AS_MEASURED, "run": "tracker, pass", "groups": GROUPS, "confidence": CONFIDENCE, **labels}
    found = [result.measures["extra"][measure] for result in KEPT if result.labels == wanted]
    assert len(found) >= 10
    return fmean(found)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("case", [AS_MEASURED, "none", "one", "inverted"])
def test_wanted_groups_are_reached_as_often_as_asked_with_and_without_references(pool, case):
    assert mean_of("reached", pool=pool, case=case) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("pool", ["shared ability", "hidden skills", "interference"])
def test_wanted_groups_are_reached_as_often_as_asked_where_the_model_reacts(pool):
    assert mean_of("reached", pool=pool) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("pool", POOLS)
def test_enough_tasks_take_fewer_rollouts_and_rounds_than_rounds_of_a_shuffle(pool):
    enough, shuffle = {"pool": pool, "run": WANTED}, {"pool": pool, "run": "shuffle"}
    assert mean_of("rollouts a step", **enough) < 0.75 * mean_of("rollouts a step", **shuffle)
    assert mean_of("rounds", **enough) < 1.2 < mean_of("rounds", **shuffle)


def labels_of(**labels: str) -> dict[str, str]:
    return {"pool": "recorded run", "case": "none", "groups": "6", "confidence": "0.9", **labels}


def test_a_trial_says_how_often_the_groups_were_there():
    extra = reaching(labels_of(run="tracker, pass"), 0, True).extra
    assert 0 <= extra["reached"] <= 1
    assert extra["tasks"] >= extra["groups"]


@pytest.mark.parametrize("run", list(ROUNDS))
def test_dapos_filter_generates_until_it_has_its_groups(run):
    measures = filling(labels_of(run=run), 0, True)
    assert 1 <= measures.extra["rounds"] <= MOST_ROUNDS
    assert measures.effective_groups[-1] >= 6 * measures.steps
    assert measures.extra["rollouts a step"] == pytest.approx(measures.rollouts / measures.steps)


@pytest.mark.parametrize("rule", [CONSTANT, SHARED, ORACLE])
def test_each_rule_spends_the_same_rollouts(rule):
    pool = recorded_run()
    method = SharingOut(Replayed(pool), Served(pool.references, belief="tracker", seed=0), rule, 8)
    tasks = method.select(32)
    assert (np.diff(tasks) > 0).all()
    assert method.rollouts.sum() == 32 * 8
    solved, failed, effective = method.roll_out(pool.success[0][tasks], 8, np.random.default_rng(0))
    assert (solved + failed == method.rollouts).all()
    assert (effective == ((solved > 0) & (failed > 0))).all()
    assert 0 < method.teaching[0] < 1


def test_what_the_oracle_gains_adds_up_to_the_chance_of_an_effective_group():
    p = np.array([0.0, 0.03, 0.5, 1.0])
    np.testing.assert_allclose(gains_of(p, 12).sum(axis=1), 1 - p**12 - (1 - p) ** 12, atol=1e-12)
