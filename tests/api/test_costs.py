"""What rollouts cost is said once, in a report; its receipt, the history and the run tell the sums."""

from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

FIRST = [solved(0) | {"tokens": 16_000, "seconds": 8.5}, solved(1, 0) | {"tokens": 8_000}, solved(2, 4, 8)]
SECOND = [
    {"task": "task-1", "rewards": [0, 1], "tokens": 2_000},
    {"task": "task-3", "status": "aborted", "tokens": 500},
]


def told(answer: dict[str, Any]) -> tuple[Any, Any]:
    return answer["tokens"], answer["seconds"]


async def test_receipts_history_and_run_tell_the_same_sums(http: httpx.AsyncClient):
    await make_dataset(http)
    receipts = [await report(http, *FIRST), await report(http, *SECOND), await report(http, solved(4))]
    history = (await http.get(f"{RUN}/history")).json()["history"]
    assert list(map(told, receipts)) == list(map(told, history)) == [(24_000, 8.5), (2_500, 0), (0, 0)]
    assert told((await http.get(RUN)).json()["totals"]) == (26_500, 8.5)


@pytest.mark.parametrize("wrong", [-1, "many", True, 1e12, {}])
@pytest.mark.parametrize("name", ["tokens", "seconds"])
async def test_a_cost_that_can_t_be_true_is_refused(http: httpx.AsyncClient, name: str, wrong: Any):
    await make_dataset(http)
    body = {"dataset": "guru", "outcomes": [solved(1) | {name: wrong}]}
    problem = require_problem(await http.post("/report", json=body), 422, "invalid-request")
    assert problem["errors"][0]["loc"] == ["body", "outcomes", 0, name]
    assert (await http.get(RUN)).json()["seq"] == 0
