"""GET journal: everything that ever changed a run, the newest first."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

NOTHING = dict.fromkeys(("tasks", "effective", "rollouts", "closed", "to_step", "changed", "skipped"))


async def journal(http: httpx.AsyncClient, run: str = RUN, **query: str | int) -> dict[str, Any]:
    answer = await http.get(f"{run}/journal", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def without_times(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


async def test_every_kind_of_entry_tells_what_it_did(http: httpx.AsyncClient):
    await make_dataset(http)
    await report(http, solved(1, 3, 8), solved(2, 4, 4), {"task": "task-3", "status": "aborted"})
    await report(http, solved(4, 1, 2), close_step=False)
    await http.patch(RUN, json={"target": 0.25, "reward_range": [-1, 1]})
    await report(http, close_step=True)
    await http.post(f"{RUN}/rewind", json={"step": 1})
    await http.put("/datasets/guru/runs/child", json={"fork": {"run": "default"}})

    shown = {"epoch": 0, **NOTHING, "hidden": False}
    some = {"tasks": 1, "effective": 1, "rollouts": 2.0, "closed": False}
    none = {"tasks": 0, "effective": 0, "rollouts": 0.0, "closed": True}
    two = {"tasks": 2, "effective": 1, "rollouts": 8.0 + 4.0, "closed": True}
    assert without_times((await journal(http))["entries"]) == [
        {**shown, "seq": 5, "epoch": 1, "step": 1, "kind": "rewind", "to_step": 1},
        {**shown, "seq": 4, "step": 2, "kind": "report", **none, "hidden": True},
        {
            **{**shown, "seq": 3, "step": 1, "kind": "settings", "hidden": True},
            "changed": {"target": 0.25, "reward_range": [-1.0, 1.0]},
        },
        {**shown, "seq": 2, "step": 1, "kind": "report", **some, "hidden": True},
        {**shown, "seq": 1, "step": 1, "kind": "report", **two},
    ]
    (fork,) = (await journal(http, "/datasets/guru/runs/child"))["entries"]
    assert (fork["seq"], fork["kind"], fork["step"], fork["hidden"]) == (1, "fork", 1, False)


async def test_kinds_narrow_the_journal(http: httpx.AsyncClient):
    await make_dataset(http)
    for target in (0.4, 0.6):
        await report(http, solved(1))
        await http.patch(RUN, json={"target": target})
    await http.post(f"{RUN}/rewind", json={"step": 1})
    whole = (await journal(http))["entries"]
    for kinds in (["report"], ["settings", "rewind"], ["fork"]):
        answer = await http.get(f"{RUN}/journal", params={"kind": kinds})
        assert answer.json()["entries"] == [entry for entry in whole if entry["kind"] in kinds]
    first = (await http.get(f"{RUN}/journal", params={"kind": ["settings", "rewind"], "limit": 2})).json()
    cursor = first["next_cursor"]
    rest = (await http.get(f"{RUN}/journal", params={"kind": ["settings", "rewind"], "cursor": cursor})).json()
    assert [entry["seq"] for entry in first["entries"]] == [5, 4]
    assert ([entry["seq"] for entry in rest["entries"]], rest["next_cursor"]) == ([2], None)
    require_problem(await http.get(f"{RUN}/journal?kind=reports"), 422, "invalid-request")


async def test_times_are_those_at_which_entries_came(http: httpx.AsyncClient):
    await make_dataset(http)
    for _ in range(3):
        await report(http, solved(1))
    steps = (await http.get(f"{RUN}/history")).json()["history"]
    times = [entry["time"] for entry in (await journal(http))["entries"]]
    assert times == [step["time"] for step in reversed(steps)]
    assert datetime.now(UTC) - datetime.fromisoformat(times[0]) < timedelta(minutes=10)


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 200])
async def test_paging_walks_the_whole_journal_while_it_grows(http: httpx.AsyncClient, limit: int):
    await make_dataset(http)
    for _ in range(5):
        await report(http, solved(1))
    await http.post(f"{RUN}/rewind", json={"step": 2})
    page = await journal(http, limit=limit)
    seen = page["entries"]
    while page["next_cursor"] is not None:
        assert len(page["entries"]) == limit
        await report(http, solved(2))
        page = await journal(http, limit=limit, cursor=page["next_cursor"])
        seen += page["entries"]
    assert [(entry["seq"], entry["hidden"]) for entry in seen] == [(seq, 3 <= seq <= 5) for seq in range(6, 0, -1)]


async def test_an_empty_journal_and_what_is_not_known(http: httpx.AsyncClient):
    await make_dataset(http)
    assert await journal(http) == {"entries": [], "next_cursor": None}
    require_problem(await http.get("/datasets/guru/runs/none/journal"), 404, "unknown-run")
    require_problem(await http.get("/datasets/none/runs/default/journal"), 404, "unknown-dataset")
    require_problem(await http.get(f"{RUN}/journal", params={"cursor": "mine"}), 422, "invalid-request")
    for limit in (0, 201):
        require_problem(await http.get(f"{RUN}/journal", params={"limit": limit}), 422, "invalid-request")
