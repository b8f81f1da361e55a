"""API keys over HTTP: made once, told once, listed, revoked."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.pools import bearer, guarded, make_dataset, new_key, require_problem

ROOT = {"name": "root", "scopes": ["admin"], "datasets": ["*"]}


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A service under the operator's key."""
    async with guarded(tmp_path) as client:
        yield client


async def test_a_new_key_is_told_once(closed: httpx.AsyncClient):
    made = await new_key(closed, "select", "report", datasets=("guru*", "b"), expires_in_seconds=60)

    assert made["key"].startswith(f"bots_{made['id']}_")
    assert (made["scopes"], made["datasets"]) == (["report", "select"], ["guru*", "b"])
    age = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert abs(age - timedelta(seconds=60)) < timedelta(milliseconds=1)
    listed = await closed.get("/keys")
    assert listed.json() == {"keys": [{name: made[name] for name in made if name != "key"}], "next_cursor": None}
    assert made["key"][-64:] not in listed.text


async def test_a_retry_makes_no_second_key_and_does_not_tell_the_first_again(closed: httpx.AsyncClient, tmp_path):
    first, again = [await closed.post("/keys", json=ROOT, headers={"Idempotency-Key": "once"}) for _ in range(2)]

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == {**first.json(), "key": None}
    assert len((await closed.get("/keys")).json()["keys"]) == 1
    other = await closed.post("/keys", json={**ROOT, "name": "x"}, headers={"Idempotency-Key": "once"})
    require_problem(other, 422, "key-reused")
    with sqlite3.connect(tmp_path / "bots.db") as database:
        kept = "".join(map(str, database.execute("SELECT * FROM answers").fetchall()))
    database.close()
    assert first.json()["id"] in kept
    assert first.json()["key"][-64:] not in kept


async def test_a_revoked_key_is_refused_from_then_on(closed: httpx.AsyncClient):
    made = await new_key(closed, "read")
    assert (await closed.get("/datasets", headers=bearer(made["key"]))).status_code == 200

    answers = [await closed.delete(f"/keys/{made['id']}", headers={"Idempotency-Key": "gone"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [204, 204]
    require_problem(await closed.get("/datasets", headers=bearer(made["key"])), 401, "unauthenticated")
    (row,) = (await closed.get("/keys")).json()["keys"]
    assert row["revoked_at"] >= row["created_at"]
    require_problem(await closed.delete(f"/keys/{'0' * 16}"), 404, "unknown-api-key")
    require_problem(await closed.delete("/keys/nonsense"), 422, "invalid-request")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "tab\there"},
        {"scopes": ["root"]},
        {"datasets": ["a b"]},
        {"datasets": ["[ab]*"]},
        {"datasets": ["*"] * 65},
        {"expires_in_seconds": 1e300},
        {"secret": "mine"},
    ],
)
async def test_a_key_that_can_not_be_is_refused(closed: httpx.AsyncClient, change: dict[str, Any]):
    require_problem(await closed.post("/keys", json={**ROOT, **change}), 422, "invalid-request")
    assert (await closed.get("/keys")).json()["keys"] == []


async def test_the_first_key_closes_an_open_service(http: httpx.AsyncClient):
    await make_dataset(http)
    refused = await http.post("/keys", json={**ROOT, "scopes": ["read"]})
    assert "nobody could make another" in require_problem(refused, 422, "invalid-request")["detail"]
    assert (await http.get("/datasets")).status_code == 200

    root = await new_key(http, "admin")

    require_problem(await http.get("/datasets"), 401, "unauthenticated")
    require_problem(await http.post("/keys", json=ROOT), 401, "unauthenticated")
    http.headers.update(bearer(root["key"]))
    reader = await new_key(http, "read")
    assert (await http.get("/datasets", headers=bearer(reader["key"]))).status_code == 200
    await http.delete(f"/keys/{root['id']}")
    require_problem(await http.get("/datasets"), 401, "unauthenticated")
