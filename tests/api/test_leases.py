"""GET leases: the tasks in flight."""

from datetime import UTC, datetime, timedelta

import httpx

from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved


async def test_each_selection_is_listed_until_it_is_reported(http: httpx.AsyncClient):
    await make_dataset(http)
    assert (await http.get(f"{RUN}/leases")).json() == {"leased": 0, "leases": []}
    before = datetime.now(UTC)
    first, second = await select(http, 8), await select(http, 3)

    told = (await http.get(f"{RUN}/leases")).json()

    assert (told["leased"], [lease["tasks"] for lease in told["leases"]]) == (11, [8, 3])
    for selection, lease in zip((first, second), told["leases"], strict=True):
        chosen = sorted(int(task["id"].removeprefix("task-")) for task in selection["tasks"])
        assert lease["first"] == [f"task-{number}" for number in chosen[:5]]
        ends = datetime.fromisoformat(lease["expires_at"]) - timedelta(hours=1)
        assert before - timedelta(minutes=1) < ends < datetime.now(UTC) + timedelta(minutes=1)
    one = (await http.get(f"{RUN}/leases", params={"limit": 1})).json()
    assert (one["leased"], len(one["leases"])) == (11, 1)

    named = (await http.get(f"{RUN}/leases", params={"ids": 1000})).json()["leases"]
    assert [set(lease["first"]) for lease in named] == [
        {task["id"] for task in selection["tasks"]} for selection in (first, second)
    ]

    numbers = [int(task["id"].removeprefix("task-")) for task in first["tasks"]]
    await report(http, *map(solved, numbers), selection_id=first["selection_id"])
    told = (await http.get(f"{RUN}/leases")).json()
    assert (told["leased"], [lease["tasks"] for lease in told["leases"]]) == (3, [3])


async def test_leases_of_what_is_not_known(http: httpx.AsyncClient):
    await make_dataset(http)
    require_problem(await http.get("/datasets/guru/runs/none/leases"), 404, "unknown-run")
    require_problem(await http.get("/datasets/none/runs/default/leases"), 404, "unknown-dataset")
    require_problem(await http.get(f"{RUN}/leases", params={"limit": 1001}), 422, "invalid-request")
