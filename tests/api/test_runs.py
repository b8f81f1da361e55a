"""Runs over HTTP: made and changed, what they used, how they go, and the tasks that they know."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from bots_service.core.run_settings import RunSettings
from tests.api.pools import RUN, bearer, guarded, make_dataset, new_key, report, require_problem, solved, standing


def as_json(settings: RunSettings) -> dict:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in settings.in_use().given().items()
    }


async def test_put_creates_a_run_and_replaces_settings_only_while_it_is_empty(http):
    await make_dataset(http)
    path = "/datasets/guru/runs/mine"
    created = await http.put(path, json={"target": 0.25, "strategy": "uniform"})
    assert created.status_code == 201
    assert created.json()["settings"] == as_json(RunSettings(target=0.25, strategy="uniform"))
    replaced = await http.put(path, json={"seed": 5})
    assert replaced.status_code == 200
    assert replaced.json()["settings"] == as_json(RunSettings(seed=5))
    await report(http, solved(1), run="mine")
    require_problem(await http.put(path, json={"seed": 6}), 409, "run-has-history")
    same = await http.put(path, json={"seed": 5})
    assert (same.status_code, same.json()["step"]) == (200, 1)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"forgetting": 1.5}, "invalid-settings"),
        ({"target": -0.1, "seed": -1}, "invalid-settings"),
        ({"seed": 10**30}, "invalid-settings"),
        ({"forgetting": 0.2, "prior": [2, 2]}, "invalid-settings"),  # of the belief "bots" only
        ({"strategy": "best"}, "invalid-input"),
        ({"forgetting": None}, "invalid-input"),
        ({"lambda": 0.5}, "invalid-input"),
        ({"fork": {"run": "default\n"}}, "invalid-input"),
    ],
)
async def test_impossible_settings_are_refused_by_name_and_change_nothing(http, settings, name):
    await make_dataset(http)
    before = await standing(http)
    for method, path in (("PUT", "/datasets/guru/runs/new"), ("PUT", RUN), ("PATCH", RUN)):
        problem = require_problem(await http.request(method, path, json=settings), 422, name)
        assert {error["loc"][1] for error in problem["errors"]} == set(settings)
    assert await standing(http) == before


async def test_a_probe_s_slope_is_an_estimate_and_the_probe_an_entry(http):
    await make_dataset(http)
    first = (await http.put(f"{RUN}/probe", json={"values": {"task-1": 1, "task-2": -2.5, "task-3": 1e300}})).json()
    assert (first["seq"], first["step"], first["estimates"]["probe_slope"]) == (1, 0, 0)
    await report(http, solved(1), solved(2))
    (entry,) = (await http.get(f"{RUN}/journal", params={"kind": "probe"})).json()["entries"]
    assert (entry["kind"], entry["tasks"], entry["step"]) == ("probe", 3, 0)
    assert (await http.get(RUN)).json()["estimates"]["probe_slope"] != 0


@pytest.mark.parametrize(
    ("body", "status", "name", "loc"),
    [
        ('{"values": {"task-1": 1, "gone": 2}}', 422, "invalid-tasks", ["body", "values", "gone"]),
        ('{"values": {"task-1": 1, "task-2": 1.0}}', 422, "invalid-tasks", None),
        ('{"values": {"task-1": 1}}', 422, "invalid-input", ["body", "values"]),
        ('{"values": {"task-1": 1, "task-2": null}}', 422, "invalid-input", None),
        ('{"values": {"task-1": 1, "task-2": 1e999}}', 422, "invalid-input", None),
        ('{"values": {"task-1": 1, "task-2": NaN}}', 400, "malformed-body", None),
        ('{"values": {"task-1": 1, "task-2": 2}, "more": 3}', 422, "invalid-input", ["body", "more"]),
    ],
)
async def test_a_probe_that_can_not_be_is_refused_and_changes_nothing(http, body, status, name, loc):
    await make_dataset(http)
    before = await standing(http)
    answer = await http.put(f"{RUN}/probe", content=body, headers={"Content-Type": "application/json"})
    problem = require_problem(answer, status, name)
    assert loc is None or problem["errors"][0]["loc"] == loc
    assert await standing(http) == before


async def test_a_run_with_bots_refuses_a_probe_and_names_the_fix(http):
    await make_dataset(http)
    (await http.put("/datasets/guru/runs/paper", json={"belief": "bots"})).raise_for_status()
    answer = await http.put("/datasets/guru/runs/paper/probe", json={"values": {"task-1": 1, "task-2": 2}})
    assert "a run with the belief 'tracker'" in require_problem(answer, 422, "invalid-settings")["detail"]


async def test_what_was_expected_of_the_pool_is_a_part_of_the_curve(http):
    await make_dataset(http)
    tasks = (await http.get(f"{RUN}/tasks", params={"limit": 1000})).json()["tasks"]
    expected = (await http.get(RUN.removeprefix("/"))).json()["uniform_effective_task_ratio"]
    await report(http, solved(1), solved(2))
    (point,) = (await http.get(f"{RUN}/curve")).json()["points"]
    assert 0 < point["uniform_effective_task_ratio"] == expected < 1
    counts = [0] * 20
    for task in tasks:
        counts[int(task["mean"] * 20)] += 1
    assert point["distribution"] == pytest.approx([count / len(tasks) for count in counts])


async def test_unknown_names_are_404(http):
    await make_dataset(http)
    for path, body in (("/select", {"count": 1}), ("/report", {"outcomes": []})):
        require_problem(await http.post(path, json={"dataset": "nope", **body}), 404, "unknown-dataset")
        require_problem(await http.post(path, json={"dataset": "guru", "run": "nope", **body}), 404, "unknown-run")


COSTLY = [solved(0) | {"tokens": 16_000, "seconds": 8.5}, solved(1, 0) | {"tokens": 8_000}, solved(2, 4, 8)]
CHEAPER = [
    {"task": "task-1", "rewards": [0, 1], "tokens": 2_000},
    {"task": "task-3", "status": "aborted", "tokens": 500},
]


def costs(answer: dict[str, Any]) -> tuple[Any, Any]:
    return answer["tokens"], answer["seconds"]


async def test_receipts_history_and_run_tell_the_same_sums_of_what_rollouts_cost(http: httpx.AsyncClient):
    await make_dataset(http)
    receipts = [await report(http, *COSTLY), await report(http, *CHEAPER), await report(http, solved(4))]
    history = (await http.get(f"{RUN}/history")).json()["history"]
    assert list(map(costs, receipts)) == list(map(costs, history)) == [(24_000, 8.5), (2_500, 0), (0, 0)]
    assert costs((await http.get(RUN)).json()["totals"]) == (26_500, 8.5)


async def overview(http: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await http.get("/overview", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def summary(http: httpx.AsyncClient, run: str = "default", dataset: str = "guru") -> dict[str, Any]:
    answer = await http.get(f"/datasets/{dataset}/runs/{run}/summary")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def put_run(http: httpx.AsyncClient, name: str, dataset: str = "guru", **settings: Any) -> None:
    answer = await http.put(f"/datasets/{dataset}/runs/{name}", json=settings)
    assert answer.status_code == 201, answer.text


def outcomes(effective: int, of: int = 4) -> list[dict[str, Any]]:
    return [solved(task, 8 if task < effective else 16) for task in range(of)]


async def three_datasets(http: httpx.AsyncClient) -> None:
    for name in ("alpha", "beta", "gamma"):
        await make_dataset(http, name=name)
    for name, effective in (("beta", 3), ("alpha", 1)):
        await report(http, *outcomes(effective), dataset=name)


async def test_runs_are_searched_sorted_and_counted_and_come_in_pages(http):
    """tests/usecases has every order and filter."""
    await three_datasets(http)
    await put_run(http, "Other", "beta")
    assert (await overview(http, search="oTHE"))["matching"] == 1
    found = await overview(http, status="new", sort="-name", limit=1)
    rest = await overview(http, status="new", sort="-name", cursor=found["next_cursor"])
    runs = [(run["dataset"], run["run"]) for run in (*found["runs"], *rest["runs"])]
    assert (runs, found["matching"], rest["next_cursor"]) == ([("gamma", "default"), ("beta", "Other")], 2, None)
    assert found["totals"] == {
        "datasets": 3,
        "runs": 4,
        "attention": 0,
        "new": 2,
        "running": 2,
        "stalled": 0,
        "idle": 0,
        "finished": 0,
        "reported": 8,
        "effective": 4,
        "rollouts": 128.0,
    }


async def test_evaluations_stand_in_the_summary_and_the_last_one_in_the_overview_until_the_run_is_finished(http):
    await make_dataset(http)
    await report(http, solved(1))
    for values, step in (({"heldout/accuracy": 0.25, "a score": 3}, None), ({"heldout/accuracy": 0.5}, 7)):
        answer = await http.post(f"{RUN}/evaluations", json={"values": values, "step": step})
        assert (answer.status_code, answer.content) == (204, b"")
    assert (await http.post(f"{RUN}/finish")).status_code == 204
    found = await summary(http)
    assert found["evaluations"] == {"heldout/accuracy": [[1, 0.25], [7, 0.5]], "a score": [[1, 3.0]]}
    (listed,) = (await overview(http, status="finished", sort="-evaluation"))["runs"]
    assert listed == {**found, "leased": None, "evaluations": None}
    assert (listed["evaluation"]["name"], listed["evaluation"]["value"]) == ("a score", 3.0)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"values": {}}',
        b'{"values": {"": 1}}',
        b'{"values": {"a\\u0000": 1}}',
        b'{"values": {"a": null}}',
        b'{"values": {"a": true}}',
        b'{"values": {"a": 1e999}}',
        b'{"values": {"a": 1}, "step": -1}',
        b'{"values": {"a": 1}, "stpe": 1}',
        json.dumps({"values": {f"v{number}": 1 for number in range(1001)}}).encode(),
    ],
)
async def test_an_evaluation_that_can_t_be_is_refused(http, body: bytes):
    await make_dataset(http)
    answer = await http.post(f"{RUN}/evaluations", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert (await summary(http))["evaluations"] == {}


OUTSIDE = {"task": "task-1", "rewards": [-1, 1, 1, -1]}


@pytest.mark.parametrize(
    "body",
    [
        {"outcomes": [OUTSIDE]},
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
    assert everything["runs"] == [{**found, "leased": None, "evaluations": None}]


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, lambda http: http.post("/report", content=b"{", headers={"Content-Type": "application/json"})),
        (404, lambda http: http.post("/report", json={"dataset": "guru", "run": "nobody", "outcomes": [OUTSIDE]})),
        (415, lambda http: http.post("/report", content=b"{}", headers={"Content-Type": "text/plain"})),
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
