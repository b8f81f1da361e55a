"""What charts are asked by, and what they are made of."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bots_client import Calibration, CalibrationBin, Curve, CurvePoint, NotFoundError, Outlook, Outlooks, ServiceError
from tests.client.scripted_server import answer, problem

POINT: dict[str, Any] = {
    "first_step": 1,
    "last_step": 4,
    "reported": 8,
    "effective": 4,
    "effective_task_ratio": 0.5,
    "all_solved": 3,
    "none_solved": 1,
    "rollouts": 64,
    "success_rate": 0.75,
    "capability": None,
    "brier": 0.125,
    "log_loss": 0.5,
    "late": 2,
    "expired": 1,
    "new_tasks": 6,
    "distinct_tasks": 6,
    "time": "2026-01-02T03:04:05Z",
}
EMPTY: dict[str, Any] = {"low": 0, "high": 0.1, "rollouts": 0, "mean_prediction": None, "success_rate": None}
BIN: dict[str, Any] = {"low": 0.1, "high": 0.2, "rollouts": 16, "mean_prediction": 0.125, "success_rate": 0.25}


def test_a_curve_is_read_in_full(serve, connect):
    (point,) = connect(serve(answer({"points": [POINT]}))).curve("guru").points

    assert point == CurvePoint(**{**POINT, "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)})


def test_a_calibration_is_read_in_full(serve, connect):
    found = connect(serve(answer({"steps": 3, "bins": [EMPTY, BIN]}))).calibration("guru")

    assert found == Calibration(steps=3, bins=(CalibrationBin(**EMPTY), CalibrationBin(**BIN)))


def test_outlooks_are_read_in_full(serve, connect):
    spread = {"distinct_tasks": 7, "reached_share": 0.5, "top_tenth_share": 0.75, "unmet_share": None, "narrow": True}
    told = {"step": 3, "uniform_effective_task_ratio": 0.5, "distribution": [0.25, 0.75], **spread}
    told["time"] = POINT["time"]

    found = connect(serve(answer({"outlooks": [told]}))).outlooks("guru")

    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    outlook = Outlook(
        step=3,
        uniform_effective_task_ratio=0.5,
        distribution=(0.25, 0.75),
        distinct_tasks=7,
        reached_share=0.5,
        top_tenth_share=0.75,
        narrow=True,
        time=time,
    )
    assert found == Outlooks(outlooks=(outlook,))


@pytest.mark.parametrize(
    ("name", "arguments", "more", "target"),
    [
        ("curve", ("guru",), {}, "default/curve"),
        ("curve", ("guru", "r1"), {"points": 7}, "r1/curve?points=7"),
        ("calibration", ("guru",), {}, "default/calibration"),
        ("calibration", ("guru", "r1"), {"steps": 9}, "r1/calibration?steps=9"),
        ("outlooks", ("guru",), {}, "default/outlooks"),
        ("outlooks", ("guru", "r1"), {"points": 1}, "r1/outlooks?points=1"),
    ],
)
def test_a_chart_is_asked_for_where_it_is_and_as_large_as_wanted(serve, connect, name, arguments, more, target):
    server = serve(answer({"points": [], "steps": 0, "bins": [], "outlooks": []}))

    getattr(connect(server), name)(*arguments, **more)

    (request,) = server.received
    assert (request.method, request.target) == ("GET", f"/datasets/guru/runs/{target}")


def test_a_new_run_has_an_empty_curve(serve, connect):
    assert connect(serve(answer({"points": []}))).curve("guru") == Curve(points=())


def test_a_chart_of_no_run_and_one_that_makes_no_sense_are_told(serve, connect):
    bots = connect(serve(problem(404, "unknown-run"), answer({"bins": []})))

    with pytest.raises(NotFoundError):
        bots.curve("guru", "none")
    with pytest.raises(ServiceError, match=r"steps: missing"):
        bots.calibration("guru")
