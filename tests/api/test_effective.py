"""Whether a group has a gradient is said once, in its report; every number of effective tasks goes by that."""

from pathlib import Path
from typing import Any

import httpx

from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report
from tests.api.test_monitoring import OF_RUN, value

BACKUP = {"Content-Type": "application/vnd.bots.backup"}
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
        [{name: point[name] for name in NAMES} for point in curve],
        [(entry["tasks"], entry["effective"]) for entry in reversed(journal)],
    ]


SHOWN = [
    TOTALS,
    [(step["reported"], step["effective"], step["effective"] / step["reported"]) for step in STEPS],
    STEPS,
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


async def test_a_replay_and_an_imported_backup_tell_the_same(tmp_path: Path):
    async with serving(tmp_path / "one") as http:
        await make_dataset(http)
        await train(http)
        exported = (await http.get("/datasets/guru/export")).content
    async with serving(tmp_path / "one") as again:
        assert await stored(again) == SHOWN
        assert (await again.post(f"{RUN}/rewind", json={"step": 1})).status_code == 200
        await report(again, *HALVES[0], close_step=False)
        await report(again, *HALVES[1], close_step=True)
        assert (await stored(again))[:3] == SHOWN[:3]
    async with serving(tmp_path / "other") as other:
        assert (await other.post("/imports", content=exported, headers=BACKUP)).status_code == 201
        assert await stored(other) == SHOWN
