"""GET outlooks over HTTP; `tests/usecases` and `tests/storage` say which there are."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from tests.api.pools import RUN, make_dataset, report, solved


async def test_what_is_expected_of_the_pool_becomes_history_by_itself(http):
    await make_dataset(http)
    assert (await http.get(f"{RUN}/outlooks")).json() == {"outlooks": []}
    await report(http, solved(1), solved(2))
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while not found:
            await asyncio.sleep(0.05)
            found = (await http.get(f"{RUN}/outlooks", params={"points": 1})).json()["outlooks"]
    (outlook,) = found
    assert outlook["step"] == 1
    assert 0 < outlook["uniform_effective_task_ratio"] < 1
    told = (await http.get("/datasets/guru/runs/default")).json()["coverage"]
    for name in ("distinct_tasks", "reached_share", "top_tenth_share", "unmet_share", "visits_per_met_task", "narrow"):
        assert outlook[name] == told[name]
    tasks = (await http.get(f"{RUN}/tasks", params={"limit": 1000})).json()["tasks"]
    counts = [0] * 20
    for task in tasks:
        counts[int(task["mean"] * 20)] += 1
    assert outlook["distribution"] == pytest.approx([count / len(tasks) for count in counts])
    assert datetime.fromisoformat(outlook["time"]).tzinfo is not None
