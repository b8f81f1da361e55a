"""Beliefs that the reference implementation computed, reproduced through HTTP."""

import json
from pathlib import Path

import pytest

CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "core/data/bots_reference_traces.json").read_text())["cases"]
}
SETTINGS = ("forgetting", "implicit_weight", "capability_momentum", "rollouts_per_task", "prior")


@pytest.mark.parametrize("name", ["paper_defaults", "references_off_the_grid"])
async def test_posteriors_equal_the_reference_implementations(http, name):
    case = CASES[name]
    pool = [
        {"id": f"t{number}", "reference_pass_rates": rates} for number, rates in enumerate(case["reference_pass_rates"])
    ]
    await http.put("/datasets/trace", json={"reference_models": ["weak", "strong"], "tasks": pool})
    settings = {"belief": "bots", "capability": "paper", **{setting: case[setting] for setting in SETTINGS}}
    await http.put("/datasets/trace/runs/default", json=settings)
    expected = {state["after_step"]: state for state in case["expected"]}
    for number, step in enumerate(case["steps"], start=1):
        outcomes = [
            {"task": f"t{task}", "successes": successes, "trials": case["rollouts_per_task"]}
            for task, successes in zip(step["tasks"], step["successes"], strict=True)
        ]
        receipt = (await http.post("/report", json={"dataset": "trace", "outcomes": outcomes})).json()
        assert receipt["step"] == number
        if number in expected:
            state = expected[number]
            assert receipt["capability"] == pytest.approx(state["capability"], rel=1e-9)
            listed = (await http.get("/datasets/trace/runs/default/tasks?limit=1000")).json()["tasks"]
            assert [task["alpha"] for task in listed] == pytest.approx(state["alpha"], rel=1e-9)
            assert [task["beta"] for task in listed] == pytest.approx(state["beta"], rel=1e-9)
