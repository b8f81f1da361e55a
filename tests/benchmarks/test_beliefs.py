"""The comparison of beliefs on public data scores runs as it says, and its page shows the figures that were kept."""

import json
import subprocess
import sys
from dataclasses import replace
from math import isnan, log
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks.beliefs import ARMS, SEEDS, Trial, log_loss, measured, planned
from benchmarks.beliefs_tables import (
    AS_MEASURED,
    BOTS,
    TRACKER,
    Score,
    compared,
    comparison_table,
    interval_of,
    score_table,
)
from benchmarks.public_pools import CASES, recorded_run
from benchmarks.running import running_service
from bots_client import Client

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/beliefs.md").read_text("utf-8")
LINES = (ROOT / "benchmarks/results/beliefs.ndjson").read_text("utf-8").splitlines()
KEPT = [Score(**json.loads(line)) for line in LINES]
STEPS = 60
SCORE = Score("a pool", AS_MEASURED, BOTS, 0, effective_task_ratio=0.5, pool_log_loss=0.4, batch_log_loss=0.6)


@pytest.fixture(scope="module")
def client():
    with running_service() as service, Client(service.url) as connected:
        yield connected


def test_a_quick_run_shows_each_arm_and_compares_each_case():
    command = [sys.executable, "-m", "benchmarks.beliefs", "--quick", "--pool", "recorded-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    shown, compared_cases = done.stdout.split("\n\n")
    assert [row.split(" | ")[1] for row in shown.splitlines()[2:]] == list(ARMS)
    assert [row.split(" | ")[1] for row in compared_cases.splitlines()[2:]] == [AS_MEASURED, *CASES]


def test_the_scores_are_those_of_the_services_history(client):
    trial = Trial(recorded_run().shortened(STEPS), "agrees", TRACKER, 1)
    score = measured(client, trial)
    history = list(client.history(trial.dataset, trial.run))
    assert len(history) == STEPS
    assert score.effective_task_ratio == pytest.approx(fmean(step.effective / step.reported for step in history))
    # Nothing near the target is clipped, and the history's loss is of the same predictions on the same rollouts.
    assert score.batch_log_loss == pytest.approx(fmean(step.log_loss for step in history), abs=1e-6)


def test_the_tracker_selects_and_predicts_better_than_bots_within_a_few_steps(client):
    pool = recorded_run().shortened(STEPS)
    bots, tracker = (measured(client, Trial(pool, "short", arm, 0)) for arm in (BOTS, TRACKER))
    # The kept figures differ by more over the whole run; this allows for draws that differ between machines.
    assert tracker.effective_task_ratio > bots.effective_task_ratio + 0.01
    assert tracker.pool_log_loss < bots.pool_log_loss


def test_a_seed_gives_the_same_scores_again(client):
    first = Trial(recorded_run().shortened(5), "first", BOTS, 3)
    again = replace(first, case="again")
    assert replace(measured(client, first), case="again") == measured(client, again)


def test_groups_that_all_succeed_or_all_fail_are_not_effective(client):
    pool = recorded_run().shortened(3)
    certain = replace(pool, success=(pool.success > 0.5).astype(float))
    assert measured(client, Trial(certain, "certain", TRACKER, 0)).effective_task_ratio == 0


def test_the_log_loss_is_that_of_each_rollout_with_predictions_clipped():
    rates, predicted = np.array([0.25, 1.0]), np.array([0.5, 1.0])
    assert log_loss(rates, predicted) == pytest.approx((log(2) - log(0.999)) / 2)


def test_an_interval_is_that_of_students_t():
    values = [0.4, 0.5, 0.7]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    interval = interval_of(values)
    assert (interval.mean - interval.half_width, interval.mean + interval.half_width) == pytest.approx(
        (expected.low, expected.high)
    )
    assert isnan(interval_of([0.4]).half_width)


@pytest.mark.parametrize(
    ("ratio", "loss", "holds"), [(0.0, 0.01, True), (-0.001, 0.0, False), (0.1, 0.011, False), (0.1, -0.1, True)]
)
def test_the_tracker_holds_if_it_selects_no_worse_and_predicts_hardly_worse(ratio, loss, holds):
    tracker = replace(SCORE, effective_task_ratio=0.5 + ratio, pool_log_loss=0.4 + loss - 1e-12)
    assert compared([SCORE], [tracker]).holds is holds


def test_a_comparison_is_of_pairs_with_the_same_seed():
    bots = [replace(SCORE, seed=seed, effective_task_ratio=0.1 * seed) for seed in (1, 2, 3)]
    tracker = [replace(score, effective_task_ratio=score.effective_task_ratio + 0.05) for score in bots]
    found = compared(bots, tracker).effective_task_ratio
    assert (found.mean, found.half_width) == pytest.approx((0.05, 0), abs=1e-12)


def test_the_page_shows_the_figures_that_were_kept():
    assert score_table(KEPT) in PAGE
    assert comparison_table(KEPT) in PAGE


def test_the_kept_figures_are_of_every_run_that_the_script_makes():
    trials = planned(None, seeds=SEEDS, quick=False)
    kept = [(score.pool, score.case, score.arm, score.seed) for score in KEPT]
    assert kept == [(trial.pool.name, trial.case, trial.arm, trial.seed) for trial in trials]
