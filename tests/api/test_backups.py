"""Backups and pruning over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bots_service.core.belief.kinds import KINDS
from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report

BACKUP = {"Content-Type": "application/vnd.bots.backup"}


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of another empty service."""
    async with serving(tmp_path / "other") as client:
        yield client


async def filled(http: httpx.AsyncClient, reports: int = 3, **settings: Any) -> None:
    await make_dataset(http, **settings)
    for number in range(reports):
        await report(http, {"task": f"task-{number}", "successes": 3, "trials": 8})


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_a_dataset_moves_to_another_service(http: httpx.AsyncClient, other: httpx.AsyncClient, belief: str):
    await filled(http, belief=belief)
    for _ in range(5):  # steps without evidence
        await report(http, close_step=True)
    (await http.post(f"{RUN}/snapshots")).raise_for_status()
    backup = await http.get("/datasets/guru/export")
    assert backup.headers["content-type"] == "application/vnd.bots.backup"
    assert backup.headers["content-disposition"] == 'attachment; filename="guru.botsbackup"'
    made = await other.post("/imports", content=backup.content, headers=BACKUP)
    assert made.status_code == 201
    assert made.json() == {"dataset": "guru", "tasks": 20, "runs": [{"run": "default", "seq": 8, "epoch": 0}]}
    for path in ("/datasets/guru", RUN, f"{RUN}/history", f"{RUN}/tasks"):
        assert (await other.get(path)).json() == (await http.get(path)).json()


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_a_run_comes_back_under_another_name(http: httpx.AsyncClient, belief: str):
    await filled(http, belief=belief)
    backup = await http.get("/datasets/guru/export", params={"run": "default"})
    assert 'filename="guru.default.botsbackup"' in backup.headers["content-disposition"]
    made = await http.post("/imports", params={"run": "again"}, content=backup.content, headers=BACKUP)
    assert made.json()["runs"] == [{"run": "again", "seq": 3, "epoch": 0}]
    again = (await http.get("/datasets/guru/runs/again")).json()
    assert (again["step"], again["settings"]["belief"]) == (3, belief)


async def test_an_import_that_is_sent_again_gets_the_first_answer(http: httpx.AsyncClient, other: httpx.AsyncClient):
    await filled(http)
    backup = (await http.get("/datasets/guru/export")).content
    answers = [
        await other.post("/imports", content=backup, headers={**BACKUP, "Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert answers[0].status_code == answers[1].status_code == 201
    assert answers[0].content == answers[1].content
    assert answers[1].headers["idempotent-replayed"] == "true"


async def test_what_is_refused_is_refused_by_name(http: httpx.AsyncClient, other: httpx.AsyncClient):
    await filled(http)
    whole = (await http.get("/datasets/guru/export")).content
    one = (await http.get("/datasets/guru/export", params={"run": "default"})).content

    async def refused(content: bytes, service: httpx.AsyncClient = http, **query: str) -> tuple[int, str]:
        return problem(await service.post("/imports", params=query, content=content, headers=BACKUP))

    assert await refused(whole) == (409, "dataset-exists")
    assert await refused(one) == (409, "run-has-history")
    assert await refused(one, other) == (404, "unknown-dataset")
    assert await refused(whole[:-1], other) == (422, "invalid-backup")
    assert await refused(b"PK\3\4 is a zip", other) == (422, "invalid-backup")
    assert await refused(whole, other, dataset="no/name") == (422, "invalid-request")
    assert await refused(whole, other, dataset="new", run="x") == (422, "invalid-backup")
    assert problem(await http.get("/datasets/none/export")) == (404, "unknown-dataset")
    assert problem(await http.get("/datasets/guru/export", params={"run": "none"})) == (404, "unknown-run")
    assert problem(await other.post("/imports", json={})) == (415, "unsupported-media-type")
    assert (await other.get("/datasets")).json()["datasets"] == []


async def test_a_backup_larger_than_the_limit_is_refused(http: httpx.AsyncClient, tmp_path: Path):
    await filled(http)
    backup = (await http.get("/datasets/guru/export")).content
    async with serving(tmp_path / "small", max_upload_bytes=1024) as small:
        answer = await small.post("/imports", content=backup, headers=BACKUP)
        assert problem(answer) == (413, "payload-too-large")
        assert (await small.get("/datasets")).json()["datasets"] == []


async def test_pruning_tells_what_went(tmp_path: Path):
    async with serving(tmp_path / "pruned", snapshot_every=5) as http:
        await filled(http, reports=12)
        nothing = {"dry_run": False, "runs": []}
        assert (await http.post("/prune", json={})).json() == nothing
        assert (await http.post("/prune", json={"keep_journal_days": 1})).json() == nothing
        told = {"dry_run": True, "runs": [{"dataset": "guru", "run": "default", "entries": 5, "seq": 5}]}
        instantly = {"keep_journal_days": 1e-9}
        assert (await http.post("/prune", json={**instantly, "dry_run": True})).json() == told
        assert (await http.post("/prune", json=instantly)).json() == {**told, "dry_run": False}
        assert (await http.post("/prune", json=instantly)).json() == nothing
        answer = await http.post(f"{RUN}/rewind", json={"step": 2})
        assert problem(answer) == (404, "unknown-step")
        assert answer.json()["detail"] == "pruned: the journal of run 'default' begins at step 5"
        assert problem(await http.post("/prune", json={"keep_journal_days": 0})) == (422, "invalid-request")
