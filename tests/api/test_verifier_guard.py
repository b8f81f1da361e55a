"""The verifier guard over HTTP: an outage is told, its groups wait, and a decision releases or drops them."""

from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

COUNT = 20
HELD = f"{RUN}/held"


async def an_outage(http: httpx.AsyncClient, **settings: Any) -> None:
    """Make a dataset whose run saw five usual steps, and then one in which all rollouts fail."""
    await make_dataset(http, COUNT, **settings)
    for _ in range(5):
        await report(http, *(solved(task, 8) for task in range(1, COUNT)))
    await report(http, *(solved(task, 0) for task in range(1, COUNT)))


async def alarms(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get(RUN)).json()["alarms"]
    return found


@pytest.mark.parametrize("guarded", [True, False])
async def test_an_outage_is_told_with_the_groups_that_wait(http: httpx.AsyncClient, guarded: bool):
    await an_outage(http, verifier_guard=guarded)
    whole = (await alarms(http))[0]
    assert whole.pop("chance") <= 1e-9
    assert whole == {
        "tag": None,
        "outcome": "failed",
        "since_step": 6,
        "last_step": 6,
        "groups": COUNT - 1,
        "ongoing": True,
        "held": COUNT - 1 if guarded else 0,
    }
    verdict = (await http.get(f"{RUN}/summary")).json()["verdict"]
    assert verdict["kind"] == "verifier_suspect"
    assert ("release them" in verdict["advice"]) == guarded


async def test_dropped_groups_never_count_and_released_ones_do(http: httpx.AsyncClient):
    await an_outage(http, verifier_guard=True)
    task = f"{RUN}/tasks?limit=2"
    before = (await http.get(task)).json()["tasks"][1]["mean"]
    answer = await http.post(HELD, json={"decision": "drop"})
    assert (answer.status_code, answer.json()["alarms"]) == (200, [])
    assert (await http.get(task)).json()["tasks"][1]["mean"] == before
    await report(http, *(solved(task, 0) for task in range(1, COUNT)))
    assert (await http.post(HELD, json={"decision": "release", "tag": None})).status_code == 200
    assert (await http.get(task)).json()["tasks"][1]["mean"] < before
    kinds = (await http.get(f"{RUN}/journal", params={"kind": "guard_decision"})).json()["entries"]
    assert [(entry["decision"], entry["tag"], entry["step"]) for entry in kinds] == [
        ("release", None, 7),
        ("drop", None, 6),
    ]


async def test_a_repeated_decision_gives_the_first_answer(http: httpx.AsyncClient):
    await an_outage(http, verifier_guard=True)
    once = {"Idempotency-Key": "decided"}
    first = await http.post(HELD, json={"decision": "drop"}, headers=once)
    again = await http.post(HELD, json={"decision": "drop"}, headers=once)
    assert (again.status_code, again.json()) == (200, first.json())
    assert len((await http.get(f"{RUN}/journal", params={"kind": "guard_decision"})).json()["entries"]) == 1
    require_problem(await http.post(HELD, json={"decision": "release"}, headers=once), 422, "key-reused")


async def test_where_no_alarm_stands_there_is_nothing_to_decide(http: httpx.AsyncClient):
    await make_dataset(http, COUNT)
    problem = require_problem(await http.post(HELD, json={"decision": "drop"}), 409, "nothing-to-decide")
    assert "no alarm" in problem["detail"]
    await report(http, solved(1))
    named = await http.post(HELD, json={"decision": "drop", "tag": "math"})
    assert "the tag 'math'" in require_problem(named, 409, "nothing-to-decide")["detail"]
    for wrong in ({"decision": "wait"}, {}, {"decision": "drop", "tags": []}):
        require_problem(await http.post(HELD, json=wrong), 422, "invalid-request")


async def test_the_setting_is_shown_changed_and_checked(http: httpx.AsyncClient):
    await make_dataset(http, COUNT)
    assert (await http.get(RUN)).json()["settings"]["verifier_guard"] is False
    assert (await http.patch(RUN, json={"verifier_guard": True})).json()["settings"]["verifier_guard"] is True
    require_problem(await http.patch(RUN, json={"verifier_guard": 1}), 422, "invalid-request")
