"""How a comparison of beliefs is read."""

from typing import Any

from bots_client import BeliefComparison, ComparedBelief, ComparisonProgress, ErrorDifference
from tests.client.scripted_server import answer

DIFFERENCE: dict[str, Any] = {"mean": -0.03, "low": -0.04, "high": -0.02}
BELIEF: dict[str, Any] = {
    "name": "tracker",
    "role": "tracker",
    "belief": "tracker",
    "forgetting": None,
    "implicit_weight": None,
    "capability": None,
    "references": True,
    "tags": False,
    "log_loss": 0.5,
    "brier": 0.2,
    "calibration_error": 0.02,
    "calibration_slope": 0.97,
    "log_loss_difference": DIFFERENCE,
    "brier_difference": None,
}
COMPARISON: dict[str, Any] = {
    "begins_after": 3,
    "restarted": True,
    "first_step": 4,
    "last_step": 200,
    "steps": 197,
    "rollouts": 1576.0,
    "recommended": "tracker",
    "advice": "Use the tracker.",
    "remarks": ["The dataset's tags help."],
    "beliefs": [BELIEF],
}


def test_a_comparison_is_read_in_full(serve, connect):
    found = connect(serve(answer({"seq": 9, "folded": 9, "entries": 9, "comparison": COMPARISON}))).comparison("guru")

    belief = ComparedBelief(**{**BELIEF, "log_loss_difference": ErrorDifference(**DIFFERENCE)})
    comparison = BeliefComparison(**{**COMPARISON, "remarks": tuple(COMPARISON["remarks"]), "beliefs": (belief,)})
    assert found == ComparisonProgress(seq=9, folded=9, entries=9, comparison=comparison)


def test_a_comparison_under_way_says_how_far_it_is(serve, connect):
    under_way = {"seq": 9, "folded": 4, "entries": 9, "comparison": None}

    found = connect(serve(answer(under_way, status=202))).comparison("guru", wait_s=0)

    assert found == ComparisonProgress(seq=9, folded=4, entries=9)
