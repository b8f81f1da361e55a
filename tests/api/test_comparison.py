"""GET comparison: which belief fits a run, as JSON."""

from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

LONG_S = 30.0


async def complete(http: httpx.AsyncClient, **parameters: Any) -> dict[str, Any]:
    """Ask until the comparison is there; return the response."""
    while True:
        answer = await http.get(f"{RUN}/comparison", params={"wait_s": LONG_S, **parameters})
        found = answer.json()
        assert answer.status_code == (202 if found["comparison"] is None else 200)
        if answer.status_code == 200:
            return found
        parameters["seq"] = found["seq"]


async def test_a_comparison_lists_every_belief_with_its_errors(http: httpx.AsyncClient):
    await make_dataset(http)
    for number in range(4):
        await report(http, solved(number, 4.0 * number), solved(number + 5, 12.0))
    found = await complete(http)
    assert (found["seq"], found["folded"], found["entries"]) == (4, 4, 4)
    comparison = found["comparison"]
    assert comparison["restarted"] is False
    assert (comparison["begins_after"], comparison["first_step"], comparison["last_step"]) == (0, 1, 4)
    assert (comparison["steps"], comparison["rollouts"], comparison["recommended"]) == (4, 4 * 32.0, None)
    assert comparison["advice"].startswith("Too few steps: 4 steps have outcomes")
    own, *others = comparison["beliefs"]
    history = (await http.get(f"{RUN}/history")).json()["history"]
    assert own["log_loss"] == pytest.approx(sum(step["log_loss"] for step in history) / 4)
    assert own["brier"] == pytest.approx(sum(step["brier"] for step in history) / 4)
    assert (own["name"], own["role"], own["belief"], own["forgetting"]) == ("this run", "run", "tracker", None)
    (bots,) = (belief for belief in others if belief["name"] == "BOTS")
    assert (bots["role"], bots["belief"], bots["forgetting"], bots["capability"]) == (
        "bots",
        "bots",
        0.1,
        "least_squares",
    )
    losses = [belief["log_loss"] for belief in others]
    assert losses == sorted(losses)
    (tracker,) = (belief for belief in others if belief["name"] == "tracker")
    assert tracker["log_loss"] == own["log_loss"]
    assert {tracker[name] for name in ("forgetting", "implicit_weight", "capability", "log_loss_difference")} == {None}


async def test_while_it_is_computed_the_answer_says_how_far_it_is(http: httpx.AsyncClient):
    await make_dataset(http)
    await report(http, solved(1))
    answer = await http.get(f"{RUN}/comparison", params={"wait_s": 0})
    assert (answer.status_code, answer.json()["seq"], answer.json()["comparison"]) == (202, 1, None)
    await report(http, solved(2))
    assert (await complete(http, seq=1))["seq"] == 1
    assert (await complete(http, steps=1))["comparison"]["begins_after"] == 1


@pytest.mark.parametrize("parameters", [{"steps": 0}, {"steps": 20_001}, {"seq": -1}, {"wait_s": 31}, {"wait_s": -0.1}])
async def test_parameters_out_of_range_are_refused(http: httpx.AsyncClient, parameters: dict[str, float]):
    await make_dataset(http)
    require_problem(await http.get(f"{RUN}/comparison", params=parameters), 422, "invalid-request")


async def test_a_run_that_is_not_there_has_no_comparison(http: httpx.AsyncClient):
    await make_dataset(http)
    require_problem(await http.get("/datasets/guru/runs/none/comparison"), 404, "unknown-run")
