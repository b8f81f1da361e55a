"""What predictions are worth, and what useless ones cost: a short form of the benchmark, and the pages' table."""

import json
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks import large_predictions
from benchmarks.large_predictions import FORMATS, LargeColumn
from benchmarks.predictions import POOLS, PREDICTORS, PredictionScore, scores, table

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "benchmarks/results/predictions.ndjson").read_text("utf-8").splitlines()
KEPT = [PredictionScore(**json.loads(line)) for line in LINES]


def mean_gain(found: list[PredictionScore], predictor: str) -> float:
    return fmean(one.without - one.with_predictions for one in found if one.predictor == predictor)


def test_good_predictions_help_and_useless_ones_cost_little():
    found = list(scores(seeds=1, steps=12, pools=POOLS[:1]))
    assert len(found) == len(PREDICTORS)
    assert mean_gain(found, "another model") > 0.05
    assert mean_gain(found, "shuffled") > -0.01


@pytest.mark.parametrize("pool", POOLS)
def test_useless_predictions_cost_nearly_nothing_in_what_was_kept(pool: str):
    found = [one for one in KEPT if one.pool == pool]
    assert len(found) >= 5 * len(PREDICTORS)
    assert all(mean_gain(found, predictor) > -0.0025 for predictor in PREDICTORS)


@pytest.mark.parametrize("page", ["docs/predictions.md", "docs/decisions/0056-predictions.md"])
def test_the_pages_show_the_figures_that_were_kept(page: str):
    assert table(KEPT) in (ROOT / page).read_text("utf-8")


def test_a_column_is_put_from_each_format_and_the_page_shows_the_figures_that_were_kept():
    found = list(large_predictions.columns(tasks=300))
    assert [(one.kind, one.tasks) for one in found] == [(kind, 300) for kind in FORMATS]
    assert all(min(one.mib, one.put_s, one.select_s) > 0 for one in found)
    lines = (ROOT / "benchmarks/results/large_predictions.ndjson").read_text("utf-8").splitlines()
    kept = [LargeColumn(**json.loads(line)) for line in lines]
    assert large_predictions.table(kept) in (ROOT / "docs/predictions.md").read_text("utf-8")
