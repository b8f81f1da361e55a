"""A second kind of belief goes through the whole service, with no change to it but a line in each table of kinds."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.stats import kstest

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.draw.thompson import draw_nearest
from bots_service.core.run_settings import BELIEFS, BeliefSettings, settings_from
from tests.api.conftest import serving
from tests.api.pools import MODELS, report, require_problem, select, solved, tasks
from tests.beliefs.uniform import UniformBelief, Uniforms
from tests.core.journals import pool_of, replay, report_of
from tests.core.pools import LEVEL

RUN = "/datasets/guru/runs/flat"


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "uniform", UniformBelief)
    monkeypatch.setitem(BELIEFS, "uniform", BeliefSettings("thompson"))


async def train(http: httpx.AsyncClient) -> None:
    """Create a run of the other kind, and report to it three times."""
    answer = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(20)})
    assert answer.status_code == 201
    answer = await http.put(RUN, json={"belief": "uniform", "seed": 3})
    assert (answer.status_code, answer.json()["settings"]["belief"]) == (201, "uniform")
    for number in range(3):
        await report(http, solved(number), run="flat")


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of a service that has a run of the other kind, with three reports."""
    async with serving(tmp_path / "one") as client:
        await train(client)
        yield client


async def of_the_run(http: httpx.AsyncClient) -> list[Any]:
    return [(await http.get(path)).json() for path in (RUN, f"{RUN}/tasks", f"{RUN}/history")]


async def test_a_run_of_the_other_kind_selects_learns_and_lists_its_tasks(http: httpx.AsyncClient):
    selected = await select(http, 4, run="flat")
    assert {(task["mean"], task["effective"]) for task in selected["tasks"]} == {(0.5, 1 - 2 / 17)}
    assert all(0 <= task["draw"] <= 1 for task in selected["tasks"])
    outcomes = [{"task": task["id"], "successes": 8, "trials": 16} for task in selected["tasks"]]
    reported = await report(http, *outcomes, run="flat", selection_id=selected["selection_id"])
    assert (reported["step"], reported["late"], reported["capability"]) == (4, 0, None)
    listed = (await http.get(f"{RUN}/tasks")).json()["tasks"]
    assert len(listed) == 20
    for task in listed:
        assert (task["alpha"], task["beta"], task["interval"]) == (None, None, [0.05, 0.95])
        assert (task["effective"], task["variance"]) == (1 - 2 / 17, 1 / 6)
    steps = (await http.get(f"{RUN}/history")).json()["history"]
    assert steps[-1]["brier"] == pytest.approx(0.25)  # of a prediction of 1/2


async def test_what_is_expected_of_its_pool_is_what_it_says(http: httpx.AsyncClient):
    found = (await http.get(f"{RUN}/curve")).json()["points"]
    assert found[-1]["uniform_effective_task_ratio"] == pytest.approx(1 - 2 / 17)
    assert found[-1]["distribution"][10] == pytest.approx(1.0)


async def test_it_rewinds_forks_and_comes_back_after_a_restart(tmp_path: Path):
    async with serving(tmp_path) as http:
        await train(http)
        assert (await http.post(f"{RUN}/rewind", json={"step": 2})).json()["step"] == 2
        forked = await http.put("/datasets/guru/runs/forked", json={"fork": {"run": "flat"}})
        assert (forked.json()["step"], forked.json()["settings"]["belief"]) == (2, "uniform")
        before = await of_the_run(http)
    async with serving(tmp_path) as http:
        assert await of_the_run(http) == before


async def test_a_run_keeps_its_kind_and_no_unknown_kind_is_taken(http: httpx.AsyncClient):
    kept = require_problem(await http.patch(RUN, json={"belief": "bots"}), 422, "invalid-settings")
    assert kept["errors"][0]["msg"].startswith("the belief is fixed once a run exists")
    unknown = require_problem(await http.put(f"{RUN}2", json={"belief": "tracked"}), 422, "invalid-settings")
    assert unknown["errors"][0]["msg"] == "'tracked' is not one of bots, tracker, uniform; did you mean 'tracker'?"


def test_its_state_comes_back_bit_for_bit():
    pool = pool_of((0.25, 0.75), (0.5, 0.875))
    state = replay(pool, [report_of((0, 3.0, 1.0)), report_of((1, 0.5, 3.5))], settings_from({"belief": "uniform"}))
    again = decode_state(encode_state(state))
    assert isinstance(again.belief, UniformBelief)
    assert (again.belief.steps, again.belief.own_tasks.tolist()) == (2, [0, 1])
    assert encode_state(again) == encode_state(state)


@pytest.mark.parametrize("own", [0, 5000], ids=["windows", "windows and thinning"])
def test_its_draws_over_a_large_pool_are_those_of_each_task(own: int):
    sizes, rng = np.array([30_000, 20_000]), np.random.default_rng(5)
    nearest = [
        draw_nearest(Uniforms(own), Uniforms(2), sizes, count=1, target=0.5, rng=rng).values[0] for _ in range(400)
    ]
    # |p - 1/2| of n tasks is uniform on [0, 1/2], so the least of them is below x with 1 - (1 - 2 x)^n.
    tasks_in_all = own + int(sizes.sum())
    assert kstest(np.abs(np.array(nearest) - 0.5), lambda x: 1 - (1 - 2 * x) ** tasks_in_all).pvalue > LEVEL
