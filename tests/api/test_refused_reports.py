"""Reports that the service refuses as invalid: their run says so, until a report is accepted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import serving
from tests.api.keyed import bearer, guarded, new_key
from tests.api.pools import RUN, make_dataset, report, select, solved
from tests.api.test_overview import overview, summary


async def send(http: httpx.AsyncClient, *outcomes: dict[str, Any], **more: Any) -> int:
    """Report outcomes to the run `default`; return the status."""
    return (await http.post("/report", json={"dataset": "guru", "outcomes": list(outcomes), **more})).status_code


OUTSIDE = {"task": "task-1", "rewards": [-1, 1, 1, -1]}


@pytest.mark.parametrize(
    "body",
    [
        {"outcomes": [OUTSIDE]},
        {"outcomes": [{"task": "nobody-knows", "successes": 1, "trials": 4}]},
        {"outcomes": [{"task": "task-1", "successes": 5, "trials": 4}]},
        {"outcomes": [{"task": "task-1", "reward": [1.0]}]},  # a misspelt field
        {"outcomes": [solved(1)], "selection_id": "0-0-0-0-000000000000"},
    ],
)
async def test_a_report_that_can_t_be_true_is_counted_with_its_run_and_shown_everywhere(http, body: dict[str, Any]):
    await make_dataset(http)
    assert (await summary(http))["refused"] is None
    answers = [await http.post("/report", json={"dataset": "guru", **body}) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {422}
    found = await summary(http)
    assert found["refused"]["count"] == 2
    problem = answers[0].json()
    said = problem["errors"][0]["msg"] if problem.get("errors") else problem["detail"]
    assert said in found["refused"]["reason"]
    assert (found["verdict"]["kind"], found["attention"]) == ("reports_refused", True)
    assert found["refused"]["reason"] in found["verdict"]["reason"]
    everything = await overview(http)
    assert everything["totals"]["attention"] == 1
    assert everything["runs"] == [{name: found[name] for name in everything["runs"][0]}]


async def test_a_run_whose_first_reports_are_refused_is_not_told_to_wait(http):
    await make_dataset(http)
    await select(http, 4)
    assert await send(http, OUTSIDE) == 422
    assert (await summary(http))["verdict"]["kind"] == "reports_refused"
    await http.patch(RUN, json={"reward_range": [-1, 1]})
    assert (await summary(http))["verdict"]["kind"] == "starting"  # what was wrong may be mended
    assert await send(http, OUTSIDE) == 200
    found = await summary(http)
    assert (found["verdict"]["kind"], found["refused"]["count"], found["step"]) == ("starting", 1, 1)


async def test_a_report_that_is_accepted_ends_it_and_the_count_stays(http):
    await make_dataset(http)
    await report(http, solved(1))
    assert await send(http, OUTSIDE) == 422
    assert (await summary(http))["verdict"]["kind"] == "reports_refused"
    await report(http, solved(1))
    found = await summary(http)
    assert (found["verdict"]["kind"], found["attention"], found["refused"]["count"]) == ("starting", False, 1)


async def test_the_count_outlives_the_service_and_begins_anew_with_an_empty_run_s_new_settings(tmp_path: Path):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        assert await send(http, OUTSIDE) == 422
    async with serving(tmp_path) as http:
        assert (await summary(http))["refused"]["count"] == 1
        (await http.put(RUN, json={"reward_range": [-1, 1]})).raise_for_status()
        assert (await summary(http))["refused"] is None


async def test_the_reason_is_bounded(http):
    await make_dataset(http)
    assert await send(http, {"task": "t" * 256, "successes": 1, "trials": 2}, selection_id="x" * 200) == 422
    assert len((await summary(http))["refused"]["reason"]) <= 300


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, lambda http: http.post("/report", content=b"{", headers={"Content-Type": "application/json"})),
        (404, lambda http: http.post("/report", json={"dataset": "guru", "run": "nobody", "outcomes": [OUTSIDE]})),
        (404, lambda http: http.post("/report", json={"dataset": "nothing", "outcomes": [OUTSIDE]})),
        (415, lambda http: http.post("/report", content=b"{}", headers={"Content-Type": "text/plain"})),
        (422, lambda http: http.post("/report", json={"outcomes": [OUTSIDE]})),
        (422, lambda http: http.post("/report", json={"dataset": "guru", "run": "no body", "outcomes": []})),
    ],
)
async def test_what_no_run_is_to_blame_for_is_not_counted(http, status: int, sent: Callable[[Any], Any]):
    await make_dataset(http)
    assert (await sent(http)).status_code == status
    assert (await summary(http))["refused"] is None


async def test_a_key_counts_nothing_where_it_has_no_access(tmp_path: Path):
    async with guarded(tmp_path) as http:
        await make_dataset(http)
        stranger = bearer((await new_key(http, "report", datasets=("mine",)))["key"])
        for outcome in (OUTSIDE, {"task": "task-1", "reward": 1}):
            answer = await http.post("/report", json={"dataset": "guru", "outcomes": [outcome]}, headers=stranger)
            assert answer.status_code == 403
        assert (await summary(http))["refused"] is None
