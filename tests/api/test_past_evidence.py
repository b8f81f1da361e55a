"""POST evidence: old logs change what is believed, and nothing that a run counts."""

from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

EVIDENCE = f"{RUN}/evidence"
NOON = "2026-01-01T12:00:00Z"


def aged(task: int, age: float, successes: float = 16, trials: float = 16) -> dict[str, Any]:
    return {**solved(task, successes, trials), "age": age}


def at(task: int, time: str) -> dict[str, Any]:
    return {**solved(task, 16), "at": time}


async def alphas(http: httpx.AsyncClient) -> dict[str, float]:
    return {task["id"]: task["alpha"] for task in (await http.get(f"{RUN}/tasks")).json()["tasks"]}


async def test_old_rollouts_move_the_belief_and_count_for_nothing_else(http: httpx.AsyncClient):
    await make_dataset(http, belief="bots")
    await report(http, solved(1))
    before = (await http.get(RUN)).json()
    answer = await http.post(EVIDENCE, json={"outcomes": [aged(15, 0), aged(15, 2, 0, 4), aged(10, 1)]})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["seq"], told["step"], told["outcomes"], told["rollouts"]) == (2, 1, 3, 36.0)
    assert (told["duplicate"], told["degraded"]) == (False, False)
    after = (await http.get(RUN)).json()
    for name in ("step", "totals", "pending", "leased", "rollouts_per_task"):
        assert after[name] == before[name]
    listed = {task["id"]: task for task in (await http.get(f"{RUN}/tasks")).json()["tasks"]}
    # Tasks 10 and 15 have no references, so that nothing was implied for them.
    assert listed["task-15"]["alpha"] == pytest.approx(1 + 16)
    assert listed["task-15"]["beta"] == pytest.approx(1 + 4 * 0.9**2)
    assert listed["task-10"]["alpha"] == pytest.approx(1 + 16 * 0.9)
    assert (listed["task-15"]["attempts"], listed["task-15"]["last_step"]) == (0.0, None)


async def test_times_become_ages_by_the_length_of_a_step(http: httpx.AsyncClient):
    await make_dataset(http, belief="bots")
    outcomes = [at(5, NOON), at(10, "2026-01-01T12:58:20+01:00")]
    answer = await http.post(EVIDENCE, json={"outcomes": outcomes, "seconds_per_step": 50})
    assert answer.status_code == 200, answer.text
    first = await alphas(http)
    assert first["task-5"] == pytest.approx(17)
    assert first["task-10"] == pytest.approx(1 + 16 * 0.9**2)
    body = {"outcomes": [at(15, NOON)], "seconds_per_step": 50, "now": "2026-01-01T12:01:40Z"}
    (await http.post(EVIDENCE, json=body)).raise_for_status()
    assert (await alphas(http))["task-15"] == pytest.approx(1 + 16 * 0.9**2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"outcomes": [solved(1)]}, 'give "age" in steps, or "at" as a time'),
        ({"outcomes": [{**aged(1, 1), "at": NOON}], "seconds_per_step": 1}, 'give "age" in steps'),
        ({"outcomes": [at(1, NOON)]}, "missing: the outcomes have times (at), and it says how many seconds"),
        ({"outcomes": [at(1, NOON)], "seconds_per_step": 0}, "> 0"),
        ({"outcomes": [at(1, "2026-01-01T12:00:00")], "seconds_per_step": 1}, "timezone"),
        ({"outcomes": [at(1, NOON)], "seconds_per_step": 1, "now": "2026-01-01T11:00:00Z"}, "an age of -3600 steps"),
        ({"outcomes": [aged(1, -0.5)]}, "an age of -0.5 steps; it can be 0 to 1e+06"),
        ({"outcomes": [aged(1, 2e6)]}, "an age of 2e+06 steps"),
        ({"outcomes": [aged(1, 1, successes=17)]}, "17.0 successes of 16.0 trials"),
        ({"outcomes": [aged(99, 1)]}, "no task 'task-99'"),
        ({"outcomes": [{**aged(1, 1), "status": "aborted"}]}, "unknown field"),
    ],
)
async def test_what_can_not_be_true_of_old_rollouts_is_refused(
    http: httpx.AsyncClient, body: dict[str, Any], said: str
):
    await make_dataset(http)
    problem = (await http.post(EVIDENCE, json=body)).json()
    assert problem["status"] == 422
    assert said in problem["errors"][0]["msg"]
    assert (await http.get(RUN)).json()["seq"] == 0


async def test_the_same_evidence_under_a_key_counts_once(http: httpx.AsyncClient):
    await make_dataset(http, belief="bots")
    body, key = {"outcomes": [{"task": "task-5", "rewards": [1.0, 0.5], "age": 0}]}, {"Idempotency-Key": "once"}
    first = (await http.post(EVIDENCE, json=body, headers=key)).json()
    again = await http.post(EVIDENCE, json=body, headers=key)
    assert (again.json(), again.headers["idempotent-replayed"]) == ({**first, "duplicate": True}, "true")
    # Rewards that the run's range no longer holds: it is the same request all the same.
    await http.patch(RUN, json={"reward_range": [0, 0.5]})
    assert (await http.post(EVIDENCE, json=body, headers=key)).json() == {**first, "duplicate": True}
    require_problem(await http.post(EVIDENCE, json=body), 422, "invalid-outcomes")
    other = {"outcomes": [aged(5, 0)]}
    require_problem(await http.post(EVIDENCE, json=other, headers=key), 422, "key-reused")
    assert (await alphas(http))["task-5"] == pytest.approx(2.5)


async def test_old_evidence_stands_in_the_journal_and_a_rewind_takes_it_back(http: httpx.AsyncClient):
    await make_dataset(http)
    await report(http, solved(1))
    before = (await http.get(f"{RUN}/tasks")).json()["tasks"]
    (await http.post(EVIDENCE, json={"outcomes": [aged(5, 0), aged(10, 0)]})).raise_for_status()
    assert (await http.get(f"{RUN}/tasks")).json()["tasks"] != before
    entry = (await http.get(f"{RUN}/journal")).json()["entries"][0]
    assert (entry["kind"], entry["tasks"], entry["rollouts"], entry["closed"]) == ("past_evidence", 2, 32.0, False)
    assert [step["step"] for step in (await http.get(f"{RUN}/history")).json()["history"]] == [1]
    (await http.post(f"{RUN}/rewind", json={"step": 1})).raise_for_status()
    assert (await http.get(f"{RUN}/tasks")).json()["tasks"] == before
