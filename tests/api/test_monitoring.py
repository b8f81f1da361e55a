"""GET /metrics: what happened, counted once, under names that don't grow without end."""

import math
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved

OF_RUN = {"dataset": "guru", "run": "default"}


async def metrics(http: httpx.AsyncClient) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return all samples by name."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def value(http: httpx.AsyncClient, name: str, **labels: str) -> float:
    """Return the value of the one series that has these labels, 0 if there is none."""
    found = [at for own, at in (await metrics(http)).get(name, []) if labels.items() <= own.items()]
    assert len(found) <= 1, (name, labels, found)
    return found[0] if found else 0.0


async def of_run(http: httpx.AsyncClient, name: str) -> float:
    return await value(http, name, **OF_RUN)


async def test_the_effective_task_ratio_by_metrics_is_the_one_by_the_journal(http: httpx.AsyncClient):
    await make_dataset(http)
    await report(http, solved(1), solved(2, 16), solved(3, 0))
    await report(http, solved(4), solved(5, 0), close_step=False)
    await report(http, {"task": "task-5", "rewards": [1.0, 0.5]}, {"task": "task-6", "status": "aborted"})
    steps = (await http.get(f"{RUN}/history")).json()["history"]
    assert len(steps) == await of_run(http, "bots_steps_total") == 1 + 1
    totals = (await http.get(RUN)).json()["totals"]
    for name in ("reported", "effective"):
        assert await of_run(http, f"bots_{name}_tasks_total") == sum(step[name] for step in steps), name
    assert await of_run(http, "bots_all_solved_tasks_total") == totals["all_solved"]
    assert await of_run(http, "bots_reports_total") == 3
    assert await of_run(http, "bots_rollouts_total") == 3 * 16 + 16 + 16 + 2
    assert await of_run(http, "bots_solved_rollouts_total") == 7 + 16 + 7 + 1.5
    expected = steps[0]["brier"] * 48 + steps[1]["brier"] * 34
    assert math.isclose(await of_run(http, "bots_prediction_squared_error_total"), expected)


async def test_what_counts_for_nothing_or_less_is_told_apart(http: httpx.AsyncClient):
    await make_dataset(http)
    first = await select(http, 2)
    keyed: dict[str, Any] = {"json": {"dataset": "guru", "outcomes": [solved(1)]}, "headers": {"Idempotency-Key": "k"}}
    for _ in range(3):
        assert (await http.post("/report", **keyed)).status_code == 200
    mine = [{"task": task["id"], "successes": 1, "trials": 2} for task in first["tasks"]]
    assert (await report(http, *mine, selection_id=first["selection_id"]))["late"] == 2
    assert (await http.post(f"{RUN}/rewind", json={"step": 1})).status_code == 200
    fenced = {"dataset": "guru", "selection_id": first["selection_id"], "outcomes": mine}
    require_problem(await http.post("/report", json=fenced), 409, "stale-epoch")
    assert await of_run(http, "bots_reports_total") == 2
    assert await of_run(http, "bots_duplicate_reports_total") == 2
    assert await of_run(http, "bots_expired_outcomes_total") == 0
    assert await of_run(http, "bots_fenced_reports_total") == 1


async def test_selections_count_once_however_often_they_are_asked_for(http: httpx.AsyncClient):
    await make_dataset(http, count=20)
    wish: dict[str, Any] = {"json": {"dataset": "guru", "count": 15}, "headers": {"Idempotency-Key": "k"}}
    for _ in range(2):
        assert (await http.post("/select", **wish)).status_code == 200
    assert (await select(http, 15))["reused"] == 10
    assert await of_run(http, "bots_selections_total") == 2
    assert await of_run(http, "bots_degraded_answers_total") == 0
    assert await value(http, "bots_draw_duration_seconds_count") >= 2


async def test_times_of_the_last_report_and_selection_are_unix_times(http: httpx.AsyncClient):
    await make_dataset(http)
    await select(http, 1)
    await report(http, solved(1))
    selected = await of_run(http, "bots_last_selection_timestamp_seconds")
    reported = await of_run(http, "bots_last_report_timestamp_seconds")
    created = (await http.get("/datasets/guru")).json()["created_at"]
    assert created is not None
    assert 1.7e9 < selected <= reported


async def test_requests_count_by_the_template_of_their_route(http: httpx.AsyncClient):
    await make_dataset(http)
    for path in (RUN, "/datasets/guru/runs/none", "/nothing/here", "/nothing/there"):
        await http.get(path)
    await http.request("BREW", "/livez")
    requests = "bots_http_requests_total"
    route = "/datasets/{dataset}/runs/{run}"
    assert await value(http, requests, method="GET", route=route, status="200") == 1
    assert await value(http, requests, method="GET", route=route, status="404") == 1
    assert await value(http, requests, method="GET", route="(none)", status="404") == 2
    assert await value(http, requests, method="other", status="405") == 1
    assert await value(http, "bots_http_request_duration_seconds_count", method="GET", route=route) == 2
    assert await value(http, requests, method="GET", route="/metrics", status="200") == 5


async def test_no_series_names_a_task(http: httpx.AsyncClient):
    await make_dataset(http)
    await select(http, 5)
    await report(http, *(solved(number) for number in range(20)))
    await http.get(f"{RUN}/tasks?ids=task-3")
    assert "task-" not in (await http.get("/metrics")).text


@pytest.mark.parametrize("path", [RUN, "/datasets/guru"])
async def test_a_deleted_run_takes_its_series_along(http: httpx.AsyncClient, path: str):
    await make_dataset(http)
    await report(http, solved(1))
    assert await of_run(http, "bots_reports_total") == 1
    assert (await http.delete(path)).status_code == 204
    assert [name for name, found in (await metrics(http)).items() if any("run" in labels for labels, _ in found)] == []


async def test_a_hundred_runs_make_a_bounded_number_of_series(http: httpx.AsyncClient):
    await make_dataset(http)
    for number in range(100):
        await http.put(f"/datasets/guru/runs/r{number}", json={})
        body = {"dataset": "guru", "run": f"r{number}", "outcomes": [solved(1)]}
        assert (await http.post("/report", json=body)).status_code == 200
    found = await metrics(http)
    assert len(found["bots_reports_total"]) == 32 + 1
    assert sum(at for _, at in found["bots_reports_total"]) == 100
    assert sum(len(samples) for samples in found.values()) < 33 * 30


async def test_the_process_and_its_stores_are_told(tmp_path: Path):
    async with serving(tmp_path) as http:
        version = (await http.get("/version")).json()
        built = {"version": version["version"], "python": version["python"], "numpy": version["numpy"]}
        assert await value(http, "bots_build_info", **built) == 1
        assert await value(http, "bots_store_up", store="sql") == 1
        assert await value(http, "bots_ready") == 1
        assert await value(http, "process_resident_memory_bytes") > 2**20
        assert await value(http, "bots_waiting_requests") == 0


async def test_a_refusal_for_lack_of_room_counts(tmp_path: Path):
    async with serving(tmp_path, max_concurrent=1, max_waiting=0) as http:
        await make_dataset(http)
        await http.line.acquire()
        refused = await http.post("/select", json={"dataset": "guru", "count": 1})
        require_problem(refused, 503, "overloaded")
        http.line.release()
        assert await value(http, "bots_http_requests_total", route="/select", status="503") == 1
