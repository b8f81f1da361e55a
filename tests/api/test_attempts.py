"""How often each task was tried is kept through all that can happen to a run, whatever kind of belief it has."""

from pathlib import Path

import httpx
import pytest

from tests.api.conftest import serving
from tests.api.pools import make_dataset, report, solved

RUN = "/datasets/guru/runs/tried"
TASKS = 20
Attempts = dict[str, tuple[float, int, int | None]]

# What each step reports: task and trials.
STEPS = [[(0, 8), (1, 4)], [(1, 16)], [(2, 1), (0, 8)]]


async def train(http: httpx.AsyncClient, kind: str) -> None:
    await make_dataset(http, TASKS)
    assert (await http.put(RUN, json={"belief": kind})).status_code == 201
    for step in STEPS:
        await report(http, *(solved(task, trials // 2, trials) for task, trials in step), run="tried")


def expected(steps: int) -> Attempts:
    """Attempts, visits and last step of each task after so many steps."""
    found: Attempts = {f"task-{task}": (0, 0, None) for task in range(TASKS)}
    for number, step in enumerate(STEPS[:steps], 1):
        for task, trials in step:
            attempts, visits, _ = found[f"task-{task}"]
            found[f"task-{task}"] = attempts + trials, visits + 1, number
    return found


async def told(http: httpx.AsyncClient, run: str = RUN) -> Attempts:
    tasks = (await http.get(f"{run}/tasks")).json()["tasks"]
    return {task["id"]: (task["attempts"], task["visits"], task["last_step"]) for task in tasks}


pytestmark = pytest.mark.parametrize("kind", ["bots", "tracker"])


async def test_attempts_survive_a_restart(tmp_path: Path, kind: str):
    async with serving(tmp_path) as http:
        await train(http, kind)
        assert await told(http) == expected(3)
    async with serving(tmp_path) as http:
        assert await told(http) == expected(3)


async def test_a_rewind_takes_attempts_back_and_a_fork_takes_them_along(http: httpx.AsyncClient, kind: str):
    await train(http, kind)
    assert (await http.post(f"{RUN}/rewind", json={"step": 2})).json()["step"] == 2
    assert await told(http) == expected(2)
    fork = {"fork": {"run": "tried", "step": 1}}
    assert (await http.put("/datasets/guru/runs/forked", json=fork)).status_code == 201
    assert await told(http, "/datasets/guru/runs/forked") == expected(1)
    assert await told(http, "/datasets/guru/runs/default") == expected(0)
