"""The tracker against golden numbers of three small journals, made by an independent implementation."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.evidence import NO_EVIDENCE, ClosingStep, Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data/tracker_golden.json").read_text())
SETTINGS = RunSettings(belief="tracker")
ROLLOUTS = 16.0

Piece = tuple[int, list[int], list[float], list[float]]  # lag, tasks, successes, failures
Journal = tuple[Pool, Sequence[Sequence[Piece]]]  # for each step, its pieces


def pool_of(references: Sequence[Sequence[float]], carried: Sequence[int] = ()) -> Pool:
    """Return a pool in which every task is a profile of its own; `carried`: for each, its tags as bits."""
    tasks = np.arange(len(references), dtype=np.int32)
    tags = tuple(f"tag {bit}" for bit in range(max(carried, default=0).bit_length()))
    rates = np.array(references).reshape(len(references), -1)
    return Pool(rates, tasks, offset_tags=tags, carried=np.array(carried, np.uint32))


def folded(pool: Pool, steps: Sequence[Sequence[Piece]]) -> TrackerBelief:
    belief = TrackerBelief.fresh(SETTINGS, pool)
    for number, pieces in enumerate(steps, start=1):
        batches = tuple((lag, evidence(tasks, solved, failed)) for lag, tasks, solved, failed in pieces)
        belief = belief.fold(pool, ClosingStep(number, batches, NO_EVIDENCE, ROLLOUTS), SETTINGS)
    return belief


def evidence(tasks: list[int], solved: list[float], failed: list[float]) -> Evidence:
    return Evidence(
        np.array(tasks, np.int32), np.array(solved, float), np.array(failed, float), np.ones(len(tasks), bool)
    )


# Two references, evidence on time, success rates of exactly 0 and 1.
ON_TIME: Journal = (
    pool_of([(0, 0.25), (0.25, 0.75), (0.5, 1), (0.0625, 0.125), (0.25, 0.75), (1, 1)]),
    [
        [(0, [0, 1, 2], [3, 9, 16], [13, 7, 0])],
        [(0, [1, 3, 4], [10, 0, 7], [6, 16, 9])],
        [(0, [1, 2, 5], [12, 15, 16], [4, 1, 0])],
    ],
)
# No references; 1, 4 and 512 rollouts; fractional rewards; an empty step; a batch that comes two steps late.
LATE: Journal = (
    pool_of([(), (), (), (), ()]),
    [
        [(0, [0, 1], [1, 0], [0, 1])],
        [(0, [0, 2], [300.5, 1.25], [211.5, 2.75])],
        [],
        [(2, [1, 3], [8, 4], [8, 12]), (0, [0, 4], [512, 0], [0, 512])],
    ],
)
# One reference, unknown for task 2; two tags; task 0 solved 512 of 512 times in each of 60 steps.
TAGGED: Journal = (
    pool_of([(0.5,), (0.875,), (math.nan,), (0.0625,), (0.3,)], carried=(0b01, 0b01, 0b10, 0b10, 0b11)),
    [
        [(0, [0, 2], [8, 3], [8, 13])],
        [(0, [1, 3], [16, 2], [0, 14])],
        [(0, [2, 4], [5, 6], [11, 10])],
        *[[(0, [0], [512.0], [0.0])]] * 60,
    ],
)


@pytest.mark.parametrize(
    ("journal", "case"),
    [("journal_1", ON_TIME), ("journal_2", LATE), ("journal_3", TAGGED)],
    ids=["on time", "late", "tagged"],
)
def test_the_golden_numbers_come_out(journal: str, case: Journal):
    pool, steps = case
    belief = folded(pool, steps)
    rows = belief.residuals.whole
    distributions = belief.distributions(pool, np.arange(len(pool), dtype=np.int32))
    tau2, kappa, q = belief.variances.estimates
    found = {
        "step": belief.step,
        "b": belief.effects.mean,
        "P_diagonal": np.diag(belief.effects.covariance),
        "P_0_last": belief.effects.covariance[0, -1],
        "tau2": tau2,
        "kappa": kappa,
        "q": q,
        "tasks": rows.tasks,
        "last": rows.last_step,
        "r": rows.mean,
        "v": rows.variance,
        "theta_mean": distributions.location,
        "theta_variance": distributions.variance,
        "mean": distributions.mean,
        "effective_16": distributions.effective(ROLLOUTS),
    }
    assert found.keys() == GOLDEN[journal].keys()
    for name, wanted in GOLDEN[journal].items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 40])
def test_what_is_said_of_a_task_has_the_same_bits_however_many_profiles_there_are(tasks: int):
    rng = np.random.default_rng(tasks)
    rates = rng.random((300, 3))
    belief = folded(Pool.of_tasks(rates[:40]), [[(0, [0, 1, 2, 3, 4], [3, 9, 16, 0, 5], [13, 7, 0, 16, 11])]] * 3)
    asked = np.arange(tasks, dtype=np.int32)
    small, large = (belief.distributions(Pool.of_tasks(rates[:size]), asked).mean for size in (40, 300))
    among_all = belief.profile_distributions(Pool.of_tasks(rates)).mean[5:tasks]
    np.testing.assert_array_equal(small, large)
    np.testing.assert_array_equal(small[5:], among_all)
