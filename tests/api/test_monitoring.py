"""GET /metrics: what happened, counted once; and whether a group has a gradient, told everywhere alike."""

from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved

OF_RUN = {"dataset": "guru", "run": "default"}


async def metrics(http: httpx.AsyncClient) -> dict[str, list[tuple[dict[str, str], float]]]:
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


NAMES = ("reported", "effective", "all_solved", "none_solved")


def shaped(task: int, right: list[int], formatted: list[int]) -> dict[str, Any]:
    """Return the outcome of a group that is rewarded by 1 for what is right and by 0.2 for its format."""
    rewards = [one + 0.2 * other for one, other in zip(right, formatted, strict=True)]
    return {"task": f"task-{task}", "successes": sum(right), "trials": len(right), "rewards": rewards}


FIRST = [
    shaped(0, [1, 1, 1, 1], [1, 1, 1, 1]),  # code: no gradient, solved
    shaped(1, [1, 1, 1, 1], [1, 0, 1, 1]),  # math: solved always, and yet a gradient
    shaped(2, [0, 0, 0, 0], [1, 1, 1, 1]),  # math: no gradient, not solved
    shaped(3, [0, 1, 0, 0], [1, 0, 1, 0]),  # code: a gradient
    {"task": "task-4", "rewards": [0.5, 0.5]},  # math: no gradient, in the middle
    {"task": "task-5", "successes": 2, "trials": 4, "effective": False},  # math: no gradient, as its trainer knows
]
# One task in two halves, each without a gradient, whose rates differ; another whose rates are equal.
HALVES = [
    [shaped(6, [1, 1], [1, 1]), shaped(7, [0, 0], [1, 1])],
    [shaped(6, [0, 0], [1, 1]), shaped(7, [0, 0], [1, 1])],
]
STEPS = [
    {"reported": 6, "effective": 2, "all_solved": 3, "none_solved": 1},
    {"reported": 2, "effective": 1, "all_solved": 0, "none_solved": 1},
]
TOTALS = {name: sum(step[name] for step in STEPS) for name in NAMES}


async def train(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Report two steps, the second in halves, and return their receipts."""
    first = await report(http, *FIRST)
    await report(http, *HALVES[0], close_step=False)
    return [first, await report(http, *HALVES[1], close_step=True)]


async def stored(http: httpx.AsyncClient) -> list[Any]:
    """Return what SQL and the belief tell of the run: totals, history, curve, journal."""
    totals = (await http.get(RUN)).json()["totals"]
    history = (await http.get(f"{RUN}/history")).json()["history"]
    curve = (await http.get(f"{RUN}/curve")).json()["points"]
    journal = (await http.get(f"{RUN}/journal")).json()["entries"]
    return [
        {name: totals[name] for name in NAMES},
        [(step["reported"], step["effective"], step["effective_task_ratio"]) for step in history],
        [(point["reported"], point["effective"]) for point in curve],
        [(entry["tasks"], entry["effective"]) for entry in reversed(journal)],
    ]


SHOWN = [
    TOTALS,
    [(step["reported"], step["effective"], step["effective"] / step["reported"]) for step in STEPS],
    [(step["reported"], step["effective"]) for step in STEPS],
    [(len(FIRST), 2), (2, 0), (2, 0)],  # the journal tells of outcomes as they were reported: of halves
]


async def test_receipts_totals_history_curve_journal_and_metrics_tell_the_same(http: httpx.AsyncClient):
    await make_dataset(http)
    receipts = await train(http)
    assert [(one["reported"], one["effective"]) for one in receipts] == [
        (step["reported"], step["effective"]) for step in STEPS
    ]
    assert await stored(http) == SHOWN
    for name in NAMES[:3]:
        assert await value(http, f"bots_{name}_tasks_total", **OF_RUN) == TOTALS[name], name
