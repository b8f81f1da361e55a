"""PUT a run with `warm_start` or `replay_of`."""

from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

CHILD = "/datasets/guru/runs/child"


@pytest.fixture
async def trained(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a client of a service whose run `default` closed three steps."""
    await make_dataset(http)
    for number in range(3):
        await report(http, solved(number), solved(number + 4, 16))
    return http


async def means(http: httpx.AsyncClient, run: str) -> dict[str, float]:
    return {task["id"]: task["mean"] for task in (await http.get(f"{run}/tasks")).json()["tasks"]}


async def test_a_warm_start_believes_and_counts_nothing(trained: httpx.AsyncClient):
    body = {"warm_start": {"run": "default", "discount": 0.0}, "target": 0.6}
    answer = await trained.put(CHILD, json=body)
    assert answer.status_code == 201, answer.text
    child = answer.json()
    assert (child["step"], child["totals"]["reported"], child["settings"]["target"]) == (0, 0, 0.6)
    assert child["forked_from"] == {"run": "default", "step": 3, "seq": 3, "how": "warm_start", "discount": 0.0}
    assert await means(trained, CHILD) == pytest.approx(await means(trained, RUN))
    assert (await trained.get(CHILD)).json() == child
    assert (await report(trained, solved(1), run="child"))["step"] == 1
    (step,) = (await trained.get(f"{CHILD}/history")).json()["history"]
    assert step["step"] == 1
    assert (await trained.post(f"{CHILD}/rewind", json={"step": 0})).json()["step"] == 0
    assert await means(trained, CHILD) == pytest.approx(await means(trained, RUN))


async def test_a_discount_takes_a_warm_start_back_towards_the_prior(trained: httpx.AsyncClient):
    for name, discount in (("half", 0.5), ("none", 1.0)):
        body = {"warm_start": {"run": "default", "discount": discount, "step": 2}}
        answer = await trained.put(f"/datasets/guru/runs/{name}", json=body)
        assert answer.json()["forked_from"]["step"] == 2
    half, none = [await means(trained, f"/datasets/guru/runs/{name}") for name in ("half", "none")]
    assert 0.5 < half["task-5"] < 17 / 18
    assert none["task-5"] == 0.5


@pytest.mark.parametrize(("belief", "strategy"), [("tracker", "pass"), ("bots", "thompson")])
async def test_a_warm_start_keeps_the_kind_of_belief(trained: httpx.AsyncClient, belief: str, strategy: str):
    (await trained.put("/datasets/guru/runs/parent", json={"belief": belief})).raise_for_status()
    child = (await trained.put(CHILD, json={"warm_start": {"run": "parent", "discount": 0.5}})).json()
    assert (child["settings"]["belief"], child["settings"]["strategy"]) == (belief, strategy)


async def test_a_replay_continues_with_what_its_settings_make_of_the_journal(trained: httpx.AsyncClient):
    await report(trained, solved(9), selection_id=None)
    await trained.post(f"{RUN}/rewind", json={"step": 3})
    await report(trained, solved(10))
    child = (await trained.put(CHILD, json={"replay_of": {"run": "default"}, "belief": "bots"})).json()
    parent = (await trained.get(RUN)).json()
    assert (child["step"], child["totals"]) == (4, parent["totals"])
    assert child["forked_from"] == {"run": "default", "step": 4, "seq": 6, "how": "replay", "discount": None}
    assert child["estimates"] == {"capability": child["capability"]}
    assert child["capability"] is not None
    attempts = [
        [(task["attempts"], task["last_step"]) for task in (await trained.get(f"{run}/tasks")).json()["tasks"]]
        for run in (CHILD, RUN)
    ]
    assert attempts[0] == attempts[1]
    earlier = (
        await trained.put("/datasets/guru/runs/earlier", json={"replay_of": {"run": "default", "step": 2}})
    ).json()
    assert (earlier["step"], earlier["totals"]["reported"]) == (2, 4)
    assert (await report(trained, solved(1), run="child"))["step"] == 5


@pytest.mark.parametrize(
    ("body", "status", "name", "said"),
    [
        ({"fork": {"run": "default"}, "replay_of": {"run": "default"}}, 422, "invalid-request", "only one of fork"),
        ({"warm_start": {"run": "default"}}, 422, "invalid-request", "discount"),
        ({"warm_start": {"run": "default", "discount": 1.5}}, 422, "invalid-request", "<= 1.0"),
        ({"warm_start": {"run": "nobody", "discount": 0}}, 404, "unknown-run", ""),
        ({"warm_start": {"run": "default", "discount": 0, "step": 9}}, 404, "unknown-step", ""),
        ({"warm_start": {"run": "default", "discount": 0}, "belief": "bots"}, 422, "invalid-settings", "replay_of"),
        ({"replay_of": {"run": "default", "step": 9}}, 404, "unknown-step", ""),
        ({"replay_of": {"run": "default"}, "target": 7}, 422, "invalid-settings", "7"),
        ({"replay_of": {"run": "fork"}}, 422, "invalid-settings", "began from run 'default'"),
    ],
)
async def test_a_beginning_that_can_not_be_is_refused(
    trained: httpx.AsyncClient, body: dict[str, Any], status: int, name: str, said: str
):
    (await trained.put("/datasets/guru/runs/fork", json={"fork": {"run": "default"}})).raise_for_status()
    problem = require_problem(await trained.put(CHILD, json=body), status, name)
    assert said in str(problem.get("errors", ""))
    assert (await trained.get(CHILD)).status_code == 404
